"""Tagging: which base file holds each incoming key.

Executors read the keys of the base files with pyarrow, and Spark joins them, with only the key
columns; partitions and files are pruned before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, StringType, StructField, StructType

from pyhudi.config import Operation
from pyhudi.format.table_config import TableType
from pyhudi.index.kinds import rows_move
from pyhudi.index.logged_values import LoggedValues
from pyhudi.index.lookup import KEY, OLD, ORDINAL, LookupSpec, lookup
from pyhudi.rows.spec import DELETE, HOME
from pyhudi.slices.files import BaseFile
from pyhudi.writes.kept import Tagged
from pyhudi.writes.keys.expressions import PARTITION_PATH, partition_path
from pyhudi.writes.placement.constants import ints
from pyhudi.writes.placement.dead_keys import DEAD, only_homes
from pyhudi.writes.placement.event_time import by_event_time, forced, order_of, value_of
from pyhudi.writes.placement.logged_slices import merged_values
from pyhudi.writes.prepare import STAYS, timestamp_format
from pyhudi.writes.write_context import Write

BASE_PARTITION = "_pyhudi_base_partition"
ARRIVAL = "_pyhudi_arrival"
DEAD_HOME = "_pyhudi_dead_home"
WAVES = 3


class KeyFile(Protocol):
    """The parts of a base file that a lookup of keys needs."""

    @property
    def path(self) -> str: ...
    @property
    def partition_path(self) -> str: ...


def base_keys(
    write: Write,
    files: Sequence[KeyFile],
    beside: Sequence[str] = (),
    ordinals: Sequence[int] | None = None,
    logged: LoggedValues | None = None,
) -> DataFrame:
    """(key, ordinal, base partition) of every row in ``files``, and columns ``beside`` it.

    ``ordinals`` are the positions in ``files`` to read; all by default. The columns have the values
    of the files, or the newest ones for those that are ``logged``.
    """
    filesystem, root = write.runtime.filesystem(write.table.storage.root)
    wanted = list(range(len(files)) if ordinals is None else ordinals)
    spec = LookupSpec(
        root=root,
        fs=filesystem,
        files={o: (files[o].path, files[o].partition_path) for o in wanted},
        use_bloom=write.index.filtered,
        beside=_beside(write, beside),
        logged=logged,
    )
    spark = write.spark
    slices = max(1, min(len(wanted), spark.sparkContext.defaultParallelism * WAVES))
    chosen = F.col("id").cast("int")
    if ordinals is not None:
        chosen = ints(wanted)[chosen]
    asked = spark.range(0, len(wanted), 1, slices).select(chosen.alias(ORDINAL))
    schema = _hits_schema(write, beside)
    return asked.mapInArrow(lookup(spec), schema)  # type: ignore[arg-type]


def _beside(write: Write, names: Sequence[str]) -> pa.Schema:
    return pa.schema([write.prepared.arrow.field(name) for name in names])


def base_rows(write: Write, files: Sequence[BaseFile], beside: Sequence[str]) -> DataFrame:
    """``base_keys`` of all ``files`` with the newest values ``beside``, also those in logs."""
    places = {(file.partition_path, file.file_id): at for at, file in enumerate(files)}
    found = merged_values(write, places, _beside(write, beside))
    return base_keys(write, files, beside, logged=None if found is None else LoggedValues(found))


def _hits_schema(write: Write, beside: Sequence[str]) -> StructType:
    text = StringType()
    fields: list[tuple[str, DataType]] = [
        (KEY, text),
        (ORDINAL, IntegerType()),
        (BASE_PARTITION, text),
    ]
    incoming = write.prepared.rows.schema
    fields += [(f"{OLD}{at}", incoming[name].dataType) for at, name in enumerate(beside)]
    return StructType([StructField(name, kind) for name, kind in fields])


def with_homes(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """Rows with ``ORDINAL``, by the file that a statement's scan read them from."""
    homes = [(file.file_id, ordinal) for ordinal, file in enumerate(files)]
    known = write.spark.createDataFrame(homes, f"{HOME} string, {ORDINAL} int")
    tagged = rows.join(F.broadcast(known), HOME, "left")
    changes = write.prepared.changes
    if changes is None or not changes.stayed:
        return tagged
    fields = write.config.partition_fields
    held = base_rows(write, files, _roots(fields)).dropDuplicates([KEY, ORDINAL])
    tagged = tagged.join(held, [KEY, ORDINAL], "left")
    path = partition_path(rows.schema, write.config, timestamp_format(write.options))
    updated = F.col(ORDINAL).isNotNull() & ~F.col(DELETE)
    return _stayed(tagged, updated & (path != F.col(PARTITION_PATH)), fields)


