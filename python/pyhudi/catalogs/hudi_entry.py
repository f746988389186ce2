"""The entry of a Hudi table in a Hive Metastore, as sessions with Apache Hudi expect it. No I/O.

The names and classes are those that Hudi 1.2.0 itself registers in a metastore: provider ``hudi``,
Hudi's input format, and the meta columns first. The properties hold the columns in Spark's form,
since Hive keeps neither the case of names nor all of Spark's types.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.format.keys import DEFAULT_PARTITION, escape_path, partition_values
from pyhudi.format.schemas import type_text
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import KeyGenerator, TableConfig

PROVIDER: Final = {"provider": "hudi", "spark.sql.sources.provider": "hudi"}
INPUT_FORMAT: Final = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

SCHEMA: Final = "spark.sql.sources.schema"
#: the longest property value that the database of every metastore accepts
VALUE_CHARACTERS: Final = 4000
#: the key under which Spark keeps CHAR(n) or VARCHAR(n) of a text column
_RAW_TYPE: Final = "__CHAR_VARCHAR_TYPE_STRING"
#: generators whose folder names are not the values of the partition columns
_NOT_BY_VALUE: Final = (KeyGenerator.TIMESTAMP, KeyGenerator.CUSTOM)

#: the values of one partition, as Hive's texts
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryName:
    """A table of a metastore; its ``thrift://host:port`` addresses are tried in turn."""

    uris: tuple[str, ...]
    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class HiveColumn:
    """A column in Hive: its name in lower case, and Hive's type."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """The columns of an entry in Hive's form, and the properties that hold Spark's form."""

    data: tuple[HiveColumn, ...]
    partition: tuple[HiveColumn, ...]
    properties: Mapping[str, str]


def entry_columns(schema: SparkSchema, partitioning: Sequence[str]) -> EntryColumns:
    """The columns of a table of ``schema``; partition columns come last, as in Hive."""
    columns = {column.name: column for column in schema.with_meta_columns().columns}
    by_partition = [columns.pop(name) for name in partitioning]
    data = list(columns.values())
    text = json.dumps(SparkSchema((*data, *by_partition)).json(), separators=(",", ":"))
    parts = [text[at : at + VALUE_CHARACTERS] for at in range(0, len(text), VALUE_CHARACTERS)]
    properties = {f"{SCHEMA}.numParts": str(len(parts))}
    properties |= {f"{SCHEMA}.part.{n}": part for n, part in enumerate(parts)}
    if partitioning:
        properties[f"{SCHEMA}.numPartCols"] = str(len(partitioning))
        properties |= {f"{SCHEMA}.partCol.{n}": name for n, name in enumerate(partitioning)}
    return EntryColumns(
        tuple(map(_hive_column, data)), tuple(map(_hive_column, by_partition)), properties
    )


def _hive_column(column: Column) -> HiveColumn:
    # Hive 2 and 3 have only one timestamp type.
    kind = type_text(column.type).replace("timestamp_ntz", "timestamp")
    return HiveColumn(column.lower_name, column.metadata.get(_RAW_TYPE, kind), column.comment)


def spark_schema(properties: Mapping[str, str]) -> SparkSchema | None:
    """The columns in Spark's form, from an entry's properties; None if they are not there."""
    text = properties.get(SCHEMA)
    if text is None:
        count = int(properties.get(f"{SCHEMA}.numParts", "0"))
        parts = [properties.get(f"{SCHEMA}.part.{n}") for n in range(count)]
        text = "".join(part for part in parts if part is not None)
    return SparkSchema.parse(json.loads(text)) if text else None


def partitioned_by(properties: Mapping[str, str]) -> list[str]:
    """The partition columns of an entry; a metastore never changes them."""
    count = int(properties.get(f"{SCHEMA}.numPartCols", "0"))
    return [properties[f"{SCHEMA}.partCol.{n}"] for n in range(count)]


def is_schema_property(key: str) -> bool:
    """Whether Spark keeps a part of the columns under ``key``."""
    return key == SCHEMA or key.startswith(f"{SCHEMA}.")


def noted(schema: SparkSchema, said: SparkSchema | None) -> SparkSchema:
    """``schema`` with the comments and lengths of ``said``, for columns of the same type."""
    known = {column.name: column for column in said.columns} if said else {}

    def one(column: Column) -> Column:
        other = known.get(column.name)
        if other is None or other.type != column.type:
            return column
        return replace(column, metadata=other.metadata)

    return SparkSchema(tuple(map(one, schema.columns)))


def partition_columns(config: TableConfig, schema: SparkSchema | None) -> list[str]:
    """The columns whose values are the folder names; none if folders are named otherwise.

    ``schema`` is None for a table that does not know its columns yet.
    """
    if config.key_generator in _NOT_BY_VALUE:
        return []
    return [name for name in config.partition_fields if schema is None or name in schema.names]


def hive_values(config: TableConfig, partition_path: str) -> Values | None:
    """Hive's values of the partition at a path; None if the path does not show them."""
    texts = partition_values(
        config.partition_fields,
        partition_path,
        hive_style=config.hive_style,
        url_encode=config.url_encode,
        slash_separated_dates=config.slash_separated_dates,
    )
    if texts is None or "" in texts:
        return None
    return tuple(DEFAULT_PARTITION if text is None else text for text in texts)


def partition_name(columns: Sequence[str], values: Values) -> str:
    """The name that a metastore gives a partition, such as ``day=2024-01-01/city=x%3Ay``."""
    pairs = zip(columns, values, strict=True)
    return "/".join(f"{escape_path(column)}={escape_path(value)}" for column, value in pairs)


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Changes for a metastore: paths of partitions to add, values of partitions to drop."""

    add: Mapping[Values, str]
    drop: frozenset[Values]

    def __bool__(self) -> bool:
        return bool(self.add or self.drop)


def partition_changes(
    config: TableConfig, registered: Collection[Values], live: Collection[str]
) -> PartitionChanges:
    """The changes that turn ``registered`` into the partitions at the paths ``live``."""
    there = {values: path for path in live if (values := hive_values(config, path)) is not None}
    add = {values: path for values, path in there.items() if values not in registered}
    return PartitionChanges(add, frozenset(registered) - there.keys())
