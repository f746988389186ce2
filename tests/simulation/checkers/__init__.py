"""What must hold in every run; each checker names what it found wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.checkers.by_name import the_order_of_names_gives_the_same_rows
from tests.simulation.checkers.epoch_rows import the_rows_of_a_batch_are_there_once
from tests.simulation.checkers.epochs_once import an_epoch_is_committed_once
from tests.simulation.checkers.live_files import nothing_live_is_deleted
from tests.simulation.checkers.log_slices import a_log_is_in_its_slice
from tests.simulation.checkers.marks import marks_never_go_back
from tests.simulation.checkers.no_race_lost import no_race_is_lost
from tests.simulation.checkers.nothing_lost import nothing_committed_is_lost
from tests.simulation.checkers.one_home import a_key_has_one_home
from tests.simulation.checkers.same_rows import every_order_gives_the_same_rows
from tests.simulation.checkers.serial import every_read_is_serial
from tests.simulation.checkers.settled import every_instant_settles
from tests.simulation.checkers.stays_undone import what_was_undone_stays_undone
from tests.simulation.checkers.undone_batches import (
    no_stream_is_stopped_in_vain,
    no_undone_batch_is_passed_over,
)
from tests.simulation.world import Run

Checker = Callable[[Run], Iterator[str]]

CHECKERS: Final[tuple[Checker, ...]] = (
    nothing_live_is_deleted,
    a_key_has_one_home,
    nothing_committed_is_lost,
    what_was_undone_stays_undone,
    every_read_is_serial,
    every_instant_settles,
)
#: of runs in which streams write
STREAM_CHECKERS: Final[tuple[Checker, ...]] = (
    an_epoch_is_committed_once,
    the_rows_of_a_batch_are_there_once,
    marks_never_go_back,
    no_undone_batch_is_passed_over,
    no_stream_is_stopped_in_vain,
)
#: of runs on merge-on-read tables
LOG_CHECKERS: Final[tuple[Checker, ...]] = (
    a_log_is_in_its_slice,
    the_order_of_names_gives_the_same_rows,
)
#: of runs of writers without coordination, where the rows that stay are not the last that came
SHARED_CHECKERS: Final[tuple[Checker, ...]] = (
    nothing_live_is_deleted,
    a_key_has_one_home,
    what_was_undone_stays_undone,
    every_instant_settles,
    a_log_is_in_its_slice,
    the_order_of_names_gives_the_same_rows,
    every_order_gives_the_same_rows,
    no_race_is_lost,
)


def anomalies(run: Run) -> list[tuple[str, str]]:
    """(invariant, what was found) for each that does not hold."""
    checkers = (*CHECKERS, *(STREAM_CHECKERS if run.scenario.streams else ()))
    checkers += LOG_CHECKERS if run.scenario.merge_on_read else ()
    if run.scenario.shared:
        checkers = SHARED_CHECKERS
    found = [
        (checker.__name__.replace("_", " "), wrong)
        for checker in checkers
        for wrong in checker(run)
    ]
    if run.twin is not None:
        found += [(name, f"on table b, {wrong}") for name, wrong in anomalies(run.twin)]
    return found
