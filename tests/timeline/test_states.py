from __future__ import annotations

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.timeline.states import (
    COMMIT_ACTIONS,
    COMPLETES_AS,
    LEGAL_STATES,
    completed_action,
    most_advanced,
    next_state,
)

T = InstantTime("20240101000000000")
C = InstantTime("20240101000001000")


def test_every_action_has_its_row_and_ends_completed() -> None:
    assert set(LEGAL_STATES) == set(Action)
    assert all(row[-1] is State.COMPLETED for row in LEGAL_STATES.values())


@pytest.mark.parametrize("action", Action)
def test_an_instant_walks_through_its_states_in_order(action: Action) -> None:
    row = LEGAL_STATES[action]
    walked = [row[0]]
    while walked[-1] is not State.COMPLETED:
        walked.append(next_state(action, walked[-1]))

    assert tuple(walked) == row
    with pytest.raises(TableCorrupt, match="cannot move on"):
        next_state(action, State.COMPLETED)


def test_a_savepoint_is_never_requested() -> None:
    with pytest.raises(TableCorrupt):
        next_state(Action.SAVEPOINT, State.REQUESTED)


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("action", Action)
def test_the_states_of_the_table_are_those_that_have_a_file(layout: int, action: Action) -> None:
    def has_file(state: State) -> bool:
        done = C if state is State.COMPLETED and layout == 2 else None
        try:
            return bool(instant_file_name(Instant(T, action, state, done), layout))
        except ValueError:
            return False

    assert tuple(state for state in State if has_file(state)) == LEGAL_STATES[action]


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
