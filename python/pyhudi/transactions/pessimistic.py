"""Pessimistic writes: the locks of file groups, taken before the merge and held to the end.

Once a write has its locks, and nobody changed its groups before, it cannot lose them to another
pessimistic write; the others wait (the consistency model's alternative to the optimistic check).
Bucket tables are locked by partition and bucket number, since two writers may create one bucket
under different ids.

Invariant: only pessimistic writers write the table. ``hoodie.properties`` says so, under a key of
our own, from its creation or from its first pessimistic write; each commit has the same mark. A
writer that finds that another program has written without locks refuses to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyhudi.choices import CONCURRENCY_PROPERTY, ConcurrencyMode
from pyhudi.errors import CommitConflict, ConfigError, WriteFailed
from pyhudi.format.filenames import bucket_number
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig
from pyhudi.locks.base import LockOwner
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.conflicts.comparison import Footprint, Group, Strategy, footprint_of
from pyhudi.transactions.conflicts.judgement import check_conflicts
from pyhudi.transactions.conflicts.meanwhile import Meanwhile
from pyhudi.transactions.properties import rewrite_properties
from pyhudi.transactions.recovery.settle import is_write, settle_failed_writes
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

MARK = {CONCURRENCY_PROPERTY: ConcurrencyMode.PESSIMISTIC.value}
MODE_KEY = "hoodie.write.concurrency.mode"
SHOWN = 5


def is_pessimistic(config: TableConfig) -> bool:
    """Whether the table accepts only pessimistic writers."""
    return config.raw.get(CONCURRENCY_PROPERTY, "").upper() == ConcurrencyMode.PESSIMISTIC.value


def lock_names(groups: Iterable[Group]) -> frozenset[str]:
    """The names of the locks of ``groups``: a function of partition and file id alone.

    For an id that begins with a bucket's number the name has that number. One random id in 43 looks
    like one too, but hardly ever shares its lock with another.
    """
    named = ((p, f, bucket_number(f)) for p, f in groups)
    return frozenset(
        f"{p}/{f}" if number is None else f"{p}/{number:08d}" for p, f, number in named
    )


def declare_pessimistic(writer: Writer) -> Table:
    """The table, recorded as one of pessimistic writers; ``ConfigError`` while others write to it.

    Under the table lock. A write that began before and commits later finds the record then.
    """
    settle_failed_writes(writer)
    table = writer.table
    time = writer.next_time(table.timeline())
    with writer.locked(time):
        table = open_table(table.storage)
        if is_pessimistic(table.config):
            return table
        timeline = table.timeline()
        running = [i for i in timeline.pending if is_write(table, timeline, i)]
        if running:
            names = ", ".join(f"{i.action.value} {i.time}" for i in running[:SHOWN])
            raise ConfigError(
                f"'{MODE_KEY}' is {ConcurrencyMode.PESSIMISTIC.value}, but writes that lock no "
                f"file groups are running: {names}. A table is all pessimistic or not at all. "
                "Begin the first pessimistic write when they have ended; a dead write ends when "
                "its heartbeat is stale and another write has rolled it back.",
                key=MODE_KEY,
            )
        table = rewrite_properties(table, {**table.config.raw, **MARK}, writer.lock)
        log.warning("%s: from now on its writers lock file groups", table.config.name)
        return table


def claim(
    groups: GroupLocks,
    names: frozenset[str],
    table: Table,
    loaded: Timeline,
    instant: InstantTime,
    ours: Footprint,
    strategy: Strategy,
) -> None:
    """Hold the locks ``names``, and fail if a group was changed before we had them.

    Then ``CommitConflict`` with ``before_data``: a new instant that keeps the locks continues from
    the new state, and no work was lost. Also errors of ``GroupLocks.hold``.
    """
    if not groups.hold(names, LockOwner.this_process(instant)):
        return
    now = table.timeline()
    try:
        check_conflicts(table, loaded, now, instant, ours, strategy)
    except CommitConflict as conflict:
        # A pending instant, such as a clustering, has not ended: it may take its time.
        if conflict.theirs not in {i.time for i in now.pending}:
            conflict.before_data = True
        raise


def check_unlocked(table: Table, loaded: Timeline, now: Timeline, ours: Footprint) -> None:
    """``WriteFailed`` if a program that takes no locks has changed our groups since ``loaded``.

    Its commits lack the mark of pessimistic ones. pyhudi's own other writers commit nothing to
    such a table, so it is Apache Hudi or a program like it.
    """
    for theirs, metadata in Meanwhile(table, loaded, now).commits():
        if CONCURRENCY_PROPERTY in metadata.extra:
            continue
        other = footprint_of(theirs, metadata, bool(ours.buckets))
        both = ours.updated & other.updated
        if not both and not ours.buckets & other.buckets:
            log.warning(
                "%s was written by a program that locks no file groups, to a table of pessimistic "
                "writers: the next of its commits may cost one of them its work",
                other.who,
            )
            continue
        names = sorted(lock_names(both)) or [f"{p}/{n:08d}" for p, n in ours.buckets]
        raise WriteFailed(
            f"{ours.who} held the locks of the file groups that it changed, but {other.who} "
            f"changed the same ones meanwhile: {', '.join(names[:SHOWN])}. It was written without "
            "such locks, by Apache Hudi or a program like it. Nothing of this write is visible. A "
            "table is all pessimistic or not at all: stop the other program, then run this again; "
            f"or take {CONCURRENCY_PROPERTY} out of hoodie.properties while nobody writes.",
            ours=ours.who,
            theirs=theirs.time,
            overlap=tuple(names),
        )


def refuse_without_locks(table: Table, who: str) -> None:
    """``WriteFailed`` for a write without locks, if the table has become pessimistic meanwhile."""
    if is_pessimistic(table.config):
        raise WriteFailed(
            f"{who} locks no file groups, and meanwhile another writer has made this a table of "
            f"pessimistic writers ({CONCURRENCY_PROPERTY} in hoodie.properties). Nothing of this "
            f"write is visible. Run it again, without {MODE_KEY}: it then follows the table.",
        )
