from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from pyhudi.errors import (
    CommitConflict,
    FileExists,
    HudiError,
    StorageError,
    WriteFailed,
    WriterFenced,
)
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.plans import parse_requested_replace
from pyhudi.format.properties import parse_properties
from pyhudi.locks.base import LockOwner
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.table import PROPERTIES
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import GIVEN_UP, last_beat_ms, last_words
from pyhudi.transactions.recovery.rollback import roll_back
from tests.fakes import FakeClock
from tests.transactions.world import (
    LAPSE_S,
    NEVER,
    World,
    Written,
    begin_beside,
    finish,
    footprint,
    put_file,
    schema,
    work,
)

NewWorld = Callable[..., World]


# -- the straight way


def test_a_write_walks_through_its_states_and_leaves_nothing_but_its_files(world: World) -> None:
    transaction = world.begin()
    (requested,) = world.table().timeline().pending
    written = work(transaction, {"k": "1"})
    (inflight,) = world.table().timeline().pending
    done = finish(transaction, written)

    (commit,) = world.table().timeline().completed
    assert [i.state for i in (requested, inflight, commit)] == list(State)
    assert commit.time == done.instant == requested.time
    assert done.completion_time > done.instant
    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_commits_follow_one_another(world: World) -> None:
    for n in range(4):
        world.upsert({"same": str(n), f"k{n}": "x"})

    assert world.rows() == {"same": "3", "k0": "x", "k1": "x", "k2": "x", "k3": "x"}
    times = [(i.time, i.completion_time) for i in world.table().timeline().commits]
    assert len(times) == 4
    flat = [t for pair in times for t in pair if t is not None]
    assert flat == sorted(set(flat))


def test_a_replace_takes_the_old_groups_away(world: World) -> None:
    world.upsert({"k": "1"})
    transaction = world.begin(action=Action.REPLACECOMMIT)
    requested = next(
        f for f in world.memory.walk(".hoodie") if f.name.endswith("replacecommit.requested")
    )
    assert parse_requested_replace(world.memory.read(requested.path), "") is not None
    finish(transaction, work(transaction, {"j": "2"}, overwrite=True))

    assert world.rows() == {"j": "2"}
    assert world.view().latest(world.table().timeline().commits[0].time) != []


def test_a_clock_far_behind_the_table_still_moves_forward(world: World) -> None:
    world.upsert({"k": "1"})
    behind = FakeClock(now_ms=1_000_000_000_000, seed=9)

    world.upsert({"k": "2"}, clock=behind)

    first, second = world.table().timeline().commits
    assert second.time > (first.completion_time or first.time)
    assert world.rows() == {"k": "2"}


def test_a_transaction_commits_only_after_the_seal(world: World) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})

    with pytest.raises(RuntimeError, match="inflight cannot become committed"):
        transaction.commit(CommitMetadata(), Footprint("w"))

    assert world.table().timeline().completed == ()


# -- instant times


def test_writers_that_take_one_time_for_two_actions_both_give_it_up(world: World) -> None:
    def race(call: Call) -> None:
        # The other writer requests the same time right after our first listing.
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit.requested"):
            rival = call.paths[0].replace(".commit.", ".replacecommit.")
            try:
                if not rivals:
                    world.memory.put_if_absent(rival, b"")
                    rivals.append(rival)
            except FileExists:
                pass

    rivals: list[str] = []
    transaction = world.begin(FaultyStorage(world.memory, before=race))

    assert len(rivals) == 1
    assert transaction.instant > rivals[0].rsplit("/", 1)[-1].split(".")[0]
    taken = [i for i in world.table().timeline().instants if i.action is Action.COMMIT]
    assert [i.time for i in taken] == [transaction.instant]


def test_a_time_taken_by_the_same_action_is_left_to_its_owner(world: World) -> None:
    def race(call: Call) -> None:
        if call.method == "put_if_absent" and not theirs:
            theirs.append(call.paths[0])
            world.memory.put_if_absent(call.paths[0], b"")

    theirs: list[str] = []
    transaction = world.begin(FaultyStorage(world.memory, before=race))

    assert world.memory.exists(theirs[0])
    assert transaction.instant not in theirs[0]


