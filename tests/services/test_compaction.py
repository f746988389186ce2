"""Compactions of golden merge-on-read tables: their rows stay, and plans of Apache Hudi run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyhudi.errors import CommitConflict, ConfigError, UnsupportedTable, WriterFenced
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.rows.log_spec import CompactTask, MergeSpec
from pyhudi.rows.spec import WriteSpec
from pyhudi.services import compaction_schedule
from pyhudi.services.compaction import (
    CompactedSlice,
    CompactionFate,
    CompactionStep,
    SlicesHere,
    stated_step,
)
from pyhudi.services.compaction_run import RunningCompaction
from pyhudi.timeline.pending import planned_compactions
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.instants import take_time
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.services.logged_table import LoggedTable, logged

TABLES = [t for t in golden_tables.ALL if t.merge_on_read and t.expected() is not None]
#: tables that Apache Hudi compacted, of each version
COMPACTED = {
    f"{writer}-{table}"
    for writer in ("h0150_v6", "h120_v6", "h120_v9")
    for table in ("mor_log", "mor_clean_archive", "sql_mor")
}
PLANNED = ["h0150_v6-mor_log", "h120_v6-mor_part_compact", "h102_v8-mor_part_compact",
           "h120_v9-mor_part_compact", "h120_v9-mor_log"]  # fmt: skip


@pytest.mark.parametrize("golden", TABLES, ids=lambda t: t.name)
def test_a_golden_table_has_the_same_rows_after_its_compaction(
    golden: GoldenTable, tmp_path: Path
) -> None:
    table = logged(golden, tmp_path)
    before = table.rows()
    found = table.compact()
    assert {each.fate for each in found} <= {CompactionFate.COMPACTED}
    assert table.rows() == before
    assert not table.compact()
    logs = {p for p in table.root.rglob(".*.log.*") if ".hoodie" not in p.parts}
    assert found or not logs or golden.name in COMPACTED


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_of_apache_hudi_is_run(name: str, tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[name], tmp_path)
    before = table.rows()
    theirs = table.last_commit()
    (time,) = table.forget_compactions()
    found = table.compact(CompactionStep.RUN)
    assert {(each.fate, each.compaction) for each in found} == {(CompactionFate.COMPACTED, time)}
    assert table.rows() == before
    ours = table.last_commit()
    assert (ours.operation, ours.compacted) == ("COMPACT", True)
    # Hudi 1.0.2 counts a row twice that two logs update.
    facts = [
        sorted((s.partition_path, s.file_id, s.prev_commit, s.num_writes) for s in each.stats)
        for each in (ours, theirs)
    ]
    assert facts[0] == facts[1]


#: two slices with logs, in layout 2 and in layout 1
NEWEST, OLDEST = "h120_v9-mor_part_compact", "h0150_v6-mor_log"


def pending_plan(name: str, folder: Path) -> tuple[LoggedTable, InstantTime]:
    """A table with a plan of Apache Hudi that nobody has begun."""
    table = logged(golden_tables.BY_NAME[name], folder)
    (time,) = table.forget_compactions()
    return table, time


class Died(BaseException):
    """The process has gone."""


class Dies(SlicesHere):
    """Its process is gone when the files are written."""

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        super().compact(spec, order, tasks)
        raise Died


def die_while_it_runs(
    table: LoggedTable, monkeypatch: pytest.MonkeyPatch, step: CompactionStep = CompactionStep.RUN
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(RunningCompaction, "abort", lambda self: None)
        patch.setattr(Heartbeat, "go_on", lambda self: None)
        with pytest.raises(Died):
            table.compact(step, tasks=Dies())


def silence(table: LoggedTable, time: InstantTime, inflight: bool = True) -> None:
    """Let the last sign of a run be long ago."""
    os.utime(table.root / HEARTBEATS / time, (0, 0))
    if inflight:
        folder = table.table().config.timeline_folder
        os.utime(table.root / folder / f"{time}.compaction.inflight", (0, 0))


def fates(found: Iterable[CompactedSlice]) -> set[str]:
    return {each.fate.value for each in found}


def test_a_run_waits_for_another_and_follows_it_when_that_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, time = pending_plan(NEWEST, tmp_path)
    before = table.rows()
    die_while_it_runs(table, monkeypatch)
    left = {path.name for path in table.root.rglob(f"*_{time}.parquet")}
    assert len(left) == 2
    found = table.compact(CompactionStep.RUN)
    assert {each.why for each in found} == {f"of the compaction {time}: another program runs it"}
    assert table.rows() == before

    silence(table, time)
    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    now = {path.name for path in table.root.rglob(f"*_{time}.parquet")}
    assert len(now) == 2
    assert not now & left
    assert table.rows() == before
    timeline = table.table().timeline()
    later = (i for i in timeline.completed if i.time > time and i not in timeline.commits)
    assert [each.action.value for each in later] == ["rollback"]


def test_a_run_that_begun_without_a_heartbeat_is_followed_only_by_name(tmp_path: Path) -> None:
    table, time = pending_plan(OLDEST, tmp_path)
    (table.root / ".hoodie" / f"{time}.compaction.inflight").touch()
    (first,) = table.compact(CompactionStep.RUN)
    assert first.why.endswith("another program has begun it, without a heartbeat")
    (second,) = table.compact(CompactionStep.RUN, instants=frozenset({time}))
    assert second.fate is CompactionFate.COMPACTED


def test_an_inflight_file_after_the_last_beat_is_of_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, time = pending_plan(NEWEST, tmp_path)
    die_while_it_runs(table, monkeypatch)
    silence(table, time, inflight=False)
    assert fates(table.compact(CompactionStep.RUN)) == {"left"}


def test_a_run_that_fails_leaves_its_plan_and_none_of_its_files(tmp_path: Path) -> None:
    table, time = pending_plan(NEWEST, tmp_path)
    with pytest.raises(Died):
        table.compact(CompactionStep.RUN, tasks=Dies())
    assert not list(table.root.rglob(f"*_{time}.parquet"))
    assert table.plans() == [f"{time}.compaction.requested"]
    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}


class CannotReach(SlicesHere):
    """A machine that lacks what the table's files need."""

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        raise UnsupportedTable("no library", feature="no library")


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("h120_v9-mor_bucket", CompactionStep.SCHEDULE_AND_RUN),
        ("h0150_v6-mor_bucket", CompactionStep.SCHEDULE_AND_RUN),
        ("h120_v9-mor_bucket", CompactionStep.SCHEDULE_AND_RUN_LOGS),
    ],
)
def test_a_plan_that_its_planner_cannot_run_goes_and_one_of_others_stays(
    name: str, step: CompactionStep, tmp_path: Path
) -> None:
    table = logged(golden_tables.BY_NAME[name], tmp_path)
    before, files = table.rows(), {path for path in table.root.rglob("*") if path.is_file()}
    least = {"hoodie_log_compaction_blocks_threshold": "2"}
    with pytest.raises(UnsupportedTable, match="no library"):
        table.compact(step, tasks=CannotReach(), **least)
    left = {path for path in table.root.rglob("*") if path.is_file()} - files
    assert {path for path in left if "rollback" not in path.name} == set()
    assert table.rows() == before

    first, second = {
        CompactionStep.SCHEDULE_AND_RUN: (CompactionStep.SCHEDULE, CompactionStep.RUN),
        CompactionStep.SCHEDULE_AND_RUN_LOGS: (
            CompactionStep.SCHEDULE_LOGS,
            CompactionStep.RUN_LOGS,
        ),
    }[step]
    assert "planned" in fates(table.compact(first, **least))
    for asked in (second, step):
        with pytest.raises(UnsupportedTable, match="no library"):
            table.compact(asked, tasks=CannotReach(), **least)
    assert len(table.table().timeline().pending) == 1
    assert fates(table.compact(second, **least)) == {"compacted"}
    assert table.rows() == before


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "running"])
def test_a_run_that_was_only_slow_touches_nothing_of_the_run_that_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    table, time = pending_plan(NEWEST, tmp_path)
    before = table.rows()
    theirs: list[Path] = []

    class Slow(SlicesHere):
        def compact(
            self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
        ) -> list[WriteStat]:
            silence(table, time)
            if ended:
                assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
            else:
                die_while_it_runs(table, monkeypatch)
            theirs.extend(table.root.rglob(f"*_{time}.parquet"))
            return super().compact(spec, order, tasks)

    with pytest.raises(WriterFenced):
        table.compact(CompactionStep.RUN, tasks=Slow())
    assert len(theirs) == 2
    assert all(path.exists() for path in theirs)
    if not ended:
        silence(table, time)
        assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    assert len(list(table.root.rglob(f"*_{time}.parquet"))) == 2
    assert table.rows() == before


