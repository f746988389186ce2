"""The plan of a compaction: which slices it takes, in which order, up to which bound."""

from __future__ import annotations

import re
from dataclasses import replace

from pyhudi.choices import CompactionChoice
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.instants import InstantTime
from pyhudi.services.budget import Budget
from pyhudi.services.compaction_plan import (
    MB,
    CompactionFacts,
    CompactionRules,
    Spared,
    compaction_plan,
    plan_compaction,
)
from pyhudi.slices.files import BaseFile, FileSlice, LogFile

T1, T2 = InstantTime("20240101000000001"), InstantTime("20240102000000002")


def slice_of(name: str, *logs: int, base: int | None = 10 * MB, partition: str = "p") -> FileSlice:
    """The slice of a group, with logs of these sizes."""
    file_id = FileId(name)
    found = tuple(
        LogFile(partition, LogFileName(file_id, T2, at + 1, "0-1-2"), size)
        for at, size in enumerate(logs)
    )
    if base is None:
        return FileSlice(None, found)
    named = f"{name}_0-1-1_{T1}.parquet"
    return FileSlice(BaseFile(partition, named, file_id, T1, base), found)


def taken(slices: list[FileSlice], rules: CompactionRules, **busy: str) -> list[str]:
    facts = CompactionFacts(tuple(slices), {("p", FileId(k)): why for k, why in busy.items()})
    return [p.slice.file_id for p in plan_compaction(facts, rules) if p.taken]


SLICES = [slice_of("a", 5), slice_of("b", 3, 3), slice_of("c"), slice_of("d", 9)]


def test_slices_without_logs_and_of_other_plans_are_left_out() -> None:
    assert taken(SLICES, CompactionRules()) == ["a", "b", "d"]
    assert taken(SLICES, CompactionRules(), b="another plan has it") == ["a", "d"]


def test_each_strategy_has_its_threshold_and_its_order() -> None:
    one = Budget(max_files=1)
    by_size = CompactionRules(least_log_bytes=6)
    assert taken(SLICES, by_size) == ["b", "d"]
    assert taken(SLICES, replace(by_size, budget=one)) == ["d"]
    by_number = CompactionRules(CompactionChoice.LOG_COUNT, least_log_files=2)
    assert taken(SLICES, by_number) == ["b"]
    assert taken(SLICES, CompactionRules(CompactionChoice.LOG_COUNT, budget=one)) == ["b"]
    assert taken(SLICES, CompactionRules(CompactionChoice.BOUNDED, budget=one)) == ["a"]


def test_no_slice_follows_after_the_bound_of_what_is_read_and_written() -> None:
    rules = CompactionRules(most_io_mb=20)
    assert taken(SLICES, rules) == ["d"]
    assert taken(SLICES, replace(rules, most_io_mb=21)) == ["b", "d"]
    assert taken(SLICES, replace(rules, choice=CompactionChoice.ALL)) == ["a", "b", "d"]
    assert taken(SLICES, CompactionRules(budget=Budget(max_bytes=10 * MB))) == ["d"]
    (first,) = plan_compaction(CompactionFacts((SLICES[0],)), rules)
    assert first.taken


def test_slices_are_spared_whose_young_logs_are_few_and_small() -> None:
    few = (MB // 10, MB // 10)
    later = Spared(3, InstantTime("20240101000000002"))
    for kept, why in [
        (slice_of("a", *few), "for later: 209714 bytes of young logs"),
        (slice_of("a", *few, base=3 * MB), None),
        (slice_of("a", *few, base=None), None),
        (slice_of("a", *few, MB // 10), None),
        (slice_of("a", MB // 2), None),
    ]:
        (planned,) = plan_compaction(CompactionFacts((kept,)), CompactionRules(spared=later))
        assert planned.taken == (why is None)
        assert why is None or planned.why.startswith(why)
    old = CompactionRules(spared=replace(later, since=InstantTime("20240103000000000")))
    assert taken([slice_of("a", *few)], old) == ["a"]


def test_slices_that_are_due_for_their_number_of_logs_take_turns() -> None:
    """All are changed by each commit, and all are due at once for the first time."""
    logs, most = dict.fromkeys("abcdefgh", 20), 0
    rules = CompactionRules(spared=Spared(20, InstantTime("20240101000000002"), 1 / 4))
    for _ in range(12):
        slices = [slice_of(name, *[1] * number) for name, number in logs.items()]
        took = taken(slices, rules)
        assert len(took) == 2, "a quarter of the slices"
        logs = {name: 0 if name in took else number for name, number in logs.items()}
        logs = {name: number + 5 for name, number in logs.items()}
        most = max(most, *logs.values())
    assert most <= 35
    waits = [slice_of(name, *[1] * 20) for name in "abcd"]
    large, many = slice_of("l", MB), slice_of("m", *[1] * 40)
    assert taken([*waits, large, many], rules) == ["a", "b", "l", "m"]
    old = CompactionRules(spared=replace(rules.spared, since=InstantTime("20240103000000000")))
    assert len(taken(waits, old)) == 4, "old logs do not wait"
    assert taken(waits[:1], rules) == ["a"], "at least one goes"


def test_only_chosen_partitions_are_looked_at() -> None:
    slices = [slice_of("a", 5), slice_of("e", 5, partition="2024/01")]
    assert taken(slices, CompactionRules(regex=re.compile("/0"))) == ["e"]


def test_the_plan_has_names_of_files_and_what_a_slice_costs() -> None:
    slices = [slice_of("a", 5, 6), slice_of("e", 2 * MB, base=None)]
    planned = plan_compaction(CompactionFacts(tuple(slices)), CompactionRules())
    plan = compaction_plan(planned, 120 * MB)
    a, e = plan.operations
    assert (a.data_file_path, a.base_instant_time) == (f"a_0-1-1_{T1}.parquet", T1)
    assert a.delta_file_paths == (f".a_{T2}.log.1_0-1-2", f".a_{T2}.log.2_0-1-2")
    assert (a.metrics["TOTAL_LOG_FILES"], a.metrics["TOTAL_LOG_FILES_SIZE"]) == (2, 11)
    assert a.metrics["TOTAL_IO_MB"] == 20
    assert (e.data_file_path, e.base_instant_time, e.partition_path) == (None, T2, "p")
    assert (e.metrics["TOTAL_IO_READ_MB"], e.metrics["TOTAL_IO_WRITE_MB"]) == (2, 120)
    assert plan.version == 2
