"""The phases of a write: each step of the table is taken, and no other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyhudi.errors import CommitUnknown
from pyhudi.format.instants import Action, State
from pyhudi.storage.faults import Effect, Fault, FaultyStorage
from pyhudi.timeline.states import LEGAL_STATES
from pyhudi.transactions.phases import STEPS, Phase, Step, check_move, leads
from pyhudi.transactions.transaction import Transaction
from tests.transactions.world import World, finish, work

Arrow = tuple[Phase, Phase]

ARROWS = [(phase, step.to) for phase, steps in STEPS.items() for step in steps]
#: the last put lands, and nobody is told, then or later
SILENCE = (
    Fault(Effect.LOSE_REPLY, path="*.commit", times=9),
    Fault(Effect.FAIL_BEFORE, path="*.commit", methods=frozenset({"exists"}), times=9),
)


def begins(world: World) -> Transaction:
    return world.begin()


def is_inflight(world: World) -> Transaction:
    transaction = world.begin()
    work(transaction, {"k": "1"})
    return transaction


def is_sealed(world: World) -> Transaction:
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    transaction.seal(lambda timeout_s: True, [s.path for s in written.stats])
    return transaction


def is_committed(world: World) -> Transaction:
    transaction = world.begin()
    finish(transaction, work(transaction, {"k": "1"}))
    return transaction


def is_unknown(world: World) -> Transaction:
    transaction = world.begin(FaultyStorage(world.memory, *SILENCE))
    with pytest.raises(CommitUnknown):
        finish(transaction, work(transaction, {"k": "1"}))
    return transaction


def fails(begun: Callable[[World], Transaction]) -> Callable[[World], Transaction]:
    def run(world: World) -> Transaction:
        transaction = begun(world)
        transaction.abort()
        return transaction

    return run


#: ways to live that take each step of the table
LIVES = [is_committed, is_unknown, fails(begins), fails(is_inflight), fails(is_sealed)]


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world(9)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Arrow]:
    """The steps that writes take while the test runs."""
    found: list[Arrow] = []
    move = Transaction._move

    def recorded(self: Transaction, to: Phase, puts: State | None = None) -> None:
        before = self.phase
        move(self, to, puts)
        found.append((before, to))

    monkeypatch.setattr(Transaction, "_move", recorded)
    return found


def test_each_step_of_the_table_is_taken(
    new_world: Callable[..., World], taken: list[Arrow]
) -> None:
    for life in LIVES:
        world = new_world(9)
        life(world)
    assert set(taken) == set(ARROWS)


@pytest.mark.parametrize("arrow", ARROWS, ids=lambda arrow: " to ".join(p.value for p in arrow))
def test_a_step_that_the_table_lacks_is_not_taken(
    new_world: Callable[..., World],
    monkeypatch: pytest.MonkeyPatch,
    taken: list[Arrow],
    arrow: Arrow,
) -> None:
    """What it would have put or deleted stays as it was."""
    before, to = arrow
    left: tuple[Step, ...] = tuple(step for step in STEPS[before] if step.to is not to)
    monkeypatch.setitem(STEPS, before, left)
    for life in LIVES:
        world = new_world(9)
        with suppress(RuntimeError):
            life(world)
        instants = world.table().timeline().instants
        if to is Phase.REQUESTED:
            assert instants == ()
        if to is Phase.INFLIGHT:
            assert all(i.state is State.REQUESTED or i.action is Action.ROLLBACK for i in instants)
        if to is Phase.COMMITTED:
            assert world.named_files() == set()
    assert arrow not in taken


@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("to", Phase)
@pytest.mark.parametrize("puts", [None, *State])
def test_a_move_is_a_step_of_the_table_with_what_it_puts(
    before: Phase, to: Phase, puts: State | None
) -> None:
    known = {(phase, s.to, s.puts) for phase, steps in STEPS.items() for s in steps}
    if (before, to, puts) in known:
        check_move(before, to, puts)
        assert leads(before, to)
    else:
        with pytest.raises(RuntimeError, match=f"{before.value} cannot become {to.value}"):
            check_move(before, to, puts)


def test_nothing_follows_an_end() -> None:
    ends = {phase for phase in Phase if not STEPS[phase]}
    assert ends == {Phase.COMMITTED, Phase.FAILED, Phase.UNKNOWN}


def test_a_write_puts_the_states_of_its_action_in_their_order() -> None:
    phase, puts = Phase.NEW, list[State]()
    while STEPS[phase]:
        step = STEPS[phase][0]  # the first one is that of a write which succeeds
        phase = step.to
        puts += [step.puts] if step.puts else []
    assert phase is Phase.COMMITTED
    assert tuple(puts) == LEGAL_STATES[Action.COMMIT] == LEGAL_STATES[Action.REPLACECOMMIT]


@pytest.mark.parametrize("end", [is_committed, is_unknown])
def test_what_a_block_raises_behind_an_end_undoes_nothing(
    world: World, end: Callable[[World], Transaction]
) -> None:
    with pytest.raises(KeyboardInterrupt), end(world):
        raise KeyboardInterrupt

    assert world.rows() == {"k": "1"}


@pytest.mark.parametrize("begun", [begins, is_inflight, is_sealed])
def test_what_a_block_raises_before_undoes_the_write(
    world: World, begun: Callable[[World], Transaction]
) -> None:
    with pytest.raises(KeyboardInterrupt), begun(world):
        raise KeyboardInterrupt

    assert world.rows() == {}
    assert world.leftovers() == []


def test_a_block_that_raises_nothing_leaves_the_write_as_it_is(world: World) -> None:
    with world.begin() as transaction:
        pass

    assert transaction.phase is Phase.REQUESTED
    assert [i.time for i in world.table().timeline().pending] == [transaction.instant]