def _roots(names: Sequence[str]) -> list[str]:
    """The columns of the table that dotted ``names`` are of."""
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _stayed(tagged: DataFrame, stays: Column, fields: Sequence[str]) -> DataFrame:
    """``tagged`` without what was read beside keys; rows that stay have their old partition values.

    A read leaves partitions out by their folders, so a row's partition columns must agree with its
    folder. A row that only a log has is not found in the base file, and fails.
    """
    roots = _roots(fields)
    told = (
        "[UNSUPPORTED_TABLE] A row would stay in its partition, but its old partition values may "
        "be in a log alone. Nothing was written. Compact the table first, or let rows move to "
        "their new partitions: hoodie.*.index.update.partition.path=true."
    )
    unknown = F.col(BASE_PARTITION).isNull()
    found = F.when(stays & unknown, F.raise_error(F.lit(told)).cast("int"))
    values = {ORDINAL: found.otherwise(F.col(ORDINAL))} if fields else {}
    for at, root in enumerate(roots):
        old, new = F.col(f"{OLD}{at}"), F.col(f"`{root}`")
        kept = old if root in fields else F.coalesce(new, old)
        for name in fields:
            if name.startswith(f"{root}."):
                inside = ".".join(f"`{part}`" for part in name.split(".")[1:])
                kept = kept.withField(inside, value_of(name, {root: f"{OLD}{at}"}))
        values[root] = F.when(stays, kept).otherwise(new)
    beside = [BASE_PARTITION, *(f"{OLD}{at}" for at in range(len(roots)))]
    return tagged.withColumns(values).drop(*beside)