def test_begin_gives_up_when_every_time_is_taken(world: World) -> None:
    def race(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit.requested"):
            world.memory.put_if_absent(call.paths[0].replace(".commit.", ".clean."), b"")

    with pytest.raises(WriteFailed, match="No unused instant time"):
        world.begin(FaultyStorage(world.memory, before=race))

    actions = {i.action for i in world.table().timeline().instants}
    assert actions == {Action.CLEAN}


def test_a_begin_that_cannot_beat_requests_nothing(world: World) -> None:
    faulty = FaultyStorage(world.memory, Fault(Effect.FAIL_BEFORE, path="*/.heartbeat/*"))

    with pytest.raises(StorageError):
        world.begin(faulty)

    assert world.table().timeline().instants == ()


def test_no_write_is_on_the_timeline_before_its_heartbeat(world: World) -> None:
    """Apache Hudi's services take it for dead otherwise, and roll it back after its commit."""
    beats: list[bool] = []

    def requests(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith("commit.requested"):
            time = call.paths[0].rpartition("/")[2].partition(".")[0]
            beats.append(world.memory.exists(f"{HEARTBEATS}/{time}"))

    world.begin(FaultyStorage(world.memory, before=requests)).abort()
    assert beats == [True]


def test_a_begin_that_stood_still_behind_its_first_heartbeat_gives_up(world: World) -> None:
    def stops(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith("commit.requested"):
            world.clock.advance(200)

    with pytest.raises(WriterFenced, match="heartbeat"):
        world.begin(FaultyStorage(world.memory, before=stops))
    assert world.table().timeline().pending == ()


# -- seal and reconcile


def test_files_of_other_attempts_are_deleted_before_the_commit(world: World) -> None:
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    put_file(transaction, "a", written.stats[0].file_id, {"k": "late"}, attempt=1)
    put_file(transaction, "b", written.stats[0].file_id, {"k": "late"}, attempt=2)
    assert len(world.data_files()) == 3

    finish(transaction, written)

    assert world.data_files() == {written.stats[0].path}
    assert world.rows() == {"k": "1"}


def test_attempts_that_do_not_end_fail_the_write_and_leave_it_to_the_next_writer(
    world: World,
) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})
    asked: list[float] = []

    def ended(timeout_s: float) -> bool:
        asked.append(timeout_s)
        return False

    with pytest.raises(WriteFailed, match="had not ended after 600 s"):
        transaction.seal(ended, [])
    transaction.quiet = ended
    transaction.abort()

    assert asked == [600.0]
    assert [i.time for i in world.table().timeline().pending] == [transaction.instant]
    # The attempt ends at last; the next writer waits for the silence and takes all of it away.
    put_file(transaction, "a", "late-0", {"k": "late"})  # type: ignore[arg-type]
    before = world.clock.monotonic()
    world.upsert({"j": "2"})
    assert world.clock.monotonic() - before >= LAPSE_S - 1
    assert world.rows() == {"j": "2"}
    assert world.leftovers() == []


@pytest.mark.parametrize("in_time", [True, False])
def test_an_abort_deletes_nothing_while_attempts_may_write(world: World, in_time: bool) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})
    asked: list[float] = []

    def ended(timeout_s: float) -> bool:
        asked.append(timeout_s)
        put_file(transaction, "a", "late-0", {"k": "late"})  # type: ignore[arg-type]
        return in_time

    transaction.quiet = ended
    transaction.abort()

    assert asked == [600.0]
    assert len(world.data_files()) == (0 if in_time else 2)
    world.upsert({"j": "1"})
    assert world.leftovers() == []


@pytest.mark.parametrize("error", [HudiError("no roll-back now"), KeyboardInterrupt()])
def test_an_abort_that_cannot_roll_back_leaves_its_last_heartbeat(
    world: World, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})

    def fails() -> None:
        raise error

    monkeypatch.setattr(transaction, "_undo", fails)
    with pytest.raises(type(error)) if isinstance(error, KeyboardInterrupt) else nullcontext():
        transaction.abort()
    assert last_beat_ms(world.memory, transaction.instant) is not None


