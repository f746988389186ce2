"""Rollbacks: what they delete and tell, and when they stop."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from pyhudi.errors import CommitConflict, WriterFenced
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import marker_folder
from pyhudi.format.plans import (
    InstantInfo,
    RollbackPlan,
    RollbackRequest,
    parse_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.locks.filesystem import LOCK_PATH, FilesystemLock
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.recovery.rollback import Undone, roll_back, rollback_of, was_rolled_back
from pyhudi.transactions.writer import Writer
from tests.locks.test_renewal import LEASE_S, Told
from tests.transactions.world import (
    LAPSE_S,
    POLICY,
    World,
    Written,
    dead_writer,
    die,
    finish,
    put_file,
    put_instant,
    settle,
    work,
)
from tests.undoing import Undoing

NewWorld = Callable[..., World]


def test_a_rollback_tells_what_it_did(world: World) -> None:
    dead = dead_writer(world)
    (path,) = world.data_files()
    world.clock.advance(LAPSE_S)
    settle(world)

    timeline = world.table().timeline()
    (done,) = timeline.completed
    metadata = parse_rollback_metadata(world.memory.read(timeline.file_of(done)), "")
    assert metadata.commits_rollback == (dead.instant,)
    assert metadata.instants_rollback == (InstantInfo(dead.instant, "commit"),)
    assert metadata.total_files_deleted == 1
    assert metadata.partition_metadata["a"].success_delete_files == (f"{world.memory.root}/{path}",)
    assert was_rolled_back(world.table(), timeline, dead.instant)
    assert not was_rolled_back(world.table(), timeline, done.time)


def test_a_rollback_of_a_commit_that_completed_is_left_to_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    done = world.upsert({"k": "1"})
    plan = RollbackPlan(InstantInfo(done.instant, "commit"))
    time = InstantTime("20231201000000000")
    put_instant(world, Instant(time, Action.ROLLBACK, State.REQUESTED), render_rollback_plan(plan))

    settle(world)

    assert world.rows() == {"k": "1"}
    assert [i.time for i in world.table().timeline().pending] == [time]
    assert "is pending" in caplog.text


@pytest.mark.parametrize("steps", range(2, 7))
def test_a_rollback_whose_writer_lives_is_left_to_it(world: World, steps: int) -> None:
    world.upsert({"k": "1"})
    target = world.upsert({"k": "2"}).instant
    rollback = Undoing(world.table()).rollback(target)
    for step in itertools.islice(rollback, steps):
        step()
    (pending,) = (i for i in world.table().timeline().pending if i.action is Action.ROLLBACK)
    world.memory.replace(f"{HEARTBEATS}/{pending.time}", b"")
    left = timeline_files_of(world, target)

    settle(world)

    assert timeline_files_of(world, target) == left
    assert pending in world.table().timeline().pending
    for step in rollback:
        step()
    world.memory.delete([f"{HEARTBEATS}/{pending.time}"])
    assert world.rows() == {"k": "1"}


def test_a_rollback_whose_writer_has_fallen_silent_is_finished(world: World) -> None:
    world.upsert({"k": "1"})
    target = world.upsert({"k": "2"}).instant
    for step in itertools.islice(Undoing(world.table()).rollback(target), 4):
        step()
    (pending,) = (i for i in world.table().timeline().pending if i.action is Action.ROLLBACK)
    world.memory.replace(f"{HEARTBEATS}/{pending.time}", b"")
    world.clock.advance(LAPSE_S)

    settle(world)

    assert world.table().timeline().pending == ()
    assert timeline_files_of(world, target) == []
    assert world.rows() == {"k": "1"}


def test_a_rollback_without_a_plan_stops_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    time = InstantTime("20231101000000000")
    put_instant(world, Instant(time, Action.ROLLBACK, State.INFLIGHT))

    world.upsert({"k": "1"})

    assert world.rows() == {"k": "1"}
    assert "without a plan" in caplog.text


def test_files_written_after_the_plan_go_with_the_rollback(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    crash = FaultyStorage(world.memory, Fault(Effect.CRASH_AFTER, path="*.rollback.requested"))
    with pytest.raises(SimulatedCrash):
        roll_back(world.writer(crash), dead.instant)
    late = put_file(dead, "a", FileId("late-0"), {"k": "late"})
    (rollback,) = [i for i in world.table().timeline().pending if i.action is Action.ROLLBACK]
    found = rollback_of(world.table(), world.table().timeline(), dead.instant)
    assert found is not None
    planned = [f for r in found[1].requests for f in r.files_to_be_deleted]
    assert not any(late.path in f for f in planned)
    world.clock.advance(61)

    settle(world)

    assert world.leftovers() == []
    assert [i.time for i in world.table().timeline().completed] == [rollback.time]


def test_a_put_of_the_same_rollback_that_lands_late_stops_nobody(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)

    def land(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".rollback.inflight"):
            world.memory.put_if_absent(call.paths[0], b"")

    storage = FaultyStorage(world.memory, before=land)
    roll_back(world.writer(storage), dead.instant)

    assert world.leftovers() == []


def test_the_lock_is_renewed_through_a_long_rollback(world: World) -> None:
    """Each step takes most of a lease of 60 s; together they take several."""
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    slow = FaultyStorage(
        world.memory,
        before=lambda call: world.clock.advance(45) if is_slow_step(call) else None,
    )
    roll_back(world.writer(slow), dead.instant)

    assert sum(map(is_slow_step, slow.calls)) == 4
    assert world.leftovers() == []


def test_a_rollback_whose_listing_takes_longer_than_the_lease_keeps_the_lock(world: World) -> None:
    dead = dead_writer(world)
    world.memory.delete_folder(marker_folder(dead.instant))
    world.memory.put_timeout_s = LEASE_S / 10
    lock, walked = Told(world.locks, world.clock), []

    def slow(call: Call) -> None:
        if call.method == "walk" and call.paths == ("a",) and not walked:
            walked.append(call)
            lock.be_slow()

    table = world.table(FaultyStorage(world.memory, before=slow))
    undone = roll_back(Writer(table, lock, world.clock, POLICY), dead.instant)

    assert (undone, len(walked)) == (Undone.NOW, 1)
    assert world.leftovers() == []


def test_nothing_comes_between_the_lock_and_the_request_of_a_rollback(world: World) -> None:
    """Found by the explorer: a stop in between left a rollback of a write that had committed."""
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    watched = FaultyStorage(world.memory)
    lock = FilesystemLock(watched, world.clock)
    roll_back(Writer(world.table(watched), lock, world.clock, POLICY), dead.instant)

    calls = [str(call) for call in watched.calls]
    asked = next(n for n, call in enumerate(calls) if call.endswith(".rollback.requested"))
    assert calls[asked - 1] == f"replace {LOCK_PATH}"


def test_a_rollback_is_not_requested_again_under_a_lease_that_has_ended(world: World) -> None:
    """The first time was taken, and by the second the lock may be a successor's."""
    dead = dead_writer(world)
    asked: list[str] = []

    def take(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".rollback.requested"):
            asked.append(call.paths[0])
            world.memory.put_if_absent(call.paths[0], b"")
            world.clock.advance(61)

    table = world.table(FaultyStorage(world.memory, before=take))
    with pytest.raises(WriterFenced):
        roll_back(world.writer(table=table), dead.instant)

    assert len(asked) == 1


