"""``pyhudi.advise``: each advice with its evidence, and a table like it that gets none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import pyhudi
from pyhudi.choices import IndexType
from pyhudi.cli.main import main
from pyhudi.config import WriteOptions
from pyhudi.diagnosis.advice import MB, as_measures
from pyhudi.diagnosis.advice import advice_on as all_advice_on
from pyhudi.diagnosis.measure import Level
from pyhudi.diagnosis.shape_facts import Advice, Aspect, ShapeFacts, SortedBy
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.slices.files import BaseFile
from tests import golden_tables
from tests.diagnosis.ledger import Ledger, t
from tests.services.folder_table import FolderTable

OPTIONS = WriteOptions()


def group(number: int, bucketed: bool = False) -> FileId:
    return FileId(f"{number:08d}-0" if bucketed else f"f{number:07d}-0")


def live(
    count: int, size: int, partitions: int = 1, bucketed: bool = False, at: int = 1
) -> tuple[BaseFile, ...]:
    """``count`` files in each partition."""
    return tuple(
        BaseFile(f"p{p}", f"p{p}/{n}.parquet", group(n, bucketed), t(at), size)
        for p in range(partitions)
        for n in range(count)
    )


def update(groups: Iterable[int], size: int, rows: int, partition: str = "p0") -> CommitMetadata:
    """An upsert that changes so many rows in each of ``groups``."""
    stats = tuple(
        WriteStat(
            group(n),
            f"{partition}/{n}.parquet",
            partition,
            prev_commit=t(1),
            num_writes=10_000,
            num_updates=rows,
            total_write_bytes=size,
            file_size_bytes=size,
        )
        for n in groups
    )
    return CommitMetadata("UPSERT", stats)


def insert(groups: Iterable[int], size: int, partition: str = "p0") -> CommitMetadata:
    stats = tuple(
        WriteStat(
            group(n),
            f"{partition}/{n}.parquet",
            partition,
            num_writes=10,
            num_inserts=10,
            total_write_bytes=size,
            file_size_bytes=size,
        )
        for n in groups
    )
    return CommitMetadata("INSERT", stats)


def facts(
    commits: Iterable[CommitMetadata],
    files: tuple[BaseFile, ...],
    options: WriteOptions = OPTIONS,
    overlap: float | None = None,
) -> ShapeFacts:
    return ShapeFacts(
        tuple((t(n), each) for n, each in enumerate(commits, 1)), files, options, overlap
    )


def advice_on(known: ShapeFacts) -> list[Advice]:
    """All but advice on the type of table, which has tests of its own."""
    return [each for each in all_advice_on(known) if each.aspect is not Aspect.TABLE_TYPE]


def only(found: list[Advice]) -> Advice:
    (advice,) = found
    return advice


# --- target file size


def test_files_that_are_rewritten_for_a_row_or_two_should_be_smaller() -> None:
    files = live(10, 100 * MB)
    found = only(advice_on(facts([update([n], 100 * MB, 1) for n in range(6)], files)))
    assert found.aspect is Aspect.FILE_SIZE
    assert "6 upserts and deletes wrote" in found.evidence
    assert "for 6 changed rows" in found.evidence
    assert f"hoodie.parquet.max.file.size={25 * MB}" in found.follow


@pytest.mark.parametrize(
    ("rows", "size", "commits"), [(300, 100 * MB, 6), (1, 40 * MB, 6), (1, 100 * MB, 4)]
)
def test_many_rows_small_files_or_few_commits_call_for_no_smaller_files(
    rows: int, size: int, commits: int
) -> None:
    files = live(10, size)
    assert advice_on(facts([update([n], size, rows) for n in range(commits)], files)) == []


def test_writers_that_have_small_files_already_are_not_told_to() -> None:
    own = replace(OPTIONS, max_file_bytes=20 * MB, small_file_bytes=10 * MB)
    commits = [update([n], 100 * MB, 1) for n in range(6)]
    assert advice_on(facts(commits, live(10, 100 * MB), own)) == []


def test_commits_that_keep_adding_small_files_should_cluster() -> None:
    found = only(advice_on(facts([insert([n], MB) for n in range(12)], live(12, MB))))
    assert found.aspect is Aspect.FILE_SIZE
    assert "12 commits added 12 files" in found.evidence
    assert "hoodie.clustering.inline=true" in found.follow


def test_small_files_that_were_put_together_since_are_no_matter() -> None:
    assert advice_on(facts([insert([n], MB) for n in range(12)], live(1, 12 * MB))) == []


def test_full_files_are_no_matter() -> None:
    assert advice_on(facts([insert([n], 110 * MB) for n in range(12)], live(12, 110 * MB))) == []


# --- index


def indexed(index: IndexType, changed: int, of: int, overlap: float | None) -> list[Advice]:
    options = replace(OPTIONS, index_type=index)
    commits = [update(range(changed), 10 * MB, 50) for _ in range(6)]
    found = advice_on(facts(commits, live(of, 110 * MB), options, overlap))
    assert {each.aspect for each in found} <= {Aspect.INDEX}
    return found


def test_filters_that_rule_out_nothing_are_not_worth_it() -> None:
    found = only(indexed(IndexType.BLOOM, 12, 16, 1.0))
    assert "changed 75% of the 16 file groups" in found.evidence
    assert found.follow == "hoodie.index.type=SIMPLE in all writers."
    found = only(indexed(IndexType.GLOBAL_BLOOM, 12, 16, 1.0))
    assert found.follow == "hoodie.index.type=GLOBAL_SIMPLE in all writers."


def test_ranges_that_rule_out_most_files_call_for_filters() -> None:
    found = only(indexed(IndexType.SIMPLE, 1, 40, 0.05))
    assert "is in the range of 5% of the files" in found.evidence
    assert found.follow == "hoodie.index.type=BLOOM in all writers."


@pytest.mark.parametrize("index", [IndexType.SIMPLE, IndexType.BLOOM])
def test_keys_in_no_order_call_for_buckets(index: IndexType) -> None:
    found = only(indexed(index, 2, 40, 0.9))
    assert "hoodie.index.type=BUCKET" in found.follow
    assert "num.buckets=37" in found.follow


@pytest.mark.parametrize(
    ("index", "changed", "of", "overlap"),
    [
        (IndexType.SIMPLE, 30, 40, 0.9),
        (IndexType.BLOOM, 1, 40, 0.05),
        (IndexType.SIMPLE, 1, 40, None),
        (IndexType.SIMPLE, 1, 15, 0.9),
        (IndexType.GLOBAL_SIMPLE, 1, 40, 0.9),
        (IndexType.SIMPLE, 1, 40, 0.4),
        (IndexType.BLOOM, 5, 7, 1.0),
    ],
)
def test_an_index_that_suits_the_writes_stays(
    index: IndexType, changed: int, of: int, overlap: float | None
) -> None:
    assert indexed(index, changed, of, overlap) == []


# --- bucket count


@pytest.mark.parametrize(("size", "count", "wanted"), [(MB, 16, 1), (500 * MB, 4, 17)])
def test_buckets_far_from_the_target_size_call_for_another_number(
    size: int, count: int, wanted: int
) -> None:
    found = only(advice_on(facts([], live(count, size, partitions=3, bucketed=True))))
    assert found.aspect is Aspect.BUCKETS
    assert f"has {count} buckets with files" in found.evidence
    assert found.follow.endswith(f"hoodie.bucket.index.num.buckets={wanted}.")


@pytest.mark.parametrize(("size", "count"), [(60 * MB, 16), (200 * MB, 4), (MB, 4)])
def test_buckets_of_about_the_target_size_stay(size: int, count: int) -> None:
    assert advice_on(facts([], live(count, size, partitions=3, bucketed=True))) == []


# --- clustering columns


def sorted_once(old: int, new: int) -> list[Advice]:
    known = facts([], (*live(old, 110 * MB, at=1), *live(new, 110 * MB, partitions=2, at=5)))
    return advice_on(replace(known, sorted_by=SortedBy(t(3), ("city", "at"))))


def test_rows_that_were_sorted_once_are_to_be_sorted_again() -> None:
    found = only(sorted_once(10, 10))
    assert found.aspect is Aspect.CLUSTERING
    assert "20 of 30 files" in found.evidence
    assert found.follow.endswith("strategy.sort.columns=city,at")


def test_a_few_files_since_the_last_sorting_are_no_matter() -> None:
    assert sorted_once(40, 4) == []
    assert sorted_once(80, 6) == []


# --- partitioning


def test_partitions_below_a_small_file_call_for_fewer() -> None:
    commits = [insert([n], MB, f"p{n}") for n in range(6)]
    found = only(advice_on(facts(commits, live(1, MB, partitions=30))))
    assert found.aspect is Aspect.PARTITIONS
    assert "The median of 30 partitions has 1" in found.evidence
    assert "commits wrote to 1 of them" in found.evidence


@pytest.mark.parametrize(("size", "partitions", "commits"), [(60, 30, 6), (1, 10, 6), (1, 30, 3)])
def test_large_or_few_partitions_or_a_young_table_get_no_advice(
    size: int, partitions: int, commits: int
) -> None:
    written = [insert([n], size * MB, f"p{n}") for n in range(commits)]
    assert advice_on(facts(written, live(1, size * MB, partitions=partitions))) == []


# --- tables


def test_nothing_is_advised_for_an_empty_or_a_healthy_table() -> None:
    assert advice_on(facts([], ())) == []
    commits = [insert([0], 110 * MB), *[update(range(10), 110 * MB, 900) for _ in range(9)]]
    assert advice_on(facts(commits, live(10, 110 * MB))) == []


def test_advice_is_a_part_of_a_tables_health(tmp_path: Path) -> None:
    table = Ledger(tmp_path)
    for number in range(1, 13):
        table.commit(number, "insert", {("a", f"x{number:07d}-0"): {"k": number}})
    advised = only(pyhudi.advise(str(tmp_path)))
    (line,) = [m for m in pyhudi.health(str(tmp_path)) if m.measure.startswith("shape: ")]
    assert (line.level, line.mend) == (Level.WARN, advised.follow)
    assert line.detail.startswith(advised.evidence)
    assert list(as_measures([])) == []


def test_the_columns_of_a_clustering_are_found_in_its_plan(tmp_path: Path) -> None:
    for version in (6, 9):
        table = FolderTable(tmp_path / f"v{version}", version)
        for number in range(3):
            table.insert({f"k{number}": number})
        table.cluster(sort_columns="v")
        for number in range(10):
            table.insert({f"n{number}": number})
        found = [a for a in pyhudi.advise(str(table.root)) if a.aspect is Aspect.CLUSTERING]
        assert only(found).follow.endswith("strategy.sort.columns=v")
        assert "10 of 11 files" in only(found).evidence
        table.close()


def test_the_command_says_that_there_is_nothing_to_advise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_tables.BY_NAME["h120_v9-cow_bloom"].unzip(tmp_path)
    before = sorted(root.rglob("*"))
    assert main(["advise", str(root)]) == 0
    assert "There is nothing to advise" in capsys.readouterr().out
    assert sorted(root.rglob("*")) == before


def log(groups: Iterable[int], rows: int, count: int = 1) -> CommitMetadata:
    """An upsert that adds ``count`` logs to each of ``groups``."""
    stats = tuple(
        replace(stat, path=f"p0/.{stat.file_id}_{t(number + 1)}.log.1_0-1-0", log_version=1)
        for number in range(count)
        for stat in update(groups, 100 * MB, rows).stats
    )
    return CommitMetadata("UPSERT", stats)


def test_logs_are_no_files_that_are_rewritten_or_added() -> None:
    assert advice_on(facts([log([n], 1) for n in range(6)], live(10, 100 * MB))) == []
    first = [log([n], 1).stats[0] for n in range(12)]
    new = [replace(each, prev_commit=None, file_size_bytes=1_000) for each in first]
    added = [CommitMetadata("UPSERT", (each,)) for each in new]
    assert advice_on(facts(added, live(12, MB))) == []


def test_a_group_with_several_logs_of_a_commit_is_changed_once() -> None:
    options = replace(OPTIONS, index_type=IndexType.BLOOM)
    commits = [log(range(3), 300, count=3) for _ in range(6)]
    assert advice_on(facts(commits, live(10, 100 * MB), options)) == []
    commits = [log(range(6), 300) for _ in range(6)]
    found = only(advice_on(facts(commits, live(10, 100 * MB), options)))
    assert (found.aspect, "changed 60% of the 10" in found.evidence) == (Aspect.INDEX, True)


def test_a_compaction_is_no_write_since_the_rows_were_sorted() -> None:
    compaction = replace(update(range(10), 100 * MB, 1), operation="COMPACT", compacted=True)
    sorted_by = SortedBy(t(1), ("v",))
    found = facts([CommitMetadata("CLUSTER"), compaction], live(10, 100 * MB, at=2))
    assert advice_on(replace(found, sorted_by=sorted_by)) == []
    written = replace(compaction, operation="UPSERT", compacted=False)
    found = facts([CommitMetadata("CLUSTER"), written], live(10, 100 * MB, at=2))
    assert only(advice_on(replace(found, sorted_by=sorted_by))).aspect is Aspect.CLUSTERING
