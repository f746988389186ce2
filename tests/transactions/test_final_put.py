"""The put that decides a commit, with its three outcomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.errors import CommitConflict, CommitUnknown, StorageError, WriterFenced
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage
from pyhudi.transactions.phases import Phase
from pyhudi.transactions.publish import check_alive
from tests.fakes import FakeClock
from tests.transactions.world import (
    NEVER,
    World,
    begin_beside,
    finish,
    footprint,
    put_instant,
    schema,
    work,
)

TIME = InstantTime("20240101000000000")
NewWorld = Callable[..., World]


def completed_file(world: World) -> str:
    return "*_*.commit" if world.version > 6 else "*[0-9].commit"


def test_a_lost_reply_at_the_final_put_is_settled_by_a_look(world: World) -> None:
    faulty = FaultyStorage(world.memory, Fault(Effect.LOSE_REPLY, path=completed_file(world)))

    done = world.upsert({"k": "1"}, faulty)

    puts = [c.paths[0] for c in faulty.writes if c.paths[0].endswith(".commit")]
    assert len(puts) == 1
    assert [i.time for i in world.table().timeline().commits] == [done.instant]
    assert world.rows() == {"k": "1"}


def test_a_lost_request_is_sent_again_under_the_same_name_though_the_first_lands_late(
    world: World,
) -> None:
    sent: list[str] = []

    def before(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            sent.append(call.paths[0])
            if len(sent) == 2:
                world.memory.put_if_absent(sent[0], b"{}")

    faulty = FaultyStorage(
        world.memory, Fault(Effect.LOSE_REQUEST, path=completed_file(world)), before=before
    )

    done = world.upsert({"k": "1"}, faulty)

    assert len(sent) == 2
    assert len(set(sent)) == 1
    assert [i.time for i in world.table().timeline().commits] == [done.instant]


def test_a_commit_whose_put_is_never_answered_is_unknown_and_nothing_is_deleted(
    world: World,
) -> None:
    faulty = FaultyStorage(
        world.memory, Fault(Effect.LOSE_REQUEST, path=completed_file(world), times=3)
    )
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown) as unknown:
        finish(transaction, written)
    transaction.abort()

    assert unknown.value.facts["path"] in {c.paths[0] for c in faulty.writes}
    assert world.data_files() == {written.stats[0].path}
    assert world.memory.walk(".hoodie/.temp") != []
    assert [f.name for f in world.memory.list(".hoodie/.heartbeat")] == [transaction.instant]
    # Its beat stays and grows old, so that a later writer may judge it: here it never landed.
    world.upsert({"j": "2"})
    assert world.rows() == {"j": "2"}
    assert world.leftovers() == []


def test_a_commit_that_cannot_even_be_looked_for_is_unknown(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.LOSE_REQUEST, path=completed_file(world), times=3),
        Fault(
            Effect.FAIL_BEFORE, path=completed_file(world), methods=frozenset({"exists"}), times=9
        ),
    )
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown):
        finish(transaction, written)
    transaction.abort()

    assert world.data_files() == {written.stats[0].path}


def test_an_unanswered_put_that_landed_is_found_by_looking(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.LOSE_REPLY, path=completed_file(world)),
        Fault(Effect.LOSE_REQUEST, at=2, path=completed_file(world), times=2),
    )

    world.upsert({"k": "1"}, faulty)

    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_a_refusal_after_an_unanswered_put_leaves_the_outcome_unknown(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.LOSE_REQUEST, path=completed_file(world)),
        Fault(Effect.FAIL_BEFORE, at=2, path=completed_file(world), times=9),
    )
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown):
        finish(transaction, written)
    transaction.abort()

    assert world.data_files() == {written.stats[0].path}


def test_a_put_that_is_refused_is_a_known_failure(world: World) -> None:
    faulty = FaultyStorage(
        world.memory, Fault(Effect.FAIL_BEFORE, path=completed_file(world), times=9)
    )

    with pytest.raises(StorageError) as refused:
        world.upsert({"k": "1"}, faulty)

    assert not isinstance(refused.value, CommitUnknown)
    assert world.leftovers() == []


def test_an_interrupt_in_the_final_put_deletes_nothing(world: World) -> None:
    def interrupt(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            raise KeyboardInterrupt

    transaction = world.begin(FaultyStorage(world.memory, before=interrupt))
    written = work(transaction, {"k": "1"})

    with pytest.raises(KeyboardInterrupt):
        finish(transaction, written)
    transaction.abort()

    assert transaction.phase is Phase.UNKNOWN
    assert world.data_files() == {written.stats[0].path}


def test_a_lost_clean_up_does_not_fail_a_commit(world: World) -> None:
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.FAIL_BEFORE, path=".hoodie/.temp/*", methods=frozenset({"delete_folder"})),
    )

    world.upsert({"k": "1"}, faulty)
    assert world.memory.walk(".hoodie/.heartbeat") == []
    assert world.memory.walk(".hoodie/.temp") != []

    world.upsert({"j": "1"})
    assert world.rows() == {"k": "1", "j": "1"}
    assert world.leftovers() == []


def at_the_final_put(world: World, number: int, act: Callable[[], None]) -> Callable[[Call], None]:
    """A hook that does ``act`` right before the final put is sent for the ``number``-th time."""
    sent = 0

    def before(call: Call) -> None:
        nonlocal sent
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            sent += 1
            if sent == number:
                act()

    return before


def test_a_put_is_not_sent_again_where_the_lease_may_end_before_it_lands(world: World) -> None:
    """The lease is a minute here, and a put may take a second."""
    faulty = FaultyStorage(
        world.memory,
        Fault(Effect.LOSE_REQUEST, path=completed_file(world)),
        before=at_the_final_put(world, 1, lambda: world.clock.advance(59.5)),
    )
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match=r"not sent again.*\[WRITER_FENCED\]"):
        finish(transaction, written)

    assert len([c for c in faulty.writes if c.paths[0].endswith(".commit")]) == 1
    assert transaction.phase is Phase.UNKNOWN
    assert world.data_files() == {written.stats[0].path}


def test_a_put_is_not_sent_again_over_what_completed_since_it_was_judged(world: World) -> None:
    """By a program that does not take the lock."""
    world.upsert({"k": "0"})
    rival = begin_beside(world)
    theirs = work(rival, {"k": "2"})

    def overtake() -> None:
        rival.writer = replace(rival.writer, lock=InProcessLock(InProcessLocks(), "t", world.clock))
        finish(rival, theirs)

    lost = Fault(Effect.LOSE_REQUEST, path=completed_file(world))

    def before(call: Call) -> None:
        looks = call.method == "exists" and call.paths[0].endswith(".commit")
        if looks and rival.phase is Phase.INFLIGHT:
            overtake()

    faulty = FaultyStorage(world.memory, lost, before=before)
    transaction = world.begin(faulty, policy=NEVER)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match="not sent again") as unknown:
        finish(transaction, written)

    assert rival.instant in str(unknown.value)
    assert world.rows() == {"k": "2"}


def test_the_keys_of_what_came_beside_the_final_put_are_compared_as_well(world: World) -> None:
    world.upsert({"k": "0"})
    rival = begin_beside(world)
    theirs = work(rival, {"new": "2"})

    def overtake() -> None:
        rival.writer = replace(rival.writer, lock=InProcessLock(InProcessLocks(), "t", world.clock))
        finish(rival, theirs)

    faulty = FaultyStorage(world.memory, before=at_the_final_put(world, 1, overtake))
    ours = world.begin(faulty, policy=NEVER)
    mine = work(ours, {"new": "1"}, partition="b")
    ours.seal(lambda timeout_s: True, [s.path for s in mine.stats])

    def same_key(theirs: Instant, metadata: CommitMetadata) -> None:
        raise CommitConflict("both brought 'new'", theirs=theirs.time, overlap=("new",))

    metadata = CommitMetadata("UPSERT", mine.stats, {SCHEMA_KEY: schema("key", "value")})
    with pytest.raises(CommitUnknown, match="both changed new"):
        ours.commit(metadata, footprint(ours, mine), same_key)


def test_a_put_is_not_sent_again_once_somebody_rolls_the_write_back(world: World) -> None:
    """As Apache Hudi's EAGER policy does, which does not wait for the lock."""

    def undo(call: Call) -> None:
        if call.method == "exists" and call.paths[0].endswith(".commit"):
            world.memory.delete(timeline_files(world, transaction.instant))

    lost = Fault(Effect.LOSE_REQUEST, path=completed_file(world))
    faulty = FaultyStorage(world.memory, lost, before=undo)
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match="not sent again"):
        finish(transaction, written)

    assert world.rows() == {}


