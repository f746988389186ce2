"""The change log beside a merged file: which rows a merge inserted, updated and deleted.

Invariant: each file that replaces another one of its group has a log, even without a change.
Apache Hudi's reader refuses a file that has neither a log nor new rows alone. The marker comes
before the log, as for every data file.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from pyhudi.format.change_log import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    LOGGED_KEY,
    OP,
    TIME,
    UPDATE,
    render_changes,
)
from pyhudi.rows.base_file import TableFiles
from pyhudi.rows.meta_columns import TEXT, constant
from pyhudi.rows.rows import single
from pyhudi.rows.spec import KEY_COLUMN, ChangeLogSpec, GroupPlan

#: changes of one block: what a writer holds in memory
BLOCK_ROWS = 16_384


class ChangeLogWriter:
    """Writes one log; rows come as tables with the record key and the data columns."""

    def __init__(
        self, files: TableFiles, plan: GroupPlan, schema: pa.Schema, spec: ChangeLogSpec
    ) -> None:
        self._files, self._schema, self._spec = files, schema, spec
        self._marker = files.change_log_of(plan)
        self.path = self._marker.data_path
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._stream: pa.NativeFile | None = None
        self._blocks = 0
        files.markers.announce(self._marker.render())

    def inserted(self, rows: pa.Table) -> None:
        """These rows are new in the group."""
        self._note(INSERT, rows, None, rows)

    def updated(self, before: pa.Table, after: pa.Table) -> None:
        """The rows ``before`` became ``after``, row by row."""
        self._note(UPDATE, before, before, after)

    def deleted(self, rows: pa.Table) -> None:
        """These rows are gone."""
        self._note(DELETE, rows, rows, None)

    def abandon(self) -> None:
        """Close the stream of a log that no commit will name."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.close()

    def close(self) -> dict[str, object]:
        """Finish the log; returns its part of a row of ``STAT_SCHEMA``."""
        if self._held or not self._blocks:
            self._flush()
        assert self._stream is not None
        size = self._stream.tell()
        self._stream.close()
        del self._files.unfinished[self.path]
        return {"change_log": self.path, "change_log_bytes": size}

    def _note(
        self, op: str, rows: pa.Table, before: pa.Table | None, after: pa.Table | None
    ) -> None:
        count = rows.num_rows
        columns = {
            OP: constant(op, count).cast(TEXT),
            TIME: constant(self._files.spec.instant, count).cast(TEXT),
            LOGGED_KEY: single(rows.column(KEY_COLUMN)).cast(TEXT),
            BEFORE: self._images(before, count),
            AFTER: self._images(after, count),
        }
        self._held.append(pa.RecordBatch.from_pydict(columns))
        self._rows += count
        if self._rows >= BLOCK_ROWS:
            self._flush()

    def _images(self, rows: pa.Table | None, count: int) -> pa.Array:
        fields = list(self._schema)
        if rows is None:
            return pa.nulls(count, pa.struct(fields))
        # A merge may hold texts as codes.
        parts = [single(rows.column(field.name)).cast(field.type) for field in fields]
        return pa.StructArray.from_arrays(parts, fields=fields)

    def _flush(self) -> None:
        if self._stream is None:
            self._files.markers.settle(self._marker.render())
            self._stream = self._files.open_output(self.path)
            self._files.unfinished[self.path] = self
        held = pa.Table.from_batches(self._held) if self._held else self._nothing()
        columns = {name: single(held.column(name)) for name in held.column_names}
        block = render_changes(columns, self._files.spec.instant, self._spec.schema)
        self._stream.write(block)
        self._blocks += 1
        self._held, self._rows = [], 0

    def _nothing(self) -> pa.Table:
        image = pa.struct(list(self._schema))
        texts = [(name, TEXT) for name in (OP, TIME, LOGGED_KEY)]
        return pa.schema([*texts, (BEFORE, image), (AFTER, image)]).empty_table()


def change_log_of(files: TableFiles, plan: GroupPlan, schema: pa.Schema) -> ChangeLogWriter | None:
    """The change log of a file; None for a new group, whose rows are all inserts."""
    spec = files.spec.change_log
    if spec is None or plan.base_file is None:
        return None
    return ChangeLogWriter(files, plan, schema, spec)