def tag_partitioned(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """Rows with ``ORDINAL``: a key belongs to the file of its own partition that holds it.

    After a lost race only files that are new since then are read; matches in the other files are
    kept, but in merge-on-read tables, where a key may come to life in the same file.
    """
    merges = write.config.table_type is TableType.MERGE_ON_READ
    before = None if merges else write.kept.tagged
    known = {} if before is None else {f.path: o for o, f in enumerate(before.files)}
    new = [o for o, file in enumerate(files) if file.path not in known]
    found = base_keys(write, files, ordinals=new if known else None)
    keys = found.withColumnRenamed(BASE_PARTITION, PARTITION_PATH)
    if before is not None:
        keys = keys.unionByName(_still_tagged(before, files))
    keys = only_homes(write, keys, files, [KEY, PARTITION_PATH])
    return rows.join(keys, [KEY, PARTITION_PATH], "left")


def _still_tagged(before: Tagged, files: Sequence[BaseFile]) -> DataFrame:
    """(key, ordinal, partition path) of the keys found before in files that are still newest."""
    place = {file.path: ordinal for ordinal, file in enumerate(files)}
    now = [place.get(file.path, -1) for file in before.files]
    moved = ints(now)[F.col(ORDINAL)]
    columns = [KEY, PARTITION_PATH, ORDINAL]
    known = before.rows.where(F.col(ORDINAL).isNotNull()).select(*columns).distinct()
    return known.withColumn(ORDINAL, moved).where(F.col(ORDINAL) >= 0)


def tag_global(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """The same over all partitions; a row whose partition changed moves, unless the old one wins.

    A move is a delete in the old group and an insert in the new partition. If the options say so
    (``rows_move``), the row stays in its old partition instead, with the old partition values.
    """
    moves = rows_move(write.options)
    ordering = write.ordering_fields if by_event_time(write) and moves else ()
    kept = () if moves or write.operation is Operation.DELETE else write.config.partition_fields
    roots = _roots(ordering or kept)
    found = only_homes(write, base_rows(write, files, roots), files, [KEY, BASE_PARTITION])
    tagged = _with_both_homes(rows, found)
    elsewhere = F.col(ORDINAL).isNotNull() & (F.col(BASE_PARTITION) != F.col(PARTITION_PATH))
    if not moves:
        path = F.when(elsewhere, F.col(BASE_PARTITION)).otherwise(F.col(PARTITION_PATH))
        tagged = tagged.withColumn(STAYS, elsewhere).withColumn(PARTITION_PATH, path)
        return _stayed(tagged, F.col(STAYS), kept).drop(STAYS, DEAD_HOME)
    if DELETE not in tagged.columns:
        tagged = tagged.withColumn(DELETE, F.lit(False))
    if ordering:
        # Structs compare field by field, null first.
        beside = {root: f"{OLD}{at}" for at, root in enumerate(roots)}
        old, new = order_of(tagged, ordering, beside), order_of(tagged, ordering)
        loses = elsewhere & ~forced(write, tagged) & (new < old)
        tagged = tagged.where(~loses | loses.isNull())
        tagged = tagged.drop(*beside.values())
    return _moved(tagged, elsewhere, roots if ordering else ())


def _with_both_homes(rows: DataFrame, found: DataFrame) -> DataFrame:
    """``rows`` with the live home of their key in any partition, else a dead one in their own.

    A dead row does not move: in its new partition the row is a new one. ``DEAD_HOME`` is the dead
    home that a row has if it arrives from another partition.
    """
    if DEAD not in found.columns:
        return rows.join(found, KEY, "left").withColumn(DEAD_HOME, F.lit(None).cast("int"))
    dead = found.where(DEAD).select(
        KEY, F.col(BASE_PARTITION).alias(PARTITION_PATH), F.col(ORDINAL).alias(DEAD_HOME)
    )
    tagged = rows.join(found.where(~F.col(DEAD)), KEY, "left")
    tagged = tagged.join(F.broadcast(dead), [KEY, PARTITION_PATH], "left")
    home = F.when(F.col(DEAD_HOME).isNotNull(), F.col(PARTITION_PATH))
    return tagged.withColumns(
        {
            DEAD: F.col(ORDINAL).isNull() & F.col(DEAD_HOME).isNotNull(),
            BASE_PARTITION: F.coalesce(F.col(BASE_PARTITION), home),
            ORDINAL: F.coalesce(F.col(ORDINAL), F.col(DEAD_HOME)),
        }
    )


def one_per_key(write: Write, rows: DataFrame, within: Sequence[str] = (KEY,)) -> DataFrame:
    """The winner among incoming rows of a key, by default in any partitions.

    A group combines its own rows; under a global index the rivals may go to different groups.
    """
    fields = write.ordering_fields if by_event_time(write) else ()
    order = [order_of(rows, fields)] if fields else []
    rank = F.struct(forced(write, rows), *order, F.col(ARRIVAL))
    kept = F.max_by(F.struct(*[F.col(f"`{c}`") for c in rows.columns]), rank)
    numbered = rows.withColumn(ARRIVAL, F.monotonically_increasing_id())
    return numbered.groupBy(*within).agg(kept.alias("_s")).select("_s.*")


def _moved(tagged: DataFrame, elsewhere: Column, ordering: Sequence[str]) -> DataFrame:
    """Rows for an arrival, and for a departure where they live elsewhere; a delete only departs.

    A departure has won already. It has no values in the columns ``ordering``, so it always wins,
    and no later row competes with it.
    """
    arrival = F.struct(
        F.when(elsewhere, F.col(DEAD_HOME)).otherwise(F.col(ORDINAL)).alias(ORDINAL),
        F.col(PARTITION_PATH),
        F.col(DELETE),
        *[F.col(f"`{name}`") for name in ordering],
    )
    types = {field.name: field.dataType for field in tagged.schema.fields}
    departure = F.struct(
        F.col(ORDINAL),
        F.col(BASE_PARTITION).alias(PARTITION_PATH),
        F.lit(True).alias(DELETE),
        *[F.lit(None).cast(types[name]).alias(name) for name in ordering],
    )
    steps = (
        F.when(elsewhere & F.col(DELETE), F.array(departure))
        .when(elsewhere, F.array(arrival, departure))
        .otherwise(F.array(arrival))
    )
    others = [
        c
        for c in tagged.columns
        if c not in (ORDINAL, PARTITION_PATH, DELETE, BASE_PARTITION, DEAD_HOME, *ordering)
    ]
    exploded = tagged.select(*[F.col(f"`{c}`") for c in others], F.explode(steps).alias("_s"))
    return exploded.select("*", "_s.*").drop("_s")
