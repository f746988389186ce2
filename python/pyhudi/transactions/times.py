"""Instant times: unique, increasing, and never below anything that was loaded."""

from __future__ import annotations

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
from pyhudi.timeline.table import Table

ATTEMPTS = 100
#: longest pause, in milliseconds, before another time is tried after a collision
PAUSE_MS = 20


def next_time(clock: Clock, timeline: Timeline, utc: bool) -> InstantTime:
    """A time above the clock's and above every requested and completion time of ``timeline``.

    A writer whose clock is behind thus still moves forward (DESIGN.md, begin). ``utc`` is the
    table's timeline time zone: UTC, or else the driver's local zone.
    """
    now = format_time(clock.now_ms(), utc)
    greatest = timeline.greatest_time()
    if now > greatest:
        return now
    # The digits count on as if they were UTC: in the hour that a local clock shows twice, one
    # millisecond later by the zone's own rules may read as an earlier time.
    return format_time(parse_time(greatest, True) + 1, True)


def take_time(
    table: Table, clock: Clock, action: Action, content: bytes, loaded: Timeline | None = None
) -> tuple[InstantTime, Timeline]:
    """Request an instant of ``action``: its time, and the timeline that shows it.

    ``loaded`` is a timeline that the caller has just listed. ``WriteFailed`` where other writers
    took each time first; nothing is left then.
    """
    for _ in range(ATTEMPTS):
        taken = _try_time(table, clock, action, content, loaded or table.timeline())
        if taken is not None:
            return taken
        loaded = None
    raise WriteFailed(
        f"No unused instant time was found in {ATTEMPTS} attempts: other writers took each of "
        "them first. Nothing was written. Try again.",
        path=table.storage.root,
    )


def _try_time(
    table: Table, clock: Clock, action: Action, content: bytes, loaded: Timeline
) -> tuple[InstantTime, Timeline] | None:
    """Try one time above those of ``loaded``; None where somebody else has it.

    Put-if-absent alone does not make a time unique, for each action has names of its own; where
    another action took the same time between the two listings both give it up (DESIGN.md, begin).
    """
    storage, config = table.storage, table.config
    time = next_time(clock, loaded, config.utc)
    name = instant_file_name(Instant(time, action, State.REQUESTED), config.layout)
    path = f"{config.timeline_folder}/{name}"
    try:
        storage.put_if_absent(path, content)
    except FileExists:
        return None
    files = list_timeline(storage, config)
    for other in files:
        found = parse_instant(other.name, config.layout)
        if found is not None and found.time == time and other.name != name:
            storage.delete([path])
            clock.sleep((1 + clock.random_int(PAUSE_MS)) / 1000)
            return None
    return time, timeline_of(files, config.layout, config.timeline_folder)