def test_the_logs_of_a_group_of_another_plan_wait_for_it(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME["h120_v9-mor_meta"], tmp_path)
    before = table.rows()
    found = table.compact(CompactionStep.SCHEDULE)
    assert fates(found) == {"planned"}
    again = table.compact(CompactionStep.SCHEDULE)
    time = found[0].compaction
    assert {each.why for each in again} == {f"the pending compaction {time} has it"}
    assert fates(table.compact(CompactionStep.RUN, dry_run=True)) == {"would be compacted"}
    assert fates(table.compact(CompactionStep.UNSCHEDULE)) == {"unscheduled"}
    assert not [name for name in table.plans() if time and name.startswith(time)]
    assert fates(table.compact(dry_run=True)) == {"would be compacted"}
    assert fates(table.compact()) == {"compacted"}
    assert table.rows() == before


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_a_plan_that_its_planner_was_about_to_give_up_is_not_run(
    state: str, tmp_path: Path
) -> None:
    """Found by the explorer: a write has the same instant, so the planner died before it took its
    plan back. Two commits had one instant."""
    table, time = pending_plan(NEWEST, tmp_path)
    folder, before = table.root / table.table().config.timeline_folder, table.rows()
    written = ("requested", "inflight") if state == "inflight" else ("requested",)
    for each in written:
        (folder / f"{time}.deltacommit.{each}").touch()
    found = [each for each in table.compact(CompactionStep.RUN) if each.compaction == time]
    if state == "requested":
        assert {(each.fate.value, each.why) for each in found} == {
            ("left", f"the deltacommit {time} has the same instant, and may give it up")
        }
        (folder / f"{time}.deltacommit.requested").unlink()
        assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    else:
        assert fates(found) == {"unscheduled"}
        assert not [name for name in table.plans() if name.startswith(time)]
    assert table.rows() == before


