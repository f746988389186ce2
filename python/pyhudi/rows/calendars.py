"""Base files with the old calendar, which Spark wrote in LEGACY mode, or before Spark 3.

Such a file counts days like Java's old classes: by the Julian calendar until 4 October 1582. Its
footer says so, and Spark's readers convert the values. A merge writes the proleptic Gregorian
calendar of today, so it converts the values that it copies in the same way.

Source: Spark's documentation of ``spark.sql.parquet.datetimeRebaseModeInWrite`` and the key-values
of the files that it writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.errors import UnsupportedTable
from pyhudi.rows.stored_types import with_leaves

_VERSION: Final = b"org.apache.spark.version"
_ZONE: Final = b"org.apache.spark.timeZone"
_LEGACY_DATES: Final = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"

#: 15 October 1582 in days since the epoch; from then on both calendars agree
FIRST_SAME_DAY: Final = -141_427
#: 1900 in microseconds; from then on Java's old and new time zones agree, too
FIRST_SAME_MICROS: Final = -2_208_988_800_000_000
_DAY_S: Final = 86_400
_EPOCH_JULIAN_DAY: Final = 2_440_588
_UTC: Final = frozenset({"UTC", "GMT", "Z", "UCT", "Zulu", "Etc/UTC", "Etc/GMT", "Etc/UCT"})
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?")
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class OldCalendar:
    """Which values of a file use the old calendar; ``zone`` is its writer's time zone."""

    dates: bool
    int96: bool
    zone: str | None

    def turned(self, column: pa.ChunkedArray, int96: bool, path: str) -> pa.ChunkedArray:
        """``column`` of the file in today's calendar; ``int96``: its times are INT96.

        ``UnsupportedTable`` for times before 1900 in a zone whose history only Java knows.
        """
        times = self.int96 if int96 else self.dates

        def leaf(array: pa.Array) -> pa.Array:
            if self.dates and pa.types.is_date32(array.type):
                return _turned_days(array)
            # A point in time; INT96 has no other kind, and Arrow gives it no zone.
            if times and pa.types.is_timestamp(array.type) and (int96 or array.type.tz):
                return _turned_times(array, self.zone, path)
            return array

        chunks = [with_leaves(chunk, leaf) for chunk in column.chunks]
        return pa.chunked_array(chunks, column.type)


def old_calendar(entries: Mapping[bytes, bytes] | None) -> OldCalendar | None:
    """The calendar in a footer's key-values, by Spark's rule; None if it is today's."""
    found = entries or {}
    version = found.get(_VERSION)
    if version is None:
        return None
    dates = version < b"3.0.0" or _LEGACY_DATES in found
    int96 = version < b"3.1.0" or _LEGACY_INT96 in found
    zone = found.get(_ZONE)
    return OldCalendar(dates, int96, zone.decode() if zone else None) if dates or int96 else None


def int96_columns(schema: pq.ParquetSchema) -> frozenset[str]:
    """The columns of a file that have a time as INT96, perhaps inside."""
    leaves = (schema.column(at) for at in range(len(schema)))
    return frozenset(c.path.split(".")[0] for c in leaves if c.physical_type == "INT96")


def _turned_days(array: pa.Array) -> pa.Array:
    days = array.cast(pa.int32())
    least = pc.min(days).as_py()
    if least is None or least >= FIRST_SAME_DAY:
        return array
    numbers = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _masked(gregorian_days(numbers), array)


def _turned_times(array: pa.Array, zone: str | None, path: str) -> pa.Array:
    per_second = _PER_SECOND[array.type.unit]
    units = array.cast(pa.int64())
    least = pc.min(units).as_py()
    if least is None or least >= FIRST_SAME_MICROS // 1_000_000 * per_second:
        return array
    offset_s = _offset_s(zone)
    if offset_s is None:
        raise UnsupportedTable(
            f"Base file '{path}' has times before 1900 that Spark wrote by the old calendar in the "
            f"zone {zone or 'of an unknown name'}, and only Java can convert them. Nothing was "
            "committed. Write its rows again with insert_overwrite, which does not merge.",
            feature="legacyDateTime",
            path=path,
        )
    local = pc.fill_null(units, 0).to_numpy(zero_copy_only=False) + offset_s * per_second
    days, rest = np.divmod(local, _DAY_S * per_second)
    turned = gregorian_days(days) * (_DAY_S * per_second) + rest - offset_s * per_second
    return _masked(turned, array)


def _masked(numbers: np.ndarray, like: pa.Array) -> pa.Array:
    width = pa.int32() if pa.types.is_date32(like.type) else pa.int64()
    mask = pc.is_null(like).to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=mask).cast(width).cast(like.type)


def gregorian_days(days: np.ndarray) -> np.ndarray:
    """The days of today's calendar with the same dates as ``days`` in the old calendar."""
    old = days < FIRST_SAME_DAY
    if not old.any():
        return days
    # The date by the Julian calendar, years from March: after Richards, "Mapping Time" (1998).
    since = days[old] + _EPOCH_JULIAN_DAY + 32_082
    years = (4 * since + 3) // 1461
    day_of_year = since - 1461 * years // 4
    months = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * months + 2) // 5
    # The same date by the Gregorian rule; a 29 February that it lacks becomes 1 March.
    leap_days = years // 4 - years // 100 + years // 400
    before = 365 * years + leap_days + (153 * months + 2) // 5
    found = days.copy()
    found[old] = before + day - 32_044 - _EPOCH_JULIAN_DAY
    return found


def _offset_s(zone: str | None) -> int | None:
    """The seconds by which a zone is ahead of UTC, if that has never changed."""
    if zone in _UTC:
        return 0
    match = _OFFSET.fullmatch(zone or "")
    if match is None:
        return None
    sign = -1 if match[1] == "-" else 1
    return sign * (int(match[2]) * 3600 + int(match[3] or 0) * 60)
