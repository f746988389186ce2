"""The plan of a clustering: which files go together, and why others stay."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.choices import ClusteringChoice
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.instants import InstantTime
from pyhudi.services.budget import Budget
from pyhudi.services.clustering_plan import (
    ClusteringFacts,
    ClusteringProposal,
    ClusteringRules,
    Range,
    outputs_of,
    plan_clustering,
)
from pyhudi.slices.files import BaseFile, FileSlice, LogFile

T = InstantTime("20240101000000000")
RULES = ClusteringRules(small_bytes=100, target_bytes=120, group_bytes=300, most_groups=9)
OVERLAP = ClusteringRules(
    ClusteringChoice.OVERLAP, ("x",), target_bytes=120, group_bytes=300, most_groups=9
)


def file(name: str, size: int, partition: str = "p") -> BaseFile:
    return BaseFile(partition, f"{name}.parquet", FileId(name), T, size)


def plan(*files: BaseFile, rules: ClusteringRules = RULES, **ranges: Range) -> ClusteringProposal:
    known = {f"p/{name}.parquet": (found,) for name, found in ranges.items()}
    return plan_clustering(ClusteringFacts(tuple(map(FileSlice, files)), {}, known), rules)


def groups(found: ClusteringProposal) -> list[list[str]]:
    return [sorted(s.file_id for s in group.slices) for group in found.groups]


def why(found: ClusteringProposal, name: str) -> str:
    return next(each.why for each in found.slices if each.slice.file_id == name)


def test_small_files_go_together_up_to_the_size_of_a_group() -> None:
    found = plan(*[file(n, 85) for n in "abcde"], file("large", 100))
    assert groups(found) == [["a", "b", "c"], ["d", "e"]]
    assert why(found, "large") == "it is not below 100 bytes"
    assert why(found, "a") == "3 files of 255 bytes become 2 files"


def test_after_so_many_files_or_bytes_no_further_group_is_planned() -> None:
    files = [file(n, 85) for n in "abcdefgh"]
    for budget in (Budget(max_files=3), Budget(max_bytes=255)):
        found = plan(*files, rules=replace(RULES, budget=budget))
        assert groups(found) == [["a", "b", "c"]]
        assert why(found, "d") == "for the next clustering: this one takes 3 files of 255 bytes"
    for budget in (Budget(max_files=4), Budget(max_bytes=256)):
        assert len(groups(plan(*files, rules=replace(RULES, budget=budget)))) == 2


def test_files_of_two_partitions_never_go_together() -> None:
    found = plan(file("a", 10), file("b", 10, "q"))
    assert groups(found) == []
    assert why(found, "a") == "there is no other file to put it together with"


def test_a_group_that_would_have_as_many_files_as_before_is_left() -> None:
    found = plan(file("a", 95), file("b", 95))
    assert groups(found) == []
    assert why(found, "a") == "its 2 files would become 2 again"


def test_a_busy_or_too_large_file_is_left() -> None:
    files = (file("a", 10), file("b", 10), file("c", 10), file("d", 400))
    rules = ClusteringRules(ClusteringChoice.ALL, target_bytes=120, group_bytes=300)
    slices, busy = tuple(map(FileSlice, files)), {("p", FileId("b")): "it is busy"}
    found = plan_clustering(ClusteringFacts(slices, busy), rules)
    assert groups(found) == [["a", "c"]]
    assert why(found, "b") == "it is busy"
    assert why(found, "d") == "it is larger than a group may be, 300 bytes"


def test_all_files_are_sorted_if_columns_are_named_even_alone() -> None:
    rules = ClusteringRules(ClusteringChoice.ALL, ("x", "y"))
    assert groups(plan(file("a", 10), rules=rules)) == [["a"]]
    assert groups(plan(file("a", 10), rules=ClusteringRules(ClusteringChoice.ALL))) == []


def test_files_whose_ranges_overlap_go_together_and_others_stay() -> None:
    found = plan(
        *[file(n, 90) for n in "abcdef"],
        rules=OVERLAP,
        a=(0, 10), b=(5, 12), c=(12, 20), d=(30, 50), e=(31, 32), f=(40, 41),
    )  # fmt: skip
    assert groups(found) == [["a", "b"], ["d", "e", "f"]]
    assert why(found, "c") == "no other file overlaps its range of the sort columns"


def test_a_file_with_an_unknown_range_overlaps_all_others() -> None:
    found = plan(*[file(n, 90) for n in "abc"], rules=OVERLAP, a=(0, 1), b=(2, 3))
    assert groups(found) == [["a", "b", "c"]]
    assert groups(plan(file("a", 90), rules=OVERLAP)) == []


def test_the_sizes_of_the_new_files_come_closest_to_the_target() -> None:
    assert [outputs_of(size, 100) for size in (1, 149, 150, 249, 1000)] == [1, 1, 2, 2, 10]


def test_a_slice_counts_with_its_base_file_and_is_bounded_with_its_logs() -> None:
    def slice_(name: str, base: int, *logs: int) -> FileSlice:
        held = file(name, base) if base else None
        named = (LogFileName(FileId(name), T, n, "0-1-0") for n in range(1, len(logs) + 1))
        files = (LogFile("p", each, size) for each, size in zip(named, logs, strict=True))
        return FileSlice(held, tuple(files))

    slices = slice_("a", 85, 60), slice_("b", 0, 20, 20), slice_("c", 85, 40), slice_("d", 120, 1)
    found = plan_clustering(ClusteringFacts(slices), RULES)
    assert groups(found) == [["a", "b"]]
    assert why(found, "a") == "2 slices with 3 logs of 185 bytes become 1 file"
    assert why(found, "c") == "there is no other file to put it together with"
    assert why(found, "d") == "it is not below 100 bytes"
    large = plan_clustering(ClusteringFacts((slice_("a", 85, 300),)), RULES)
    assert why(large, "a") == "it is larger than a group may be, 300 bytes"
    whole = ClusteringRules(ClusteringChoice.ALL, ("x",))
    alone = plan_clustering(ClusteringFacts((slice_("a", 85, 15),)), whole)
    assert why(alone, "a") == "1 slice with 1 log of 100 bytes becomes 1 file, sorted by x"
