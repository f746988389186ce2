"""Writes beside Apache Hudi's restores and rollbacks of completed commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from pyhudi.errors import CommitConflict, CommitUnknown, WriterFenced
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import marker_folder
from pyhudi.format.plans import InstantInfo, RestorePlan, render_restore_plan
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.conflicts.judgement import check_conflicts
from pyhudi.transactions.transaction import Transaction
from tests.archiver import archive
from tests.transactions.world import (
    LAZY,
    NEVER,
    POLICY,
    World,
    die,
    finish,
    footprint,
    put_file,
    put_instant,
    schema,
    settle,
    work,
)
from tests.undoing import Step, Undoing

NewWorld = Callable[..., World]
LATE = InstantTime("20991231000000000")


def the_only_commit(world: World) -> Iterator[Step]:
    """The first commit of the active timeline is rolled back."""
    only = world.upsert({"k": "undone", "j": "1"})
    return Undoing(world.table()).rollback(only.instant)


def the_first_after_an_archival(world: World) -> Iterator[Step]:
    old, last = world.upsert({"k": "1", "j": "1"}), world.upsert({"k": "undone"})
    archive(world.table(), old.instant)
    return Undoing(world.table()).rollback(last.instant)


def the_last_of_two(world: World) -> Iterator[Step]:
    world.upsert({"k": "1", "j": "1"})
    last = world.upsert({"k": "undone"})
    return Undoing(world.table()).rollback(last.instant)


def all_after_a_savepoint(world: World) -> Iterator[Step]:
    saved = world.upsert({"k": "1", "j": "1"})
    completion = saved.completion_time if world.version > 6 else None
    put_instant(world, Instant(saved.instant, Action.SAVEPOINT, State.COMPLETED, completion))
    later = [world.upsert({"k": "undone"}).instant for _ in range(2)]
    return Undoing(world.table()).restore(saved.instant, later[::-1])


CASES = [the_only_commit, the_first_after_an_archival, the_last_of_two, all_after_a_savepoint]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_no_undone_row_returns_whenever_a_write_begins_and_commits(
    new_world: NewWorld, version: int, case: Callable[[World], Iterator[Step]]
) -> None:
    count = len(list(case(new_world(version))))
    for commits in range(1, count + 1):
        for begins in range(commits + 1):
            world = new_world(version)
            steps = list(case(world))
            world.clock.advance(7_200)
            for step in steps[:begins]:
                step()
            done = written_over(world, steps[begins:commits])
            for step in steps[commits:]:
                step()
            rows, where = world.rows(), f"began at {begins}, ended at {commits} of {count}"
            assert rows.get("k") != "undone", where
            assert (rows.get("j") == "ours") == done, where
            assert done or begins < count, where


def written_over(world: World, meanwhile: list[Step]) -> bool:
    """Whether a write of the other row of the file is acknowledged, ``meanwhile`` in its midst."""
    try:
        ours = world.begin(policy=NEVER)
    except CommitConflict:
        for step in meanwhile:
            step()
        return False
    try:
        mine = work(ours, {"j": "ours"})
        for step in meanwhile:
            step()
        finish(ours, mine)
    except (CommitConflict, FileNotFoundError):
        ours.abort()
        return False
    return True


def played(world: World, steps: Iterator[Step], count: int) -> None:
    for _, step in zip(range(count), steps, strict=False):
        step()


@pytest.mark.parametrize("policy", [POLICY, LAZY, NEVER], ids=["eager", "lazy", "never"])
def test_a_write_does_not_begin_while_a_restore_is_pending(
    new_world: NewWorld, policy: object
) -> None:
    world = new_world(9)
    played(world, all_after_a_savepoint(world), 5)
    world.clock.advance(7_200)
    before = [f.path for f in world.memory.walk("")]

    with pytest.raises(CommitConflict, match="restore 20231114231320000 .*pyhudi.restore") as e:
        world.begin(policy=policy)  # type: ignore[arg-type]

    assert e.value.facts["theirs"] == "20231114231320000"
    assert [f.path for f in world.memory.walk("")] == before


def test_settling_leaves_the_rollbacks_of_a_pending_restore_to_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """They look like rollbacks of failed writes once the commits' completed files are gone."""
    played(world, all_after_a_savepoint(world), 6)
    world.clock.advance(7_200)
    before = [f.path for f in world.memory.walk("")]

    with caplog.at_level(logging.WARNING):
        assert settle(world) is None

    assert [f.path for f in world.memory.walk("")] == before
    assert "restore 20231114231320000 is pending" in caplog.text


def test_a_write_does_not_begin_on_a_commit_that_is_being_rolled_back(world: World) -> None:
    played(world, the_last_of_two(world), 1)
    world.clock.advance(7_200)

    with pytest.raises(CommitConflict, match="rollback 20231114231320000 of it is pending"):
        world.begin()
    assert [i.action for i in world.table().timeline().pending] == [Action.ROLLBACK]


def test_a_restore_that_was_pending_and_vanished_is_a_conflict(world: World) -> None:
    """Nobody can tell any more what it has undone."""
    world.upsert({"k": "1"})
    time = InstantTime("20231114231320000")
    put_instant(world, Instant(time, Action.RESTORE, State.INFLIGHT))
    loaded = world.table().timeline()
    folder = world.table().config.timeline_folder
    world.memory.delete([f.path for f in world.memory.list(folder) if f.name.startswith(time)])

    with pytest.raises(CommitConflict, match="restore"):
        check_conflicts(
            world.table(), loaded, world.table().timeline(), LATE, Footprint("upsert X")
        )


