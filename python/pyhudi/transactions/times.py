"""Instant times: unique, increasing, and never below anything that was loaded."""

from __future__ import annotations

from pyhudi.clock import Clock
from pyhudi.format.instants import InstantTime, format_time, parse_time
from pyhudi.timeline.active import Timeline


def next_time(clock: Clock, timeline: Timeline, utc: bool) -> InstantTime:
    """A time above the clock's and above every requested and completion time of ``timeline``.

    A writer whose clock is behind thus still moves forward (DESIGN.md, begin). ``utc`` is the
    table's timeline time zone: UTC, or else the driver's local zone.
    """
    now = format_time(clock.now_ms(), utc)
    greatest = timeline.greatest_time()
    if now > greatest:
        return now
    return format_time(parse_time(greatest, utc) + 1, utc)
