"""The files of pyhudi's instants: every put of one; the first put takes the instant's time.

Invariant: a file is put only if ``timeline/states.py`` has the step, and never over another file.
"""

from __future__ import annotations

from collections.abc import Callable

from pyhudi.clock import Clock
from pyhudi.errors import FileExists, WriteFailed
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
    instant_file_name,
    parse_instant,
)
from pyhudi.timeline.active import Timeline, list_timeline, timeline_of
from pyhudi.timeline.states import COMMIT_ACTIONS, check_step
from pyhudi.timeline.table import Table
from pyhudi.transactions.times.times import overtaken, time_before
from pyhudi.transactions.writer import Writer

ATTEMPTS = 100
#: longest pause, in milliseconds, before another time is tried after a collision
PAUSE_MS = 20


def path_of(table: Table, instant: Instant) -> str:
    """The path of an instant's file, relative to the table."""
    return f"{table.config.timeline_folder}/{instant_file_name(instant, table.config.layout)}"


def put_instant(table: Table, was: Instant | None, to: Instant, data: bytes) -> None:
    """Put the file of ``to``, the state after ``was`` (None before the first state).

    ``RuntimeError`` for a step that is not in the table of states, before storage is asked;
    ``FileExists`` if the file exists.
    """
    check_step(was, to)
    table.storage.put_if_absent(path_of(table, to), data)


def take_time(
    writer: Writer,
    action: Action,
    content: bytes,
    loaded: Timeline | None = None,
    before: Callable[[InstantTime], object] = lambda time: None,
) -> tuple[InstantTime, Timeline]:
    """Request an instant of ``action``; returns its time, and the timeline that shows it.

    ``loaded`` is a timeline that the caller has just listed. ``before`` is called right before each
    request, with its time; there are several requests if other writers take the same times.
    ``WriteFailed`` if they took each time first; then no request stays.
    """
    table, clock = writer.table, writer.clock
    for _ in range(ATTEMPTS):
        shown = loaded or table.timeline()
        time = writer.next_time(shown)
        before(time)
        timeline = _try_time(table, clock, action, content, time)
        if timeline is not None:
            return time, timeline
        loaded = None
    raise WriteFailed(
        f"No unused instant time was found in {ATTEMPTS} attempts: other writers took each of "
        "them first. Nothing was written. Try again.",
        path=table.storage.root,
    )


def take_time_before(
    writer: Writer, action: Action, content: bytes, write: InstantTime
) -> InstantTime | None:
    """Request the time right before the pending instant ``write``; None if it cannot be had."""
    time = time_before(write)
    shown = _try_time(writer.table, writer.clock, action, content, time)
    return None if shown is None else time


def _try_time(
    table: Table, clock: Clock, action: Action, content: bytes, time: InstantTime
) -> Timeline | None:
    """Request ``time``; returns the timeline that shows it, None if the time is taken.

    Put-if-absent alone does not make a time unique, since each action has its own file names. If
    another action took the same time between the two listings, both give it up (ARCHITECTURE.md,
    "Where each guard lives"). A rollback is not given up for being late: readers ignore it, and
    other writers may already have begun to carry out its plan.
    """
    storage, config = table.storage, table.config
    requested = Instant(time, action, State.REQUESTED)
    try:
        put_instant(table, None, requested, content)
    except FileExists:
        return None
    files = list_timeline(storage, config)
    timeline = timeline_of(files, config.layout, config.timeline_folder)
    found = (parse_instant(file.name, config.layout) for file in files)
    shared = any(i and i.time == time and i.action is not action for i in found)
    late = action in COMMIT_ACTIONS and overtaken(timeline, time)
    if not shared and not late:
        return timeline
    storage.delete([path_of(table, requested)])
    if shared:
        clock.sleep((1 + clock.random_int(PAUSE_MS)) / 1000)
    return None
