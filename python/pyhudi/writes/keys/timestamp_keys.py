"""Partition paths from times: the timestamp-based key generator as Spark SQL.

The output pattern is built from the calendar fields of the wall clock in the output zone, so the
session's time zone and its daylight saving never change a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from pyhudi.config import TimestampType as TimestampKind
from pyhudi.errors import ConfigError

#: letters of a Java pattern that stand for a zone
ZONE_LETTERS = frozenset("VzOXxZ")
#: micros per unit of the numeric kinds
UNIT_MICROS = {
    "MICROSECONDS": 1,
    "MILLISECONDS": 1_000,
    "SECONDS": 1_000_000,
    "MINUTES": 60_000_000,
    "HOURS": 3_600_000_000,
    "DAYS": 86_400_000_000,
}

#: the pattern letters of an offset such as +00:00
OFFSET = "X" * 3


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """How a time column becomes a path: ``hoodie.keygen.timebased.*``."""

    kind: TimestampKind
    output_format: str
    input_format: str | None
    unit: str
    input_zone: str
    output_zone: str


def timestamp_path(value: Column, kind: DataType, how: TimestampFormat | None, name: str) -> Column:
    """The path text of ``value``; ``ConfigError`` if the type does not fit.

    Null counts as in Hudi 1.2.0: one unit for a number, the start of 1970 for text.
    """
    if how is None or not how.output_format:
        raise ConfigError(
            f"Partition column '{name}' uses the timestamp key generator, which needs "
            "hoodie.keygen.timebased.timestamp.type and .output.dateformat. Set both.",
            key="hoodie.keygen.timebased.output.dateformat",
        )
    wall = _wall_clock(value, kind, how, name)
    return _formatted(wall, how.output_format)


def _wall_clock(value: Column, kind: DataType, how: TimestampFormat, name: str) -> Column:
    """The time as TIMESTAMP_NTZ in the output zone."""
    zone = F.lit(how.output_zone)
    if isinstance(kind, NumericType):
        micros = {
            TimestampKind.UNIX_TIMESTAMP: UNIT_MICROS["SECONDS"],
            TimestampKind.EPOCH_MILLIS: UNIT_MICROS["MILLISECONDS"],
            TimestampKind.EPOCH_MICROS: 1,
            TimestampKind.SCALAR: UNIT_MICROS.get(how.unit.upper(), 0),
            TimestampKind.MIXED: UNIT_MICROS["MILLISECONDS"],
        }.get(how.kind)
        if not micros:
            raise ConfigError(
                f"Column '{name}' is a number, but the timestamp type is {how.kind.value} "
                f"(unit {how.unit}). Choose the type that says what the number counts.",
                key="hoodie.keygen.timebased.timestamp.type",
            )
        utc = _utc_wall(F.coalesce(value.cast("bigint"), F.lit(1)) * F.lit(micros))
        return F.convert_timezone(F.lit("UTC"), zone, utc)
    if isinstance(kind, TimestampType):
        micros_of = F.coalesce(F.unix_micros(value), F.lit(1))
        return F.convert_timezone(F.lit("UTC"), zone, _utc_wall(micros_of))
    if isinstance(kind, TimestampNTZType | DateType):
        start = F.convert_timezone(F.lit("UTC"), zone, _utc_wall(F.lit(1)))
        return F.coalesce(value.cast("timestamp_ntz"), start)
    if isinstance(kind, StringType) and how.input_format:
        return _parsed(value, how, name)
    raise ConfigError(
        f"Column '{name}' of type {kind.simpleString()} cannot be read as a time of type "
        f"{how.kind.value}. For text set hoodie.keygen.timebased.input.dateformat.",
        key="hoodie.keygen.timebased.timestamp.type",
    )


def _parsed(value: Column, how: TimestampFormat, name: str) -> Column:
    """Text read by the first of the input formats that fits; a row that fits none is an error.

    Text without a zone is read as if in UTC first, so that the session's zone plays no part.
    """
    patterns = (how.input_format or "").split(",")
    zone = F.lit(how.input_zone)
    start = F.convert_timezone(F.lit("UTC"), zone, _utc_wall(F.lit(0)))
    # Not the start in the pattern's text: with a zone that would be the session's zone.
    first = None if _zoned(patterns[0]) else F.date_format(start.cast("timestamp"), patterns[0])
    text = value if first is None else F.coalesce(value, first)
    tries = []
    for pattern in patterns:
        zoned = _zoned(pattern)
        full = text if zoned else F.concat(text, F.lit("+00:00"))
        read = F.try_to_timestamp(full, F.lit(pattern if zoned else pattern + OFFSET))
        wall = _utc_wall(F.unix_micros(read))
        source = F.lit("UTC") if zoned else zone
        tries.append(F.convert_timezone(source, F.lit(how.output_zone), wall))
    problem = F.concat(
        F.lit(f"column '{name}' has a value that is not a time in the format {how.input_format}: "),
        text,
    )
    epoch = F.convert_timezone(F.lit("UTC"), F.lit(how.output_zone), _utc_wall(F.lit(0)))
    return F.when(text.isNull(), epoch).otherwise(F.coalesce(*tries, F.raise_error(problem)))


def _zoned(pattern: str) -> bool:
    return bool(ZONE_LETTERS.intersection(re.sub("'[^']*'", "", pattern)))


def _utc_wall(micros: Column) -> Column:
    """UTC wall clock of microseconds since the epoch, without the session zone."""
    day = F.lit(UNIT_MICROS["DAYS"])
    rest = F.pmod(micros, day)
    return F.lit("1970-01-01 00:00:00").cast("timestamp_ntz") + F.make_dt_interval(
        # Spark divides doubles: they hold whole days exactly, but not each microsecond after 2255.
        ((micros - rest) / day).cast("int"),
        F.lit(0),
        F.lit(0),
        (rest / F.lit(1_000_000)).cast("decimal(18,6)"),
    )


def _formatted(wall: Column, pattern: str) -> Column:
    """``pattern`` of yyyy, MM, dd, HH, hh, mm, ss and literal text, applied to ``wall``."""
    year = _year(wall)
    fields = {
        "yyyy": year,
        "YYYY": year,
        "yy": _digits(F.pmod(F.year(wall), F.lit(100)), 2),
        "MM": _digits(F.month(wall), 2),
        "dd": _digits(F.dayofmonth(wall), 2),
        "DDD": _digits(F.dayofyear(wall), 3),
        "HH": _digits(F.hour(wall), 2),
        "hh": _digits(F.pmod(F.hour(wall) + F.lit(11), F.lit(12)) + F.lit(1), 2),
        "mm": _digits(F.minute(wall), 2),
        "ss": _digits(F.second(wall), 2),
    }
    parts: list[Column] = []
    for token in re.finditer(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+", pattern):
        text = token.group(0)
        if token.group(2):
            if text not in fields:
                raise ConfigError(
                    f"'{text}' in the output date format '{pattern}' is not supported; known are "
                    f"{', '.join(fields)} and quoted text.",
                    key="hoodie.keygen.timebased.output.dateformat",
                )
            parts.append(fields[text])
        else:
            parts.append(F.lit(text.strip("'") if text.startswith("'") else text))
    return F.concat(*parts)


def _year(wall: Column) -> Column:
    """The year in at least four digits, with its sign if it is negative, as Java has it."""
    number = F.year(wall)
    digits = F.abs(number).cast("string")
    # `lpad` would make a longer year shorter.
    shown = F.when(F.length(digits) < 4, _digits(digits, 4)).otherwise(digits)
    return F.concat(F.when(number < 0, "-").otherwise(""), shown)


def _digits(number: Column, width: int) -> Column:
    return F.lpad(number.cast("string"), width, "0")
