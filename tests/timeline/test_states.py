from __future__ import annotations

from itertools import pairwise

import pytest

from pyhudi.format.instants import NAMES, Action, Instant, InstantTime, State, instant_file_name
from pyhudi.timeline.states import (
    COMMIT_ACTIONS,
    COMPLETES_AS,
    LEGAL_STATES,
    check_step,
    completed_action,
    most_advanced,
)

T = InstantTime("20240101000000000")
C = InstantTime("20240101000001000")


def at(action: Action, state: State | None, time: InstantTime = T) -> Instant | None:
    return None if state is None else Instant(time, action, state)


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("was", [None, *State])
@pytest.mark.parametrize("to", State)
def test_an_instant_takes_the_steps_of_its_row_and_no_others(
    action: Action, was: State | None, to: State
) -> None:
    walk = (None, *LEGAL_STATES.get(action, ()))
    step = Instant(T, action, to)
    if (was, to) in pairwise(walk):
        check_step(at(action, was), step)
    else:
        with pytest.raises(RuntimeError, match=f"{action.value} {T} {to.value} cannot follow"):
            check_step(at(action, was), step)


@pytest.mark.parametrize(
    "was",
    [
        Instant(C, Action.COMMIT, State.REQUESTED),
        Instant(T, Action.REPLACECOMMIT, State.REQUESTED),
    ],
)
def test_an_instant_keeps_its_time_and_its_action(was: Instant) -> None:
    with pytest.raises(RuntimeError, match="cannot follow"):
        check_step(was, Instant(T, Action.COMMIT, State.INFLIGHT))


@pytest.mark.parametrize("layout", NAMES)
def test_a_savepoint_is_never_requested(layout: int) -> None:
    with pytest.raises(ValueError, match="requested"):
        instant_file_name(Instant(T, Action.SAVEPOINT, State.REQUESTED), layout)


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("action", LEGAL_STATES)
def test_each_state_of_the_table_has_a_file_of_its_own(layout: int, action: Action) -> None:
    done = {State.COMPLETED: C if layout == 2 else None}
    row = [Instant(T, action, state, done.get(state)) for state in LEGAL_STATES[action]]
    assert len({instant_file_name(instant, layout) for instant in row}) == len(row)
    first = 1 if action is Action.SAVEPOINT else 0
    assert [instant.state for instant in row] == list(State)[first : first + len(row)]


@pytest.mark.parametrize(("action", "ends_as"), COMPLETES_AS.items())
def test_services_complete_under_the_name_of_a_write(action: Action, ends_as: Action) -> None:
    pending = Instant(T, action, State.REQUESTED)
    done = Instant(T, ends_as, State.COMPLETED, C)
    name = instant_file_name(Instant(T, action, State.COMPLETED, C), 2)

    assert completed_action(action) is ends_as
    assert name == instant_file_name(done, 2)
    assert most_advanced([pending, done]) is done
    assert most_advanced([done, pending]) is done
    assert {action, ends_as} <= COMMIT_ACTIONS
