"""Instant times: unique, increasing, and never below anything that was loaded.

Where they come from is a seam: the machine's clock by default, or a counter that all writers of a
table share. Times of clocks are kept apart by the timeline, a counter's are so by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyhudi.clock import Clock
from pyhudi.errors import FileExists, WriteFailed
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
    format_time,
    instant_file_name,
    parse_instant,
    parse_time,
)
from pyhudi.timeline.active import Timeline, list_timeline, timeline_of
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table

ATTEMPTS = 100
#: longest pause, in milliseconds, before another time is tried after a collision
PAUSE_MS = 20
UNDOINGS = frozenset({Action.ROLLBACK, Action.RESTORE})


class TimeSource(Protocol):
    """Where instant times come from, as milliseconds: the digits of a time read as UTC."""

    def next_ms(self, at_least: int) -> int:
        """A time that is not below ``at_least``; a counter's is above all that it gave before.

        ``StorageError`` where the source cannot be asked: a time that it gave, but that did not
        arrive, is lost, and nothing else.
        """


class ClockTimes:
    """Times by the writer's own clock, which ``at_least`` tells."""

    def next_ms(self, at_least: int) -> int:
        return at_least


CLOCK_TIMES = ClockTimes()


def next_time(
    clock: Clock, timeline: Timeline, utc: bool, source: TimeSource = CLOCK_TIMES
) -> InstantTime:
    """A time above the clock's and above every requested and completion time of ``timeline``.

    A writer whose clock is behind thus still moves forward (ARCHITECTURE.md, "Where each guard
    lives"). ``utc`` is the table's timeline time zone: UTC, or else the driver's local zone.
    """
    now, greatest = format_time(clock.now_ms(), utc), timeline.greatest_time()
    # The digits count on as if they were UTC: in the hour that a local clock shows twice, one
    # millisecond later by the zone's own rules may read as an earlier time.
    least = parse_time(now, True) if now > greatest else parse_time(greatest, True) + 1
    return format_time(source.next_ms(least), True)


def take_time(
    table: Table,
    clock: Clock,
    action: Action,
    content: bytes,
    loaded: Timeline | None = None,
    source: TimeSource = CLOCK_TIMES,
    before: Callable[[InstantTime], object] = lambda time: None,
) -> tuple[InstantTime, Timeline]:
    """Request an instant of ``action``: its time, and the timeline that shows it.

    ``loaded`` is a timeline that the caller has just listed. ``before`` is asked right before each
    request, with its time; there are several where others take the same times. ``WriteFailed``
    where they took each time first; no request is left then.
    """
    for _ in range(ATTEMPTS):
        shown = loaded or table.timeline()
        time = next_time(clock, shown, table.config.utc, source)
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
    name = instant_file_name(Instant(time, action, State.REQUESTED), config.layout)
    path = f"{config.timeline_folder}/{name}"
    try:
        storage.put_if_absent(path, content)
    except FileExists:
        return None
    files = list_timeline(storage, config)
    timeline = timeline_of(files, config.layout, config.timeline_folder)
    found = (parse_instant(file.name, config.layout) for file in files)
    shared = any(i and i.time == time and i.action is not action for i in found)
    late = action in COMMIT_ACTIONS and overtaken(timeline, time)
    if not shared and not late:
        return timeline
    storage.delete([path])
    if shared:
        clock.sleep((1 + clock.random_int(PAUSE_MS)) / 1000)
    return None


def overtaken(timeline: Timeline, time: InstantTime) -> bool:
    """Whether a commit with a later time completed before the request of ``time`` was there.

    Whoever followed the table by instant times may have passed it by then: it is given up, so
    that no instant ever appears below a commit that readers saw (``timeline/completion_order``).
    So it is after a rollback or restore: the time may be that of a commit that was undone.
    """
    undone = any(i.time > time and i.action in UNDOINGS for i in timeline.completed)
    return undone or any(commit.time > time for commit in timeline.commits)
