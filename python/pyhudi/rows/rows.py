"""Tables of rows in the worker: incoming rows, and rows of a file.

An incoming table has the record key, perhaps ``_pyhudi_delete``, and the data columns. A file's
rows have commit time, sequence number, record key and the data columns.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.merge_rules import Positions, as_mask
from pyhudi.rows.meta_columns import constant, sequence
from pyhudi.rows.ordering import Mask
from pyhudi.rows.spec import (
    COMMIT_TIME_COLUMN,
    DELETE,
    KEY_COLUMN,
    SEQNO_COLUMN,
    WriteSpec,
)
from pyhudi.rows.stored_types import incoming_keys, incoming_rows, required_names


class Sequencer:
    """Numbers the rows that one task writes: ``<instant>_<task>_<row>`` (spec/data_files.md D3)."""

    def __init__(self, instant: str, task_partition: int) -> None:
        self._prefix = f"{instant}_{task_partition}_"
        self._next = 0

    def take(self, rows: int) -> pa.StringArray:
        """The next ``rows`` sequence numbers."""
        start, self._next = self._next, self._next + rows
        return sequence(self._prefix, start, rows)


def incoming_table(batch: pa.RecordBatch, spec: WriteSpec, schema: pa.Schema) -> pa.Table:
    """A batch from Spark in the stored types; ``InvalidRecord`` for rows that cannot be stored.

    A row to be deleted needs only its key and its ordering values.
    """
    keys = incoming_keys(batch, spec)
    names, columns = [KEY_COLUMN], [keys]
    if DELETE in batch.schema.names:
        marks = batch.column(DELETE)
        if pc.any(marks).as_py():
            names.append(DELETE)
            columns.append(pc.fill_null(marks, False) if marks.null_count else marks)
    names += schema.names
    columns += incoming_rows(batch, schema, required_names(spec.schema))
    return pa.table(columns, names=names)


def joined(tables: list[pa.Table]) -> pa.Table:
    """The rows of all tables; a table without delete marks deletes nothing."""
    if any(DELETE in table.column_names for table in tables):
        tables = [_with_marks(table) for table in tables]
    return pa.concat_tables(tables)


def _with_marks(table: pa.Table) -> pa.Table:
    if DELETE in table.column_names:
        return table
    return table.add_column(1, DELETE, pa.array(np.zeros(table.num_rows, dtype=np.bool_)))


def without_deletes(incoming: pa.Table) -> pa.Table:
    """The rows that are not marked as deleted, without the marks."""
    if DELETE not in incoming.column_names:
        return incoming
    kept = incoming.filter(pa.array(~as_mask(incoming.column(DELETE))))
    return kept.drop_columns([DELETE])


def without_nulls(rows: pa.Table, required: Collection[str]) -> pa.Table:
    """``rows`` with some value for each null of the ``required`` columns, which rows that are to be
    deleted may lack: Avro has no null there."""
    for at, field in enumerate(rows.schema):
        column = rows.column(at)
        if field.name in required and column.null_count:
            picks = np.where(as_mask(column.is_valid()), np.arange(len(column)), len(column))
            some = pa.array([_some_value(field.type)], field.type)
            column = pa.concat_arrays([*column.chunks, some]).take(pa.array(picks))
            rows = rows.set_column(at, field, column)
    return rows


def _some_value(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {part.name: _some_value(part.type) for part in kind}
    if pa.types.is_nested(kind):
        return []
    if pa.types.is_boolean(kind):
        return False
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "" if pa.types.is_string(kind) else b""
    return Decimal(0) if pa.types.is_decimal(kind) else 0


def new_rows(incoming: pa.Table, spec: WriteSpec, sequencer: Sequencer) -> pa.Table:
    """Incoming rows (without delete marks) as rows that this instant writes."""
    rows = incoming.num_rows
    names = [COMMIT_TIME_COLUMN, SEQNO_COLUMN, *incoming.column_names]
    columns = [constant(spec.instant, rows), sequencer.take(rows), *incoming.columns]
    return pa.table(columns, names=names)


def overlaid(old: pa.Table, at: Positions, new: pa.Table, keep: Mask | None) -> pa.Table:
    """``old`` with the rows at positions ``at`` replaced by ``new``, then those of ``keep``.

    ``keep`` is ``None`` if no row is dropped. Column order and dictionary types are ``old``'s.
    """
    if not len(at):
        return old if keep is None else old.filter(pa.array(keep))
    picks = np.arange(old.num_rows, dtype=np.int64)
    picks[at] = old.num_rows + np.arange(len(at), dtype=np.int64)
    if keep is not None:
        picks = picks[keep]
    chosen = pa.array(picks)
    columns = []
    for name in old.column_names:
        if name == KEY_COLUMN and keep is None:
            # A row is replaced by a row with the same key.
            columns.append(old.column(name))
        else:
            columns.append(_chosen(old.column(name), new.column(name), chosen))
    return pa.table(columns, names=old.column_names)


def _chosen(old: pa.ChunkedArray, new: pa.ChunkedArray, picks: pa.Array) -> pa.Array:
    if not pa.types.is_dictionary(old.type):
        return pa.concat_arrays([*old.chunks, *new.chunks]).take(picks)
    unified = old.unify_dictionaries()
    values = pa.array([], old.type.value_type)
    if unified.num_chunks:
        values = unified.chunk(0).dictionary
    fresh = new.cast(old.type.value_type) if pa.types.is_dictionary(new.type) else new
    values = _extended(values, fresh)
    codes = [chunk.indices for chunk in unified.chunks]
    codes += [pc.index_in(chunk, value_set=values) for chunk in fresh.chunks]
    return pa.DictionaryArray.from_arrays(pa.concat_arrays(codes).take(picks), values)


def _extended(values: pa.Array, fresh: pa.ChunkedArray) -> pa.Array:
    """The dictionary, extended by the values of ``fresh`` that it lacks."""
    found = pc.unique(fresh)
    found = found.drop_null() if found.null_count else found
    missing = found.filter(pc.invert(pc.is_in(found, value_set=values)))
    return pa.concat_arrays([values, missing]) if len(missing) else values


def single(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array; no copy if it has only one chunk."""
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )
