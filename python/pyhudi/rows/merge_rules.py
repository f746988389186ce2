"""Which row wins: spec/merging.md R1, on whole columns.

With event time the larger ordering value wins, and the incoming row wins a tie. Several ordering
columns are compared one after the other. With commit time the incoming row wins. A delete without
ordering values always wins. Merges of logs (``slice_merge``) compare by the same ``ordering``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.filled import stacked
from pyhudi.rows.ordering import Mask, Values, comparable, valueless
from pyhudi.rows.spec import DELETE, KEY_COLUMN, WriteSpec

Positions = npt.NDArray[np.int64]


def incoming_wins(spec: WriteSpec, incoming: pa.Table, old: pa.Table) -> Mask | None:
    """For pairs of rows with the same key: whether the incoming row wins; ``None`` if all do.

    Both tables have the ordering columns; ``incoming`` may have ``_pyhudi_delete``.
    """
    if not spec.by_event_time:
        return None
    wins = np.zeros(incoming.num_rows, dtype=np.bool_)
    tied = np.ones(incoming.num_rows, dtype=np.bool_)
    for name in spec.ordering_columns:
        greater, equal = _compared(_comparable(incoming, name), _comparable(old, name))
        wins |= tied & greater
        tied &= equal
    wins |= tied
    if DELETE in incoming.column_names:
        wins |= forced_deletes(spec, incoming)
    return None if bool(wins.all()) else wins


def forced_deletes(spec: WriteSpec, incoming: pa.Table) -> Mask:
    """The rows that delete in any case, whatever their ordering value."""
    deletes = as_mask(incoming.column(DELETE))
    if spec.always_delete:
        return deletes
    return deletes & valueless([ordering_values(incoming, name) for name in spec.ordering_columns])


def ordering_roots(spec: WriteSpec) -> list[str]:
    """The columns that have the ordering values: of a value inside a struct the whole struct."""
    return list(dict.fromkeys(name.partition(".")[0] for name in spec.ordering_columns))


def ordering_values(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """The values of an ordering column; a dotted name is a field of a struct."""
    root, *inside = name.split(".")
    column = rows.column(root)
    return pc.struct_field(column, inside) if inside else column


def combined(spec: WriteSpec, incoming: pa.Table) -> pa.Table:
    """One row per key: the winner among its rows; in a tie the later row.

    The winners keep their order. Values that a winner lacks come from the rows that it beats.
    """
    keys = incoming.column(KEY_COLUMN)
    codes = _codes(keys)
    counts = np.bincount(codes)
    if len(counts) == len(codes):
        return incoming
    repeated = np.flatnonzero(counts[codes] > 1)
    rivals = incoming.take(pa.array(repeated))
    order = _ranking(spec, rivals, codes[repeated])
    last_of_key = np.append(np.diff(codes[repeated][order]) != 0, True)
    winners = repeated[order[last_of_key]]
    keep = counts[codes] == 1
    keep[winners] = True
    if spec.fills is None:
        return incoming.filter(pa.array(keep))
    rivals = rivals.take(pa.array(order))
    deletes = np.zeros(len(order), np.bool_)
    if DELETE in rivals.column_names:
        deletes = as_mask(rivals.column(DELETE))
    filled = stacked(rivals, np.append(True, last_of_key[:-1]), deletes, spec.fills)
    picks = np.arange(len(codes), dtype=np.int64)
    picks[winners] = len(codes) + np.arange(len(winners), dtype=np.int64)
    both = pa.concat_tables([incoming, filled.filter(pa.array(last_of_key))])
    return both.take(pa.array(picks[keep]))


def _ranking(spec: WriteSpec, rivals: pa.Table, codes: Positions) -> Positions:
    """Positions sorted by key and, within a key, from the weakest row to the winner."""
    by = [("code", "ascending")]
    columns = {"code": pa.array(codes)}
    if spec.by_event_time:
        if DELETE in rivals.column_names:
            columns["forced"] = pa.array(forced_deletes(spec, rivals).astype(np.int8))
            by.append(("forced", "ascending"))
        for at, name in enumerate(spec.ordering_columns):
            # An extra column puts nulls first: the option for it differs between pyarrow versions.
            values = _comparable(rivals, name)
            columns[f"present{at}"] = pa.array(as_mask(pc.is_valid(values)))
            columns[f"order{at}"] = values
            by += [(f"present{at}", "ascending"), (f"order{at}", "ascending")]
    columns["position"] = pa.array(np.arange(len(codes)))
    by.append(("position", "ascending"))
    order = pc.sort_indices(pa.table(columns), sort_keys=by)
    return np.asarray(order, dtype=np.int64)


def _codes(keys: pa.ChunkedArray) -> Positions:
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return np.asarray(encoded.indices, dtype=np.int64)


def _compared(incoming: Values, old: Values) -> tuple[Mask, Mask]:
    """(incoming > old, incoming = old) of comparable values, with null below every value."""
    greater = as_mask(pc.greater(incoming, old))
    equal = as_mask(pc.equal(incoming, old))
    if incoming.null_count or old.null_count:
        no_incoming, no_old = as_mask(pc.is_null(incoming)), as_mask(pc.is_null(old))
        greater |= no_old & ~no_incoming
        equal |= no_old & no_incoming
    return greater, equal


def _comparable(rows: pa.Table, name: str) -> Values:
    column = ordering_values(rows, name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return comparable(column)


def as_mask(column: pa.ChunkedArray | pa.Array) -> Mask:
    filled = pc.fill_null(column, False) if column.null_count else column
    if isinstance(filled, pa.ChunkedArray):
        filled = filled.combine_chunks()
        if isinstance(filled, pa.ChunkedArray):
            filled = pa.concat_arrays(filled.chunks)
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)
