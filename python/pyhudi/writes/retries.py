"""When a write is done again: after a lost race, and an epoch after all that may have no effect.

Invariant: after an unknown outcome an epoch is tried again on a table that was looked at since, and
in which that outcome is settled (docs/decisions/stream_epochs.md).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from pyhudi.clock import Clock
from pyhudi.errors import (
    CommitConflict,
    CommitUnknown,
    HudiError,
    LockTimeout,
    Race,
    StorageError,
    UnsupportedTable,
    WriteFailed,
    WriterFenced,
)
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import Epoch
from pyhudi.locks.cancelling import pause
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.transaction import Committed
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

BACKOFF_MS: Final = 50
BACKOFF_CAP_MS: Final = 2_000
#: an epoch waits longer for what is pending: with ``EPOCH_RETRIES`` for about 25 minutes in all
PENDING_CAP_MS: Final = 30_000
#: how often a pessimistic write begins again because groups changed while it waited for locks
MOST_WAITS: Final = 20
#: how often an epoch is written again: after lost races, timeouts of the lock, unknown outcomes,
#: and after its driver stood still and was taken for dead
EPOCH_RETRIES: Final = 60
#: how often logs are compacted that are in the way
MOST_COMPACTIONS: Final = 3
#: what a conflict tells its caller to do; a write that is repeated anyway does not say it
_ADVICE: Final = re.compile(r" Run it again(?:(?:: it then| once) [^.]*)?\.(?= |$)")


class Counted(Protocol):
    """Where it is counted how often a write was done again.

    ``sure``: hits among hashes are looked up in the files, since one of them was another key.
    ``logged`` are the groups with logs that the last attempt would write, or had to look keys up
    in; ``deleting`` those whose logs have deletes that a row comes after too late.
    """

    retries: int
    sure: bool
    logged: frozenset[Group]
    deleting: frozenset[Group]


@dataclass(frozen=True, slots=True)
class Retries:
    """How one write is done again, at most ``most`` times in all.

    ``writer`` gives the process as a writer of a table, ``epoch`` is the micro-batch that is
    written. ``once``: the rows were read from the table, so they cannot be written a second time.
    ``compact`` compacts file groups whose logs are in the way, and says whether it could. It raises
    ``CommitConflict`` if others hinder it.
    """

    clock: Clock
    most: int
    count: Counted
    writer: Callable[[Table], Writer]
    epoch: Epoch | None = None
    once: bool = False
    compact: Callable[[Table, frozenset[Group]], bool] = lambda table, groups: False

    def run(self, attempt: Callable[[Table, bool], Committed], table: Table) -> Committed:
        """What the first ``attempt(table, again)`` returns that is not to be made again."""
        waits, compactions, again = 0, 0, False
        for _ in range(self.most + MOST_WAITS + MOST_COMPACTIONS + 2):
            try:
                return attempt(table, again)
            except CommitConflict as conflict:
                if self.once:
                    raise
                if conflict.before_data and waits < MOST_WAITS:
                    # Not a lost race: the write has waited for its locks, keeps them and goes on.
                    waits += 1
                    log.info("%s It had waited for locks, and no work is lost.", _told(conflict))
                else:
                    if self.count.retries == self.most:
                        raise
                    pause(self.clock, self.pause_ms(conflict) / 1000)
                    self.count.retries += 1
                table = open_table(table.storage)
            except (LockTimeout, CommitUnknown, WriterFenced) as late:
                if self.epoch is None or self.once or self.count.retries == self.most:
                    raise
                self.count.retries += 1
                table = self._looked_again(table, late)
            except (WriteFailed, UnsupportedTable) as failed:
                if isinstance(failed, WriteFailed) and failed.misplaced and not self.count.sure:
                    log.warning("%s It is tried again with a lookup of all keys.", failed)
                    self.count.sure = True
                    table = open_table(table.storage)
                elif (groups := self._in_the_way(failed)) and compactions < MOST_COMPACTIONS:
                    compactions += self._compacted(table, failed, groups)
                    table = open_table(table.storage)
                else:
                    raise
            again = True
        raise AssertionError("unreachable")

    def _in_the_way(self, failed: WriteFailed | UnsupportedTable) -> frozenset[Group]:
        """The file groups whose logs are in the way of a write, which a compaction clears."""
        if isinstance(failed, UnsupportedTable):
            return self.count.logged if failed.copied or failed.of_logs else frozenset()
        if failed.late:
            return self.count.deleting
        return self.count.logged if failed.misplaced else frozenset()

    def _compacted(
        self, table: Table, failed: WriteFailed | UnsupportedTable, groups: frozenset[Group]
    ) -> int:
        """How often ``groups`` were compacted: 0 after a pause if others were in the way.

        ``failed`` if they cannot be compacted.
        """
        try:
            if not self.compact(table, groups):
                raise failed
        except CommitConflict as busy:
            if self.once:
                raise
            if self.count.retries == self.most:
                raise failed from busy
            pause(self.clock, self.pause_ms(busy) / 1000)
            self.count.retries += 1
            return 0
        log.warning("%s The logs were compacted now, and it is tried again.", failed)
        if self.once:
            raise CommitConflict(
                f"Logs of {table.config.name} were in the way and have been compacted. "
                "Nothing of this write is visible. Run it again.",
                path=failed.path,
                compacted=True,
            ) from failed
        return 1

    def evaluated_in_ms(self, table: Table, late: Race) -> int | None:
        """The pause before a statement that reads its own table is evaluated again; None: never.

        That is after a lost race, and for an epoch whenever ``run`` would try it again. After a
        compaction of logs in its way it does not depend on how many races may be lost.
        """
        if isinstance(late, CommitConflict) and late.compacted:
            return 0 if self.count.retries < self.most + MOST_COMPACTIONS else None
        if self.count.retries >= self.most:
            return None
        if isinstance(late, CommitConflict):
            return self.pause_ms(late)
        if self.epoch is None:
            return None
        self._looked_again(table, late)
        return 0

    def pause_ms(self, conflict: CommitConflict) -> int:
        """The pause of a write that lost a race before its next attempt."""
        lost = self.count.retries
        patient = conflict.pending and self.epoch is not None
        most: int = min(BACKOFF_MS * 2**lost, PENDING_CAP_MS if patient else BACKOFF_CAP_MS)
        wait = most // 2 + self.clock.random_int(most)
        log.warning("%s Retry %d of %d in %d ms.", _told(conflict), lost + 1, self.most, wait)
        return wait

    def _looked_again(self, table: Table, late: HudiError) -> Table:
        """The table on which an epoch is tried again, after an unknown outcome is settled."""
        log.warning("%s The epoch %s is tried again.", late, self.epoch)
        try:
            table = open_table(table.storage)
        except StorageError as gone:
            raise late from gone
        if isinstance(late, CommitUnknown) and late.instant is not None:
            # The last put cannot land any more (``publish.py``), so nobody need wait for the beat.
            try:
                settle_failed_writes(self.writer(table), forced=(InstantTime(late.instant),))
            except (LockTimeout, StorageError) as busy:
                log.warning("%s The next writer settles it: %s", late, busy)
        return table


def most_retries(asked: int, epoch: Epoch | None) -> int:
    """How often a write is done again; a stream does not end because of others."""
    return max(asked, 0 if epoch is None else EPOCH_RETRIES)


def _told(conflict: CommitConflict) -> CommitConflict:
    """The conflict for the log of a write that runs again by itself: without that advice."""
    return conflict.restated(_ADVICE.sub("", str(conflict).partition("] ")[2]))