def test_a_writer_cleans_up_after_a_rollback_of_it_that_died_before_its_end(world: World) -> None:
    """Found by the explorer: the instant was gone, its rollback pending, and a file stayed."""
    slow = world.begin()
    written = work(slow, {"k": "1"})
    world.clock.advance(LAPSE_S)
    dies = FaultyStorage(world.memory, Fault(Effect.CRASH_BEFORE, path="*.rollback"))
    with pytest.raises(SimulatedCrash):
        roll_back(world.writer(dies), slow.instant)
    put_file(slow, "a", FileId("late-0"), {"k": "2"})
    world.memory.delete_folder(marker_folder(slow.instant))
    world.clock.advance(LAPSE_S)

    with pytest.raises(WriterFenced):
        finish(slow, written)
    slow.abort()

    assert world.leftovers() == []


def test_a_writer_that_went_on_after_its_rollback_leaves_no_file_whose_marker_is_gone(
    world: World,
) -> None:
    """Found by the explorer beside Apache Hudi's EAGER policy, which undoes a writer that lives.

    The writer had only requested its instant; Hudi deleted that, and the markers of its first file.
    """
    slow = world.begin()
    roll_back(world.writer(), slow.instant)
    slow.inflight(None)
    put_file(slow, "a", FileId("early-0"), {"k": "1"})
    world.memory.delete_folder(marker_folder(slow.instant))
    late = put_file(slow, "a", FileId("late-0"), {"k": "2"})

    with pytest.raises(WriterFenced):
        finish(slow, Written((late,)))
    slow.abort()

    assert world.leftovers() == []


