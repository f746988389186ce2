"""Record keys and partition paths as Spark SQL expressions: no Python per row, no UDF.

The text of a key must be the one that Apache Hudi makes from the same value, or the two would
hold one row under two keys (spec/keys.md K1 to K5).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyhudi.errors import ConfigError
from pyhudi.format.keys import (
    DEFAULT_PARTITION,
    EMPTY_KEY,
    ESCAPED_CHARACTERS,
    NULL_KEY,
)
from pyhudi.format.table_config import KeyGenerator, TableConfig
from pyhudi.tables.columns import find_field
from pyhudi.writes.keys.timestamp_keys import TimestampFormat, timestamp_path

#: a decimal below 0.000001 as plain text: its sign, its first digit that counts, and the others
SMALL = r"^(-?)0\.0{6}0*([0-9])([0-9]*)$"

RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"


def column(path: str) -> Column:
    """The column at a dotted path; its names may hold any characters."""
    return F.col(quoted(path))


def key_text(schema: StructType, path: str) -> Column:
    """The text under which a value enters keys and paths; null stays null.

    Timestamps enter as microseconds since the epoch, as Hudi's generators do by default.
    """
    kind = find_field(schema, path, "key column")[1].dataType
    if isinstance(kind, BinaryType | StructType) or kind.typeName() in ("array", "map"):
        raise ConfigError(
            f"Column '{path}' is of type {kind.simpleString()}, which cannot be a key. "
            "Choose a column of a plain type.",
            key=path,
        )
    value = column(path)
    if isinstance(kind, DecimalType):
        return _decimal_text(value, kind.scale)
    if isinstance(kind, TimestampType):
        return F.unix_micros(value).cast("string")
    if isinstance(kind, TimestampNTZType):
        return _wall_micros(value).cast("string")
    return value.cast("string")


def _wall_micros(wall: Column) -> Column:
    """The microseconds of a TIMESTAMP_NTZ since 1970-01-01 00:00:00.

    Spark's own difference of two times takes both for times of the session's zone, and moves those
    that its clocks leave out.
    """
    days = F.unix_date(wall.cast("date")).cast("bigint")
    minutes = (days * 24 + F.hour(wall)) * 60 + F.minute(wall)
    seconds = F.date_part(F.lit("SECOND"), wall)
    return minutes * 60_000_000 + (seconds * 1_000_000).cast("bigint")


def _decimal_text(value: Column, scale: int) -> Column:
    """Java's text of a decimal, with an exponent below 0.000001: 1E-7.

    Spark's own text has none under ``spark.sql.ansi.enabled``, the default since Spark 4.
    """
    text = value.cast("string")
    if scale <= 6:
        return text
    sign, first, others = (F.regexp_extract(text, SMALL, at) for at in (1, 2, 3))
    point = F.when(others == "", "").otherwise(".")
    exponent = (F.lit(scale) - F.length(others)).cast("string")
    small = F.concat(sign, first, point, others, F.lit("E-"), exponent)
    return F.when(text.rlike(SMALL), small).otherwise(text)


def quoted(path: str) -> str:
    """A dotted path with each name in backticks."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in path.split("."))


def record_key(schema: StructType, fields: Sequence[str], named: bool) -> Column:
    """The record key, ``named`` with its columns' names: ``id:1``.

    Null if Hudi has no key for the row (the writer refuses it).
    """
    if not named:
        text = key_text(schema, fields[0])
        return F.when(text != "", text)
    parts, present = [], []
    for path in fields:
        text = key_text(schema, path)
        present.append(F.coalesce(text != "", F.lit(False)))
        shown = F.when(text.isNull(), NULL_KEY).when(text == "", EMPTY_KEY).otherwise(text)
        parts.append(F.concat(F.lit(f"{path}:"), shown))
    some = reduce(lambda a, b: a | b, present)
    return F.when(some, F.concat_ws(",", *parts))


def partition_path(
    schema: StructType, config: TableConfig, timestamps: TimestampFormat | None
) -> Column:
    """The partition path relative to the table, as Hudi writes it; ``""`` if unpartitioned."""
    if not config.partition_fields:
        return F.lit("")
    parts = []
    for name, kind in zip(config.partition_fields, config.partition_kinds, strict=True):
        if config.key_generator is KeyGenerator.TIMESTAMP or kind == "TIMESTAMP":
            _, field = find_field(schema, name, "partition column")
            text = timestamp_path(column(name), field.dataType, timestamps, name)
        else:
            text = key_text(schema, name)
        if config.slash_separated_dates:
            text = F.translate(text, "-", "/")
        if config.url_encode:
            text = escaped(text)
        text = F.when(text.isNull() | (text == ""), DEFAULT_PARTITION).otherwise(text)
        parts.append(F.concat(F.lit(f"{name}="), text) if config.hive_style else text)
    return F.concat_ws("/", *parts) if len(parts) > 1 else parts[0]


def escaped(text: Column) -> Column:
    """Percent-encoding of the characters that Hudi encodes in partition paths."""
    encoded = F.replace(text, F.lit("%"), F.lit("%25"))
    for character in ESCAPED_CHARACTERS:
        if character != "%":
            encoded = F.replace(encoded, F.lit(character), F.lit(f"%{ord(character):02X}"))
    return encoded
