from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from pyhudi.errors import CommitConflict, TableCorrupt
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import Marker, MarkerKind, marker_folder, render_marker_list
from pyhudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
    parse_rollback_metadata,
    parse_rollback_plan,
    render_requested_replace,
)
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import list_view
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import PROBE
from pyhudi.transactions.recovery.rollback import was_rolled_back
from pyhudi.transactions.recovery.settle import FIRST_BEAT_MS, is_write, settle_failed_writes
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import Writer
from tests.fakes import FakeClock
from tests.golden_tables import BY_NAME
from tests.transactions.world import (
    LAPSE_S,
    LAZY,
    NEVER,
    POLICY,
    World,
    dead_writer,
    die,
    finish,
    put_file,
    put_instant,
    settle,
    work,
)

NewWorld = Callable[..., World]


class Watched(FakeClock):
    """A clock that does something each time that somebody sleeps on it."""

    def __init__(self, world: World, then: Callable[[], None]) -> None:
        super().__init__(now_ms=world.clock.now_ms())
        self._world, self._then = world, then

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._world.clock.advance(seconds)
        self._then()


# -- who is dead


def test_eager_waits_for_a_heartbeat_to_grow_stale_and_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    dead = dead_writer(world)
    world.clock.advance(10)
    before = world.clock.monotonic()

    with caplog.at_level(logging.WARNING):
        settle(world)

    assert LAPSE_S - 11 <= world.clock.monotonic() - before <= LAPSE_S
    assert "last beat 10000 ms ago: waiting until it beats again" in caplog.text
    assert world.table().timeline().at(dead.instant) == ()
    assert world.leftovers() == []


def test_eager_rolls_a_stale_writer_back_at_once(world: World) -> None:
    dead_writer(world)
    world.clock.advance(LAPSE_S)
    slept = len(world.clock.slept)

    settle(world)

    assert len(world.clock.slept) == slept
    assert world.leftovers() == []


def test_eager_leaves_a_writer_alone_that_beats_again(world: World) -> None:
    alive = world.begin()
    written = work(alive, {"k": "1"})
    world.clock.advance(30)
    clock = Watched(world, lambda: None)
    clock._then = lambda: alive._heartbeat.beat() if clock.monotonic() > 1_005 else None

    settle(world, clock=clock)

    assert 5 <= clock.monotonic() - 1_000 < 10
    assert [i.time for i in world.table().timeline().pending] == [alive.instant]
    finish(alive, written)
    assert world.rows() == {"k": "1"}


