"""Log compactions of golden tables: their rows stay, and what others do beside them is seen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyhudi.errors import UnsupportedTable
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, parse_commit, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.log_blocks import HeaderKey, read_blocks
from pyhudi.format.plans import parse_compaction_plan, render_compaction_plan
from pyhudi.listing import Listing
from pyhudi.services import compaction_schedule
from pyhudi.services.archive_plan import ArchivePolicy
from pyhudi.services.archiver import ArchiveFate, ArchiveRules, archive_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.compaction import CompactedSlice, CompactionFate, CompactionStep
from pyhudi.services.compaction_list import shown_compactions
from pyhudi.services.restore import restored
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.pending import planned_compactions
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.conflicts.comparison import footprint_of
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.instants import take_time
from tests import golden_tables
from tests.doctor.broken import with_property
from tests.services.logged_table import LoggedTable, logged
from tests.services.test_compaction import Beside, Died, Dies, begun, die_while_it_runs, fates

BOTH, RUN = CompactionStep.SCHEDULE_AND_RUN_LOGS, CompactionStep.RUN_LOGS
SCHEDULE, UNSCHEDULE = CompactionStep.SCHEDULE_LOGS, CompactionStep.UNSCHEDULE_LOGS
TABLES = [
    golden_tables.BY_NAME[name]
    for name in ("h102_v8-mor_bucket", "h120_v8-mor_bucket", "h120_v9-mor_bucket",
                 "h120_v9-mor_bucket_consistent", "h120_v9-mor_compacted", "h120_v9-mor_meta",
                 "h120_v9-mor_sched_compact")
]  # fmt: skip
#: two slices with two logs each
USUAL = "h120_v9-mor_bucket"


def merged(table: LoggedTable, step: CompactionStep = BOTH, **more: Any) -> Listing[CompactedSlice]:
    """A log compaction that takes slices with two logs."""
    more.setdefault("hoodie_log_compaction_blocks_threshold", "2")
    return table.compact(step, **more)


def new_logs(table: LoggedTable, time: str) -> list[Path]:
    found = table.root.rglob(f".*_{time}.log.*")
    return sorted(path for path in found if ".hoodie" not in path.parts)


@pytest.mark.parametrize("golden", TABLES, ids=lambda t: t.name)
def test_a_golden_table_has_the_same_rows_after_a_log_compaction(
    golden: golden_tables.GoldenTable, tmp_path: Path
) -> None:
    table = logged(golden, tmp_path)
    before = table.rows()
    states = [str(i.time) for i in table.table().timeline().commits]
    found = merged(table)
    done = [each for each in found if each.fate is CompactionFate.COMPACTED]
    assert done
    assert table.rows() == before
    if "consistent" not in golden.name:  # an older state of that table is cleaned
        assert [table.rows(each) for each in states] == [
            logged(golden, tmp_path / each).rows(each) for each in states
        ]
    assert {each.why for each in merged(table)} == {"it has 1 logs to merge, below 2"}
    # The commit is a delta commit, and the new log stands for the others.
    timeline = table.table().timeline()
    commit = timeline.commits[-1]
    metadata = COMMITS.get(table.storage, timeline, commit)
    assert (commit.action, commit.time) == (Action.DELTACOMMIT, done[0].compaction)
    assert (metadata.operation, metadata.compacted) == ("LOG_COMPACT", False)
    assert len(metadata.stats) == len(done)
    for stat in metadata.stats:
        blocks = list(read_blocks((table.root / stat.path).read_bytes()))
        assert all(HeaderKey.COMPACTED_BLOCK_TIMES in block.header for block in blocks)
    # A compaction into base files comes after it.
    assert CompactionFate.COMPACTED in {each.fate for each in table.compact()}
    assert table.rows() == before


def test_a_plan_waits_for_its_run_and_goes_if_it_is_not_wanted(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    before = table.rows()
    found = merged(table, SCHEDULE)
    (time,) = {each.compaction for each in found}
    assert fates(found) == {"planned"}
    requested = table.root / f".hoodie/timeline/{time}.logcompaction.requested"
    plan = parse_compaction_plan(requested.read_bytes(), "")
    assert sorted(o.file_id for o in plan.operations) == sorted(e.file_group for e in found)
    busy = table.compact(CompactionStep.SCHEDULE)
    assert {each.why for each in busy} == {f"the pending logcompaction {time} has it"}
    assert fates(merged(table, RUN, dry_run=True)) == {"would be compacted"}
    assert fates(merged(table, UNSCHEDULE)) == {"unscheduled"}
    assert not table.table().timeline().pending
    assert not requested.exists()
    merged(table, SCHEDULE)
    assert fates(merged(table, RUN)) == {"compacted"}
    assert not table.table().timeline().pending
    assert table.rows() == before


def test_plans_and_runs_are_listed_beside_those_of_compactions(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    assert list(shown_compactions(table.writer())) == []
    merged(table, SCHEDULE)
    (plan,) = shown_compactions(table.writer())
    assert (plan.action, plan.state) == (Action.LOGCOMPACTION, State.REQUESTED)
    assert (plan.operation_size, plan.runner) == (2, "nobody has begun it")
    merged(table, RUN)
    (done,) = shown_compactions(table.writer())
    assert (done.action, done.state, done.runner) == (Action.LOGCOMPACTION, State.COMPLETED, None)
    assert (done.timestamp, done.operation_size) == (plan.timestamp, 2)
    table.compact()
    newest, older = shown_compactions(table.writer())
    assert (newest.action, newest.state) == (Action.COMPACTION, State.COMPLETED)
    assert older == done


def test_a_compaction_first_runs_the_log_compactions_that_nobody_runs(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    before = table.rows()
    (time,) = {each.compaction for each in merged(table, SCHEDULE)}
    found = table.compact()
    assert fates(found) == {"compacted"}
    assert len({each.compaction for each in found}) == 2
    assert new_logs(table, time or "")
    assert not table.table().timeline().pending
    assert table.rows() == before
    assert not table.compact()


def test_logs_that_come_after_the_plan_stay_on_top(tmp_path: Path) -> None:
    """A write that changes rows of both slices happens again while the log compaction runs."""
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    expected: list[Any] = []

    def write() -> None:
        again(table)
        expected.append(table.rows())

    found = merged(table, tasks=Beside(write))
    assert fates(found) == {"compacted"}
    assert table.rows() == expected[0]
    late = table.table().timeline().commits[-1].time
    assert {row["_hoodie_commit_time"] for row in table.rows()} >= {late}
    table.compact()
    assert table.rows() == expected[0]


def again(table: LoggedTable, time: str | None = None, number: int = 2) -> InstantTime:
    """A write that puts the blocks of the third delta commit again, with its own instant.

    Or those of the one with another ``number``, counted from 0.
    """
    timeline = table.table().timeline()
    last = timeline.commits[number]
    after = int(timeline.greatest_time()) + 1
    own = time or str(after)
    stats = []
    for stat in COMMITS.get(table.storage, timeline, last).stats:
        data = (table.root / stat.path).read_bytes().replace(last.time.encode(), own.encode())
        path = stat.path.replace(last.time, own)
        (table.root / path).write_bytes(data)
        stats.append(WriteStat(stat.file_id, path, stat.partition_path, own, log_version=1))
    done = render_commit(CommitMetadata("UPSERT", tuple(stats)), 2)
    (table.root / f".hoodie/timeline/{own}_{after + 1}.deltacommit").write_bytes(done)
    return InstantTime(own)


def test_a_group_to_which_an_older_write_added_a_log_is_left_out(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    (planned,) = {each.compaction for each in merged(table, SCHEDULE)}
    older = str(int(planned or "") - 1)
    found = merged(table, RUN, tasks=Beside(lambda: again(table, older)))
    assert {each.why for each in found} == {f"upsert {older} wrote to it meanwhile"}
    assert not new_logs(table, planned or "")
    # Before the run its plan does not fit any more.
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path / "other")
    (planned,) = {each.compaction for each in merged(table, SCHEDULE)}
    again(table, str(int(planned or "") - 1))
    before = table.rows()
    assert fates(merged(table, RUN)) == {"left"}
    assert table.rows() == before


@pytest.mark.parametrize("what", ["a compaction's plan", "a replaced group", "a new base file"])
def test_a_group_that_others_took_up_meanwhile_is_left_out(tmp_path: Path, what: str) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)

    def take_up() -> None:
        now = table.table().timeline()
        ((_, plan),) = planned_compactions(table.table(), now, (Action.LOGCOMPACTION,))
        own, each = int(now.greatest_time()) + 1, plan.operations[0]
        folder = table.root / ".hoodie/timeline"
        if what == "a compaction's plan":
            asked = next(folder.glob("*.logcompaction.requested")).read_bytes()
            (folder / f"{own}.compaction.requested").write_bytes(asked)
        elif what == "a replaced group":
            gone = {each.partition_path: tuple(o.file_id for o in plan.operations)}
            done = CommitMetadata("CLUSTER", (), replaced=gone)
            (folder / f"{own}_{own + 1}.replacecommit").write_bytes(render_commit(done, 2))
        else:
            stats = [
                WriteStat(o.file_id, f"{o.file_id}_0-1-2_{own}.parquet", o.partition_path, "1")
                for o in plan.operations
            ]
            done = CommitMetadata("UPSERT", tuple(stats))
            (folder / f"{own}_{own + 1}.deltacommit").write_bytes(render_commit(done, 2))

    found = merged(table, tasks=Beside(take_up))
    assert fates(found) == {"left"}
    assert not new_logs(table, found[0].compaction or "")


def left_out(table: LoggedTable) -> tuple[Listing[CompactedSlice], dict[Path, bytes]]:
    """A log compaction beside a write of its groups, and the logs that its workers had put.

    The log stands where the last of its logs stood: after the write that came in between.
    """
    second = table.table().timeline().commits[1].time
    between = str(int(second) + 1)
    written: dict[Path, bytes] = {}

    def write() -> None:
        again(table, between, number=1)
        running = table.table().timeline().pending[0].time
        written.update((log, log.read_bytes()) for log in new_logs(table, running))

    found = merged(table, tasks=Beside(write))
    assert f"upsert {between} wrote to it meanwhile" in {each.why for each in found}
    late = {log: data for log, data in written.items() if not log.exists()}
    assert late
    times = {row["_hoodie_commit_time"] for row in table.rows()}
    assert between in times
    assert second not in times
    return found, late


def put(files: dict[Path, bytes]) -> None:
    for path, data in files.items():
        path.write_bytes(data)
    VIEWS.forget_all()


LEFT_OUT = pytest.mark.parametrize("name", ["h120_v8-mor_bucket", "h120_v9-mor_bucket"])


@LEFT_OUT
def test_a_late_log_of_a_group_that_was_left_out_does_not_count(name: str, tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[name], tmp_path)
    _, late = left_out(table)
    before = table.rows()
    put(late)
    assert table.rows() == before
    table.compact()
    assert table.rows() == before


def planned_by_hudi(table: LoggedTable, late: dict[Path, bytes]) -> None:
    """Plan a compaction that names the late logs, as Apache Hudi does: their instant completed."""
    assert fates(table.compact(CompactionStep.SCHEDULE)) == {"planned"}
    put(late)
    requested = next((table.root / ".hoodie/timeline").glob("*.compaction.requested"))
    plan = parse_compaction_plan(requested.read_bytes(), "")
    names = {o.file_id: [p.name for p in late if o.file_id in p.name] for o in plan.operations}
    more = tuple(
        replace(o, delta_file_paths=(*o.delta_file_paths, *names[o.file_id]))
        for o in plan.operations
    )
    assert more != plan.operations
    requested.write_bytes(render_compaction_plan(replace(plan, operations=more)))


@LEFT_OUT
def test_a_compaction_of_apache_hudi_that_names_such_a_log_does_not_merge_it(
    name: str, tmp_path: Path
) -> None:
    table = logged(golden_tables.BY_NAME[name], tmp_path)
    _, late = left_out(table)
    before = table.rows()
    planned_by_hudi(table, late)

    assert fates(table.compact(CompactionStep.RUN)) == {"compacted"}
    assert table.rows() == before


def archived_now(table: LoggedTable) -> set[InstantTime]:
    rules = ArchiveRules(ArchivePolicy(1, 1), Retention(commits=1), 1)
    moved = archive_table(table.writer(), rules)
    VIEWS.forget_all()
    return {each.instant for each in moved if each.fate is ArchiveFate.ARCHIVED}


@LEFT_OUT
def test_a_late_log_does_not_count_when_its_log_compaction_is_archived(
    name: str, tmp_path: Path
) -> None:
    """No clean has come by: the slice is the newest one of its group."""
    table, same = (logged(golden_tables.BY_NAME[name], tmp_path / each) for each in "ab")
    found, late = left_out(table)
    left_out(same)
    put(late)
    for each in (table, same):
        again(each, number=1)
        again(each, number=1)

    assert found[0].compaction in archived_now(table) & archived_now(same)
    assert table.rows() == same.rows()
    assert not any(path.exists() for path in late)


@LEFT_OUT
def test_a_log_compaction_stays_on_the_timeline_while_a_plan_has_its_late_log(
    name: str, tmp_path: Path
) -> None:
    """Apache Hudi's compaction fails if a file of its plan is gone."""
    table = logged(golden_tables.BY_NAME[name], tmp_path)
    found, late = left_out(table)
    again(table, number=1)
    before = again(table, number=1)
    planned_by_hudi(table, late)

    assert max(archived_now(table)) < (found[0].compaction or "")
    assert all(path.exists() for path in late)
    table.compact(CompactionStep.RUN)
    assert before not in archived_now(table), "delta commits are counted from the compaction"