def test_nothing_is_put_by_a_write_whose_rollback_has_begun(world: World) -> None:
    """Its inflight file is there until the rollback has deleted the data."""
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    rollback = InstantTime(str(int(transaction.instant) + 1))
    info = InstantInfo(transaction.instant, Action.COMMIT.value)
    plan = render_rollback_plan(RollbackPlan(instant_to_rollback=info))
    put_instant(world, Instant(rollback, Action.ROLLBACK, State.REQUESTED), plan)

    with pytest.raises(WriterFenced, match="took it for dead"):
        finish(transaction, written)


@pytest.mark.parametrize("done", [True, False], ids=["rolled back", "being rolled back"])
def test_a_write_that_was_undone_beside_its_final_put_takes_back_what_it_put(
    world: World, done: bool
) -> None:
    """Apache Hudi's EAGER policy asks for neither the lock nor a heartbeat."""
    world.upsert({"j": "0"})

    def undo() -> None:
        time = transaction.instant
        rollback = InstantTime(str(int(time) + 1))
        info = InstantInfo(time, Action.COMMIT.value)
        plan = render_rollback_plan(RollbackPlan(instant_to_rollback=info))
        put_instant(world, Instant(rollback, Action.ROLLBACK, State.REQUESTED), plan)
        if done:
            put_instant(world, Instant(rollback, Action.ROLLBACK, State.INFLIGHT))
            world.memory.delete([stat.path for stat in written.stats])
            world.memory.delete(timeline_files(world, time))
            metadata = RollbackMetadata(
                start_rollback_time=rollback,
                time_taken_in_millis=1,
                total_files_deleted=1,
                commits_rollback=(time,),
                partition_metadata={},
                instants_rollback=(info,),
            )
            completed = Instant(rollback, Action.ROLLBACK, State.COMPLETED, rollback)
            put_instant(world, completed, render_rollback_metadata(metadata))

    faulty = FaultyStorage(world.memory, before=at_the_final_put(world, 1, undo))
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(WriterFenced, match="EAGER"):
        finish(transaction, written)
    transaction.abort()

    assert world.rows() == {"j": "0"}
    assert world.leftovers() == []


