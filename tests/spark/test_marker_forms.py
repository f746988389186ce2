"""Both forms of markers in real writes: what is on storage amid a write, and what afterwards."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from pyhudi.application.application_markers import ApplicationMarkers
from pyhudi.spark import session
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.storage.open import open_storage
from pyhudi.writes import collected, single_pass
from tests.spark.tables import HudiTable, Lake

pytestmark = pytest.mark.spark

TYPE = "hoodie.write.markers.type"
SERVED, DIRECT = "TIMELINE_SERVER_BASED", "DIRECT"
TEMP = ".hoodie/.temp"
#: the ways of a write: this process, tasks with collected rows, tasks after a shuffle
PLACES = ("here", "blobs", "shuffled")


class Markers:
    """What the marker folders of a session's writes held when they were sealed."""

    def __init__(self) -> None:
        self.sealed: list[list[str]] = []

    def storage(self, root: str, options: Mapping[str, str], *_: object) -> Storage:
        inner = open_storage(root, options)

        def look(call: Call) -> None:
            # The seal is the first to list the folder's files; a marker log does when it begins.
            if call.method == "walk" and call.paths[0].startswith(f"{TEMP}/"):
                names = [f.path.split("/", 3)[3] for f in inner.walk(call.paths[0])]
                if names:
                    self.sealed.append(names)

        return FaultyStorage(inner, before=look)

    def forms(self) -> set[str]:
        """The forms of markers that the last sealed write left."""
        (names,) = self.sealed[-1:]
        lists = {n for n in names if n.startswith("MARKERS")}
        found = {SERVED} if lists else set()
        if any(".marker." in n for n in names):
            found.add(DIRECT)
        if lists:
            assert {"MARKERS.type", "MARKERS0"} <= lists
            assert len(lists) <= 21
        return found


@pytest.fixture
def markers(monkeypatch: pytest.MonkeyPatch) -> Markers:
    found = Markers()
    monkeypatch.setattr(session, "open_storage", found.storage)
    return found


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "here":
        monkeypatch.setattr(collected, "HERE_BYTES", -1)
        monkeypatch.setattr(single_pass, "HERE_BYTES", -1)
    if request.param == "shuffled":
        monkeypatch.setattr(collected, "COLLECT_BYTES", 0)
    return str(request.param)


def rows(lake: Lake, first: int, end: int, name: str = "a", ts: int = 1) -> DataFrame:
    """Of a size that Spark can estimate, else no write takes the short ways."""
    columns = ("id", f"'{name}' name", f"{ts}L ts", "concat('d', id % 3) dt")
    return lake.spark.range(first, end).selectExpr(*columns)


def folders_left(table: HudiTable) -> list[str]:
    temp = Path(table.path) / TEMP
    return sorted(p.name for p in temp.iterdir()) if temp.exists() else []


def one(lake: Lake) -> HudiTable:
    return lake.table()


def test_a_write_leaves_lists_amid_it_and_nothing_afterwards(
    lake: Lake, markers: Markers, place: str
) -> None:
    table = one(lake)
    for number, operation in enumerate(("bulk_insert", "upsert", "delete", "insert_overwrite")):
        frame = rows(lake, 0, 30 - number, "b", number)
        table.write(frame, operation, **{TYPE: "timeline_server_based"})
        assert markers.forms() == {SERVED}
        assert len(markers.sealed) == number + 1
        assert folders_left(table) == []
    assert set(table.rows()) == set(range(27))


def test_direct_markers_are_an_option_of_each_write(lake: Lake, markers: Markers) -> None:
    table = one(lake)
    for form in (DIRECT, SERVED, DIRECT):
        table.write(rows(lake, 0, 30), **{TYPE: form})
        assert markers.forms() == {form}


def test_executors_that_do_not_reach_the_driver_write_direct_markers(
    lake: Lake, markers: Markers, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ApplicationMarkers, "server_runs", lambda self, port: False)
    table = one(lake)
    table.write(rows(lake, 0, 30), **{TYPE: SERVED})
    # What the driver writes itself needs no way to it.
    assert markers.forms() == {SERVED if place == "here" else DIRECT}
    assert len(table.rows()) == 30