def test_a_log_compaction_waits_for_writes_that_began_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    merged(table, SCHEDULE)
    (plan,) = [i for i in table.table().timeline().pending if i.action is Action.LOGCOMPACTION]
    older = str(int(plan.time) - 1)
    marks = [f".hoodie/timeline/{older}.deltacommit.{end}" for end in ("requested", "inflight")]
    for mark in marks:
        (table.root / mark).touch()
    assert {each.why for each in merged(table, RUN)} == {
        f"the write {older}, which began before it, is pending"
    }
    merged(table, UNSCHEDULE)
    assert {each.why for each in merged(table)} == {
        f"a log compaction waits for writes, and {older} is pending"
    }
    for mark in marks:
        (table.root / mark).unlink()

    def first(*given: Any, **more: Any) -> Any:
        """A write begins between the look and the request."""
        taken = take_time(*given, **more)
        begun(table)
        return taken[0], table.table().timeline()

    with monkeypatch.context() as patch:
        patch.setattr(compaction_schedule, "take_time", first)
        assert fates(merged(table)) == {"left"}
    assert not [i for i in table.table().timeline().pending if i.action is Action.LOGCOMPACTION]


def test_a_run_that_fails_or_dies_leaves_its_plan_and_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    before = table.rows()
    (time,) = {each.compaction for each in merged(table, SCHEDULE)}
    assert time is not None
    with pytest.raises(Died):
        merged(table, RUN, tasks=Dies())
    assert not new_logs(table, time)
    pending = Instant(time, Action.LOGCOMPACTION, State.REQUESTED)
    assert table.table().timeline().pending == (pending,)
    die_while_it_runs(table, monkeypatch, RUN)
    left = new_logs(table, time)
    assert len(left) == 2
    assert table.rows() == before
    inflight = table.root / f".hoodie/timeline/{time}.logcompaction.inflight"
    for path in (table.root / HEARTBEATS / time, inflight):
        os.utime(path, (0, 0))
    assert fates(merged(table, RUN)) == {"compacted"}
    assert not set(left) & set(new_logs(table, time))
    assert table.rows() == before
    done = [i for i in table.table().timeline().completed if i.action is Action.ROLLBACK]
    assert len(done) == 1


