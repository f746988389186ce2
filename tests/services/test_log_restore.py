"""Restores of merge-on-read tables that Apache Hudi wrote, of every version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import CommitConflict, HistoryExpired, UnsupportedTable
from pyhudi.format.filenames import parse_log_file_name
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks
from pyhudi.format.plans import parse_savepoint, render_savepoint
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.services import clean as clean_module
from pyhudi.services.clean_plan import Retention
from pyhudi.services.restore import restored
from pyhudi.services.savepoints import make_savepoint
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.recovery.rollback import read_plan
from tests.golden_tables import ALL, BY_NAME, GoldenTable
from tests.reads.merged_table import opened, rows
from tests.services.logged_world import Logged
from tests.timeline.bare import t
from tests.transactions.world import VERSIONS, World, put_instant

TABLES = [each for each in ALL if each.merge_on_read and each.expected() is not None]


def table_of(root: Path) -> Table:
    storage = LocalStorage(str(root))
    VIEWS.forget(storage)
    return open_table(storage)


def seen(root: Path, as_of: str | None = None) -> list[dict[str, Any]]:
    VIEWS.forget(LocalStorage(str(root)))
    found = [dict(row) for row in rows(opened(root, as_of), "id", "name", "price", "ts")]
    return sorted(found, key=repr)


def goals(root: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each commit that can be read, the newest first, and its rows."""
    for commit in reversed(table_of(root).timeline().commits):
        try:
            yield str(commit.time), seen(root, str(commit.time))
        except HistoryExpired:
            return


def writers_of_logs(root: Path) -> set[str]:
    """The delta commits whose blocks are in the logs."""
    files = [f for f in root.rglob(".*.log.*") if ".hoodie" not in f.parts]
    blocks = [block for file in files for block in read_blocks(file.read_bytes())]
    return {block.header[HeaderKey.INSTANT_TIME] for block in blocks}


@pytest.mark.parametrize("golden", TABLES, ids=lambda each: each.name)
def test_a_table_has_the_rows_of_each_commit_again(golden: GoldenTable, tmp_path: Path) -> None:
    root = golden.unzip(tmp_path)
    for goal, before in list(goals(root)):
        pyhudi.restore(str(root), goal)
        assert seen(root) == before, goal
        timeline = table_of(root).timeline()
        assert timeline.commits[-1].time == goal
        assert timeline.pending == ()
        assert writers_of_logs(root) <= {str(commit.time) for commit in timeline.commits}
        assert pyhudi.remove_orphans(str(root), older_than_hours=0) == []


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def table(new_world: Callable[..., World], request: pytest.FixtureRequest) -> Logged:
    return Logged(new_world(request.param, {"hoodie.table.type": "MERGE_ON_READ"}))


@pytest.fixture
def old_table(new_world: Callable[..., World]) -> Logged:
    """A table of version 6, where a log may have blocks of several delta commits."""
    return Logged(new_world(6, {"hoodie.table.type": "MERGE_ON_READ"}))


def restore_to(table: Logged, time: int, fence: bool = False) -> set[str]:
    found = restored(table.world.writer(), t(time), fence=fence)
    return {f"{each.partition}/{each.file}" for each in found if each.file}


@pytest.mark.parametrize("golden", TABLES, ids=lambda each: each.name)
def test_a_savepoint_gives_the_rows_of_its_commit_after_each_clean(
    golden: GoldenTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)
    root = golden.unzip(tmp_path)
    *_, (oldest, before) = goals(root)
    now = seen(root)
    pyhudi.savepoint(str(root), oldest)

    pyhudi.clean(str(root), options={"hoodie.clean.commits.retained": "1"})

    assert seen(root, oldest) == before
    assert seen(root) == now
    pyhudi.restore(str(root), oldest)
    assert seen(root) == before


@pytest.mark.parametrize("name", ["h0150_v6-mor_log", "h120_v9-mor_log"])
def test_a_state_that_was_read_before_a_restore_to_it_is_listed_again(
    name: str, tmp_path: Path
) -> None:
    """In layout 1 the earlier listing has logs that the restore deletes."""
    root = BY_NAME[name].unzip(tmp_path)
    goal = str(table_of(root).timeline().commits[1].time)
    earlier = opened(root, goal)
    pins, before = PinnedQueries(earlier.runtime), len(rows(earlier))
    pins.pin(earlier)
    pyhudi.restore(str(root), goal)
    VIEWS.forget(LocalStorage(str(root)))

    query = opened(root)
    asked = Pinned(pins.pin(query), str(root), {}, {}, query.instant)

    assert len(pins.ask(asked, rows)) == before


def test_the_logs_below_an_undone_compaction_count_again(table: Logged) -> None:
    kept = {table.base(10), table.delta(20, 10)}
    gone = {table.compaction(30), table.delta(40, 30)}

    assert restore_to(table, 20) == gone
    assert table.on_disk() == kept
    assert table.commits() == [t(10), t(20)]
    assert table.timeline().pending == ()
    (found,) = table.world.view().slices()
    assert {file.path for file in found.files} == kept


