"""The order in which a reader follows the commits of a table, and safe checkpoints.

Concurrent writers may end in another order than they began (RFC-22, "Incremental reads"). A reader
that remembers only the greatest instant time may miss a commit that began earlier and ends later.
Invariant: a commit that completes after ``safe_checkpoint`` was taken lies above that checkpoint.

A listing takes time: a writer may end during the listing, in a part of the folder that has already
been read. So a checkpoint takes two listings; the second begins after the first has ended. The
first bounds the checkpoint; everything below that bound is in the second.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyhudi.choices import Order
from pyhudi.errors import UnsupportedTable
from pyhudi.format.instants import Action, Instant, InstantTime, format_time, padded_time
from pyhudi.timeline.active import Timeline, instant_key

#: pending actions that will add or change rows; services only rewrite existing rows
ADDING = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})


@dataclass(frozen=True, slots=True)
class Followed:
    """Commits in order, and the next checkpoint; ``fence`` is the first pending write."""

    commits: tuple[Instant, ...]
    checkpoint: InstantTime | None
    fence: InstantTime | None


def default_order(layout: int) -> Order:
    """``COMPLETED`` if the table records completion times, otherwise ``FENCED``."""
    return Order.COMPLETED if layout == 2 else Order.FENCED


def completion_time(timeline: Timeline, instant: Instant, utc: bool) -> InstantTime:
    """The completion time of a completed instant.

    In layout 2 it is in the file's name. In layout 1, and for files from before an upgrade, it is
    the file's modification time (spec/timeline.md T4) in the table's time zone (``utc`` or local).
    """
    if instant.completion_time is not None:
        return instant.completion_time
    return format_time(timeline.modified_ms[instant_key(instant)], utc)


def completion_ordered(timeline: Timeline, utc: bool) -> tuple[Instant, ...]:
    """Completed commits in the order of completion (RFC-22's END_COMMIT_TIME)."""
    return _sorted(timeline, Order.COMPLETED, utc)


def fence(
    timeline: Timeline, clusterings: Collection[InstantTime] = frozenset()
) -> InstantTime | None:
    """The first pending write, or None.

    ``clusterings`` are the pending replace commits of layout 1 that are clusterings.
    """
    times = [i.time for i in timeline.pending if i.action in ADDING and i.time not in clusterings]
    return min(times, key=padded_time, default=None)


def fenced(
    timeline: Timeline, clusterings: Collection[InstantTime] = frozenset()
) -> tuple[Instant, ...]:
    """Completed commits before the first pending write, by instant time."""
    end = fence(timeline, clusterings)
    commits = _sorted(timeline, Order.FENCED, utc=True)
    return tuple(i for i in commits if end is None or padded_time(i.time) < padded_time(end))


def safe_checkpoint(
    before: Timeline,
    now: Timeline,
    order: Order,
    utc: bool,
    clusterings: Collection[InstantTime] = frozenset(),
) -> InstantTime | None:
    """The greatest checkpoint below all later completions; None before the first commit.

    The listing ``before`` ended before ``now`` began. In the order of completion, running writers
    do not hold the checkpoint back: a completion time is taken under the table lock, above all
    earlier completions. In the order of instants it stops at the last commit before the first
    pending write; an instant that is requested later is above every completed one.
    ``UnsupportedTable`` for completion order in layout 1: its modification times are too coarse to
    tell two commits apart.
    """
    if order is Order.COMPLETED and now.layout == 1:
        raise UnsupportedTable(
            "Tables of version 6 do not record when a commit completed, and the modification times "
            "of files are whole seconds on some storages, so a reader could miss a commit. Follow "
            "the table by 'fenced' or 'requested', or upgrade it with Apache Hudi to version 8 or "
            "later.",
            feature="checkpoints by completion time in table version 6",
        )
    reached = [time_in_order(before, i, order, utc) for i in before.commits]
    end = None if order is Order.COMPLETED else fence(now, clusterings)
    if end is not None:
        reached = [time for time in reached if time < padded_time(end)]
    return max(reached, default=None)


def follow(
    before: Timeline,
    now: Timeline,
    after: InstantTime | None,
    order: Order,
    utc: bool,
    clusterings: Collection[InstantTime] = frozenset(),
) -> Followed:
    """The commits above the checkpoint ``after`` (None: all) and the next checkpoint.

    Each commit comes once; with ``REQUESTED`` commits above the new checkpoint come again. A
    checkpoint never goes back. Arguments and errors as for ``safe_checkpoint``.
    """
    safe = safe_checkpoint(before, now, order, utc, clusterings)
    start = padded_time(after) if after else InstantTime("")
    above = [(key, i) for key, i in _keyed(now, order, utc) if key > start]
    if order is not Order.REQUESTED:
        above = [(key, i) for key, i in above if safe is not None and key <= safe]
    checkpoint = max(start, safe or InstantTime("")) or None
    return Followed(tuple(i for _, i in above), checkpoint, fence(now, clusterings))


def _keyed(timeline: Timeline, order: Order, utc: bool) -> list[tuple[InstantTime, Instant]]:
    keyed = [(time_in_order(timeline, i, order, utc), i) for i in timeline.commits]
    return sorted(keyed, key=lambda pair: (pair[0], pair[1].time, pair[1].action.value))


def _sorted(timeline: Timeline, order: Order, utc: bool) -> tuple[Instant, ...]:
    return tuple(instant for _, instant in _keyed(timeline, order, utc))


def time_in_order(timeline: Timeline, instant: Instant, order: Order, utc: bool) -> InstantTime:
    """The time by which ``order`` ranges over a completed commit, of 17 digits."""
    if order is Order.COMPLETED:
        return completion_time(timeline, instant, utc)
    return padded_time(instant.time)
