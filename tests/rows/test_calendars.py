"""Merges into files of the old calendar, whose values must read the same afterwards."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import UnsupportedTable
from pyhudi.reads.footers import facts_of
from pyhudi.rows.calendars import FIRST_SAME_DAY, OldCalendar, gregorian_days
from pyhudi.rows.spec import EVENT_TIME
from tests.hadoop_jvm import hadoop_jvm
from tests.rows.workers import T2, Stat, content, footer, insert, rows_of, spec, upsert

EPOCH = dt.date(1970, 1, 1)
UTC = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("d", pa.date32()),
        ("t", UTC),
        ("n", pa.timestamp("us")),
        ("deep", pa.struct([("days", pa.list_(pa.date32()))])),
        ("by", pa.map_(pa.date32(), UTC)),
    ]
)
LEGACY = {
    "org.apache.spark.version": "3.5.9",
    "org.apache.spark.timeZone": "UTC",
    "org.apache.spark.legacyDateTime": "",
    "org.apache.spark.legacyINT96": "",
}
DAY_MICROS = 86_400_000_000


def day(year: int, month: int, day: int) -> int:
    return (dt.date(year, month, day) - EPOCH).days


#: a date by today's calendar, and how many days earlier the old calendar has a day of that date
DATES = [
    (day(1, 1, 1), -2), (day(300, 2, 28), 0), (day(1000, 2, 28), 5), (day(1000, 3, 1), 6),
    (day(1500, 6, 1), 10), (day(1582, 10, 4), 10), (day(1582, 10, 15), 0), (day(2024, 2, 29), 0),
]  # fmt: skip


@pytest.mark.parametrize(("today", "apart"), DATES)
def test_a_day_of_the_old_calendar_becomes_the_day_of_the_same_date(today: int, apart: int) -> None:
    assert gregorian_days(np.array([today + apart])).tolist() == [today]


def test_a_leap_day_that_todays_calendar_lacks_becomes_the_first_of_march() -> None:
    assert gregorian_days(np.array([day(1500, 3, 1) + 9])).tolist() == [day(1500, 3, 1)]


def row(key: str, today: int, apart: int) -> dict[str, object]:
    """A row whose days and times are counted ``apart`` days otherwise."""
    shown = today + apart
    micros = shown * DAY_MICROS + 3_600_000_123
    return {
        "id": key,
        "d": shown,
        "t": micros,
        "n": today * DAY_MICROS,
        "deep": {"days": [shown, 0]},
        "by": [(shown, micros)],
    }


def old_file(root: Path, entries: dict[str, str], int96: bool = False) -> Stat:
    rows = [row(f"k{at}", *each) for at, each in enumerate(DATES)]
    stat = insert(plain(root), rows_of(rows, SCHEMA))
    as_spark_wrote_it(root, stat, entries, int96)
    return stat


def as_spark_wrote_it(root: Path, stat: Stat, entries: dict[str, str], int96: bool = False) -> None:
    """The same file with Spark's entries in the footer."""
    path = root / stat["path"]
    held, kept = pq.read_table(path), footer(root, stat)
    kept.pop("ARROW:schema", None)
    options = {"use_deprecated_int96_timestamps": int96, "store_schema": False}
    with pq.ParquetWriter(path, held.schema.remove_metadata(), **options) as writer:
        writer.write_table(held)
        writer.add_key_value_metadata({**kept, **entries})


def plain(root: Path, instant: str = "20240101000000001"):  # type: ignore[no-untyped-def]
    return spec(root, instant, SCHEMA, merge_mode=EVENT_TIME, ordering_columns=("d",))


def merged(root: Path, entries: dict[str, str], int96: bool = False) -> list[dict[str, object]]:
    stat = old_file(root, entries, int96)
    new = upsert(plain(root, T2), stat, rows_of([row("new", 0, 0)], SCHEMA))
    assert not any(key.startswith("org.apache.spark") for key in footer(root, new))
    table = pq.read_table(root / new["path"]).select(SCHEMA.names)
    whole = [numbers(table.column(name)) for name in SCHEMA.names]
    return sorted((list(each) for each in zip(*whole, strict=True)), key=str)


