"""Forms of record keys and partition paths, by the Hudi options that make them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from integration.matrix.rows import DAY_MS

KEYGEN = "org.apache.hudi.keygen."
DS = "hoodie.datasource.write."

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to key and partition a table.

    ``partition`` tells which rows share a partition, ``path`` is its folder as Hudi names it.
    """

    name: str
    keys: tuple[str, ...]
    partition_field: str
    generator: str
    partition: Callable[[Row], Hashable]
    path: Callable[[Row], str] | None
    more: dict[str, str] = field(default_factory=dict)
    text_in_hudi: str = ""
    """A column that Hudi 1.2.0 reads as text, whatever its type in the files (spec/keys.md K4)."""
    path_in_0_15: str = ""
    """A column in whose place Hudi 0.15.0 returns the partition path."""
    unreadable_in_0_15: bool = False
    """Hudi 0.15.0 fails to read such a table, its own ones too."""

    @property
    def partitioned(self) -> bool:
        """Whether the table has partitions."""
        return self.path is not None

    def options(self) -> dict[str, str]:
        """What every writer of such a table is told, first and later ones alike."""
        chosen = {
            DS + "recordkey.field": ",".join(self.keys),
            DS + "partitionpath.field": self.partition_field,
            DS + "precombine.field": "ts" if self.keys else "",
            DS + "keygenerator.class": KEYGEN + self.generator if self.generator else "",
            **self.more,
        }
        return {key: value for key, value in chosen.items() if value}


def _nowhere(row: Row) -> Hashable:
    return None


def _by_day(row: Row) -> Hashable:
    return str(row["dt"])


def _day_path(row: Row) -> str:
    return str(row["dt"])


def _by_city(row: Row) -> Hashable:
    return row["dt"], row["city"]


def _city_path(row: Row) -> str:
    # Hudi escapes like Hive: what quote() calls safe, and the space and every non-ASCII letter.
    escaped = "".join(c if c == " " or ord(c) > 127 else quote(c, safe="") for c in row["city"])
    return f"dt={row['dt']}/city={escaped}"


def _by_millis(row: Row) -> Hashable:
    return int(row["day_ms"]) // DAY_MS


TIME = "hoodie.keygen.timebased."
DAYS = {TIME + "output.dateformat": "yyyy-MM-dd", TIME + "timezone": "UTC"}
MILLIS = {**DAYS, TIME + "timestamp.type": "EPOCHMILLISECONDS"}
CLOCK = {
    **DAYS,
    TIME + "timestamp.type": "DATE_STRING",
    TIME + "input.dateformat": "yyyy-MM-dd HH:mm:ss",
}
# Below table version 9 the keys of one column are then 1, as 0.15.0 writes them, from 9 on id:1.
# 1.2.0 writes neither below 9 unless its check is off.
ONE_COLUMN = {
    "hoodie.write.complex.keygen.new.encoding": "true",
    "hoodie.write.complex.keygen.validation.enable": "false",
}
HIVE_ENCODED = {DS + "hive_style_partitioning": "true", DS + "partitionpath.urlencode": "true"}

FORMS = {
    form.name: form
    for form in (
        Form("simple", ("id",), "dt", "SimpleKeyGenerator", _by_day, _day_path),
        Form("composite", ("id", "seq"), "dt", "ComplexKeyGenerator", _by_day, _day_path),
        Form("keyless", (), "dt", "", _by_day, _day_path),
        Form(
            "timestamp", ("id",), "day_ms", "TimestampBasedKeyGenerator",
            _by_millis, _day_path, MILLIS, text_in_hudi="day_ms", unreadable_in_0_15=True,
        ),
        Form(
            "timestamp-text", ("id",), "clock", "TimestampBasedKeyGenerator",
            _by_day, _day_path, CLOCK, path_in_0_15="clock",
        ),
        Form(
            "multi", ("id", "seq"), "dt,city", "ComplexKeyGenerator",
            _by_city, _city_path, HIVE_ENCODED,
        ),
        Form(
            "complex-single", ("id",), "dt,city", "ComplexKeyGenerator",
            _by_city, _city_path, {**HIVE_ENCODED, **ONE_COLUMN},
        ),
        Form("flat-simple", ("id",), "", "NonpartitionedKeyGenerator", _nowhere, None),
        Form("flat-composite", ("id", "seq"), "", "NonpartitionedKeyGenerator", _nowhere, None),
        Form("flat-keyless", (), "", "", _nowhere, None),
    )
}  # fmt: skip

INDEXES = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.filter.type": "SIMPLE"},
    "bucket": {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "3",
        "hoodie.index.bucket.engine": "SIMPLE",
    },
}
