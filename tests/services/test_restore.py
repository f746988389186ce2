"""Restores: what they undo, what they refuse, and their ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import pytest

from pyhudi.errors import CommitConflict, ConfigError, HistoryExpired, HudiError, WriterFenced
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.properties import parse_properties, render_properties
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.restore import RestoreFate, restored
from pyhudi.services.savepoints import make_savepoint
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.table import PROPERTIES
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.leases import lease
from pyhudi.transactions.processes import LINUX
from tests.archiver import archive
from tests.transactions.world import (
    LAZY,
    VERSIONS,
    World,
    dead_writer,
    die,
    finish,
    put_instant,
    settle,
    work,
)
from tests.undoing import Undoing

KEEP_1 = Retention(commits=1)
#: of the lock of these tables
LEASE_S = 60.0
LATE = "20300101000000000"


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def written(world: World) -> list[tuple[InstantTime, dict[str, str]]]:
    """Five commits, the fourth an overwrite: the instant of each, and the rows after it."""
    model: dict[str, str] = {}
    found = []
    for rows in ({"a": "1"}, {"a": "2", "b": "2"}, {"b": "3", "c": "3"}):
        instant = world.upsert(rows).instant
        model = {**model, **rows}
        found.append((instant, model))
    transaction = world.begin(action=Action.REPLACECOMMIT)
    finish(transaction, work(transaction, {"d": "4"}, overwrite=True))
    found.append((transaction.instant, {"d": "4"}))
    found.append((world.upsert({"d": "5", "e": "5"}).instant, {"d": "5", "e": "5"}))
    return found


def actions(world: World) -> list[Action]:
    return [i.action for i in world.table().timeline().instants]


def check(world: World, rows: dict[str, str], commits: int) -> None:
    """The table is as ``rows`` says, has nothing left over, and can be written."""
    assert world.rows() == rows
    VIEWS.forget(world.memory)
    assert world.rows() == rows
    timeline = world.table().timeline()
    assert len(timeline.commits) == commits
    assert world.leftovers() == []
    assert Action.ROLLBACK not in actions(world)
    world.upsert({"z": "new"})
    assert world.rows() == {**rows, "z": "new"}
    assert world.leftovers() == []


@pytest.mark.parametrize("number", range(5))
def test_a_table_is_again_what_it_was_after_the_commit(world: World, number: int) -> None:
    model = written(world)
    instant, rows = model[number]
    world.rows()  # a view of the newest state is in memory

    planned = restored(world.writer(), instant, dry_run=True)
    assert world.rows() == model[-1][1]
    done = restored(world.writer(), instant)

    later = [time for time, _ in model[number + 1 :]]
    assert list(dict.fromkeys(each.commit for each in done)) == later[::-1]
    assert [(f.commit, f.partition, f.file, f.size_bytes) for f in done] == [
        (f.commit, f.partition, f.file, f.size_bytes) for f in planned
    ]
    assert {each.fate for each in planned} <= {RestoreFate.WOULD_GO}
    assert {each.fate for each in done} <= {RestoreFate.UNDONE}
    assert (Action.RESTORE in actions(world)) == bool(later)
    check(world, rows, number + 1)


def test_a_dry_run_tells_why_each_file_goes_and_changes_nothing(world: World) -> None:
    model = written(world)
    before = {f.path for f in world.memory.walk("")}
    found = restored(world.writer(), model[2][0], dry_run=True)
    assert {f.path for f in world.memory.walk("")} == before
    assert [(f.commit, f.action) for f in found] == [
        (model[4][0], "commit"),
        (model[4][0], "commit"),
        (model[3][0], "replacecommit"),
    ]
    assert found[0].why == f"commit {model[4][0]} completed after {model[2][0]}"
    assert found[2].why.endswith("file groups that it replaced return")


def test_a_savepoint_stays_and_can_be_restored_to_again(world: World) -> None:
    model = written(world)
    instant, rows = model[1]
    make_savepoint(world.writer(), instant, "")
    clean_table(world.writer(), KEEP_1)
    restored(world.writer(), instant)
    assert world.rows() == rows
    world.upsert({"a": "again"})
    restored(world.writer(), instant)
    assert world.rows() == rows
    assert Action.SAVEPOINT in actions(world)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ("2020-01-01", ConfigError, "is no completed commit"),
        (LATE, ConfigError, "The newest commit at that time is"),
        ("soon", HudiError, "soon"),
    ],
)
def test_what_is_no_commit_is_refused(
    world: World, asked: str, error: type[Exception], words: str
) -> None:
    written(world)
    before = {f.path for f in world.memory.walk("")}
    with pytest.raises(error, match=words):
        restored(world.writer(), asked)
    assert {f.path for f in world.memory.walk("")} == before


def test_a_commit_with_a_savepoint_is_not_undone(world: World) -> None:
    model = written(world)
    make_savepoint(world.writer(), model[3][0], "")
    with pytest.raises(ConfigError, match=f"would undo {model[3][0]}, which savepoints keep"):
        restored(world.writer(), model[1][0])
    assert world.rows() == model[-1][1]


def test_a_cleaned_commit_cannot_be_restored(world: World) -> None:
    model = written(world)
    clean_table(world.writer(), KEEP_1)
    with pytest.raises(HistoryExpired, match="cleaned"):
        restored(world.writer(), model[0][0])
    assert world.rows() == model[-1][1]


def test_files_of_dead_writers_go_as_well(world: World) -> None:
    model = written(world)
    dead = dead_writer(world)
    world.clock.sleep(1_000)
    restored(world.writer(), model[1][0])
    assert world.rows() == model[1][1]
    assert not [path for path in world.data_files() if dead.instant in path]
    assert world.leftovers() == []


@pytest.mark.parametrize("effect", [Effect.CRASH_BEFORE, Effect.CRASH_AFTER])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_restore_that_died_is_finished_by_the_next(
    new_world: Callable[..., World], version: int, effect: Effect
) -> None:
    for at in range(1, 100):
        world = new_world(version)
        model = written(world)
        instant, rows = model[1]
        broken = FaultyStorage(world.memory, Fault(effect, at))
        try:
            restored(world.writer(broken), instant)
        except SimulatedCrash:
            pass
        else:
            assert at > 20
            break
        seen = None
        with suppress(HudiError):
            VIEWS.forget(world.memory)
            seen = world.rows()
        assert seen in [None, *(after for _, after in model[1:])]
        with suppress(CommitConflict):
            settle(world)
        restored(world.writer(), instant)
        check(world, rows, 2)
        world.close()
    else:
        pytest.fail("the restore never ended")


def test_living_writers_are_named_and_nothing_happens(world: World) -> None:
    model = written(world)
    transaction = world.begin()
    work(transaction, {"b": "living"})
    before = {f.path for f in world.memory.walk(".hoodie")}
    with pytest.raises(CommitConflict) as raised:
        restored(world.writer(policy=LAZY), model[1][0])
    told = str(raised.value)
    assert f" {transaction.instant}" in told
    process = LINUX.this()
    assert process is None or f"(process {process.pid} on {process.host})" in told
    assert "fence=True" in told
    assert {f.path for f in world.memory.walk(".hoodie")} == before
    assert world.rows() == model[-1][1]


def test_a_query_that_reads_what_would_go_is_named_unless_it_may_fail(world: World) -> None:
    model = written(world)
    newest = world.table().timeline().latest_commit
    assert newest is not None
    last = max(completed(world.table().timeline(), i) for i in world.table().timeline().commits)
    layout = world.table().config.layout
    reads = lease(
        world.memory, world.clock, ReadState(newest.time, layout, last), HeartbeatPolicy()
    )
    reads.beat()

    with pytest.raises(CommitConflict, match=f"reads commit {newest.time}.*fence=True"):
        restored(world.writer(), model[1][0])
    assert world.rows() == model[-1][1]
    assert Action.RESTORE not in actions(world)
    assert not restored(world.writer(), newest.time), "nothing that it reads would go"

    restored(world.writer(), model[1][0], fence=True)
    reads.stop()
    check(world, model[1][1], 2)


def test_a_query_of_an_earlier_commit_stops_no_restore(world: World) -> None:
    model = written(world)
    state = ReadState(model[1][0], world.table().config.layout, LATE)
    reads = lease(world.memory, world.clock, state, HeartbeatPolicy())
    reads.beat()
    restored(world.writer(), model[1][0])
    reads.stop()
    check(world, model[1][1], 2)


@pytest.mark.parametrize("dies", [False, True])
def test_a_restore_that_stood_still_before_its_plan_undoes_nothing_that_others_build_on(
    world: World, dies: bool
) -> None:
    model = written(world)
    committed: list[InstantTime] = []

    def stand_still(call: Call) -> None:
        if call.paths[0].endswith(".restore.requested") and call.method == "put_if_absent":
            world.clock.advance(LEASE_S)
            committed.append(world.upsert({"d": "6"}).instant)
        if dies and call.paths[0].endswith(".restore.inflight"):
            pytest.fail("the restore was begun")

    faults = [Fault(Effect.CRASH_AFTER, 1, path="*restore.requested")] if dies else []
    slow = FaultyStorage(world.memory, *faults, before=stand_still)
    with suppress(SimulatedCrash), pytest.raises(CommitConflict, match="Nothing was undone"):
        restored(world.writer(slow), model[2][0])
    if dies:
        with pytest.raises(CommitConflict, match=f"commit {committed[0]} completed before"):
            restored(world.writer(), model[2][0])

    assert world.rows() == {"d": "6", "e": "5"}
    assert world.table().timeline().pending == ()
    restored(world.writer(), model[2][0])
    check(world, model[2][1], 3)


def test_a_fenced_writer_cannot_commit_afterwards(world: World) -> None:
    model = written(world)
    instant, rows = model[1]
    transaction = world.begin()
    done = work(transaction, {"b": "living"})

    restored(world.writer(policy=LAZY), instant, fence=True)

    with pytest.raises(WriterFenced):
        finish(transaction, done)
    die(transaction)
    assert world.rows() == rows
    settle(world)
    assert world.rows() == rows
    assert not [path for path in world.data_files() if transaction.instant in path]


def test_nothing_else_changes_the_table_while_a_restore_is_pending(world: World) -> None:
    model = written(world)
    broken = FaultyStorage(world.memory, Fault(Effect.CRASH_AFTER, 1, path="*restore.inflight"))
    with pytest.raises(SimulatedCrash):
        restored(world.writer(broken), model[1][0])
    for change in (
        lambda: world.upsert({"a": "no"}),
        lambda: clean_table(world.writer(), KEEP_1),
        lambda: make_savepoint(world.writer(), None, ""),
    ):
        with pytest.raises(CommitConflict, match="being set back to an earlier commit"):
            change()
    with pytest.raises(ConfigError, match=f"to {model[1][0]} is pending. Finish it first"):
        restored(world.writer(), model[0][0])
    left = restored(world.writer(), model[1][0], dry_run=True)
    assert {each.commit for each in left} == {time for time, _ in model[2:]}
    restored(world.writer(), model[1][0])
    check(world, model[1][1], 2)


def test_a_dead_restore_of_apache_hudi_is_finished(world: World) -> None:
    model = written(world)
    steps = [*Undoing(world.table()).restore(model[3][0], [model[4][0]])]
    for made in range(1, len(steps) + 1):
        again = World(world.version)
        model = written(again)
        for step in islice(Undoing(again.table()).restore(model[3][0], [model[4][0]]), made):
            step()
        restored(again.writer(), model[3][0])
        check(again, model[3][1], 4)
        again.close()


def test_a_commit_whose_later_ones_are_archived_cannot_be_restored(world: World) -> None:
    model = written(world)
    make_savepoint(world.writer(), model[0][0], "")
    archive(world.table(), model[1][0])
    with pytest.raises(HistoryExpired, match=f"commit {model[1][0]} after it is archived") as told:
        restored(world.writer(), model[0][0])
    assert told.value.earliest == model[2][0]


def test_a_late_plan_hides_no_archived_commit_that_cannot_be_undone(world: World) -> None:
    """A planner stood still until the archive had passed its instant: nobody runs its plan."""
    model = written(world)
    make_savepoint(world.writer(), model[0][0], "")
    archive(world.table(), model[1][0])
    late = Instant(InstantTime(str(int(model[0][0]) - 1)), Action.COMPACTION, State.REQUESTED)
    put_instant(world, late)
    assert world.table().timeline().first_time == late.time
    with pytest.raises(HistoryExpired, match=f"commit {model[1][0]} after it is archived") as told:
        restored(world.writer(), model[0][0])
    assert told.value.earliest == model[2][0]


def test_a_view_in_memory_goes_back_with_the_table(world: World) -> None:
    model = written(world)
    table = world.table()
    assert len(table.view(table.timeline()).latest()) == 2  # kept in memory

    restored(world.writer(), model[1][0])

    shown = table.view(table.timeline()).latest()
    assert [f.path for f in shown] == [f.path for f in world.view().latest()]
    assert {f.instant for f in shown} <= {time for time, _ in model[:2]}


def test_the_metadata_table_is_gone_before_a_commit_is_undone(
    new_world: Callable[..., World],
) -> None:
    world = new_world(9, {"hoodie.table.metadata.partitions": "files"})
    model = written(world)
    properties = world.memory.read(PROPERTIES)
    stale = render_properties(
        {**parse_properties(properties, PROPERTIES), "hoodie.table.metadata.partitions": "files"}
    )
    world.memory.replace(PROPERTIES, stale)
    broken = FaultyStorage(world.memory, Fault(Effect.CRASH_BEFORE, 1, path="*.rollback.requested"))
    with pytest.raises(SimulatedCrash):
        restored(world.writer(broken), model[1][0])
    assert not world.table().config.metadata_partitions


def test_a_clustering_planned_later_goes_with_the_commits(
    new_world: Callable[..., World],
) -> None:
    world = new_world(9)
    model = written(world)
    time = world.writer().next_time(world.table().timeline())
    put_instant(world, Instant(time, Action.CLUSTERING, State.REQUESTED), b"")
    planned = restored(world.writer(), model[3][0], dry_run=True)
    assert [(f.commit, f.action) for f in planned[:1]] == [(time, "clustering")]
    assert planned[0].why == f"clustering {time} was planned after {model[3][0]}"
    restored(world.writer(), model[3][0])
    check(world, model[3][1], 4)
