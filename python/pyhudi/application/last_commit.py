"""What an application's last commit did, kept after the statement has ended."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.format.instants import Action, Instant, State
from pyhudi.listing import Listing, html_table
from pyhudi.text_table import Cell, cell_text, size_text, table_text
from pyhudi.timeline.history import HistoryEntry, entry_of
from pyhudi.timeline.inspection import Commit, FileChange, file_change
from pyhudi.transactions.transaction import Committed


@dataclass(frozen=True, slots=True, repr=False)
class WrittenCommit(Commit):
    """A commit of this application, and what it cost.

    ``path`` and ``table`` name the table. ``lock_wait_ms`` is the time that all its attempts waited
    for the table's lock, ``conflicts_retried`` how often it was written again after a lost race.
    """

    path: str
    table: str
    lock_wait_ms: int
    conflicts_retried: int

    def _facts(self) -> list[tuple[str, Cell]]:
        entry = self.entry
        return [
            ("path", self.path),
            ("operation", entry.operation),
            ("completed at", entry.completed_at or ""),
            ("rows inserted", entry.rows_inserted),
            ("rows updated", entry.rows_updated),
            ("rows deleted", entry.rows_deleted),
            ("files", entry.files),
            ("file groups replaced", entry.replaced_groups),
            ("size", size_text(entry.bytes_written)),
            ("lock wait", f"{self.lock_wait_ms} ms"),
            ("conflicts retried", self.conflicts_retried),
        ]

    def _head(self) -> list[str]:
        return [self.table, self.entry.instant]

    def __repr__(self) -> str:
        return table_text(self._head(), [[name, cell_text(fact)] for name, fact in self._facts()])

    def _repr_html_(self) -> str:
        return html_table(self._head(), self._facts())


@dataclass(frozen=True, slots=True)
class Shown:
    """A commit in Spark's SQL tab: the name, kind and value of each fact.

    Kinds are Spark's: ``sum``, ``size`` in bytes, ``timing`` in milliseconds.
    """

    title: str
    facts: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """How many rows a commit changed, as SQL counts them: a row that moves is an updated one.

    ``deleted`` is None if metadata no longer says how many rows the replaced files had.
    """

    inserted: int
    updated: int
    deleted: int | None


def written_rows(done: Committed) -> tuple[int, int, int]:
    """How many rows the files of a commit insert, update and delete.

    A row that moves to another partition is an insert and a delete in the commit's statistics, and
    one that only a log had an insert.
    """
    entry, moved = _entry(done), done.rows_moved
    known = moved + done.rows_logged
    return entry.rows_inserted - known, entry.rows_updated + known, entry.rows_deleted - moved


def changed_rows(done: Committed | None) -> ChangedRows:
    """The rows that a commit changed, None for a statement that had nothing to commit."""
    if done is None:
        return ChangedRows(0, 0, 0)
    inserted, updated, deleted = written_rows(done)
    replaced = done.rows_replaced
    return ChangedRows(inserted, updated, None if replaced is None else deleted + replaced)


def _entry(done: Committed) -> HistoryEntry:
    instant = Instant(done.instant, Action.COMMIT, State.COMPLETED, done.completion_time)
    return entry_of(instant, done.completion_time, done.metadata, utc=True)


def sql_tab(done: Committed) -> Shown:
    """What is shown of a commit that this application made."""
    entry = _entry(done)
    facts = (
        ("rows inserted", "sum", entry.rows_inserted),
        ("rows updated", "sum", entry.rows_updated),
        ("rows deleted", "sum", entry.rows_deleted),
        ("files written", "sum", entry.files),
        ("size of files written", "size", entry.bytes_written),
        ("wait for the lock", "timing", done.lock_wait_ms),
        ("conflicts retried", "sum", done.conflicts_retried),
    )
    return Shown(f"{entry.operation} at {done.instant}", facts)


class LastCommit:
    """Remembers the last commit of an application; its writers note each commit here."""

    def __init__(self) -> None:
        self._noted: tuple[str, str, HistoryEntry, Committed] | None = None

    @property
    def written(self) -> WrittenCommit | None:
        """The last commit, None before the first."""
        if self._noted is None:
            return None
        path, table, entry, done = self._noted
        files = Listing(FileChange, map(file_change, done.metadata.stats))
        return WrittenCommit(
            entry,
            files,
            done.metadata.extra,
            path,
            table,
            done.lock_wait_ms,
            done.conflicts_retried,
        )

    def note(self, path: str, table: str, entry: HistoryEntry, done: Committed) -> None:
        """Remember a commit that has just become visible; its files are listed on demand."""
        self._noted = path, table, entry, done
