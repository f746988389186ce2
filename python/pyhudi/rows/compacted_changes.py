"""The change log of a compaction: what the logs of a slice have done to the rows of its base file.

Invariant: each key has one change, by the rows that the compaction takes out of the base file and
those that it puts in. Readers that ask for the changes of compactions find them here alone
(docs/decisions/compaction.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.change_log_writer import ChangeLogWriter
from pyhudi.rows.merge_rules import as_mask
from pyhudi.rows.rows import single
from pyhudi.rows.spec import KEY_COLUMN

#: rows taken out of the base file that are held in memory
HELD_BYTES = 64 << 20


class CompactedChanges:
    """Takes the rows that go in, those that come, and tells the log which belong together.

    ``again`` gives all rows that come: they are gone through once for each ``held_bytes`` of rows
    that go.
    """

    def __init__(
        self,
        log: ChangeLogWriter,
        columns: Sequence[str],
        again: Callable[[], Iterator[pa.Table]],
        held_bytes: int = HELD_BYTES,
    ) -> None:
        self.columns = [KEY_COLUMN, *columns]
        self._log, self._again, self._most = log, again, held_bytes
        self._held: list[pa.Table] = []
        self._before: pa.Table | None = None
        self._matched = np.zeros(0, np.bool_)

    def gone(self, rows: pa.Table) -> None:
        """These rows of the base file do not count any more."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        if sum(each.nbytes for each in self._held) >= self._most:
            self._gather()
            for fresh in self._again():
                self._updated(fresh)
            self._deleted()

    def came(self, fresh: pa.Table, known: pa.Array) -> None:
        """Rows of the logs; ``known`` says which of them have a key that is in the base file."""
        if self._held:
            self._gather()
        self._updated(fresh)
        new = fresh.filter(pc.invert(known))
        if new.num_rows:
            self._log.inserted(new)

    def close(self) -> dict[str, object]:
        """Finish the log; what ``ChangeLogWriter.close`` gives."""
        if self._held:
            self._gather()
        self._deleted()
        return self._log.close()

    def _gather(self) -> None:
        self._before = pa.concat_tables(self._held).unify_dictionaries()
        self._matched = np.zeros(self._before.num_rows, np.bool_)
        self._held = []

    def _updated(self, fresh: pa.Table) -> None:
        """Tell of the rows of which a held one has the key."""
        if self._before is None:
            return
        keys = single(fresh.column(KEY_COLUMN))
        found = pc.index_in(keys, value_set=single(self._before.column(KEY_COLUMN)))
        hit = as_mask(pc.is_valid(found))
        if not hit.any():
            return
        at = found.drop_null().to_numpy().astype(np.int64)
        self._matched[at] = True
        self._log.updated(self._before.take(pa.array(at)), fresh.filter(pa.array(hit)))

    def _deleted(self) -> None:
        """The held rows of which no key came are gone; they are held no more."""
        if self._before is not None and not self._matched.all():
            self._log.deleted(self._before.filter(pa.array(~self._matched)))
        self._before = None