@pytest.mark.parametrize("error", [RuntimeError("Spark is gone"), KeyboardInterrupt()])
def test_an_abort_that_nobody_tells_of_the_attempts_leaves_its_last_heartbeat(
    world: World, error: BaseException
) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})

    def ended(timeout_s: float) -> bool:
        raise error

    transaction.quiet = ended
    with pytest.raises(type(error)) if isinstance(error, KeyboardInterrupt) else nullcontext():
        transaction.abort()

    words = last_words(world.memory, transaction.instant)
    assert words not in (b"", GIVEN_UP), "an attempt may still write"
    beating = [thread for thread in threading.enumerate() if transaction.instant in thread.name]
    assert not beating, "this process lives on, but the write is given up"
    assert len(world.data_files()) == 1
    world.upsert({"j": "1"})
    assert world.rows() == {"j": "1"}
    assert world.leftovers() == []


# -- other writers


def test_two_writers_of_one_group_conflict_and_the_loser_names_both(world: World) -> None:
    world.upsert({"k": "0"})
    first, second = world.begin(), begin_beside(world)
    ours, theirs = work(first, {"k": "1"}), work(second, {"k": "2"})
    won = finish(second, theirs)

    with pytest.raises(CommitConflict) as lost:
        finish(first, ours)
    first.abort()

    assert (lost.value.facts["ours"], lost.value.facts["theirs"]) == (first.instant, won.instant)
    assert first.instant in str(lost.value)
    assert won.instant in str(lost.value)
    assert world.rows() == {"k": "2"}
    assert world.leftovers() == []


@pytest.mark.parametrize("version", [8, 9])
def test_writers_of_different_groups_both_commit(new_world: NewWorld, version: int) -> None:
    world = new_world(version)
    world.upsert({"k": "0"})
    world.upsert({"j": "0"})
    first, second = world.begin(), begin_beside(world)
    ours, theirs = work(first, {"k": "1"}), work(second, {"j": "1", "new": "1"})

    finish(second, theirs)
    finish(first, ours)

    assert world.rows() == {"k": "1", "j": "1", "new": "1"}
    assert world.leftovers() == []


def test_layout_1_publishes_nothing_older_than_a_completed_commit(new_world: NewWorld) -> None:
    world = new_world(6)
    first, second = world.begin(), begin_beside(world)
    ours, theirs = work(first, {"k": "1"}), work(second, {"j": "1"})
    finish(second, theirs)

    with pytest.raises(CommitConflict, match="older than commit"):
        finish(first, ours)


def test_a_merge_target_newer_than_the_own_instant_is_refused(world: World) -> None:
    world.upsert({"k": "0"})
    transaction = world.begin()
    world.upsert({"k": "1"}, policy=NEVER)

    with pytest.raises(CommitConflict, match="changed meanwhile with a later instant time"):
        transaction.check_targets(world.view().latest())


def test_a_rolled_back_writer_cannot_publish_and_takes_its_late_files_away(world: World) -> None:
    world.upsert({"k": "0"})
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    roll_back(world.writer(), transaction.instant)
    late = put_file(transaction, "a", "late-0", {"k": "late"})  # type: ignore[arg-type]

    with pytest.raises(WriterFenced, match="rolled back by another writer"):
        finish(transaction, Written((*written.stats, late)))
    assert world.rows() == {"k": "0"}
    transaction.abort()

    assert world.leftovers() == []


def test_a_writer_rolled_back_between_its_first_files_cannot_publish(world: World) -> None:
    transaction = world.begin()
    roll_back(world.writer(), transaction.instant)
    written = work(transaction, {"k": "1"})  # its inflight file comes after the rollback

    with pytest.raises(WriterFenced):
        finish(transaction, written)
    transaction.abort()

    assert world.rows() == {}
    assert world.leftovers() == []


def test_a_writer_whose_rollback_is_pending_cannot_publish(world: World) -> None:
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    dying = FaultyStorage(world.memory, Fault(Effect.CRASH_BEFORE, path="*.rollback.inflight"))
    with pytest.raises(SimulatedCrash):
        roll_back(world.writer(dying), transaction.instant)

    with pytest.raises(WriterFenced):
        finish(transaction, written)
    transaction.abort()

    assert world.leftovers() == []
    (rollback,) = world.table().timeline().completed
    assert rollback.action is Action.ROLLBACK


