"""Plain text tables: aligned columns, numbers on the right, no colour, no frame."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ("B", "kB", "MB", "GB", "TB")
GAP = "  "
NOTHING = "-"

Cell = str | int


def table_text(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """``rows`` under ``head``; columns of numbers or empty cells are aligned to the right."""
    texts = [[cell_text(cell) for cell in row] for row in rows]
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


def cell_text(cell: Cell) -> str:
    """A text as it is, a number with commas between thousands."""
    return f"{cell:,}" if isinstance(cell, int) else cell


def size_text(size_bytes: int) -> str:
    """A size for people: ``0 B``, ``12.3 MB``; each unit is 1000 of the one before."""
    size = float(size_bytes)
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def time_text(time: str | None) -> str:
    """An instant time as a date and a clock time, ``-`` for none."""
    if time is None or len(time) < 14:
        return NOTHING
    date, clock = f"{time[:4]}-{time[4:6]}-{time[6:8]}", f"{time[8:10]}:{time[10:12]}:{time[12:14]}"
    return f"{date} {clock}"