def test_a_plan_of_layout_1_stays_if_a_log_names_it(tmp_path: Path) -> None:
    table, time = pending_plan(OLDEST, tmp_path)
    base = next(table.root.glob(".*.log.1_*"))
    file_id = FileId(base.name.split("_")[0][1:])
    log = f".{file_id}_{time}.log.1_0-1-2"
    (table.root / log).write_bytes(b"")
    done = CommitMetadata(stats=(WriteStat(file_id, log, "", time, log_version=1),))
    folder = table.root / table.table().config.timeline_folder
    (folder / f"{int(time) + 1}.deltacommit").write_bytes(render_commit(done, 1))
    (found,) = table.compact(CompactionStep.UNSCHEDULE)
    assert found.why == f"a log names {time}, and belongs to the base file that it is to write"
    assert len(table.plans()) == 1


def begun(table: LoggedTable) -> InstantTime:
    """A write of Apache Hudi that is pending, later than all others."""
    config = table.table().config
    time = InstantTime(str(int(table.table().timeline().greatest_time()) + 1))
    for state in ("requested", "inflight"):
        (table.root / config.timeline_folder / f"{time}.deltacommit.{state}").touch()
    return time


def test_a_plan_waits_for_writes_in_layout_1_alone(tmp_path: Path) -> None:
    old = logged(golden_tables.BY_NAME["h120_v6-mor_meta"], tmp_path)
    time = begun(old)
    found = old.compact()
    assert {each.why for each in found} == {
        f"in version 6 a compaction waits for writes, and {time} is pending"
    }
    new = logged(golden_tables.BY_NAME["h120_v9-mor_meta"], tmp_path)
    begun(new)
    assert fates(new.compact()) == {"compacted"}


def test_a_log_that_completes_later_belongs_to_the_new_file(tmp_path: Path) -> None:
    """Its write was pending when the plan was made, and completes before the compaction does."""
    table = logged(golden_tables.BY_NAME["h120_v9-mor_part_compact"], tmp_path)
    before = table.rows()
    timeline = table.table().timeline()
    last = timeline.commits[-1]
    completed = table.root / timeline.file_of(last)
    held = completed.read_bytes()
    completed.unlink()
    found = table.compact(CompactionStep.SCHEDULE)
    (plan,) = [p for _, p in planned_compactions(table.table(), table.table().timeline())]
    assert not any(last.time in path for o in plan.operations for path in o.delta_file_paths)
    late = str(int(found[0].compaction or "") + 1)
    completed.with_name(f"{last.time}_{late}.deltacommit").write_bytes(held)
    assert table.rows() == before
    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    assert table.rows() == before
    assert fates(table.compact()) == {"compacted"}
    assert table.rows() == before


def test_a_plan_beside_which_a_writer_without_the_lock_commits_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = logged(golden_tables.BY_NAME["h120_v9-mor_part_compact"], tmp_path)
    before = table.rows()
    timeline = table.table().timeline()
    last = timeline.commits[-1]
    completed = table.root / timeline.file_of(last)
    held = completed.read_bytes()
    completed.unlink()

    def first(*given: Any, **more: Any) -> Any:
        completed.write_bytes(held)
        return take_time(*given, **more)

    monkeypatch.setattr(compaction_schedule, "take_time", first)
    table.compact(CompactionStep.SCHEDULE)
    ((pending, plan),) = planned_compactions(table.table(), table.table().timeline())
    assert any(last.time in path for o in plan.operations for path in o.delta_file_paths)
    assert table.plans()[-1] == f"{pending.time}.compaction.requested"
    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    assert table.rows() == before


