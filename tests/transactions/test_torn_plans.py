"""Plans and records of table services that a crash left empty or half: they stop no write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import marker_folder
from pyhudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    InstantInfo,
    RequestedReplace,
    RollbackMetadata,
    RollbackPlan,
    parse_cleaner_plan,
    parse_requested_replace,
    parse_restore_plan,
    parse_rollback_metadata,
    parse_rollback_plan,
    render_requested_replace,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.services.failed_writes import Outcome, settle_and_tell
from pyhudi.timeline.pending import pending_clusterings
from pyhudi.timeline.tail import table_commits
from pyhudi.transactions.recovery.rollback import was_rolled_back
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.transactions.world import (
    LAPSE_S,
    LAZY,
    NEVER,
    POLICY,
    World,
    dead_writer,
    finish,
    other_lock,
    put_instant,
    settle,
    work,
)

NewWorld = Callable[..., World]
OLD = InstantTime("20231101000000000")
TARGET = InstantInfo(InstantTime("20231031000000000"), "commit")
WHOLE = render_rollback_plan(RollbackPlan(TARGET))
CLUSTERING = render_requested_replace(
    RequestedReplace(
        "CLUSTER", ClusteringPlan((ClusteringGroup((ClusteringSlice("f", (), "g", "a"),)),))
    )
)
TORN = {"empty": b"", "one byte": b"O", "half": WHOLE[: len(WHOLE) // 2], "noise": b"\0" * 99}
POLICIES = {"eager": POLICY, "early": replace(NEVER, early=True)}

#: pending instants that have, or should have, something in their file
PENDING = [
    (Action.ROLLBACK, State.REQUESTED),
    (Action.REPLACECOMMIT, State.REQUESTED),
    (Action.CLEAN, State.REQUESTED),
    (Action.CLEAN, State.INFLIGHT),
    (Action.COMPACTION, State.REQUESTED),
    (Action.LOGCOMPACTION, State.REQUESTED),
    (Action.DELTACOMMIT, State.INFLIGHT),
    (Action.COMMIT, State.INFLIGHT),
    (Action.RESTORE, State.REQUESTED),
    (Action.SAVEPOINT, State.INFLIGHT),
    (Action.INDEXING, State.REQUESTED),
]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("data", TORN.values(), ids=TORN)
@pytest.mark.parametrize(("action", "state"), [*PENDING, (Action.CLUSTERING, State.REQUESTED)])
def test_a_torn_plan_of_any_service_stops_no_write(
    new_world: NewWorld, action: Action, state: State, data: bytes, policy: WriterPolicy
) -> None:
    for version in (6, 8, 9):
        if action is Action.CLUSTERING and version == 6:
            continue  # a replace commit there
        world = new_world(version)
        world.upsert({"k": "1"})
        put_instant(world, Instant(OLD, action, state), data)

        for value in ("2", "3"):
            ours = world.begin(policy=policy)
            groups = [(f.partition_path, f.file_id) for f in world.view().latest()]
            ours.check_updates(groups)
            finish(ours, work(ours, {"k": value}))

        assert world.rows() == {"k": "3"}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("data", TORN.values(), ids=TORN)
def test_a_torn_plan_of_a_service_is_left_alone_and_told(
    new_world: NewWorld, version: int, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody rolls back what may be a service; empty ones of version 6 are overwrites'."""
    world = new_world(version)
    action = Action.REPLACECOMMIT if version == 6 else Action.CLUSTERING
    put_instant(world, Instant(OLD, action, State.REQUESTED), data or b"\0")
    put_instant(world, Instant(OLD, action, State.INFLIGHT))
    world.clock.advance(10 * LAPSE_S)

    with caplog.at_level(logging.WARNING):
        told = settle_and_tell(world.writer())
        world.upsert({"k": "1"})

    assert [(w.instant, w.outcome) for w in told] == [(OLD, Outcome.NOT_OURS)]
    assert [i.time for i in world.table().timeline().pending] == [OLD]
    assert "cannot be read" in caplog.text


def test_a_torn_replace_commit_of_version_6_holds_the_fence(new_world: NewWorld) -> None:
    """It may be a slow overwrite: what comes behind it must not be passed over."""
    world = new_world(6)
    world.upsert({"k": "1"})
    put_instant(world, Instant(OLD, Action.REPLACECOMMIT, State.REQUESTED), b"torn")

    assert pending_clusterings(world.table(), world.table().timeline()) == frozenset()
    assert table_commits(world.table(), None).fence == OLD


@pytest.mark.parametrize("data", TORN.values(), ids=TORN)
def test_a_torn_record_of_a_rollback_stops_no_write_and_proves_nothing(
    world: World, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """What it says to be undone is unknown, so nothing is deleted for it."""
    dead = dead_writer(world)
    folder = world.table().config.timeline_folder
    world.memory.delete([f.path for f in world.memory.list(folder) if dead.instant in f.name])
    time = InstantTime("20231114231320000")
    completion = time if world.version > 6 else None
    put_instant(world, Instant(time, Action.ROLLBACK, State.COMPLETED, completion), data)
    world.clock.advance(2 * 3_600)
    before = world.data_files()

    settle(world)
    world.upsert({"j": "1"}, policy=LAZY)

    assert before <= world.data_files()
    assert world.memory.walk(marker_folder(dead.instant)) != []
    assert "does not tell what it undid" in caplog.text
    assert not was_rolled_back(world.table(), world.table().timeline(), dead.instant)


def test_a_torn_record_hides_no_other_rollback_of_the_same_instant(world: World) -> None:
    dead = dead_writer(world)
    torn = InstantTime(str(int(dead.instant) + 1))
    completion = torn if world.version > 6 else None
    put_instant(world, Instant(torn, Action.ROLLBACK, State.COMPLETED, completion))
    world.clock.advance(LAPSE_S)

    settle(world)

    assert was_rolled_back(world.table(), world.table().timeline(), dead.instant)


def test_what_became_of_failed_writes_is_told_beside_a_torn_record(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    time = InstantTime("20231114231320000")
    completion = time if world.version > 6 else None

    class Beside(type(other_lock(world))):  # type: ignore[misc]
        def release(self) -> None:
            super().release()
            if not world.table().timeline().at(time):
                done = Instant(time, Action.ROLLBACK, State.COMPLETED, completion)
                put_instant(world, done)

    lock = other_lock(world)
    lock.__class__ = Beside
    (told,) = settle_and_tell(Writer(world.table(), lock, world.clock, POLICY))

    assert (told.instant, told.outcome) == (dead.instant, Outcome.ROLLED_BACK)
    assert told.files_deleted == 1


@pytest.mark.parametrize(
    ("parse", "whole"),
    [
        (parse_rollback_plan, WHOLE),
        (parse_requested_replace, CLUSTERING),
        (
            parse_rollback_metadata,
            render_rollback_metadata(RollbackMetadata("1", 1, 1, ("2",), {}, (TARGET,))),
        ),
        (parse_restore_plan, WHOLE),
        (parse_cleaner_plan, WHOLE),
    ],
)
def test_each_beginning_of_a_file_is_told_as_corrupt(
    parse: Callable[[bytes, str], object], whole: bytes
) -> None:
    # An empty request is what old writers leave for overwrites.
    for length in range(1, len(whole) - 1):
        with pytest.raises(TableCorrupt):
            parse(whole[:length], "f")
