"""Incoming rows that lose against a row of the base file, and so need not come to a log.

By event time a row with a smaller ordering value loses (spec/merging.md R1). Whatever the logs
have, the row of the base file or a newer one stays in its place, unless they have a delete that
always wins (R4): beside such logs nobody asks.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.merge_rules import incoming_wins, ordering_roots, ordering_values
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.ordering import Mask, comparable
from pyhudi.rows.spec import DELETE, WriteSpec


class OutdatedRows:
    """Tells which rows of a write lose against their rows of the base file ``old``."""

    def __init__(self, spec: WriteSpec, old: OldFile) -> None:
        self._spec, self._roots = spec, ordering_roots(spec)
        first = spec.ordering_columns[0]
        self._largest = old.largest(first) if first in self._roots else None
        self._possible = False

    @classmethod
    def of(cls, spec: WriteSpec, old: OldFile | None) -> OutdatedRows | None:
        """None if no row of the write loses, or one that loses may count.

        It may give values, or another writer may delete the other row meanwhile.
        """
        loses = spec.by_event_time and not spec.always_delete
        if old is None or not loses or spec.filled is not None or not spec.alone:
            return None
        return cls(spec, old)

    def note(self, incoming: pa.Table) -> None:
        """Look at all ``incoming`` rows before the first one is asked for."""
        if not self._possible and incoming.num_rows:
            self._possible = not self._win_all(incoming)

    def columns(self) -> list[str]:
        """The columns of the base file that tell; none if its statistics show that no row loses."""
        return self._roots if self._possible else []

    def winning(self, rows: pa.Table, old: pa.Table) -> Mask | None:
        """Which of ``rows`` win against those of ``old``, which belong to them one by one; None if
        all do."""
        compared = [*self._roots, *([DELETE] if DELETE in rows.column_names else [])]
        return incoming_wins(self._spec, rows.select(compared), old.select(self._roots))

    def _win_all(self, incoming: pa.Table) -> bool:
        """Whether the footer's statistics show that all these rows win."""
        if self._largest is None:
            return False
        values = comparable(ordering_values(incoming, self._spec.ordering_columns[0]))
        if values.null_count:
            return False
        whole = pa.int32() if values.type.bit_width == 32 else pa.int64()
        least = pc.min(values.cast(whole)).as_py()
        one = len(self._spec.ordering_columns) == 1
        return bool(least > self._largest or (one and least == self._largest))