def test_a_write_that_was_undone_and_cannot_take_back_what_it_put_is_unknown(
    world: World,
) -> None:
    def undo() -> None:
        world.memory.delete(timeline_files(world, transaction.instant))
        world.clock.advance(59.5)

    faulty = FaultyStorage(world.memory, before=at_the_final_put(world, 1, undo))
    transaction = world.begin(faulty)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match="rolled back by another writer") as unknown:
        finish(transaction, written)
    transaction.abort()

    assert world.memory.exists(str(unknown.value.facts["path"]))
    assert transaction.phase is Phase.UNKNOWN


@pytest.mark.parametrize("how", ["no answer", "not sent again", "interrupted"])
def test_the_lock_is_given_back_only_when_an_unanswered_put_can_land_no_more(
    new_world: NewWorld, how: str
) -> None:
    """A successor would not find it, and what lands on its commit would hide its rows."""
    times: dict[str, float] = {}

    class Told(InProcessLock):
        def release(self) -> None:
            times["released"] = world.clock.monotonic()
            super().release()

    world = new_world(9, lock_of=lambda world, _: Told(world.locks, "t", world.clock))

    def sent(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            times["sent"] = world.clock.monotonic()
            if how == "interrupted":
                raise KeyboardInterrupt
            if how == "not sent again":
                world.clock.advance(0.3)
        if call.method == "exists" and "sent" in times and how == "not sent again":
            world.memory.delete(timeline_files(world, transaction.instant))

    lost = Fault(Effect.LOSE_REQUEST, path=completed_file(world), times=3)
    transaction = world.begin(FaultyStorage(world.memory, lost, before=sent))
    written = work(transaction, {"k": "1"})
    with pytest.raises((CommitUnknown, KeyboardInterrupt)):
        finish(transaction, written)

    held_s, put_s = times["released"] - times["sent"], world.memory.put_timeout_s
    assert held_s == pytest.approx(put_s) or put_s < held_s < 2 * put_s


def test_a_late_put_that_lands_while_the_lock_is_still_held_is_a_commit(world: World) -> None:
    landing: list[str] = []

    def before(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".commit"):
            landing.append(call.paths[0])

    class LandsLate(FakeClock):
        def sleep(self, seconds: float) -> None:
            world.memory.put_if_absent(landing[-1], b"{}")
            super().sleep(seconds)

    lost = Fault(Effect.LOSE_REQUEST, path=completed_file(world), times=3)
    storage = FaultyStorage(world.memory, lost, before=before)
    transaction = world.begin(storage, clock=LandsLate())
    done = finish(transaction, work(transaction, {"k": "1"}))

    assert [i.time for i in world.table().timeline().commits] == [done.instant]


def test_a_put_that_outlasted_the_lease_is_not_acknowledged_over_a_successors_commit(
    world: World,
) -> None:
    """A put to a local disk cannot be given up: the storage's time for one is nominal there."""
    world.upsert({"k": "0"})
    successor = begin_beside(world)
    theirs = work(successor, {"k": "2"})

    def hang() -> None:
        world.clock.advance(61)
        finish(successor, theirs)

    faulty = FaultyStorage(world.memory, before=at_the_final_put(world, 1, hang))
    transaction = world.begin(faulty, policy=NEVER)
    written = work(transaction, {"k": "1"})

    with pytest.raises(CommitUnknown, match="came between") as unknown:
        finish(transaction, written)
    transaction.abort()

    assert unknown.value.facts["theirs"] == successor.instant
    assert transaction.phase is Phase.UNKNOWN


def test_a_put_that_outlasted_the_lease_stands_beside_commits_of_other_groups(
    world: World,
) -> None:
    successor = begin_beside(world)
    theirs = work(successor, {"j": "2"})

    def hang() -> None:
        world.clock.advance(61)
        finish(successor, theirs)

    faulty = FaultyStorage(world.memory, before=at_the_final_put(world, 1, hang))
    transaction = world.begin(faulty, policy=NEVER)
    finish(transaction, work(transaction, {"k": "1"}))

    assert world.rows() == {"j": "2", "k": "1"}


def test_a_commit_that_cannot_be_looked_at_again_stands(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    folder = world.table().config.timeline_folder
    reached = []

    def before(call: Call) -> None:
        if reached and call.method == "list" and call.paths[0] == folder:
            raise StorageError("No answer.", path=folder)

    def reach() -> None:
        reached.append(True)

    final = at_the_final_put(world, 1, reach)
    faulty = FaultyStorage(world.memory, before=lambda call: (final(call), before(call))[0])

    world.upsert({"k": "1"}, faulty)

    assert "was not looked at again" in caplog.text
    assert world.rows() == {"k": "1"}


def timeline_files(world: World, time: InstantTime) -> list[str]:
    """The requested and the inflight file of an instant."""
    config = world.table().config
    return [
        f"{config.timeline_folder}/"
        + instant_file_name(Instant(time, Action.COMMIT, state), config.layout)
        for state in (State.INFLIGHT, State.REQUESTED)
    ]


@pytest.mark.parametrize(
    ("action", "state"), [(Action.CLEAN, State.INFLIGHT), (Action.COMMIT, State.REQUESTED)]
)
def test_a_write_lives_by_an_inflight_file_of_its_own(action: Action, state: State) -> None:
    """The first file outlives the second in a rollback; a service may have the same time."""
    world = World(9)
    asked, now = Instant(TIME, Action.COMMIT, State.REQUESTED), Instant(TIME, action, state)
    for instant in dict.fromkeys((asked, now)):
        put_instant(world, instant)
    with pytest.raises(WriterFenced, match="its instant is gone"):
        check_alive(world.table(), world.table().timeline(), TIME, Action.COMMIT, "upsert")
    put_instant(world, Instant(TIME, Action.COMMIT, State.INFLIGHT))
    check_alive(world.table(), world.table().timeline(), TIME, Action.COMMIT, "upsert")
