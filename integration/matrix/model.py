"""A table as a Python dict: what every engine must return after every operation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from integration.matrix.forms import Form
from integration.matrix.rows import table
from integration.peers import Answer
from integration.peers.canonical import from_arrow

Row = dict[str, Any]


class Model:
    """Rows by partition and key, as a non-global index keeps them."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.rows: dict[Hashable, Row] = {}

    def apply(self, operation: str, rows: Iterable[Row]) -> None:
        """Change the rows as Hudi's operation of that name does, with event-time ordering."""
        change: Callable[[list[Row]], None] = getattr(self, f"_{operation}")
        change(list(rows))

    def answer(self) -> Answer:
        """The rows in the form in which engines answer, without meta columns."""
        return from_arrow(table(self.rows.values())).without_meta()

    def _place(self, row: Row) -> Hashable:
        # Rows of a keyless table have no identity; their ids differ, which serves here.
        return self.form.partition(row), tuple(row[k] for k in self.form.keys or ("id",))

    def _insert(self, rows: list[Row]) -> None:
        for row in rows:
            assert self._place(row) not in self.rows, "inserts bring new keys only"
            self.rows[self._place(row)] = row

    _bulk_insert = _insert

    def _upsert(self, rows: list[Row]) -> None:
        for row in rows:
            old = self.rows.get(self._place(row))
            if old is None or row["ts"] >= old["ts"]:
                self.rows[self._place(row)] = row

    def _delete(self, rows: list[Row]) -> None:
        for row in rows:
            self.rows.pop(self._place(row), None)

    def _delete_partition(self, rows: list[Row]) -> None:
        gone = {self.form.partition(row) for row in rows}
        self.rows = {k: r for k, r in self.rows.items() if self.form.partition(r) not in gone}

    def _insert_overwrite(self, rows: list[Row]) -> None:
        self._delete_partition(rows)
        self._insert(rows)

    def _insert_overwrite_table(self, rows: list[Row]) -> None:
        self.rows = {}
        self._insert(rows)