def test_blocks_of_commits_that_stay_are_left_and_undone_ones_taken_back(
    old_table: Logged,
) -> None:
    table = old_table
    base, alone = table.base(10), table.delta(30, 10, version=2)
    shared = table.log_of(20, 10, (20, 40))
    table.committed(20)
    table.committed(40)

    planned = restored(table.world.writer(), t(20), dry_run=True)
    assert {f"{each.partition}/{each.file}" for each in planned if each.file} == {alone}
    assert restore_to(table, 20) == {alone}

    (command,) = table.on_disk() - {base, shared}
    named = parse_log_file_name(command.rpartition("/")[2])
    assert named is not None
    assert (named.instant, named.version) == (t(10), 3), "after all logs of the slice"
    (block,) = read_blocks(table.storage.read(command))
    assert block.block_type is BlockType.COMMAND
    assert block.header[HeaderKey.TARGET_INSTANT_TIME] == t(40)
    assert block.header[HeaderKey.COMMAND_BLOCK_TYPE] == "0"


def test_a_dead_restore_deletes_no_block_of_a_commit_that_stays(old_table: Logged) -> None:
    """Its plan names logs to take back, which whoever finishes it does not delete."""
    table = old_table
    table.base(10)
    shared = table.log_of(20, 10, (20, 40))
    table.committed(20)
    table.committed(40)
    fault = Fault(Effect.CRASH_BEFORE, path="p/*", methods=frozenset({"put_if_absent"}))
    with pytest.raises(SimulatedCrash):
        restored(table.world.writer(FaultyStorage(table.storage, fault)), t(20))
    timeline = table.world.table().timeline()
    (rollback,) = (i for i in timeline.pending if i.action is Action.ROLLBACK)
    plan = read_plan(table.world.table(), timeline, rollback)
    assert plan is not None
    (request,) = plan.requests
    assert not request.files_to_be_deleted
    assert [p.rpartition("/")[2] for p in request.log_blocks_to_be_deleted] == [
        shared.rpartition("/")[2]
    ]
    assert request.latest_base_instant == t(10)

    restore_to(table, 20)

    assert shared in table.on_disk()
    assert len(table.on_disk()) == 3
    assert table.commits() == [t(10), t(20)]


def test_a_slice_with_rows_of_an_older_write_is_not_undone(old_table: Logged) -> None:
    """The write began before the compaction was planned, and wrote to the slice of the plan."""
    table = old_table
    table.base(10)
    table.delta(20, 30)
    table.compaction(30)
    before = table.on_disk()

    with pytest.raises(UnsupportedTable, match="rows of .*20, which stays"):
        restore_to(table, 20)
    assert table.on_disk() == before


def test_a_plan_for_a_later_compaction_goes_and_an_older_one_stays(table: Logged) -> None:
    table.base(10)
    put_instant(table.world, Instant(t(15), Action.COMPACTION, State.REQUESTED))
    table.base(20, group="h")
    table.delta(30, 10)
    put_instant(table.world, Instant(t(35), Action.COMPACTION, State.REQUESTED))

    restore_to(table, 20)

    assert [i.time for i in table.world.table().timeline().pending] == [t(15)]


def test_a_compaction_that_runs_is_told_and_fenced_on_request(table: Logged) -> None:
    table.base(10)
    table.delta(20, 10)
    for state in (State.REQUESTED, State.INFLIGHT):
        put_instant(table.world, Instant(t(35), Action.COMPACTION, state))

    with pytest.raises(CommitConflict, match="compaction"):
        restore_to(table, 10)
    restore_to(table, 10, fence=True)
    assert table.world.table().timeline().pending == ()


def test_a_savepoint_that_names_later_logs_is_restored_twice(table: Logged) -> None:
    """As Apache Hudi's savepoints do; the first restore has deleted these logs."""
    table.base(10)
    table.delta(20, 10)
    make_savepoint(table.world.writer(), t(20), "")
    timeline = table.world.table().timeline()
    (saved,) = (i for i in timeline.completed if i.action is Action.SAVEPOINT)
    path = timeline.file_of(saved)
    found = parse_savepoint(table.storage.read(path), path)
    gone = table.delta(30, 10, version=2)
    part = found.partition_metadata["p"]
    more = replace(part, savepoint_data_file=(*part.savepoint_data_file, gone.rpartition("/")[2]))
    table.storage.delete([path])
    table.storage.put_if_absent(
        path, render_savepoint(replace(found, partition_metadata={"p": more}))
    )

    assert restore_to(table, 20) == {gone}
    assert restore_to(table, 20) == set()


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    ("goal", "left"), [(20, {("g", 20), ("h", 25)}), (25, {("g", 10), ("h", 25)})]
)
def test_a_savepoint_keeps_what_a_restore_to_it_leaves(
    new_world: Callable[..., World],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    goal: int,
    left: set[tuple[str, int]],
) -> None:
    """The commit 25 ended before 20 did: a query as of 20 lacks it, and one as of 25 has 20."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)
    table = Logged(new_world(version, {"hoodie.table.type": "MERGE_ON_READ"}))

    def commit(time: int, done: int, *groups: str) -> None:
        stats = tuple(table.file(group, time) for group in groups)
        table.committed(time, Action.DELTACOMMIT, done, stats)

    commit(10, 11, "g", "h")
    commit(25, 30, "h")
    commit(20, 40, "g")
    make_savepoint(table.world.writer(), t(goal), "")
    commit(50, 51, "h")
    commit(60, 61, "g")
    commit(70, 71, "g")
    clean_module.clean_table(table.world.writer(), Retention(commits=1))

    restored(table.world.writer(), t(goal))
    now = table.world.table()
    VIEWS.forget(now.storage)
    found = now.view(now.timeline()).slices()
    assert {(each.file_id, each.instant) for each in found} == {(g, t(n)) for g, n in left}
