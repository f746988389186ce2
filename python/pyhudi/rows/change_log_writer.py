"""The change log beside a merged file: which rows a merge inserted, updated and deleted.

Invariant: each file that replaces another one of its group has a log, even without a change.
Apache Hudi's reader refuses a file that has neither a log nor new rows alone. The marker comes
before the log, as for every data file.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

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
        self._held: list[dict[str, Any]] = []
        self._stream: pa.NativeFile | None = None
        self._blocks = 0
        files.markers.announce(self._marker.render())

    def inserted(self, rows: pa.Table) -> None:
        """These rows are new in the group."""
        images = self._images(rows)
        self._note(INSERT, rows, [None] * len(images), images)

    def updated(self, before: pa.Table, after: pa.Table) -> None:
        """The rows ``before`` became ``after``, row by row."""
        self._note(UPDATE, before, self._images(before), self._images(after))

    def deleted(self, rows: pa.Table) -> None:
        """These rows are gone."""
        images = self._images(rows)
        self._note(DELETE, rows, images, [None] * len(images))

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

    def _images(self, rows: pa.Table) -> list[dict[str, Any]]:
        columns = {}
        for field in self._schema:
            column = rows.column(field.name)
            # Numbers have no last year, as Python's dates have.
            if pa.types.is_timestamp(field.type):
                column = column.cast(pa.int64())
            elif pa.types.is_date32(field.type):
                column = column.cast(pa.int32())
            columns[field.name] = column.to_pylist()
        names = list(columns)
        return [
            dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)
        ]

    def _note(
        self,
        op: str,
        rows: pa.Table,
        before: Sequence[dict[str, Any] | None],
        after: Sequence[dict[str, Any] | None],
    ) -> None:
        keys = rows.column(KEY_COLUMN).to_pylist()
        instant = self._files.spec.instant
        for key, old, new in zip(keys, before, after, strict=True):
            self._held.append({OP: op, TIME: instant, LOGGED_KEY: key, BEFORE: old, AFTER: new})
            if len(self._held) >= BLOCK_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self._stream is None:
            self._files.markers.settle(self._marker.render())
            self._stream = self._files.open_output(self.path)
            self._files.unfinished[self.path] = self
        block = render_changes(self._held, self._files.spec.instant, self._spec.schema)
        self._stream.write(block)
        self._blocks += 1
        self._held = []
