"""Micro-batches of streams: which write of its batch a statement is, and what a query shows of it.

Invariant: the writes of one batch to one table are numbered in their order, also those that change
nothing, but not those that fail: a batch which is evaluated again numbers them alike, whether or
not a write was tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyhudi.application.last_commit import written_rows
from pyhudi.config import WriteOptions
from pyhudi.format.stream_marks import MOST_WRITES, Epoch
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
    """The write number ``ordinal`` of a batch to one table.

    ``made`` says what the batch's writes to the table are, up to this one (``Mark.made``).
    """

    batch: MicroBatch
    ordinal: int
    made: tuple[str, ...] = ()

    def epoch(self, options: WriteOptions) -> Epoch:
        """The epoch under the stream's name in ``options``."""
        name, replaces = options.stream_name, options.stream_replaces
        batch = self.batch
        return Epoch(name, batch.query, batch.number, self.ordinal, replaces, self.made)


@dataclass(slots=True)
class _Running:
    """The last batch that a query has written; by table what each write of it is."""

    batch: MicroBatch
    made: dict[str, list[str]] = field(default_factory=dict)


class Ordinals:
    """Counts the writes of each running batch to each table; safe to share between threads.

    A batch that is evaluated again, by another run of its query, counts from 0. The running batches
    of ``queries`` queries are known.
    """

    def __init__(self, queries: int = 10_000) -> None:
        self._running: Recent[str, _Running] = Recent(queries)
        self._lock = Lock()

    @contextmanager
    def turn(self, place: str, batch: MicroBatch | None, kind: str = "") -> Iterator[Turn | None]:
        """The turn of a write to the table at ``place``, None outside of a batch.

        ``kind`` says what the write is, ``""`` if that is not known. A write that raises gives its
        number back, also if its outcome is unknown: it is then judged by the same number again.
        """
        if batch is None:
            yield None
            return
        with self._lock:
            writes = self._writes(place, batch)
            ordinal = len(writes)
            writes.append(kind)
            told = tuple(writes[:MOST_WRITES]) if any(writes) else ()
        try:
            yield Turn(batch, ordinal, told)
        except BaseException:
            with self._lock:
                if len(writes) == ordinal + 1:
                    del writes[ordinal]
            raise

    def _writes(self, place: str, batch: MicroBatch) -> list[str]:
        found = self._running.get(batch.query)
        if found is None or found.batch != batch:
            found = _Running(batch)
            self._running.put(batch.query, found)
        return found.made.setdefault(place, [])


def progress_of(done: Committed | None, begun_s: float, now_s: float) -> dict[str, str]:
    """What ``StreamingQueryProgress`` shows of a batch whose write began at ``begun_s``.

    Both are seconds of the monotonic clock. Shown times are in milliseconds, sizes in bytes:
    ``writeMs`` is the whole write, of which the rows were visible after ``commitMs``; table
    services take the rest. A batch that the table had already, or that had no rows, has only
    ``writeMs``.
    """
    told: dict[str, object] = {"writeMs": round((now_s - begun_s) * 1000)}
    if done is not None:
        if done.ended_s is not None:
            told["commitMs"] = round((done.ended_s - begun_s) * 1000)
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