@pytest.mark.parametrize("undone", ["rolled back", "silent"])
def test_a_writer_that_was_lost_while_it_compared_publishes_nothing(
    world: World, undone: str
) -> None:
    """To compare keys may take minutes; Apache Hudi's EAGER policy asks for no lock meanwhile."""
    rival = world.begin()
    transaction = begin_beside(world)
    written = work(transaction, {"k": "1"}, partition="b")
    finish(rival, work(rival, {"j": "2"}))

    def compare(theirs: Instant, metadata: CommitMetadata) -> None:
        if undone == "silent":
            transaction._heartbeat.stop(settled=False)
            world.clock.advance(LAPSE_S)
            transaction.writer.lock.release()
            transaction.writer.lock.acquire(0, LockOwner.this_process(transaction.instant))
        else:
            folder = world.table().config.timeline_folder
            ours = [f.path for f in world.memory.list(folder) if transaction.instant in f.name]
            world.memory.delete(ours)

    transaction.seal(lambda timeout_s: True, [s.path for s in written.stats])
    metadata = CommitMetadata("UPSERT", written.stats, {SCHEMA_KEY: schema("key", "value")})
    faulty = FaultyStorage(world.memory)
    transaction.writer = transaction.writer.on(world.table(faulty))
    with pytest.raises(WriterFenced):
        transaction.commit(metadata, footprint(transaction, written), compare)

    assert [c for c in faulty.writes if c.paths[0].endswith(".commit")] == []


def test_a_lapsed_heartbeat_fences(world: World) -> None:
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    world.clock.advance(LAPSE_S)

    with pytest.raises(WriterFenced, match="heartbeat"):
        finish(transaction, written)
    transaction.abort()

    assert world.rows() == {}
    assert world.leftovers() == []


@pytest.mark.parametrize("seconds", [61, 59.5], ids=["lost", "shorter than a put may take"])
def test_a_lease_that_does_not_outlast_the_put_fences(world: World, seconds: float) -> None:
    def steal(call: Call) -> None:
        # A pause after the lock was taken and before the final put.
        if call.method == "read" and call.paths[0] == PROPERTIES and armed:
            armed.clear()
            world.clock.advance(seconds)

    armed: list[bool] = []
    transaction = world.begin(FaultyStorage(world.memory, before=steal))
    written = work(transaction, {"k": "1"})
    armed.append(True)

    with pytest.raises(WriterFenced):
        finish(transaction, written)

    assert world.table().timeline().commits == ()


# -- the metadata table


def test_a_write_that_was_cancelled_commits_nothing(world: World) -> None:
    world.upsert({"k": "1"})
    transaction = world.begin()
    written = work(transaction, {"k": "2"})
    transaction.cancelled = lambda: True

    with pytest.raises(WriteFailed, match=r"was cancelled by its client .* is rolled back"):
        finish(transaction, written)
    transaction.abort()

    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_the_metadata_table_is_given_up_before_the_commit_appears(new_world: NewWorld) -> None:
    promise = {"hoodie.table.metadata.partitions": "files,column_stats"}
    world = new_world(9, promise)
    world.memory.put_if_absent(".hoodie/metadata/.hoodie/hoodie.properties", b"x")
    kept: list[str] = []

    def watch(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            raw = parse_properties(world.memory.read(PROPERTIES), PROPERTIES)
            kept.append(raw["hoodie.table.metadata.partitions"])
            kept.extend(f.path for f in world.memory.walk(".hoodie/metadata"))

    world.upsert({"k": "1"}, FaultyStorage(world.memory, before=watch))

    assert kept == [""]
    assert world.table().config.metadata_partitions == ()


def test_a_commit_that_loses_its_race_leaves_the_metadata_table_alone(new_world: NewWorld) -> None:
    world = new_world(9, {"hoodie.table.metadata.partitions": "files"})
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    world.clock.advance(LAPSE_S)

    with pytest.raises(WriterFenced):
        finish(transaction, written)

    assert world.table().config.metadata_partitions == ("files",)