def test_a_table_is_restored_to_a_commit_before_a_log_compaction(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    last = table.table().timeline().commits[-1].time
    before = table.rows()
    merged(table)
    assert new_logs(table, table.table().timeline().commits[-1].time)
    restored(table.writer(), last)
    assert table.table().timeline().commits[-1].time == last
    assert table.rows() == before
    assert fates(merged(table)) == {"compacted"}
    assert table.rows() == before


def test_a_log_compaction_is_no_conflict_with_logs_and_one_with_base_files(tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    merged(table)
    timeline = table.table().timeline()
    commit = timeline.commits[-1]
    data = (table.root / timeline.file_of(commit)).read_bytes()
    footprint = footprint_of(commit, parse_commit(data, ""))
    assert not footprint.updated
    assert len(footprint.compacted) == 2


def test_what_the_logs_are_not_merged_of_is_refused_by_name(tmp_path: Path) -> None:
    for name, feature in [
        ("h120_v6-mor_meta", "the logs alone of a table of version 6"),
        ("h120_v9-cow_part", "compaction of a copy-on-write table"),
    ]:
        with pytest.raises(UnsupportedTable) as caught:
            merged(logged(golden_tables.BY_NAME[name], tmp_path / name))
        assert caught.value.feature == feature
    table = logged(golden_tables.BY_NAME[USUAL], tmp_path)
    with_property(table_partial_update_mode="IGNORE_DEFAULTS")(table.root)
    with pytest.raises(UnsupportedTable, match="Compact .* into base files instead") as caught:
        merged(table)
    assert caught.value.feature == "the logs alone of a table of partial updates"


def test_a_plan_of_apache_hudi_is_taken_back_where_none_would_be_run(tmp_path: Path) -> None:
    """In version 6, where its groups would wait for it."""
    table = logged(golden_tables.BY_NAME["h120_v6-mor_meta"], tmp_path)
    folder = table.root / table.table().config.timeline_folder
    time = InstantTime(str(int(table.table().timeline().greatest_time()) + 1))
    asked = table.compact(CompactionStep.SCHEDULE)
    (plan,) = folder.glob("*.compaction.requested")
    plan.rename(folder / f"{time}.logcompaction.requested")
    found = table.compact(CompactionStep.UNSCHEDULE_LOGS)
    assert {each.fate.value for each in found} == {"unscheduled"}
    assert len(found) == len([each for each in asked if each.fate.value == "planned"])
    assert not list(folder.glob("*.logcompaction.requested"))
