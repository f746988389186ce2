"""What the ``pyhudi`` command shows of a timeline, as plain tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.format.instants import State
from pyhudi.services.failed_writes import PendingWrite
from pyhudi.text_table import NOTHING, Cell, size_text, table_text, time_text
from pyhudi.timeline.history import HistoryEntry

HISTORY_HEAD = (
    "instant", "action", "state", "completed", "operation",
    "files", "written", "inserted", "updated", "deleted", "size",
)  # fmt: skip


def history_text(entries: Sequence[HistoryEntry]) -> str:
    """A table's history, one line per instant; ``written`` also counts copied rows."""
    return table_text(HISTORY_HEAD, [_history_row(entry) for entry in entries])


def _history_row(entry: HistoryEntry) -> tuple[Cell, ...]:
    state = "archived" if entry.archived else entry.state.value
    start = (entry.instant, entry.action.value, state, time_text(entry.completed_at))
    if not entry.is_commit or entry.state is not State.COMPLETED:
        return (*start, entry.operation or NOTHING, *[NOTHING] * 6)
    return (
        *start,
        entry.operation,
        entry.files,
        entry.rows_written,
        entry.rows_inserted,
        entry.rows_updated,
        entry.rows_deleted,
        size_text(entry.bytes_written),
    )


PENDING_HEAD = ("instant", "action", "state", "last beat", "outcome", "rollback", "files deleted")


def pending_text(found: Sequence[PendingWrite]) -> str:
    """What became of pending instants, one line for each."""
    return table_text(PENDING_HEAD, [_pending_row(each) for each in found])


def _pending_row(each: PendingWrite) -> tuple[Cell, ...]:
    beat = NOTHING if each.silent_ms is None else f"{each.silent_ms // 1000} s ago"
    undone: tuple[Cell, Cell] = (NOTHING, NOTHING)
    if each.rollback is not None:
        undone = (each.rollback, each.files_deleted)
    outcome = f"{each.outcome.value}: {each.why}" if each.why else each.outcome.value
    return (each.instant, each.action.value, each.state.value, beat, outcome, *undone)
