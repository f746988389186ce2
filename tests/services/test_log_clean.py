"""Cleans, savepoints and archives of tables with logs: a slice is kept or goes as a whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.choices import CleanPolicy
from pyhudi.config import resolve_write
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.plans import CompactionOperation, CompactionPlan, render_compaction_plan
from pyhudi.services import clean as clean_module
from pyhudi.services.archive_plan import ArchiveFacts, ArchivePolicy, counted_from, plan_archive
from pyhudi.services.budget import Budget
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.inline import run_inline
from pyhudi.services.restore import restored
from pyhudi.services.savepoints import drop_savepoint, make_savepoint
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.saved_files import saved_files
from pyhudi.timeline.versions import versions_of
from pyhudi.timeline.view import ViewCache, list_view
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.leases import lease
from tests.archiver import archive
from tests.services.logged_world import GROUP, Logged
from tests.timeline.bare import t
from tests.transactions.world import VERSIONS, World, put_instant

KEEP_1 = Retention(commits=1)
#: table version 6 has layout 1, where the name of a log says its slice
LAYOUT_2 = (8, 9)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def table(new_world: Callable[..., World], request: pytest.FixtureRequest) -> Logged:
    return Logged(new_world(request.param, {"hoodie.table.type": "MERGE_ON_READ"}))


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may go as soon as it is old: no query has just begun."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def cleaned(table: Logged, retention: Retention = KEEP_1, **more: object) -> set[str]:
    found = clean_table(table.world.writer(), retention, **more)  # type: ignore[arg-type]
    return {f"{each.partition}/{each.file}" for each in found if each.fate.value == "deleted"}


def test_an_old_slice_goes_with_its_logs_and_the_logs_of_kept_ones_stay(table: Logged) -> None:
    old = {table.base(10), table.delta(20, 10), table.delta(25, 10, version=2)}
    old.add(table.log_of(10, 10, (10,), version=9, cdc=True))
    kept = {table.compaction(30), table.delta(40, 30)}

    assert cleaned(table) == old
    assert table.on_disk() == kept
    assert cleaned(table) == set(), "the view that was moved on knows it"


def test_a_log_that_completed_after_the_compaction_had_begun_is_of_the_new_slice(
    new_world: Callable[..., World],
) -> None:
    table = Logged(new_world(9, {"hoodie.table.type": "MERGE_ON_READ"}))
    old, late = table.base(10), table.delta(25, 10, done=35)
    table.compaction(30)
    table.delta(40, 30)

    assert cleaned(table) == {old}
    assert late in table.on_disk()


def test_a_slice_of_logs_alone_goes_when_a_compaction_has_made_it_a_file(table: Logged) -> None:
    first = table.delta(10, 10)
    old = {first, table.delta(20, 10, version=2)}
    table.compaction(30)
    table.delta(40, 30)

    assert cleaned(table, incremental=True) == old


def test_a_compaction_of_logs_alone_has_replaced_them_since_the_last_clean(
    table: Logged,
) -> None:
    for time in (1, 2, 3):
        table.base(time, group="h")
    assert len(cleaned(table)) == 1
    log = table.delta(10, 10)
    table.compaction(30)
    table.delta(40, 30)

    assert log in cleaned(table, incremental=True)


def test_by_versions_slices_count_not_files(table: Logged) -> None:
    old = {table.base(10), table.delta(20, 10)}
    table.compaction(30)
    table.delta(40, 30)
    table.compaction(50)

    assert cleaned(table, Retention(CleanPolicy.VERSIONS, versions=2)) == old


def test_a_bound_leaves_no_slice_in_part(table: Logged) -> None:
    first = {table.base(10), table.delta(20, 10)}
    second = {table.compaction(30), table.delta(40, 30)}
    table.compaction(50)
    table.delta(60, 50)

    assert cleaned(table, budget=Budget(max_files=1)) == first
    assert cleaned(table, budget=Budget(max_files=1)) == second


def test_what_a_pending_compaction_is_to_merge_stays(table: Logged) -> None:
    table.base(10)
    name = table.delta(20, 10).rpartition("/")[2]
    table.compaction(30)
    table.delta(40, 30)
    operation = CompactionOperation(t(10), (name,), None, FileId(GROUP), "p")
    plan = render_compaction_plan(CompactionPlan((operation,)))
    put_instant(table.world, Instant(t(45), Action.COMPACTION, State.REQUESTED), plan)
    table.base(50, group="h")

    assert cleaned(table) == set()
    assert cleaned(table, Retention(CleanPolicy.VERSIONS, versions=1)) == set()


def test_logs_of_a_pending_compaction_and_of_writes_that_run_stay(table: Logged) -> None:
    table.base(10)
    pending = table.log_of(22, 21, (22,))
    table.compaction(30)
    table.delta(40, 30)
    cleaned(table)

    assert pending in table.on_disk()


@pytest.mark.parametrize("version", LAYOUT_2)
def test_an_archived_log_is_of_the_slice_before_its_completion(
    new_world: Callable[..., World], version: int
) -> None:
    """Readers and cleans ask the archive when it completed."""
    table = Logged(new_world(version, {"hoodie.table.type": "MERGE_ON_READ"}))
    table.base(10)
    late = table.delta(25, 10, done=35)
    table.compaction(30)
    table.delta(40, 30)
    table.delta(50, 30)
    archive(table.world.table(), t(10), t(25))
    view = table.world.view()
    assert view.ends[t(25)] == t(35)
    (slice_,) = view.slices()
    assert late in {log.path for log in slice_.logs}
    assert late in {log.path for log in versions_of(view)["p"][GROUP][-1].logs}  # type: ignore[index]


@pytest.mark.parametrize("version", VERSIONS)
def test_old_logs_of_archived_commits_go(new_world: Callable[..., World], version: int) -> None:
    table = Logged(new_world(version, {"hoodie.table.type": "MERGE_ON_READ"}))
    old = {table.base(10), table.log_of(10, 10, (10,), version=9, cdc=True), table.delta(20, 10)}
    table.compaction(30)
    table.delta(40, 30)
    archive(table.world.table(), t(10), t(20))

    assert cleaned(table) == old


def test_a_savepoint_keeps_the_logs_of_its_time(table: Logged) -> None:
    kept = {table.base(10), table.delta(20, 10)}
    later = table.delta(25, 10, version=2)
    table.compaction(30)
    table.delta(40, 30)

    made = make_savepoint(table.world.writer(), t(20), "")

    named = saved_files(table.world.table(), table.world.table().timeline())
    found = {f"{partition}/{name}" for _, partition, name in named}
    assert found - {later} == kept, "in layout 1 a later block may be in any log of the slice"
    assert made.files == len(found)
    assert cleaned(table) == set(), "a slice stays whole"
    drop_savepoint(table.world.writer(), t(20))
    assert cleaned(table) == {*kept, later}


@pytest.mark.parametrize("has_logs", [False, True], ids=["base files", "logs alone"])
def test_a_savepoint_keeps_what_commits_that_began_before_it_write_later(
    table: Logged, has_logs: bool
) -> None:
    """Else a query as of it, and in version 6 a restore to it, would lack their files."""
    old = table.base(10)
    logs = {table.delta(20, 10)} if has_logs else set()
    table.put(Action.COMPACTION, State.REQUESTED, 30)
    table.base(40, group="other")
    made = make_savepoint(table.world.writer(), t(40), "")
    assert made.files == 2 + len(logs)
    new = table.file(GROUP, 30)
    table.put(Action.COMMIT, State.COMPLETED, 30, 45, (new,))
    table.delta(50, 30, version=2)
    table.compaction(60)
    table.delta(70, 60)

    assert cleaned(table) == set()
    now = table.world.table()
    for view in (now.view(now.timeline()), list_view(table.storage, now.timeline())):
        assert [each.path for each in view.latest(t(40))] == [
            new.path,
            f"p/other_0-0-0_{t(40)}.parquet",
        ]
    restored(table.world.writer(), t(40), dry_run=True)
    drop_savepoint(table.world.writer(), t(40))
    assert {old, *logs, new.path} < cleaned(table)


def test_a_query_keeps_the_logs_that_it_reads(table: Logged) -> None:
    old = {table.delta(10, 10), table.delta(20, 10, version=2)}
    timeline = table.world.table().timeline()
    last = timeline.commits[-1]
    state = ReadState(last.time, timeline.layout, completed(timeline, last))
    held = lease(table.world.memory, table.world.clock, state, HeartbeatPolicy())
    held.start()
    table.compaction(30)
    table.delta(40, 30)

    assert cleaned(table) == set()
    held.stop()
    assert cleaned(table) == old


def test_after_a_commit_slices_go_and_instants_are_archived(table: Logged) -> None:
    old = {table.base(10), table.delta(20, 10)}
    table.compaction(30)
    for time in range(40, 50):
        table.delta(time, 30, version=time)
    few = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
    }
    run_inline(table.world.writer(), resolve_write(few, {}, {}))

    assert table.on_disk().isdisjoint(old)
    assert len(table.on_disk()) == 11
    assert table.commits() == [t(time) for time in range(45, 50)], "five are to be counted"


def test_an_archive_leaves_what_the_next_compaction_is_counted_from(table: Logged) -> None:
    for time in range(10, 100, 10):
        table.delta(time, 10, version=time)
    timeline, few = table.timeline(), ArchivePolicy(1, 1)
    assert counted_from(timeline, True) == t(50)
    facts = ArchiveFacts(timeline, compacted=t(50))
    assert [i.time for i in plan_archive(facts, few).doomed] == [t(10), t(20), t(30), t(40)]
    table.compaction(95)
    assert counted_from(table.timeline(), True) == t(95)
    for time in range(100, 106):
        table.delta(time, 95, version=time)
    assert counted_from(table.timeline(), True) == t(101)
    copy_on_write = table.timeline().only(())
    assert counted_from(copy_on_write, True) is None


@pytest.mark.parametrize("version", LAYOUT_2)
def test_a_view_that_moves_on_keeps_the_archived_log_that_ended_after_the_compaction(
    new_world: Callable[..., World], version: int
) -> None:
    table = Logged(new_world(version, {"hoodie.table.type": "MERGE_ON_READ"}))
    table.base(10)
    table.put(Action.COMPACTION, State.REQUESTED, 30)
    table.delta(25, 10, done=35)
    table.delta(40, 10, done=41)
    archive(table.world.table(), t(10), t(25))
    seen, cache = table.world.table(), ViewCache()
    cache.load(seen.storage, seen.config, seen.timeline())
    table.put(Action.COMPACTION, State.INFLIGHT, 30)
    table.put(Action.COMMIT, State.COMPLETED, 30, 50, (table.file(GROUP, 30),))

    now = table.world.table()
    (moved,) = cache.load(now.storage, now.config, now.timeline()).slices()
    assert moved.instant == t(30)
    assert [log.instant for log in moved.logs] == [t(25), t(40)]


@pytest.mark.parametrize("version", LAYOUT_2)
def test_a_log_that_its_commit_does_not_name_is_of_no_slice(
    new_world: Callable[..., World], version: int
) -> None:
    """It is of an attempt that was given up, and may be torn."""
    table = Logged(new_world(version, {"hoodie.table.type": "MERGE_ON_READ"}))
    old = {table.base(10)}
    old.add(stray := table.log_of(20, 10, (20,), version=2))
    seen, cache = table.world.table(), ViewCache()
    cache.load(seen.storage, seen.config, seen.timeline())
    old.add(named := table.delta(20, 10))

    now = table.world.table()
    for loaded in (cache, ViewCache()):
        (found,) = loaded.load(now.storage, now.config, now.timeline()).slices()
        assert [log.path for log in found.logs] == [named], stray
    table.compaction(30)
    table.delta(40, 30)
    assert cleaned(table) == old, "with its version"
