"""The files of our instants: every put of one, and the taking of a time by the first of them.

Invariant: a file is put only where ``timeline/states.py`` has the step, and never over another.
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
from pyhudi.transactions.times.times import overtaken
from pyhudi.transactions.writer import Writer

ATTEMPTS = 100
#: longest pause, in milliseconds, before another time is tried after a collision
PAUSE_MS = 20


def path_of(table: Table, instant: Instant) -> str:
    """Where the file of an instant is, relative to the table."""
    return f"{table.config.timeline_folder}/{instant_file_name(instant, table.config.layout)}"


def put_instant(table: Table, was: Instant | None, to: Instant, data: bytes) -> None:
    """Put the file of ``to``, the state that follows ``was``, which is None before the first.

    ``RuntimeError`` for a step that is not in the table of states, before storage is asked;
    ``FileExists`` where the file is there.
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
    """Request an instant of ``action``: its time, and the timeline that shows it.

    ``loaded`` is a timeline that the caller has just listed. ``before`` is asked right before each
    request, with its time; there are several where others take the same times. ``WriteFailed``
    where they took each time first; no request is left then.
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


def _try_time(
    table: Table, clock: Clock, action: Action, content: bytes, time: InstantTime
) -> Timeline | None:
    """Request ``time``: the timeline that shows it; None where it cannot be had.

    Put-if-absent alone does not make a time unique, for each action has names of its own; where
    another action took the same time between the two listings both give it up (ARCHITECTURE.md,
    "Where each guard lives"). A rollback is not given up for being late: readers pass it over, and
    others may have begun to carry out what it asks for.
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
