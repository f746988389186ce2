"""A MERGE killed while it spools or writes: Apache Hudi's next write undoes it, and so does ours.

Rows are then those from before it for every reader, no data file is left that no commit names, and
the MERGE done again succeeds.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from integration.killed_merge import HEARTS, NEW_GROUPS, NEW_ROWS, merge
from integration.killed_writer import LOGS, OPTIONS
from integration.peers import HudiRs, SparkPeer
from integration.strays import stray_files, unnamed_files
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

matrix = pytest.mark.matrix
INTERVAL, MISSES = HEARTS
VERSION = "hoodie.write.table.version"
FIRST = {i: f"first{i}" for i in range(200)}


def kill(table: Path, point: str) -> None:
    """Run the MERGE in a process group of its own, which dies at the point; then let its heart
    be silent for long enough."""
    argv = [sys.executable, "-m", "integration.killed_merge", str(table), point]
    killed = subprocess.run(
        argv, capture_output=True, text=True, check=False, start_new_session=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    lapse_s = (int(HEARTS[INTERVAL]) / 1000) * (int(HEARTS[MISSES]) + 1)
    threading.Event().wait(2 * lapse_s)


def unfinished(file: Path) -> bool:
    """Whether a Parquet file lacks its footer."""
    try:
        pq.read_metadata(file)
    except pa.ArrowInvalid:
        return True
    return False


def names(rows: list[dict[str, object]]) -> dict[object, object]:
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows), "a key is in the table twice"
    return found


@pytest.mark.parametrize(
    ("point", "by", "version"),
    [
        pytest.param("spool", "hudi", "9", marks=matrix),
        pytest.param("spool", "pyhudi", "9", marks=matrix),
        pytest.param("merge", "hudi", "9", marks=matrix),
        pytest.param("merge", "pyhudi", "9", marks=matrix),
        pytest.param("merge", "hudi", "6", marks=matrix),
        ("log", "hudi", "9"),
        pytest.param("log", "pyhudi", "9", marks=matrix),
        pytest.param("log", "pyhudi", "6", marks=matrix),
        pytest.param("log", "hudi", "6", marks=matrix),
    ],
)
def test_a_killed_merge_is_undone_and_can_be_done_again(
    spark: SparkSession,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    tmp_path: Path,
    point: str,
    by: str,
    version: str,
) -> None:
    table, hudi = tmp_path / "trips", peers("hudi-1.2.0")
    rows = "id", "concat('first', id) name", "1L ts", "concat('2024-01-0', id % 3 + 1) dt"
    options = {**OPTIONS, VERSION: version, **(LOGS if point == "log" else {})}
    made = spark.range(200).selectExpr(*rows).coalesce(1)
    made.write.format("pyhudi").options(**options).save(str(table))

    kill(table, point)
    spools = list(table.glob(".hoodie/.temp/.spool-*/*.parquet"))
    pending = open_table(LocalStorage(str(table))).timeline().pending
    assert spools, "the statement had put rows aside"
    if point == "spool":
        assert any(map(unfinished, spools))
        assert not pending, "its instant begins when all rows are there"
    else:
        assert len(pending) == 1
        assert unnamed_files(table), "a task had begun to write"

    one = {"id": [250], "name": ["next250"], "ts": [3], "dt": ["2024-01-02"]}
    if by == "hudi":
        hudi.write_into(table, pa.table(one))
    else:
        frame = spark.createDataFrame([(250, "next250", 3, "2024-01-02")], made.schema)
        frame.write.format("pyhudi").options(**options).mode("append").save(str(table))

    now = FIRST | {250: "next250"}
    read = spark.read.format("pyhudi").load(str(table)).collect()
    assert names([row.asDict() for row in read]) == now
    for reader in (hudi, hudi_rs):
        assert names(list(reader.read(table).rows)) == now, reader.name
    assert unnamed_files(table) == set()
    if by == "pyhudi":
        assert stray_files(table) == set(), "the spool is gone as well"

    merge(spark, table)
    for key in (*HEARTS, *NEW_GROUPS):
        spark.conf.unset(key)

    now = {key: name for key, name in now.items() if key >= 50}  # type: ignore[operator]
    now |= {key: f"merged{key}" for key in range(50, 100)}
    after = spark.read.format("pyhudi").load(str(table))
    assert after.count() == len(now) + NEW_ROWS
    assert names([row.asDict() for row in after.where("id < 1000").collect()]) == now
    assert stray_files(table) == set(), "what Apache Hudi has no eye for is gone by now"