@pytest.mark.parametrize("commits", [True, False])
def test_eager_stops_waiting_for_a_writer_that_settles_by_itself(
    world: World, commits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    alive = world.begin()
    written = work(alive, {"k": "1"})
    done: list[int] = []

    def end() -> None:
        if not done:
            done.append(1)
            if commits:
                finish(alive, written)
            else:
                alive.abort()

    clock = Watched(world, end)
    settle(world, clock=clock)

    assert ("rolling back" in caplog.text) == (not commits)

    assert clock.monotonic() < 1_001
    assert world.rows() == ({"k": "1"} if commits else {})
    assert world.leftovers() == []


def test_a_writer_between_its_first_file_and_its_first_beat_is_given_a_moment(
    world: World,
) -> None:
    """A default Hudi writer, or one of ours that has only just begun: only time tells."""
    found: list[Transaction] = []

    def other_begins(call: Call) -> None:
        if call.method == "replace" and HEARTBEATS in call.paths[0] and not found:
            clock = Watched(world, lambda: world.memory.replace(call.paths[0], b""))
            settle(world, clock=clock)

    transaction = world.begin(FaultyStorage(world.memory, before=other_begins))
    finish(transaction, work(transaction, {"k": "1"}))

    assert world.rows() == {"k": "1"}


def test_an_instant_that_never_beats_is_rolled_back_after_that_moment(world: World) -> None:
    dead = dead_writer(world)
    world.memory.delete([f"{HEARTBEATS}/{dead.instant}"])
    before = world.clock.monotonic()

    settle(world)

    assert world.leftovers() == []
    assert world.clock.monotonic() - before <= FIRST_BEAT_MS / 1000 + 0.2


def test_an_instant_that_completes_in_that_moment_is_left_alone(world: World) -> None:
    alive = world.begin()
    written = work(alive, {"k": "1"})
    world.memory.delete([f"{HEARTBEATS}/{alive.instant}"])
    clock = Watched(world, lambda: None)
    clock._then = lambda: finish(alive, written) and None if not world.rows() else None

    settle(world, clock=clock)

    assert world.rows() == {"k": "1"}
    assert [i.action for i in world.table().timeline().instants] == [Action.COMMIT]


def test_lazy_rolls_back_only_what_is_stale(world: World) -> None:
    dead = dead_writer(world)
    settle(world, LAZY)
    assert [i.time for i in world.table().timeline().pending] == [dead.instant]
    assert len(world.clock.slept) == 0

    world.clock.advance(LAPSE_S)
    settle(world, LAZY)
    assert world.leftovers() == []


def test_lazy_takes_the_first_file_for_the_beat_of_a_writer_without_one(world: World) -> None:
    dead = dead_writer(world)
    world.memory.delete([f"{HEARTBEATS}/{dead.instant}"])

    settle(world, LAZY)
    assert len(world.table().timeline().pending) == 1

    world.clock.advance(LAPSE_S)
    settle(world, LAZY)
    assert world.leftovers() == []


def ahead(world: World, then: Callable[[], None] = lambda: None) -> FakeClock:
    """The clock of a machine whose wall clock is an hour ahead of the storage's."""
    clock = Watched(world, then)
    clock.skew(3_600)
    return clock


def test_a_wall_clock_that_is_ahead_takes_no_living_writer_for_dead(world: World) -> None:
    alive = world.begin()
    written = work(alive, {"k": "1"})
    world.clock.advance(1)

    settle(world, LAZY, ahead(world))
    settle(world, clock=ahead(world, alive._heartbeat.beat))
    world.memory.delete([f"{HEARTBEATS}/{alive.instant}"])
    settle(world, LAZY, ahead(world))
    settle(world, clock=ahead(world, alive._heartbeat.beat))

    assert [i.time for i in world.table().timeline().pending] == [alive.instant]
    finish(alive, written)
    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_a_wall_clock_that_is_ahead_still_finds_the_dead(world: World) -> None:
    dead_writer(world)
    before = world.clock.monotonic()

    settle(world, clock=ahead(world))

    assert LAPSE_S - 1 <= world.clock.monotonic() - before <= LAPSE_S + 1
    assert world.leftovers() == []


def test_what_asked_for_the_storages_time_is_swept_up(world: World) -> None:
    world.memory.replace(f"{HEARTBEATS}/{PROBE}left-by-a-crash", b"")

    settle(world)

    assert world.leftovers() == []
    assert world.memory.list(HEARTBEATS) == []


def test_never_leaves_everything(world: World) -> None:
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    before = [f.path for f in world.memory.walk("")]

    settle(world, NEVER)

    assert [f.path for f in world.memory.walk("")] == before
    assert world.table().timeline().pending[0].time == dead.instant


def test_a_timeline_is_handed_on_only_where_nothing_was_pending(world: World) -> None:
    """What was listed before a wait or a rollback is old by then."""
    world.upsert({"k": "1"})
    listed = settle(world)
    assert listed is not None
    assert listed == world.table().timeline()

    dead_writer(world)
    world.clock.advance(LAPSE_S)
    assert settle(world) is None

    world.begin()
    assert settle(world, LAZY) is None
    assert settle(world, NEVER) is None


# -- what is no write of ours


def pending_clustering(world: World, time: str) -> InstantTime:
    """A clustering, requested and inflight, over every group that there is."""
    slices = tuple(
        ClusteringSlice(f.path, (), f.file_id, f.partition_path) for f in world.view().latest()
    )
    plan = RequestedReplace("CLUSTER", ClusteringPlan((ClusteringGroup(slices),)))
    action = Action.REPLACECOMMIT if world.version == 6 else Action.CLUSTERING
    found = InstantTime(time)
    put_instant(world, Instant(found, action, State.REQUESTED), render_requested_replace(plan))
    put_instant(world, Instant(found, action, State.INFLIGHT))
    return found


def test_a_pending_clustering_is_left_alone_in_both_layouts(world: World) -> None:
    world.upsert({"k": "1"})
    time = pending_clustering(world, "20231201000000000")
    world.clock.advance(10 * LAPSE_S)

    settle(world)

    assert [i.time for i in world.table().timeline().pending] == [time]


def test_a_pending_overwrite_is_rolled_back_in_both_layouts(world: World) -> None:
    world.upsert({"k": "1"})
    dead = world.begin(action=Action.REPLACECOMMIT)
    work(dead, {"k": "2"}, overwrite=True)
    die(dead)
    world.clock.advance(LAPSE_S)

    settle(world)

    assert world.leftovers() == []
    assert world.rows() == {"k": "1"}


def test_groups_under_a_pending_clustering_cannot_be_changed_but_others_can(
    world: World,
) -> None:
    world.upsert({"k": "1"})
    pending_clustering(world, "20231114221320001")

    with pytest.raises(CommitConflict, match="clustering 20231114221320001 conflict") as told:
        world.upsert({"k": "2"})
    (group,) = {(f.partition_path, f.file_id) for f in world.view().latest()}
    assert told.value.facts["theirs"] == "20231114221320001"
    assert told.value.facts["overlap"] == (group,)
    assert told.value.pending, "a stream waits longer for it"
    assert "/".join(group) in str(told.value)
    world.upsert({"j": "1"})

    assert world.rows() == {"k": "1", "j": "1"}


@pytest.mark.parametrize("action", [Action.CLEAN, Action.COMPACTION, Action.LOGCOMPACTION])
def test_pending_services_are_left_alone(world: World, action: Action) -> None:
    time = InstantTime("20231201000000000")
    put_instant(world, Instant(time, action, State.REQUESTED))
    timeline = world.table().timeline()
    assert not is_write(world.table(), timeline, timeline.pending[0])
    world.clock.advance(10 * LAPSE_S)

    settle(world)

    assert [i.action for i in world.table().timeline().pending] == [action]


# -- sweeping up


def test_a_late_file_of_a_rolled_back_write_is_swept_up(world: World) -> None:
    """Were it left, it would count as data once archival has passed its instant."""
    dead = dead_writer(world)
    world.clock.advance(LAPSE_S)
    settle(world)
    put_file(dead, "a", FileId("late-0"), {"k": "late"})
    assert len(world.data_files()) == 1

    settle(world)

    assert world.leftovers() == []


def test_marked_files_of_an_instant_that_nobody_knows_are_kept(world: World) -> None:
    """It may have been archived: its files may be data."""
    dead = dead_writer(world)
    folder = world.table().config.timeline_folder
    timeline = [f.path for f in world.memory.list(folder) if dead.instant in f.name]
    world.memory.delete(timeline)
    world.clock.advance(LAPSE_S)
    world.upsert({"j": "1"}, policy=NEVER)
    assert world.memory.walk(marker_folder(dead.instant)) != []
    beat = f"{HEARTBEATS}/{dead.instant}"
    before = [f.path for f in world.memory.walk("") if f.path != beat]

    settle(world)

    assert [f.path for f in world.memory.walk("")] == before


def test_a_heartbeat_without_an_instant_stays_until_it_is_stale(world: World) -> None:
    """A writer beats before it requests its instant; it may die in between."""
    left = f"{HEARTBEATS}/20240101000000000"
    world.memory.replace(left, b"")
    world.clock.advance(LAPSE_S - 1)
    settle(world)
    assert world.memory.exists(left)
    world.clock.advance(1)
    settle(world)
    assert not world.memory.exists(left)


def test_the_markers_of_a_pending_write_are_kept(world: World) -> None:
    alive = world.begin()
    written = work(alive, {"k": "1"})
    put_file(alive, "b", FileId("stray-0"), {"k": "stray"})

    settle(world, LAZY)
    assert len(world.memory.walk(marker_folder(alive.instant))) == 2

    finish(alive, written)
    assert world.leftovers() == []


# -- tables that Hudi left in the middle of a write


@pytest.fixture
def golden_storage() -> Iterator[Callable[[str], MemoryStorage]]:
    def load(name: str) -> MemoryStorage:
        storage = MemoryStorage(f"memory:/{name}")
        for path, data in BY_NAME[name].files().items():
            storage.put_if_absent(path, data)
        return storage

    return load


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("h120_v9-cow_crash_direct.midfail", 1),
        ("h120_v9-cow_crash_timeli.midfail", 1),
        ("h120_v9-cow_failed.midfail", 0),
    ],
)
def test_what_hudi_left_half_done_is_settled_and_no_visible_file_is_touched(
    golden_storage: Callable[[str], MemoryStorage], name: str, files: int
) -> None:
    storage = golden_storage(name)
    table = open_table(storage)
    (failed,) = table.timeline().pending
    seen = list_view(storage, table.timeline()).latest()
    before = {f.path for f in storage.walk("") if parse_base_file_name(f.name)}
    clock = FakeClock(now_ms=1_900_000_000_000)

    lock = InProcessLock(InProcessLocks(), "t", clock)
    settle_failed_writes(Writer(table, lock, clock, POLICY))

    timeline = table.timeline()
    after = {f.path for f in storage.walk("") if parse_base_file_name(f.name)}
    assert len(before - after) == files
    assert all(failed.time in path for path in before - after)
    assert not any(failed.time in path for path in after)
    assert list_view(storage, timeline).latest() == seen
    assert timeline.pending == ()
    assert storage.walk(".hoodie/.temp") == []
    assert was_rolled_back(table, timeline, failed.time)


