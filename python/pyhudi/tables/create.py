"""New tables: what a first write or a CREATE TABLE records in ``hoodie.properties``.

If two writers create a table at the same time, one wins and the other adopts its table.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from pyhudi.application.runtime import Runtime
from pyhudi.choices import PartialUpdates
from pyhudi.config import ConcurrencyMode, TimestampType, WriteOptions, resolve_write
from pyhudi.errors import ConfigError, SchemaConflict, StorageError, UnsupportedTable
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import (
    KeyGenerator,
    MergeMode,
    TableConfig,
    parse_table_config,
)
from pyhudi.format.widening import same_type
from pyhudi.option_tables import LOGGING
from pyhudi.payloads import (
    DELETE_FIELD,
    DELETE_MARKER,
    LEGACY,
    PARTIAL_UPDATE,
    UNAVAILABLE,
)
from pyhudi.storage.base import Storage
from pyhudi.tables.columns import check_distinct, check_names, find_field, own_spelling
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.surroundings import refuse_inside_table
from pyhudi.timeline.table import PROPERTIES, Table
from pyhudi.transactions.pessimistic import MARK
from pyhudi.transactions.presence import discard, make_table
from pyhudi.transactions.writable import PARTIAL_UPDATES_SINCE

log = logging.getLogger(__name__)

KEYGEN = "hoodie.keygen.timebased."


def new_table_config(
    root: str, options: WriteOptions, schema: SparkSchema, record_schema: bool
) -> TableConfig:
    """The properties of a new table at ``root``, checked against its columns; no I/O.

    ``record_schema`` records the schema in the properties, as CREATE TABLE does.
    """
    struct = StructType.fromJson(schema.json())
    check_names(schema)
    check_distinct(struct)
    options = replace(
        options,
        record_key_fields=own_spelling(struct, options.record_key_fields, "record key column"),
        partition_fields=own_spelling(struct, options.partition_fields, "partition column"),
        ordering_fields=own_spelling(struct, options.ordering_fields, "ordering column"),
    )
    _refuse_nested(struct, "partition", options.partition_fields)
    _refuse_nested(struct, "record key", options.record_key_fields)
    _refuse_nested(struct, "ordering", options.ordering_fields)
    name = options.table_name or _default_name(root)
    # In the order of a table in SQL: data columns first, as in Apache Hudi and Hive.
    declared = schema.with_last(options.partition_fields)
    properties = new_table_properties(
        name=name,
        table_type=options.table_type.value,
        database=options.database or "",
        version=options.table_version,
        record_key_fields=options.record_key_fields,
        partition_fields=options.partition_fields,
        ordering_fields=options.ordering_fields,
        merge_mode=_merge_mode(options),
        key_generator=_key_generator(options),
        hive_style=options.hive_style,
        url_encode=options.url_encode,
        create_schema=declared.avro(name) if record_schema else None,
        extra=_timestamp_properties(options)
        | _concurrency(options)
        | _change_logs(options)
        | _merging(struct, options),
    )
    return parse_table_config(render_properties(properties), f"{root}/{PROPERTIES}")


def _change_logs(options: WriteOptions) -> dict[str, str]:
    """The properties of change logs; ``UnsupportedTable`` in table version 6."""
    if not options.change_logs:
        return {}
    if options.table_version == 6:
        raise UnsupportedTable(
            "hoodie.table.cdc.enabled needs table version 8 or 9: pyhudi writes no change logs in "
            "version 6. Leave hoodie.write.table.version or the logs out; change data of tables "
            "without logs is inferred.",
            feature="writing change logs in table version 6",
        )
    return {"hoodie.table.cdc.enabled": "true", LOGGING: options.change_log_content.value}


def _merging(struct: StructType, options: WriteOptions) -> dict[str, str]:
    """The properties of partial updates and of a mark for deletes; ``UnsupportedTable`` before
    table version 9, ``ConfigError`` for half of a pair (spec/merging.md R2 and R6)."""
    mode = options.partial_updates
    given = {
        LEGACY: options.payload_class,
        PARTIAL_UPDATE: None if mode is None else mode.value,
        UNAVAILABLE: options.unavailable_value,
        DELETE_FIELD: options.delete_field,
        DELETE_MARKER: options.delete_marker,
    }
    found = {key: text for key, text in given.items() if text is not None}
    if not found:
        return {}
    if options.table_version < PARTIAL_UPDATES_SINCE:
        raise UnsupportedTable(
            f"{next(iter(found))} needs table version {PARTIAL_UPDATES_SINCE}: tables of version "
            f"{options.table_version} have other rules for it. Leave hoodie.write.table.version "
            "out, or this property.",
            feature="partial updates and marks of deletes before table version 9",
        )
    fills = PartialUpdates.FILL_UNAVAILABLE
    _require_both(DELETE_FIELD, DELETE_FIELD in found, DELETE_MARKER, DELETE_MARKER in found)
    _require_both(
        f"{PARTIAL_UPDATE}={fills.value}", mode is fills, UNAVAILABLE, UNAVAILABLE in found
    )
    if options.delete_field is not None:
        (found[DELETE_FIELD],) = own_spelling(struct, (options.delete_field,), "delete column")
    return found


def _require_both(one: str, has_one: bool, other: str, has_other: bool) -> None:
    if has_one != has_other:
        given, lacking = (one, other) if has_one else (other, one)
        raise ConfigError(
            f"'{given}' is set, but {lacking} is not, and they mean something only together. Set "
            "both or none.",
            key=given,
        )


def create_table(
    runtime: Runtime, storage: Storage, config: TableConfig, options: WriteOptions
) -> Table:
    """Make the table under its lock; errors of ``presence.make_table``, and ``ConfigError`` for a
    folder inside another table."""
    refuse_inside_table(storage.root, runtime.storage)
    made = make_table(runtime.writer(Table(storage, config), options))
    lay_timeline(made)
    return made


def lay_timeline(table: Table) -> None:
    """Make the folders of a timeline that has no commit yet, since Apache Hudi 1.2.0 lists them.

    Without them Hudi neither reads the empty table nor writes to it. Layout 1 has its timeline
    beside the properties. Raises no error: the table is made.
    """
    if table.config.layout == 1:
        return
    try:
        table.storage.make_folder(table.config.history_folder)
    except StorageError as e:
        log.warning(
            "The table at %s was made, but not the folder of its timeline: %s Apache Hudi opens "
            "the table after its first commit.", table.storage.root, e,
        )  # fmt: skip


def discard_table(runtime: Runtime, table: Table, options: WriteOptions) -> bool:
    """Remove a table whose first write failed, if only its creator uses it.

    Returns whether it is gone. Raises no error: it would hide why the write failed.
    """
    try:
        gone = discard(runtime.writer(table, options))
    except Exception as e:
        log.warning(
            "The table at %s was made, but its first write failed. The empty table stays, since "
            "it could not be removed: %s", table.storage.root, e,
        )  # fmt: skip
        return False
    if not gone:
        log.warning(
            "The first write to the table at %s failed. The table stays, since another writer "
            "already uses it.", table.storage.root,
        )  # fmt: skip
    return gone


def check_adoption(table: Table, schema: SparkSchema, options: Mapping[str, str]) -> None:
    """Check that a CREATE TABLE agrees with the existing table at its place.

    ``ConfigError`` for a property, ``SchemaConflict`` for a column that contradicts the table.
    """
    resolve_write(options, table.config.raw)
    if not schema.columns:
        return
    said = schema.as_stored(table.config.name)
    current = table_schema(table, table.timeline(), None)
    if current is None:
        return
    given, theirs = said.by_lower_name(), current.by_lower_name()
    for each in (*said.columns, *current.columns):
        mine, other = given.get(each.lower_name), theirs.get(each.lower_name)
        column, ours, stored = each.name, mine and mine.type, other and other.type
        if ours is None or stored is None or not same_type(ours, stored):
            raise SchemaConflict(
                f"The table at {table.storage.root} exists already, and its columns differ from "
                f"this definition: column '{column}' is {type_text(stored)} there and "
                f"{type_text(ours)} here. Leave the column list out to adopt the table as it is.",
                column=column,
                ours=ours,
                theirs=stored,
                rule="adoption",
            )


def _refuse_nested(schema: StructType, what: str, columns: Sequence[str]) -> None:
    """``ConfigError`` for a column without plain values: keys and folders are made of their texts,
    and ordering compares them. Bytes have no text, and Apache Hudi orders them in base files as
    signed numbers, in logs not at all."""
    for path in columns:
        name = path.partition(":")[0]
        kind = find_field(schema, name, what)[1].dataType
        if isinstance(kind, ArrayType | BinaryType | MapType | StructType):
            raise ConfigError(
                f"The {what} column '{name}' is {kind.simpleString()}, but its values must be "
                "plain. Choose another column, or a field of it as a column of its own.",
                key=name,
            )


def _default_name(root: str) -> str:
    name = root.rsplit("/", 1)[-1]
    if not name:
        raise ConfigError("The table has no name: set hoodie.table.name.", key="hoodie.table.name")
    return name


def _merge_mode(options: WriteOptions) -> MergeMode:
    if options.merge_mode is not None:
        if options.merge_mode is MergeMode.EVENT_TIME_ORDERING and not options.ordering_fields:
            raise ConfigError(
                "EVENT_TIME_ORDERING needs an ordering column: set "
                "hoodie.table.ordering.fields, or choose COMMIT_TIME_ORDERING.",
                key="hoodie.table.ordering.fields",
            )
        return options.merge_mode
    ordered = bool(options.ordering_fields)
    return MergeMode.EVENT_TIME_ORDERING if ordered else MergeMode.COMMIT_TIME_ORDERING


def _key_generator(options: WriteOptions) -> KeyGenerator:
    if options.key_generator is not None:
        return options.key_generator
    if not options.partition_fields:
        return KeyGenerator.NON_PARTITION
    if options.timestamp_type is not None:
        return KeyGenerator.TIMESTAMP
    several = len(options.record_key_fields) > 1 or len(options.partition_fields) > 1
    return KeyGenerator.COMPLEX if several else KeyGenerator.SIMPLE


def _concurrency(options: WriteOptions) -> dict[str, str]:
    """The property that makes all writers of the table pessimistic from the start."""
    return MARK if options.concurrency_mode is ConcurrencyMode.PESSIMISTIC else {}


def _check_zones(options: WriteOptions) -> None:
    zone = options.timestamp_zone
    sides = (options.timestamp_input_zone, options.timestamp_output_zone)
    if zone and any(side not in (None, zone) for side in sides):
        raise ConfigError(
            f"{KEYGEN}timezone={zone} is the zone of input and output: beside it, Apache Hudi "
            f"takes no notice of {KEYGEN}input.timezone and {KEYGEN}output.timezone. Leave it "
            "out, or these two.",
            key=f"{KEYGEN}timezone",
        )


def _timestamp_properties(options: WriteOptions) -> dict[str, str]:
    kind: TimestampType | None = options.timestamp_type
    if kind is None:
        return {}
    _check_zones(options)
    values: dict[str, Any] = {
        "timestamp.type": kind.value,
        "input.dateformat": ",".join(options.timestamp_input_formats),
        "output.dateformat": options.timestamp_output_format,
        "timezone": options.timestamp_zone,
        "input.timezone": options.timestamp_input_zone,
        "output.timezone": options.timestamp_output_zone,
    }
    if kind is TimestampType.SCALAR:
        values["timestamp.scalar.time.unit"] = options.timestamp_unit
    return {KEYGEN + key: value for key, value in values.items() if value}
