"""Rows for the matrix: every column but ``ts`` and ``version``'s is a pure function of the id."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

DAY_MS = 86_400_000
FIRST_DAY_MS = 1_704_067_200_000
CITIES = ("a/b c", "Zürich: ü")
SAME_PARTITION = 6
"""Ids that differ by a multiple of this lie in one partition, in every form of partitioning."""

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "seq": pa.int32(),
        "name": pa.string(),
        "price": pa.float64(),
        "amount": pa.decimal128(10, 2),
        "at": pa.timestamp("us", tz="UTC"),
        "day": pa.date32(),
        "tags": pa.list_(pa.string()),
        "note": pa.string(),
        "ts": pa.int64(),
        "day_ms": pa.int64(),
        "clock": pa.string(),
        "dt": pa.string(),
        "city": pa.string(),
    }
)


def row(key: int, ts: int, version: int = 0) -> dict[str, Any]:
    """The row of ``key`` as written at ordering value ``ts``."""
    day_ms = FIRST_DAY_MS + (key % 3) * DAY_MS
    moment = datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=key, microseconds=ts)
    return {
        "id": key,
        "seq": key % 5,
        "name": f"näme-{key}-v{version}",
        "price": key + version / 4,
        "amount": decimal.Decimal(key * 100 + version) / 100,
        "at": moment.replace(tzinfo=datetime.timezone.utc),
        "day": moment.date(),
        "tags": [] if key % 4 == 0 else [f"t{key}", f"v{version}"],
        "note": None if key % 2 else "名前 🎈",
        "ts": ts,
        "day_ms": day_ms + key * 1000,
        "clock": f"2024-01-0{1 + key % 3} 10:{key % 60:02d}:00",
        "dt": f"2024-01-0{1 + key % 3}",
        "city": CITIES[key % 2],
    }


def rows(keys: Iterable[int], ts: int, version: int = 0) -> list[dict[str, Any]]:
    """The rows of ``keys``."""
    return [row(key, ts, version) for key in keys]


def table(of: Iterable[dict[str, Any]]) -> pa.Table:
    """Rows as an Arrow table of the matrix's schema."""
    return pa.Table.from_pylist(list(of), schema=SCHEMA)