@pytest.mark.parametrize("kind", ["direct", "timeli"])
def test_our_rollback_does_to_a_crashed_table_what_hudis_does(
    golden_storage: Callable[[str], MemoryStorage], kind: str
) -> None:
    ours = golden_storage(f"h120_v9-cow_crash_{kind}.midfail")
    theirs = golden_storage(f"h120_v9-cow_crash_{kind}.rolledback")
    clock = FakeClock(now_ms=1_900_000_000_000)
    table = open_table(ours)
    lock = InProcessLock(InProcessLocks(), "t", clock)
    settle_failed_writes(Writer(table, lock, clock, POLICY))

    def rolled_back(storage: MemoryStorage) -> tuple[object, ...]:
        table = open_table(storage)
        timeline = table.timeline()
        (done,) = [i for i in timeline.completed if i.action is Action.ROLLBACK]
        metadata = parse_rollback_metadata(storage.read(timeline.file_of(done)), "")
        requested = Instant(done.time, Action.ROLLBACK, State.REQUESTED)
        plan = parse_rollback_plan(storage.read(timeline.file_of(requested)), "")
        deleted = {
            partition: {f.rsplit("/", 1)[-1] for f in found.success_delete_files}
            for partition, found in metadata.partition_metadata.items()
        }
        target = plan.instant_to_rollback
        assert target is not None
        planned = {(r.partition_path, len(r.files_to_be_deleted)) for r in plan.requests}
        gone = {i.time for i in timeline.instants}
        return (
            metadata.commits_rollback,
            deleted,
            target.action,
            planned,
            target.commit_time in gone,
        )

    assert rolled_back(ours) == rolled_back(theirs)


def test_a_broken_list_of_markers_stops_the_rollback_before_it_deletes(world: World) -> None:
    dead = world.begin()
    work(dead, {"k": "1"})
    die(dead)
    folder = marker_folder(dead.instant)
    good = render_marker_list([Marker("a/x.parquet", MarkerKind.CREATE)])
    world.memory.put_if_absent(f"{folder}/MARKERS0", b"no marker\n" + good)
    world.clock.advance(LAPSE_S)
    before = world.data_files()

    with pytest.raises(TableCorrupt, match="one marker"):
        settle(world)

    assert world.data_files() == before
