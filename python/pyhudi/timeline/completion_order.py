"""In which order the commits of a table are followed, and how far is safe to have followed them.

Writers that run side by side end in another order than they began (RFC-22, "Incremental reads"):
a reader that remembers the greatest instant time it saw may pass over one that began earlier and
ends later. Invariant: whatever completes after ``safe_checkpoint`` was taken lies above it.

A listing is not a moment: a writer may end while the folder is being listed, in a part of it that
was read already. So a checkpoint takes two listings, the second begun after the first had ended.
What the first shows bounds the checkpoint; everything below that bound is in the second.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from pyhudi.errors import UnsupportedTable
from pyhudi.format.instants import Action, Instant, InstantTime, format_time, padded_time
from pyhudi.timeline.active import Timeline, instant_key

#: pending actions that will add or change rows; services rewrite rows that are there already
ADDING = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})


class Order(str, Enum):
    """How commits are followed: the three options of RFC-22's "Incremental reads".

    ``COMPLETED``: by completion time, each commit once, as soon as it is there. ``FENCED``: by
    instant time, nothing behind the first write that is still pending. ``REQUESTED``: by instant
    time, all that is there; what lies behind a pending write comes again until that has ended.
    """

    REQUESTED = "requested"
    FENCED = "fenced"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Followed:
    """Commits in their order, and where to go on; ``fence`` is the first pending write."""

    commits: tuple[Instant, ...]
    checkpoint: InstantTime | None
    fence: InstantTime | None


def default_order(layout: int) -> Order:
    """By completion where the table records it, else behind the fence."""
    return Order.COMPLETED if layout == 2 else Order.FENCED


def completion_time(timeline: Timeline, instant: Instant, utc: bool) -> InstantTime:
    """When a completed instant did complete.

    Layout 2 has it in the file's name; layout 1, and what an upgrade carried over, in the file's
    modification time (spec/timeline.md T4), which is rendered in the table's zone (``utc``, or
    local).
    """
    if instant.completion_time is not None:
        return instant.completion_time
    return format_time(timeline.modified_ms[instant_key(instant)], utc)


def completion_ordered(timeline: Timeline, utc: bool) -> tuple[Instant, ...]:
    """Completed commits in the order in which they completed (RFC-22's END_COMMIT_TIME)."""
    return _sorted(timeline, Order.COMPLETED, utc)


def fence(
    timeline: Timeline, clusterings: Collection[InstantTime] = frozenset()
) -> InstantTime | None:
    """The first pending write; None without one.

    ``clusterings`` are pending replace commits of layout 1 that are known to be clusterings.
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
    """The greatest point below every later completion; None before any commit.

    The listing ``before`` ended before ``now`` began. By completion time the point passes
    running writers: a completion time is taken under the table lock, above all that completed
    before. By instant time it stops at the last commit before the first pending write; an
    instant that is requested later is above every completed one. ``UnsupportedTable`` for
    completion order in layout 1: modification times are too coarse to tell two commits apart.
    """
    if order is Order.COMPLETED and now.layout == 1:
        raise UnsupportedTable(
            "Tables of version 6 do not record when a commit completed: their files' modification "
            "times, a second apart on some storages, can pass over a commit. Follow the table by "
            "'fenced' or 'requested', or upgrade it with Apache Hudi to version 8 or later.",
            feature="checkpoints by completion time in table version 6",
        )
    reached = [_key(before, i, order, utc) for i in before.commits]
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

    Each commit comes once, but by ``REQUESTED``, where those above the new checkpoint come again.
    A checkpoint never goes back. Arguments and errors as for ``safe_checkpoint``.
    """
    safe = safe_checkpoint(before, now, order, utc, clusterings)
    start = padded_time(after) if after else InstantTime("")
    above = [(key, i) for key, i in _keyed(now, order, utc) if key > start]
    if order is not Order.REQUESTED:
        above = [(key, i) for key, i in above if safe is not None and key <= safe]
    checkpoint = max(start, safe or InstantTime("")) or None
    return Followed(tuple(i for _, i in above), checkpoint, fence(now, clusterings))


def _keyed(timeline: Timeline, order: Order, utc: bool) -> list[tuple[InstantTime, Instant]]:
    keyed = [(_key(timeline, i, order, utc), i) for i in timeline.commits]
    return sorted(keyed, key=lambda pair: (pair[0], pair[1].time, pair[1].action.value))


def _sorted(timeline: Timeline, order: Order, utc: bool) -> tuple[Instant, ...]:
    return tuple(instant for _, instant in _keyed(timeline, order, utc))


def _key(timeline: Timeline, instant: Instant, order: Order, utc: bool) -> InstantTime:
    if order is Order.COMPLETED:
        return completion_time(timeline, instant, utc)
    return padded_time(instant.time)