@pytest.mark.parametrize("place", ["here", "shuffled"], indirect=True)
def test_a_failed_write_takes_its_lists_back(lake: Lake, markers: Markers, place: str) -> None:
    table = one(lake)
    table.write(rows(lake, 0, 30), **{TYPE: SERVED})
    before = table.base_files()
    bad = rows(lake, 0, 30, "b", 2).selectExpr("nullif(id, 7) id", "name", "ts", "dt")
    with pytest.raises(Exception, match="INVALID_RECORD"):
        table.write(bad, **{TYPE: SERVED})
    assert table.base_files() == before
    assert folders_left(table) == []


SCRIPT = """
import logging, sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
import pyhudi
from pyhudi.writes import collected
from pyhudi.writes import single_pass

root, form = sys.argv[1:]
collected.HERE_BYTES = single_pass.HERE_BYTES = -1
builder = SparkSession.builder.master("local[2,3]").config("spark.driver.memory", "512m")
for key, value in {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
                   "spark.sql.warehouse.dir": root + "/warehouse"}.items():
    builder = builder.config(key, value)
spark = pyhudi.attach(pyhudi.configure(builder).getOrCreate())
spark.sparkContext.setLogLevel("OFF")
marks = Path(root, "marks")

def fail_once(batches):
    from pyspark import TaskContext
    context = TaskContext.get()
    yield from batches
    if context.attemptNumber() == 0 and context.partitionId() == 1:
        raise RuntimeError("this attempt was to fail")

frame = spark.range(0, 100_000, 1, 2).selectExpr("id", "cast(id % 2 as string) dt")
frame = frame.mapInArrow(fail_once, frame.schema)
(frame.write.format("pyhudi")
    .option("hoodie.datasource.write.recordkey.field", "id")
    .option("hoodie.datasource.write.partitionpath.field", "dt")
    .option("hoodie.datasource.write.operation", "bulk_insert")
    .option("hoodie.parquet.block.size", "65536").option("hoodie.parquet.max.file.size", "1000")
    .option("hoodie.write.markers.type", form).save(root + "/t"))
table = Path(root, "t")
named = {p.relative_to(table).as_posix() for p in table.rglob("*.parquet")}
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
opened = open_table(LocalStorage(str(table)))
(commit,) = opened.timeline().commits
stats = COMMITS.get(opened.storage, opened.timeline(), commit).stats
assert {s.path for s in stats} == named, "files of the failed attempt are there, or some are gone"
assert sum(s.num_writes for s in stats) == 100_000
temp = table / ".hoodie" / ".temp"
assert not temp.exists() or not list(temp.iterdir())
running = [t.name for t in threading.enumerate()]
assert ("pyhudi-markers" in running) == (form == "TIMELINE_SERVER_BASED"), running
spark.stop()
assert "pyhudi-markers" not in [t.name for t in threading.enumerate()]
print("files", len(named))
"""


@pytest.mark.parametrize("form", [SERVED, pytest.param(DIRECT, marks=pytest.mark.matrix)])
def test_files_of_a_failed_attempt_are_reconciled_and_the_server_ends_with_the_session(
    tmp_path: Path, form: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    source = Path(__file__).parents[2] / "python"
    environment = {**os.environ, "PYTHONPATH": str(source), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), form],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert int(done.stdout.rpartition("files ")[2]) > 4


@pytest.mark.parametrize("place", ["blobs"], indirect=True)
def test_the_secret_is_in_no_log_of_a_write(
    lake: Lake, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    table = one(lake)
    table.write(rows(lake, 0, 30), **{TYPE: SERVED})
    handlers = session._attached[id(lake.spark.sparkContext)]
    token = handlers.runtime.markers._token  # type: ignore[union-attr]
    assert len(token) == 64
    assert token not in caplog.text