def numbers(column: pa.ChunkedArray) -> list[object]:
    """The values, days and times as the numbers that are stored."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32()).to_pylist()
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_struct(column.type):
        lists = pa.chunked_array([c.field(0) for c in column.chunks])
        return lists.cast(pa.list_(pa.int32())).to_pylist()
    if pa.types.is_map(column.type):
        return column.cast(pa.map_(pa.int32(), pa.int64())).to_pylist()
    return column.to_pylist()


def expected(apart: bool) -> list[list[object]]:
    rows = [row(f"k{at}", day, shift if apart else 0) for at, (day, shift) in enumerate(DATES)]
    flat = [
        [r["id"], r["d"], r["t"], r["n"], r["deep"]["days"], r["by"]]  # type: ignore[index]
        for r in [*rows, row("new", 0, 0)]
    ]
    return sorted(flat, key=str)


@pytest.mark.parametrize(
    "entries",
    [
        LEGACY,
        {"org.apache.spark.version": "2.4.8", "org.apache.spark.timeZone": "UTC"},
        {**LEGACY, "org.apache.spark.timeZone": "+00:00"},
    ],
)
def test_a_merge_turns_days_and_times_of_the_old_calendar(
    tmp_path: Path, entries: dict[str, str]
) -> None:
    assert merged(tmp_path, entries) == expected(apart=False)


@pytest.mark.parametrize("entries", [{}, {"org.apache.spark.version": "3.5.9"}])
def test_a_merge_leaves_days_and_times_of_todays_calendar_alone(
    tmp_path: Path, entries: dict[str, str]
) -> None:
    assert merged(tmp_path, entries) == expected(apart=True)


def test_times_kept_as_int96_have_a_mark_of_their_own(tmp_path: Path) -> None:
    entries = {key: value for key, value in LEGACY.items() if not key.endswith("legacyDateTime")}
    found = {r[0]: r for r in merged(tmp_path, entries, int96=True)}
    for at, (today, apart) in enumerate(DATES):
        _, days, micros, *_ = found[f"k{at}"]
        assert days == today + apart
        assert micros == today * DAY_MICROS + 3_600_000_123


def test_ancient_times_of_a_zone_with_a_history_are_refused_and_later_ones_are_not(
    tmp_path: Path,
) -> None:
    entries = {**LEGACY, "org.apache.spark.timeZone": "America/Los_Angeles"}
    with pytest.raises(UnsupportedTable, match="before 1900.*America/Los_Angeles"):
        merged(tmp_path, entries)

    later = pa.Table.from_pylist([row("k", day(1900, 1, 2), 0)], SCHEMA)
    stat = insert(plain(tmp_path / "later"), rows_of(later.to_pylist(), SCHEMA))
    as_spark_wrote_it(tmp_path / "later", stat, entries)
    new = upsert(plain(tmp_path / "later", T2), stat, rows_of([row("new", 0, 0)], SCHEMA))
    assert {r["d"] for r in content(tmp_path / "later", new)} == {dt.date(1900, 1, 2), EPOCH}


@pytest.mark.parametrize(
    ("zone", "ahead_s", "apart", "second"),
    [
        ("+05:30", 19_800, 6, 900),  # 1 March there, still 29 February at +05:00
        ("-08:00", -28_800, 5, 84_600),  # 29 February there, 1 March already in UTC
        ("GMT+1", 3_600, 6, 900),
    ],
)
def test_a_time_is_turned_by_its_date_in_the_zone_of_its_writer(
    zone: str, ahead_s: int, apart: int, second: int
) -> None:
    """Around the leap day of the year 1000, which today's calendar lacks."""
    march = day(1000, 3, 1)
    written = ((march + apart) * 86_400 + second - ahead_s) * 1_000_000
    column = pa.chunked_array([pa.array([written, None], UTC)])
    turned = OldCalendar(dates=True, int96=False, zone=zone).turned(column, False, "f")
    assert numbers(turned) == [(march * 86_400 + second - ahead_s) * 1_000_000, None]


@pytest.mark.parametrize("kind", [pa.date32(), UTC])
def test_a_column_of_nulls_stays_one(kind: pa.DataType) -> None:
    nulls = pa.chunked_array([pa.nulls(3, kind)])
    assert OldCalendar(True, False, "Europe/Paris").turned(nulls, False, "f") == nulls


@pytest.mark.parametrize(("entries", "known"), [(LEGACY, False), ({}, True)])
def test_a_footer_of_the_old_calendar_bounds_no_ancient_days(
    tmp_path: Path, entries: dict[str, str], known: bool
) -> None:
    stat = old_file(tmp_path, entries)
    facts = facts_of(pq.ParquetFile(tmp_path / stat["path"]))
    assert (facts["d"].bounds is not None) is known
    assert (facts["t"].bounds is not None) is known
    assert facts["d"].nulls == 0
    assert day(1582, 10, 15) == FIRST_SAME_DAY


@pytest.mark.spark
@pytest.mark.usefixtures("plain_py4j")
def test_days_and_times_are_turned_as_spark_turns_them() -> None:
    days = np.array([*range(day(1, 1, 1), FIRST_SAME_DAY, 2_003), *range(-141_440, -141_420)])
    micros = days * DAY_MICROS + 12_345_678_901
    with hadoop_jvm() as running:
        spark = running.jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime
        wanted = [spark.rebaseJulianToGregorianDays(each) for each in days.tolist()]
        assert gregorian_days(days).tolist() == wanted
        for zone in ("UTC", "+05:30", "GMT-8"):
            turn = spark.rebaseJulianToGregorianMicros
            calendar = OldCalendar(dates=True, int96=True, zone=zone)
            times = pa.chunked_array([pa.array(micros).cast(UTC)])
            found = calendar.turned(times, False, "p").cast(pa.int64()).to_pylist()
            assert found == [turn(zone, each) for each in micros.tolist()]
