"""The values that columns of the random tables have, and the properties of the tables."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

DECIMALS = tuple(decimal.Decimal(text) for text in ("1.25", "-0.50", "77.00"))
#: half an hour into the hour that New York has twice, and into the one that it leaves out, the last
#: microsecond before 1970, and years in which places had a time of their own
TIMES = (
    dt.datetime(2024, 3, 10, 2, 30),
    dt.datetime(2024, 3, 10, 3, 30),
    dt.datetime(2024, 11, 3, 5, 30, 0, 123456),
    dt.datetime(2024, 11, 3, 6, 30, 0, 123000),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1969, 7, 20, 20, 17, 40),
    dt.datetime(1883, 2, 28, 0, 0, 0, 1),
    dt.datetime(9999, 12, 30, 12, 0),
)
#: a type -> the values of its columns, beside null
VALUES: dict[str, tuple[Any, ...]] = {
    "int": (1, 0, -7, 2_000_000_000),
    "bigint": (1, 0, -7, 1 << 40),
    "float": (0.5, float("nan"), -0.0, 0.0, -2.25),
    "double": (0.5, float("nan"), -0.0, 0.0, float("-inf")),
    "string": ("a", "b", "", "ü", "日本", "it's", "back\\slash", "🚲"),
    "decimal(9,2)": DECIMALS,
    "decimal(12,2)": DECIMALS,
    "decimal(12,4)": tuple(each.quantize(decimal.Decimal("0.0001")) for each in DECIMALS),
    "decimal(14,4)": tuple(each.quantize(decimal.Decimal("0.0001")) for each in DECIMALS),
    "boolean": (True, False),
    "date": (dt.date(2024, 2, 29), dt.date(1969, 7, 20)),
    "timestamp": TIMES,
    "timestamp_ntz": TIMES,
}
KEYS: dict[str, tuple[Any, ...]] = {
    "bigint": tuple(range(8)),
    "int": tuple(range(8)),
    "string": ("k", "ключ", "a/b", "a:b", "x,y", "日", "k 7", "it's"),
    "decimal(9,2)": tuple(decimal.Decimal(number).scaleb(-2) for number in range(-3, 5)),
    "date": tuple(dt.date(year, 2, 28) for year in (1, 1583, 1883, 1970, 2023, 2024, 2025, 9999)),
    "timestamp": TIMES,
    "timestamp_ntz": TIMES,
}
PARTITIONS: dict[str, tuple[Any, ...]] = {
    "string": ("x", "y", "Zürich", None),
    "int": (1, 2, None),
    "date": (dt.date(2024, 2, 29), dt.date(1969, 7, 20)),
}
NAMES = ("a", "b", "c", "d", "e", "größe")
FIELD_NAMES = ("x", "y", "z", "höhe")
MAP_KEYS = ("k", "", "ключ", "a b")
#: time zones of the session
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")

GLOBAL = ("hoodie.index.type", "GLOBAL_SIMPLE")
LATEST = ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING")
FILLS = ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS")
MERGE_ON_READ = ("type", "mor")
BUCKETS = ("hoodie.index.type", "BUCKET")
VERSION = "hoodie.write.table.version"
#: merges of logs that their readers leave until a statement or a call asks for them
LOGS = (
    (),
    (("hoodie.compact.inline", "false"),),
    (("hoodie.compact.inline.max.delta.commits", "2"),),
    (
        ("hoodie.compact.inline", "false"),
        ("hoodie.log.compaction.inline", "true"),
        ("hoodie.log.compaction.blocks.threshold", "2"),
    ),
)
INDEXES = (
    (),
    (GLOBAL,),
    (("hoodie.index.type", "BLOOM"),),
    (BUCKETS, ("hoodie.bucket.index.num.buckets", "2")),
)
UPSERT = ("hoodie.spark.sql.insert.into.operation", "upsert")
PLAIN_FOLDERS = ("hoodie.datasource.write.hive_style_partitioning", "false")
URL_ENCODED = ("hoodie.datasource.write.partitionpath.urlencode", "true")