def test_a_commit_under_a_savepoint_that_is_no_target_stops_nobody(world: World) -> None:
    """A savepoint has the time of its commit: it is no commit that a rollback undoes."""
    done = world.upsert({"k": "1"})
    dead = world.begin()
    work(dead, {"k": "2"})
    completion = done.completion_time if world.version > 6 else None
    put_instant(world, Instant(dead.instant, Action.SAVEPOINT, State.COMPLETED, completion))
    played(world, Undoing(world.table()).rollback(dead.instant), 1)
    loaded = world.table().timeline()

    check_conflicts(world.table(), loaded, loaded, LATE, Footprint("upsert X"))


@pytest.mark.parametrize("answered", [True, False])
def test_a_restore_that_comes_beside_the_final_put_is_told(world: World, answered: bool) -> None:
    """By a program that takes no lock of ours; what got no answer is not sent again beside it."""
    steps = all_after_a_savepoint(world)
    world.clock.advance(7_200)

    def request(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            next(steps, lambda: None)()

    lost = () if answered else (Fault(Effect.LOSE_REQUEST, path="*.commit"),)
    ours = world.begin(FaultyStorage(world.memory, *lost, before=request), policy=NEVER)
    mine = work(ours, {"j": "ours"})

    with pytest.raises(CommitUnknown, match="20231114231320000"):
        finish(ours, mine)


def test_a_restore_that_comes_while_commits_are_compared_is_a_conflict(world: World) -> None:
    steps = all_after_a_savepoint(world)
    world.clock.advance(7_200)
    rival, ours = world.begin(policy=NEVER), world.begin(policy=NEVER)
    mine = work(ours, {"j": "ours"})
    finish(rival, work(rival, {"z": "1"}, partition="z"))
    ours.seal(lambda timeout_s: True, [s.path for s in mine.stats])

    with pytest.raises(CommitConflict, match="restore 20231114231320000"):
        ours.commit(
            CommitMetadata("UPSERT", mine.stats, {SCHEMA_KEY: schema("key", "value")}),
            footprint(ours, mine),
            lambda *_: next(steps, lambda: None)(),
        )
    ours.abort()


# -- plans that cannot be read


def torn(data: bytes) -> list[bytes]:
    return [b"", data[: len(data) // 2], data[:-1]]


RESTORE = render_restore_plan(RestorePlan((InstantInfo(InstantTime("1"), "commit"),), "1"))


@pytest.mark.parametrize("data", torn(RESTORE), ids=["empty", "half", "almost"])
def test_a_restore_that_was_only_requested_and_is_torn_has_undone_nothing(
    world: World, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    time = InstantTime("20231114231320000")
    put_instant(world, Instant(time, Action.RESTORE, State.REQUESTED), data)

    world.upsert({"k": "1"})

    assert world.rows() == {"k": "1"}
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("data", torn(RESTORE), ids=["empty", "half", "almost"])
def test_a_restore_that_has_begun_stops_writes_whatever_its_plan(world: World, data: bytes) -> None:
    time = InstantTime("20231114231320000")
    put_instant(world, Instant(time, Action.RESTORE, State.REQUESTED), data)
    put_instant(world, Instant(time, Action.RESTORE, State.INFLIGHT))

    with pytest.raises(CommitConflict, match="restore 20231114231320000"):
        world.upsert({"k": "1"})


def test_a_rollback_without_a_plan_that_came_meanwhile_may_be_of_this_write(world: World) -> None:
    """The write that is run again is above it."""
    ours = world.begin()
    mine = work(ours, {"k": "1"})
    time = InstantTime(str(int(ours.instant) + 1))
    put_instant(world, Instant(time, Action.ROLLBACK, State.REQUESTED), b"")

    with pytest.raises(CommitConflict, match=f"rollback {time}"):
        finish(ours, mine)
    ours.abort()
    world.clock.advance(60)
    world.upsert({"k": "2"})

    assert world.rows() == {"k": "2"}


def test_a_write_that_is_rolled_back_itself_is_fenced(world: World) -> None:
    ours: Transaction = world.begin()
    mine = work(ours, {"k": "1"})
    played(world, Undoing(world.table()).rollback(ours.instant), 1)

    with pytest.raises(WriterFenced):
        finish(ours, mine)


def test_a_file_that_comes_after_the_restore_of_its_write_is_no_row(world: World) -> None:
    """Found by the explorer: older than the first commit that follows, it counted as archived."""
    first, saved = world.upsert({"k": "1"}).instant, world.upsert({"k": "2"}).instant
    done = InstantTime(str(int(saved) + 1)) if world.version > 6 else None
    put_instant(world, Instant(saved, Action.SAVEPOINT, State.COMPLETED, done))
    archive(world.table(), first)
    slow = world.begin()
    written = work(slow, {"new": "1"})
    for step in Undoing(world.table(), InstantTime("20240101000000000")).restore(
        saved, [slow.instant]
    ):
        step()
    late = put_file(slow, "a", FileId("late-0"), {"new": "1"})
    world.memory.delete_folder(marker_folder(slow.instant))
    world.clock.advance(365 * 24 * 3600)
    die(slow)

    shown = _shown(world)
    world.upsert({"other": "1"})

    assert late.path not in shown | _shown(world)
    assert written.stats[0].path not in _shown(world)


def _shown(world: World) -> set[str]:
    table = world.table()
    VIEWS.forget(table.storage)
    return {file.path for file in table.view(table.timeline()).latest()}
