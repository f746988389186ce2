"""Keys that a base file holds and a log has deleted.

A lookup reads base files, so it finds these keys too. A row with such a key is new to the table,
but its home is still that file group: in another group it would have a second base row, which
Apache Hudi's next upsert would find and bring to life. So a dead home counts only if no live one is
found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from pyhudi.format.spark_schema import Column as TableColumn
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.index.lookup import KEY, ORDINAL
from pyhudi.reads.log_slices import LogRowsPlan, counted_slices, merge_spec, merges, plan_log_rows
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_reader import log_rows
from pyhudi.rows.spec import KEY_COLUMN
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.pending import planned_compactions
from pyhudi.writes.keys.expressions import PARTITION_PATH
from pyhudi.writes.placement.log_looks import Deleting
from pyhudi.writes.placement.logged_slices import query_of, slices_of
from pyhudi.writes.write_context import Write

#: whether a row's home holds its key dead
DEAD: Final = "_pyhudi_dead"
_HOME, _RANK = "_pyhudi_home", "_pyhudi_rank"
_KEYS: Final = SparkSchema((TableColumn(KEY_COLUMN, "string"),))

#: by the position of a base file: its dead keys
DeadKeys = Mapping[int, pa.Array]


def dead_keys(write: Write, files: Sequence[BaseFile]) -> DeadKeys:
    """The dead keys of ``files``; those without any are left out.

    Only slices with logs that delete rows are merged, on the driver. The transaction learns which
    groups have dead keys: a compaction of them makes it a conflict.
    """
    if write.config.table_type is not TableType.MERGE_ON_READ or not files:
        return {}
    query = query_of(write)
    places = {(file.partition_path, file.file_id): at for at, file in enumerate(files)}
    slices = slices_of(write, query, places)
    slices = Deleting(write, merge_spec(query, _KEYS)).slices(slices)
    if not slices:
        return {}
    found = merges(query, slices)
    rows = plan_log_rows(query, slices, _KEYS)
    alive = _keys_of_logs(rows)
    dead: dict[int, pa.Array] = {}
    filesystem = rows.spec.fs.open()
    for each in slices:
        place = each.partition_path, each.file_id
        masked = found[place].masked
        assert each.base is not None
        if not len(masked):
            continue
        with filesystem.open_input_file(f"{rows.spec.root}/{each.base.path}") as opened:
            # The record key has its name in every file.
            keys = SliceFile(opened, Slice(each.base.path)).keys_at(masked)
        gone = keys.filter(pc.invert(pc.is_in(keys, value_set=alive.get(each.base.path, _NONE))))
        if len(gone):
            dead[places[place]] = gone
    write.transaction.revived |= {(files[at].partition_path, files[at].file_id) for at in dead}
    return dead


def homes_of(write: Write, files: Sequence[BaseFile], dead: DeadKeys) -> DeadKeys:
    """Those of ``dead`` keys that may come back to their group: no compaction is to take it up.

    A compaction leaves the dead row out, and then no lookup finds the key in that group; a log
    compaction keeps the base file. Nor may a key come back of which the base file has two rows:
    each would get a row of the log.
    """
    if not dead:
        return {}
    timeline = write.transaction.timeline
    planned = {
        (each.partition_path, each.file_id)
        for _, plan in planned_compactions(write.table, timeline)
        for each in plan.operations
    }
    return {
        at: _single(keys)
        for at, keys in dead.items()
        if (files[at].partition_path, files[at].file_id) not in planned
    }


def _single(keys: pa.Array) -> pa.Array:
    """Those of ``keys`` that are there once."""
    counts = pc.value_counts(keys)
    return counts.field("values").filter(pc.equal(counts.field("counts"), 1))


def only_homes(
    write: Write, found: DataFrame, files: Sequence[BaseFile], by: Sequence[str]
) -> DataFrame:
    """Of found keys the live homes; a key without one keeps one dead home, marked by ``DEAD``.

    ``found`` has ``KEY``, ``ORDINAL`` and the columns ``by``, within which a key has one home.
    """
    dead = dead_keys(write, files)
    if not dead:
        return found
    homes = homes_of(write, files, dead)
    known = {at: frozenset(keys.to_pylist()) for at, keys in homes.items()}
    rows = [
        (at, key, key in known.get(at, ()))
        for at, keys in dead.items()
        for key in dict.fromkeys(keys.to_pylist())
    ]
    marks = write.spark.createDataFrame(rows, f"{ORDINAL} int, {KEY} string, {_HOME} boolean")
    marked = found.join(F.broadcast(marks), [ORDINAL, KEY], "left")
    marked = marked.withColumn(DEAD, F.col(_HOME).isNotNull())
    order = Window.partitionBy(*by).orderBy(DEAD, F.col(_HOME).desc(), ORDINAL)
    ranked = marked.withColumn(_RANK, F.row_number().over(order))
    kept = ranked.where(~F.col(DEAD) | (F.col(_HOME) & (F.col(_RANK) == 1)))
    return kept.drop(_RANK, _HOME)


def is_held(tagged: DataFrame) -> Column:
    """Whether the table has the row's key."""
    found = F.col(ORDINAL).isNotNull()
    return found & ~F.coalesce(F.col(DEAD), F.lit(False)) if DEAD in tagged.columns else found


_NONE = pa.nulls(0, pa.string())


def keys_in_logs(write: Write, files: Sequence[BaseFile]) -> DataFrame | None:
    """(key, partition path) of the rows that the logs of ``files`` hold; None if there are none."""
    if write.config.table_type is not TableType.MERGE_ON_READ:
        return None
    query = query_of(write)
    held = write.view.slices(partitions={file.partition_path for file in files})
    rows = plan_log_rows(query, counted_slices(query, [s for s in held if s.logs]), _KEYS)
    filesystem = rows.spec.fs.open()
    found = [
        (key, piece.slice.logs[0].rpartition("/")[0])
        for piece in rows.pieces
        for batch in log_rows(rows.spec, filesystem, piece)
        for key in batch.column(0).to_pylist()
    ]
    return write.spark.createDataFrame(found, f"{KEY} string, {PARTITION_PATH} string")


def _keys_of_logs(rows: LogRowsPlan) -> dict[str, pa.Array]:
    """The keys of the rows in logs that count, by the path of the base file."""
    filesystem = rows.spec.fs.open()
    found: dict[str, pa.Array] = {}
    for piece in rows.pieces:
        if piece.slice.base is not None:
            keys = [batch.column(0) for batch in log_rows(rows.spec, filesystem, piece)]
            found[piece.slice.base.path] = pa.concat_arrays([_NONE, *keys])
    return found
