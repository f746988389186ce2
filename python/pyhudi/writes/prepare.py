"""Preparing incoming rows: columns aligned with the table, keys and paths as expressions.

Rule of alignment: by name; a missing column is filled with null only if the option says so, a new
one is added at the end, and of two types the wider wins, if Hudi's readers can follow
(spec/schema_evolution.md S1 to S3). The fields of a struct follow the same rule, without widening.
Everything is decided before the first file is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from pyhudi.config import Operation, WriteOptions
from pyhudi.format.schemas import HIDDEN_COLUMNS
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import MergeMode, TableConfig
from pyhudi.format.widening import Fields, merged_type, missing, typed
from pyhudi.recent import Recent
from pyhudi.rows.spec import DELETE, SOFT_DELETE, Filled
from pyhudi.services.slice_merging import delete_mark, filled
from pyhudi.tables.columns import check_distinct, check_names
from pyhudi.writes.fitted import fitted_column, named
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY, partition_path, record_key
from pyhudi.writes.keys.key_columns import with_key_columns
from pyhudi.writes.keys.timestamp_keys import TimestampFormat

#: whether a row keeps its partition though its values name another
STAYS = "_pyhudi_stays"
OVERWRITES = (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)


@dataclass(frozen=True, slots=True)
class Survey:
    """How many rows a statement changes, by kind.

    ``stayed`` are those with values of another partition that stay where they are. A statement that
    ``deletes`` does nothing else, and its rows are not counted.
    """

    inserted: int = 0
    moved: int = 0
    stayed: int = 0
    deletes: bool = False

    @property
    def adds(self) -> bool:
        """Whether a partition gets rows that it did not have."""
        return self.inserted + self.moved > 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows ready to be tagged: key, path, delete mark, then the data columns in table order.

    The ``changes`` of a statement have their ``HOME`` before the data columns. The columns ``gone``
    of the table end with the write (``replaced_columns.py``).
    """

    rows: DataFrame
    schema: SparkSchema
    arrow: pa.Schema
    data_columns: tuple[str, ...]
    has_deletes: bool
    named_keys: bool = False
    changes: Survey | None = None
    gone: frozenset[str] = frozenset()


def prepare(
    df: DataFrame,
    config: TableConfig,
    current: SparkSchema | None,
    operation: Operation,
    options: WriteOptions,
    named_keys: bool,
) -> Prepared:
    """Align ``df`` with the table and add key and path columns; ``key_encoding`` names keys.

    ``SchemaConflict`` (column, ours, theirs, rule) if the types do not fit;
    ``ConfigError`` if a key or partition column is missing.
    """
    incoming = own_columns(df.schema)
    session = df.sparkSession.sparkContext
    asked = f"{incoming.json()}{current!r}{config!r}{options!r}{operation}{named_keys}"
    shape = _SHAPES.get(asked)
    if shape is None or shape.session is not session:
        shape = _shape(session, incoming, config, current, operation, options, named_keys)
        _SHAPES.put(asked, shape)
    rows = df.select(*shape.aligned).select(*shape.placed)
    if shape.without_deletes:
        rows = rows.where(~F.col(DELETE))  # combined rows are judged later, by the winner of a key
    schema = shape.schema
    return Prepared(rows, schema, schema.arrow(), schema.names, shape.has_deletes, named_keys)


@dataclass(frozen=True, slots=True)
class _Shape:
    """The expressions of ``prepare``, for all frames of the same columns in one application.

    Each costs some calls into the JVM, and a stream asks for the same ones with each batch.
    """

    session: SparkContext
    schema: SparkSchema
    aligned: Sequence[Column]
    placed: Sequence[Column]
    has_deletes: bool
    without_deletes: bool


_SHAPES: Recent[str, _Shape] = Recent(32)


def _shape(
    session: SparkContext,
    incoming: StructType,
    config: TableConfig,
    current: SparkSchema | None,
    operation: Operation,
    options: WriteOptions,
    named_keys: bool,
) -> _Shape:
    fills = operation is Operation.UPSERT and filled(config) == Filled()
    some = fills and _ordered(incoming, config)
    schema = table_schema_after(incoming, current, config.name, operation, options, some)
    if current is not None:
        schema = with_key_columns(schema, incoming, current, config, operation, options)
    target = StructType.fromJson(schema.json())
    given = {f.name.lower(): f for f in incoming.fields}
    if operation is Operation.DELETE:
        given = _placing(given, config)
    aligned = [fitted_column(given.get(f.name.lower()), f.name, f.dataType) for f in target.fields]
    columns = []
    if config.record_key_fields:
        key = record_key(target, config.record_key_fields, named_keys)
        columns.append(key.alias(RECORD_KEY))
    path = partition_path(target, config, timestamp_format(options))
    columns.append(path.alias(PARTITION_PATH))
    mark = F.lit(True) if operation is Operation.DELETE else marked(target, config)
    if mark is not None:
        columns.append(mark.alias(DELETE))
    skips = operation in OVERWRITES and not options.combine_before_insert
    placed = [*columns, *map(named, target.fieldNames())]
    deletes = mark is not None
    return _Shape(session, schema, aligned, placed, deletes, deletes and skips)