def test_nothing_is_planned_beside_a_plan_that_cannot_be_read(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME["h120_v9-mor_meta"], tmp_path)
    time = str(int(table.table().timeline().greatest_time()) + 1)
    (table.root / ".hoodie/timeline" / f"{time}.logcompaction.requested").write_bytes(b"Obj")
    found = table.compact()
    assert {each.why for each in found} == {
        f"the plan of the pending logcompaction {time} cannot be read"
    }


class Beside(SlicesHere):
    """``event`` comes when the files are written."""

    def __init__(self, event: Callable[[], object]) -> None:
        self._event = event

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        stats = super().compact(spec, order, tasks)
        self._event()
        return stats


def test_a_group_whose_base_file_an_earlier_write_replaced_meanwhile_is_left_out(
    tmp_path: Path,
) -> None:
    table, time = pending_plan(NEWEST, tmp_path)
    before = table.rows()
    ((_, plan),) = planned_compactions(table.table(), table.table().timeline())
    each = plan.operations[0]
    early = str(int(time) - 1)

    def write() -> None:
        folder = table.root / each.partition_path
        name = f"{each.file_id}_7-7-7_{early}.parquet"
        size = (folder / name).write_bytes((folder / (each.data_file_path or "")).read_bytes())
        path = f"{each.partition_path}/{name}"
        stat = WriteStat(
            each.file_id, path, each.partition_path, each.base_instant_time, file_size_bytes=size
        )
        done = render_commit(CommitMetadata("UPSERT", (stat,)), 2)
        late = str(int(table.table().timeline().greatest_time()) + 1)
        (table.root / ".hoodie/timeline" / f"{early}_{late}.deltacommit").write_bytes(done)

    found = table.compact(CompactionStep.RUN, tasks=Beside(write))
    assert sorted(each.fate.value for each in found) == ["compacted", "left"]
    (left,) = [one for one in found if one.fate is CompactionFate.LEFT]
    assert left.why == f"upsert {early} wrote to it meanwhile"
    assert not list((table.root / each.partition_path).glob(f"{each.file_id}*_{time}.parquet"))
    # Its new base file has none of the logs' rows here, but they were not lost to the compaction.
    assert len(table.rows()) == len(before)


def test_a_log_of_an_earlier_write_in_layout_1_lets_the_run_begin_again(tmp_path: Path) -> None:
    """Its write was pending beside the plan, as several writers of Apache Hudi allow."""
    table, _ = pending_plan(OLDEST, tmp_path)
    before = table.rows()
    timeline = table.table().timeline()
    last = timeline.commits[-1]
    completed = table.root / timeline.file_of(last)
    held = completed.read_bytes()
    completed.unlink()
    run = Beside(lambda: completed.write_bytes(held))
    with pytest.raises(CommitConflict, match=f"{last.time} wrote to it meanwhile"):
        table.compact(CompactionStep.RUN, tasks=run)
    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    assert table.rows() == before


def test_rows_of_a_commit_that_was_undone_meanwhile_are_not_committed(tmp_path: Path) -> None:
    table, time = pending_plan(NEWEST, tmp_path)
    timeline = table.table().timeline()
    undone = next(i for i in reversed(timeline.commits) if i.time < time)

    def undo() -> None:
        (table.root / timeline.file_of(undone)).unlink()

    with pytest.raises(CommitConflict, match="was undone"):
        table.compact(CompactionStep.RUN, tasks=Beside(undo))
    assert table.plans() == [f"{time}.compaction.requested"]
    assert not list(table.root.rglob(f"*_{time}.parquet"))


def test_the_state_before_a_compaction_is_still_read(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME["h120_v9-mor_types"], tmp_path)
    commits = [str(i.time) for i in table.table().timeline().commits]
    before = [table.rows(each) for each in commits]
    table.compact()
    assert [table.rows(each) for each in commits] == before


def test_tables_that_pyhudi_cannot_compact_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTable, match="copy-on-write"):
        logged(golden_tables.BY_NAME["h120_v9-cow_part"], tmp_path).compact()
    with pytest.raises(ConfigError, match="no regular expression"):
        logged(golden_tables.BY_NAME[OLDEST], tmp_path).compact(
            hoodie_compaction_partition_path_regex="("
        )
    assert stated_step("scheduleAndExecute") is CompactionStep.SCHEDULE_AND_RUN
    with pytest.raises(ConfigError, match="op is 'go'"):
        stated_step("go")
