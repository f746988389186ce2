"""Plain tables for the terminal: aligned columns, numbers to the right, no colour, no frame."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.format.instants import InstantTime, State
from pyhudi.services.failed_writes import PendingWrite
from pyhudi.timeline.history import HistoryEntry

UNITS = ("B", "kB", "MB", "GB", "TB")
GAP = "  "
NOTHING = "-"

Cell = str | int


def table_text(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """``rows`` under ``head``; columns of numbers (or nothing) are aligned to the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    numeric = [any(isinstance(cell, int) for cell in column) for column in zip(*rows, strict=True)]
    numeric = numeric or [False] * len(head)
    lines = [head, ["-" * width for width in widths], *texts]
    return "\n".join(_line(line, widths, numeric) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return GAP.join(padded).rstrip()


def _text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else cell


def size_text(size_bytes: int) -> str:
    """A size as people read it: ``0 B``, ``12.3 MB``; a thousand to the unit."""
    size = float(size_bytes)
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def time_text(time: InstantTime | None) -> str:
    """An instant time as a date and a clock time, ``-`` for none."""
    if time is None or len(time) < 14:
        return NOTHING
    t = str(time)
    return f"{t[:4]}-{t[4:6]}-{t[6:8]} {t[8:10]}:{t[10:12]}:{t[12:14]}"


HISTORY_HEAD = (
    "instant", "action", "state", "completed", "operation",
    "files", "written", "inserted", "updated", "deleted", "size",
)  # fmt: skip


def history_text(entries: Sequence[HistoryEntry]) -> str:
    """A table's history, one line per instant; ``written`` counts carried-over rows too."""
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
    return (each.instant, each.action.value, each.state.value, beat, each.outcome.value, *undone)