def marked(target: StructType, config: TableConfig) -> Column | None:
    """Whether a row of the columns ``target`` says that it is deleted (spec/merging.md R2).

    None if the table has no column for it.
    """
    types, marks = {field.name: field.dataType for field in target.fields}, []
    if isinstance(types.get(SOFT_DELETE), BooleanType):
        marks.append(F.col(SOFT_DELETE))
    own = delete_mark(config)
    if own is not None and own[0] in types:
        marks.append(named(own[0]).cast("string") == own[1])
    if not marks:
        return None
    return reduce(lambda one, other: one | other, [F.coalesce(m, F.lit(False)) for m in marks])


def _ordered(incoming: StructType, config: TableConfig) -> bool:
    """Whether rows have what decides if they win: without it they would lose, and say nothing."""
    if config.merge_mode is not MergeMode.EVENT_TIME_ORDERING:
        return True
    roots = {path.split(".")[0].lower() for path in config.ordering_fields}
    return roots <= {field.name.lower() for field in incoming.fields}


def _placing(given: Mapping[str, StructField], config: TableConfig) -> dict[str, StructField]:
    """The columns that place a row: a delete needs no others, so what they hold may break rules."""
    paths = (*config.record_key_fields, *config.partition_fields)
    roots = {path.split(".")[0].lower() for path in paths}
    return {name: field for name, field in given.items() if name in roots}


def prepare_partitions(
    df: DataFrame, config: TableConfig, current: SparkSchema, options: WriteOptions, named: bool
) -> Prepared:
    """The columns for delete_partition: none of ``df`` if partitions are ``named``."""
    path = F.lit("")
    if not named:
        placing = replace(config, record_key_fields=())
        operation = Operation.DELETE_PARTITION
        with_key_columns(current, df.schema, current, placing, operation, options)
        fields = StructType.fromJson(current.json()).fields
        given = {f.name.lower(): f for f in df.schema.fields}
        own = [f for f in fields if f.name.lower() in given]
        df = df.select(*[fitted_column(given[f.name.lower()], f.name, f.dataType) for f in own])
        path = partition_path(df.schema, config, timestamp_format(options))
    rows = df.select(path.alias(PARTITION_PATH))
    return Prepared(rows, current, current.arrow(), (), False)


def own_columns(given: StructType) -> StructType:
    """``given`` without the columns that Hudi adds: rows read from a table may be written back.

    ``SchemaConflict`` if no column is left, or two have one name.
    """
    own = StructType([f for f in given.fields if f.name.lower() not in HIDDEN_COLUMNS])
    check_distinct(own)
    return own


def table_schema_after(
    incoming: StructType,
    current: SparkSchema | None,
    table_name: str,
    operation: Operation,
    options: WriteOptions,
    some: bool = False,
) -> SparkSchema:
    """The table's schema after rows of ``incoming`` are written.

    ``some``: they may lack columns, as null leaves the value that is there; but no part of one, as
    a struct counts as a whole.
    """
    if current is not None and operation is Operation.DELETE:
        return current
    given = SparkSchema.parse(json.loads(incoming.json())).columns
    if current is not None:
        known = current.by_lower_name()
        given = tuple(
            replace(c, type=typed(c.type, known.get(c.lower_name, c).type)) for c in given
        )
    ours = SparkSchema(given).as_stored(table_name)
    if current is None:
        check_names(ours)
        return ours
    by_lower_name = ours.by_lower_name()
    fields = Fields.EITHER if options.null_for_missing else Fields.ADDED
    columns = []
    for column in current.columns:
        mine = by_lower_name.pop(column.lower_name, None)
        if mine is None:
            if not (options.null_for_missing or some):
                unknown = [c.name for c in ours.columns if c.lower_name not in known]
                raise missing(column.name, column.type, unknown=unknown)
            columns.append(column)
            continue
        kind = merged_type(column.name, column.type, mine.type, fields)
        columns.append(replace(column, type=kind))
    added = tuple(replace(column, nullable=True) for column in by_lower_name.values())
    check_names(SparkSchema(added))
    return SparkSchema((*columns, *added))


def timestamp_format(options: WriteOptions) -> TimestampFormat | None:
    """The timestamp key generator's options; None if there are none.

    As in Apache Hudi, the zone of both sides outranks those of one side.
    """
    if options.timestamp_type is None or not options.timestamp_output_format:
        return None
    zone = options.timestamp_zone
    return TimestampFormat(
        kind=options.timestamp_type,
        output_format=options.timestamp_output_format,
        input_format=",".join(options.timestamp_input_formats) or None,
        unit=options.timestamp_unit,
        input_zone=zone or options.timestamp_input_zone or "UTC",
        output_zone=zone or options.timestamp_output_zone or "UTC",
    )