def test_a_writer_that_a_restore_undid_leaves_nothing(world: World) -> None:
    """Found by the explorer: a restore deletes its rollbacks, so that none tells of the writer."""
    saved = world.upsert({"k": "1"}).instant
    slow = world.begin()
    written = work(slow, {"k": "2", "new": "1"})
    for step in Undoing(world.table(), InstantTime("20241114231320000")).restore(
        saved, [slow.instant]
    ):
        step()
    late = put_file(slow, "a", FileId("late-0"), {"late": "1"})

    with pytest.raises((CommitConflict, WriterFenced)):
        finish(slow, Written((*written.stats, late)))
    slow.abort()

    assert world.leftovers() == []
    assert world.rows() == {"k": "1"}


def is_slow_step(call: Call) -> bool:
    """Reading all markers (twice), deleting the data files, deleting an instant's file."""
    deleted = call.paths[0] if call.method == "delete" else ""
    return call.method == "walk" or deleted.endswith((".parquet", ".inflight"))


def test_a_rollback_that_loses_its_lock_does_not_complete(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    stalled = FaultyStorage(
        world.memory,
        before=lambda call: (
            world.clock.advance(61)
            if call.method == "delete" and call.paths[0].endswith(".requested")
            else None
        ),
    )

    with pytest.raises(WriterFenced):
        roll_back(world.writer(stalled), dead.instant)
    assert world.table().timeline().completed == ()

    settle(world)
    assert world.leftovers() == []


def test_an_instant_that_was_only_requested_needs_no_listing(world: World) -> None:
    world.upsert({"k": "1"})
    dead = world.begin()
    die(dead)
    world.clock.advance(LAPSE_S)
    watched = FaultyStorage(world.memory)

    roll_back(world.writer(watched), dead.instant)

    assert [c.paths for c in watched.calls if c.method == "walk"] == [
        (marker_folder(dead.instant),)
    ]
    assert world.leftovers() == []


@pytest.mark.parametrize("action", [Action.COMPACTION, Action.LOGCOMPACTION])
def test_a_rollback_of_what_is_no_write_of_ours_is_not_finished(
    world: World, action: Action
) -> None:
    """A compaction is taken back by those who run it."""
    world.upsert({"k": "1"})
    target, time = InstantTime("20231114221320500"), InstantTime("20231114221320600")
    put_instant(world, Instant(target, action, State.INFLIGHT))
    world.memory.put_if_absent("a/of-the-target.parquet", b"")
    request = RollbackRequest("a", FileId("f"), target, ("/t/a/of-the-target.parquet",))
    plan = render_rollback_plan(RollbackPlan(InstantInfo(target, action.value), (request,)))
    put_instant(world, Instant(time, Action.ROLLBACK, State.REQUESTED), plan)

    settle(world)

    assert world.memory.exists("a/of-the-target.parquet")
    assert {i.time for i in world.table().timeline().pending} == {target, time}


def test_a_failed_instant_loses_its_requested_file_last(world: World) -> None:
    """Apache Hudi, which may have to finish the rollback, fails on an inflight file alone."""
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    path = f"{world.table().config.timeline_folder}/{dead.instant}.*"
    dies = Fault(Effect.CRASH_AFTER, path=path, methods=frozenset({"delete"}))
    storage = FaultyStorage(world.memory, dies)
    with pytest.raises(SimulatedCrash):
        roll_back(world.writer(storage), dead.instant)

    (left,) = world.table().timeline().at(dead.instant)
    assert left.state is State.REQUESTED


def timeline_files_of(world: World, time: InstantTime) -> list[str]:
    """What the timeline's folder holds of an instant."""
    files = world.memory.list(world.table().config.timeline_folder)
    return sorted(file.path for file in files if file.name.startswith(time))


def test_only_later_rollbacks_are_asked_for_what_they_undid(world: World) -> None:
    dead = dead_writer(world)
    roll_back(world.writer(), dead.instant)
    watched = FaultyStorage(world.memory)
    table, timeline = world.table(watched), world.table().timeline()
    before = len(watched.calls)
    assert not was_rolled_back(table, timeline, InstantTime("20991231000000000"))
    assert watched.calls[before:] == []
    assert was_rolled_back(table, timeline, dead.instant)
