"""A query that takes long keeps its files from the cleaner, as often as its frame is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import pyhudi
from pyhudi.reads import lease_keeper
from pyhudi.services import clean as clean_module
from tests.spark.tables import HudiTable, Lake

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

NEWEST_ONLY = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}
SOON_S, DEADLINE_S = 0.2, 60


@pytest.fixture(autouse=True)
def _soon_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "LONG_S", SOON_S)
    monkeypatch.setattr(lease_keeper, "PAUSE_S", SOON_S)
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def leases(table: HudiTable) -> list[Path]:
    return list((Path(table.path) / ".hoodie" / ".leases").glob("*"))


def wait_for_leases(table: HudiTable, count: int) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while len([f for f in leases(table) if not f.name.endswith(".crc")]) != count:
        assert time.monotonic() < give_up, f"no {count} leases: {leases(table)}"
        time.sleep(0.05)


def test_a_long_query_keeps_its_files_however_often_it_runs(
    lake: Lake, aside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x"), (2, "b", 1, "x")])
    go = tmp_path / "go"

    def held(name: str) -> str:
        while not go.exists():
            time.sleep(0.05)
        return name

    frame = table.df().select("id", F.udf(held)("name").alias("name"))
    for ts in (2, 3):
        running = aside.submit(frame.collect)
        wait_for_leases(table, 1)
        table.write([(1, "new", ts, "x"), (2, "new", ts, "x")])
        found = pyhudi.clean(table.path, options=NEWEST_ONLY)
        assert any("reads the table as of" in f.why for f in found)
        go.touch()
        assert sorted(map(tuple, running.result(DEADLINE_S))) == [(1, "a"), (2, "b")]
        wait_for_leases(table, 0)
        go.unlink()

    pyhudi.clean(table.path, options=NEWEST_ONLY)
    assert len(table.base_files()) == 1
    assert {row[1] for row in table.rows().values()} == {"new"}


def test_a_short_query_leaves_no_trace(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_keeper, "LONG_S", 60 * DEADLINE_S)
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    table.rows()
    assert not (Path(table.path) / ".hoodie" / ".leases").exists()
    assert "leases" in [t.name for t in threading.enumerate()], "it was looked at"


def test_a_long_query_has_a_savepoint_if_it_asks_for_one(
    lake: Lake, aside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    table = lake.table()
    table.write([(1, "a", 1, "x")])
    go = tmp_path / "go"

    def held(name: str) -> str:
        while not go.exists():
            time.sleep(0.05)
        return name

    frame = table.df(hoodie__datasource__read__savepoint__enable="true")
    running = aside.submit(frame.select(F.udf(held)("name")).collect)
    wait_for_savepoints(table, table.instants())
    go.touch()
    assert [row[0] for row in running.result(DEADLINE_S)] == ["a"]
    wait_for_savepoints(table, [])


def wait_for_savepoints(table: HudiTable, instants: list[str]) -> None:
    give_up = time.monotonic() + DEADLINE_S
    while saved(table) != instants:
        assert time.monotonic() < give_up, f"the savepoints are {saved(table)}"
        time.sleep(0.05)


def saved(table: HudiTable) -> list[str]:
    files = (Path(table.path) / ".hoodie").rglob("*.savepoint")
    return sorted(f.name.partition("_")[0].partition(".")[0] for f in files)


STOPPED = """
import sys
import threading
import pyhudi
from pyspark.sql import SparkSession
from pyhudi.spark import session

path, checkpoint = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = pyhudi.configure(builder).getOrCreate()
key = "hoodie.datasource.write.recordkey.field"
spark.range(3).write.format("pyhudi").option(key, "id").save(path)
began, ends = threading.Event(), threading.Event()

def slow(batch, number):
    began.set()
    ends.wait(60)

def beating():
    names = [each.name for each in threading.enumerate()]
    return sorted(n.split("/")[1] for n in names if ".leases/" in n or ".spool-" in n)

stream = spark.readStream.format("pyhudi").load(path).writeStream.foreachBatch(slow)
stream.option("checkpointLocation", checkpoint).start()
assert began.wait(60)
# A statement begins to spool its rows, and neither writes them nor fails.
session._attached[id(spark.sparkContext)]._writes._spools.begin(path, {}, {})
print(beating())
spark.stop()
ends.set()
print(beating())
"""


def test_what_a_stopped_session_held_beats_no_more_in_a_program_that_goes_on(
    tmp_path: Path,
) -> None:
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path / "t"), str(tmp_path / "c")],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["['.leases', '.temp']", "[]"]
