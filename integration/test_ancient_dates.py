"""Dates and times of the old calendar, in files that Apache Hudi and pyhudi rewrite in turn."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.peers import SparkPeer
from integration.sample import versions

DS = "hoodie.datasource.write."
more = pytest.mark.matrix
VERSIONS = versions(9)
#: options that Hudi's procedures take from the session
SETTINGS = ("hoodie.write.table.version", "hoodie.write.auto.upgrade", "hoodie.metadata.enable")
PARQUET = "spark.sql.parquet."
LEGACY = (PARQUET + "datetimeRebaseModeInWrite", PARQUET + "int96RebaseModeInWrite")
INPUT = PARQUET + "datetimeRebaseModeInRead"
DAYS = [
    dt.date(300, 2, 28), dt.date(1000, 2, 28), dt.date(1500, 3, 1), dt.date(1582, 10, 4),
    dt.date(1582, 10, 15), dt.date(1899, 12, 31), dt.date(2024, 2, 29),
]  # fmt: skip
Rows = list[tuple[object, ...]]


def rows(numbers: range, ts: int) -> pa.Table:
    """Rows whose ``id`` is the number of their day."""
    days = [DAYS[number] for number in numbers]
    noons = [dt.datetime.combine(day, dt.time(12, 34, 56), dt.timezone.utc) for day in days]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "d": pa.array(days, pa.date32()),
            "t": pa.array(noons, pa.timestamp("us", tz="UTC")),
            "ts": pa.array([ts] * len(days), pa.int64()),
        }
    )


class Calendars:
    """A table whose first file Apache Hudi wrote by the old calendar."""

    def __init__(self, hudi: SparkPeer, ours: SparkPeer, path: Path, version: int) -> None:
        self.hudi, self.ours, self.path, self.turn = hudi, ours, path, 1
        self.given = {
            "hoodie.table.name": "calendars",
            "hoodie.write.table.version": str(version),
            "hoodie.write.auto.upgrade": "false",
            "hoodie.metadata.enable": "false",
            DS + "recordkey.field": "id",
            DS + "precombine.field": "ts",
            DS + "keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        }
        whole = rows(range(len(DAYS)), 1)
        hudi.write(path, whole, {**self.given, DS + "operation": "bulk_insert"}, "overwrite")
        (file,) = path.glob("*.parquet")
        assert b"org.apache.spark.legacyDateTime" in (pq.read_metadata(file).metadata or {})

    def step(self, who: str) -> None:
        """A write of a row that says what it said, or a clustering."""
        self.turn += 1
        one = rows(range(self.turn % 3, self.turn % 3 + 1), self.turn)
        if who == "clustering":
            self.hudi.sql(f"call run_clustering(path => '{self.path}')")
        else:
            peer = self.hudi if who == "hudi" else self.ours
            peer.write(self.path, one, {**self.given, DS + "operation": "upsert"})

    def read(self, peer: SparkPeer) -> Rows:
        found = [(r["id"], r["d"]["date"], r["t"]["micros"]) for r in peer.read(self.path).rows]
        return sorted(found)

    def both(self) -> Rows:
        """What both read."""
        found = self.read(self.hudi)
        assert self.read(self.ours) == found
        return found


@pytest.fixture
def calendars(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> Iterator[Calendars]:
    hudi, ours = peers("hudi-1.2.0"), peers("pyhudi")
    for key in LEGACY:
        hudi.sql(f"set {key} = LEGACY")
    ours.sql(f"set {INPUT} = CORRECTED")
    made = Calendars(hudi, ours, tmp_path / "calendars", version)
    for key in SETTINGS:
        hudi.sql(f"set {key} = {made.given[key]}")
    yield made
    for key in (*LEGACY, *SETTINGS):
        hudi.sql(f"reset {key}")
    ours.sql(f"reset {INPUT}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "steps", [("pyhudi", "hudi", "clustering"), pytest.param(("clustering", "pyhudi"), marks=more)]
)
def test_ancient_days_read_the_same_whoever_rewrote_their_file(
    calendars: Calendars, steps: tuple[str, ...], version: int
) -> None:
    before = calendars.both()
    assert [day for _, day, _ in before] == [day.isoformat().zfill(10) for day in DAYS]
    for step in steps:
        calendars.step(step)
        assert calendars.both() == before, step


@more
@pytest.mark.parametrize("version", [9, 6])
def test_what_apache_hudis_own_merge_shifts_reads_alike_for_both(
    calendars: Calendars, version: int
) -> None:
    """It carries days over as they are stored and leaves out the mark that they are old ones."""
    before = calendars.both()
    calendars.step("hudi")
    after = calendars.both()
    assert after[1][1] == "1000-03-05"
    assert after[4:] == before[4:]
