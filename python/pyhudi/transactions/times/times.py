"""Instant times: unique, increasing, and never below anything that was loaded.

Their source is a seam: the machine's clock by default, or a counter that all writers of a table
share. The timeline keeps the times of clocks apart; a counter's times are distinct by themselves.
"""

from __future__ import annotations

from typing import Protocol

from pyhudi.clock import Clock
from pyhudi.format.instants import Action, InstantTime, format_time, parse_time
from pyhudi.timeline.active import Timeline

UNDOINGS = frozenset({Action.ROLLBACK, Action.RESTORE})


class TimeSource(Protocol):
    """Where instant times come from, as milliseconds: the digits of a time read as UTC."""

    def next_ms(self, at_least: int) -> int:
        """A time that is not below ``at_least``; a counter's is above all that it gave before.

        ``StorageError`` if the source cannot be asked. Then at most a time is lost that it gave
        but that did not arrive.
        """


class ClockTimes:
    """Times by the writer's own clock: ``at_least`` already has its time."""

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
    # The digits increase as if they were UTC: in the hour that a local clock shows twice, the next
    # millisecond by the zone's own rules may read as an earlier time.
    least = parse_time(now, True) if now > greatest else parse_time(greatest, True) + 1
    return format_time(source.next_ms(least), True)


def overtaken(timeline: Timeline, time: InstantTime) -> bool:
    """Whether a commit with a later time completed before the request of ``time`` was there.

    A reader that follows the table by instant times may already be past it. So it is given up: no
    instant ever appears below a commit that readers saw (``timeline/completion_order``). It is also
    given up after a rollback or restore: an undone commit may have had the same time.
    """
    undone = any(i.time > time and i.action in UNDOINGS for i in timeline.completed)
    return undone or any(commit.time > time for commit in timeline.commits)


def time_before(time: InstantTime) -> InstantTime:
    """The instant time one millisecond before ``time``."""
    return format_time(parse_time(time, True) - 1, True)
