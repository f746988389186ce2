"""Micro-batches of streams: which write of its batch a statement is, and what a query shows of it.

Invariant: the writes of one batch to one table are numbered in their order, also those that change
nothing, so that a batch which is evaluated again numbers them alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from pyhudi.application.last_commit import written_rows
from pyhudi.config import WriteOptions
from pyhudi.format.stream_marks import Epoch
from pyhudi.recent import Recent
from pyhudi.transactions.transaction import Committed


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch that a statement writes: the query's id and run, and the batch's number."""

    query: str
    run: str
    number: int


@dataclass(frozen=True, slots=True)
class Turn:
    """The write number ``ordinal`` of a batch to one table."""

    batch: MicroBatch
    ordinal: int

    def epoch(self, options: WriteOptions) -> Epoch:
        """The epoch under the stream's name in ``options``."""
        name, replaces = options.stream_name, options.stream_replaces
        return Epoch(name, self.batch.query, self.batch.number, self.ordinal, replaces)


class Ordinals:
    """Counts the writes of each running batch to each table; safe to share between threads.

    A batch that is evaluated again, by another run of its query, counts from 0.
    """

    def __init__(self, limit: int = 1_000) -> None:
        self._known: Recent[tuple[str, str], tuple[str, int, int]] = Recent(limit)
        self._lock = Lock()

    def turn(self, root: str, batch: MicroBatch | None, again: bool = False) -> Turn | None:
        """The turn of this write, None outside of a batch; ``again``: its statement repeats it."""
        if batch is None:
            return None
        key = root, batch.query
        with self._lock:
            run, number, count = self._known.get(key) or ("", -1, 0)
            if (run, number) != (batch.run, batch.number):
                count = 0
            elif again:
                count -= 1
            self._known.put(key, (batch.run, batch.number, count + 1))
        return Turn(batch, count)


def progress_of(done: Committed | None, seconds: float) -> dict[str, str]:
    """What ``StreamingQueryProgress`` shows of a batch whose write took ``seconds``.

    Times are in milliseconds, sizes in bytes. A batch that the table had already, or that had no
    rows, has only its time.
    """
    told: dict[str, object] = {"writeMs": round(seconds * 1000)}
    if done is not None:
        stats = done.metadata.stats
        inserted, updated, deleted = written_rows(done)
        told |= {
            "instant": done.instant,
            "completedAt": done.completion_time,
            "rowsIn": inserted + updated + deleted if done.rows_in is None else done.rows_in,
            "rowsInserted": inserted,
            "rowsUpdated": updated,
            "rowsDeleted": deleted,
            "filesWritten": len(stats),
            "bytesWritten": sum(s.file_size_bytes for s in stats),
            "lockWaitMs": done.lock_wait_ms,
            "retries": done.conflicts_retried,
            **done.looked_up,
        }
    return {name: str(value) for name, value in told.items()}
