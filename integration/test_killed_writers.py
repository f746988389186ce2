"""Writers killed with SIGKILL at each of their steps, and tasks that run twice.

After the next write the rows are exact, and every data file is named by a commit.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from integration.killed_writer import IN_A_TASK, LOGS, OPTIONS
from integration.peers import SparkPeer
from integration.strays import stray_files, unnamed_files

matrix = pytest.mark.matrix

#: step -> storage method, path pattern, whether Spark tasks write, and whether the killed write had
#: committed
STEPS = {
    "begin": ("put_if_absent", "*commit.requested", "no", False),
    "no-heartbeat-yet": ("replace", ".hoodie/.heartbeat/*", "no", False),
    "inflight": ("put_if_absent", "*.inflight", "no", False),
    "in-a-task": ("-", IN_A_TASK, "yes", False),
    "no-marker-yet": ("replace", "*/MARKERS.type", "no", False),
    "marker-type-only": ("replace", "*/MARKERS0", "yes", False),
    "seal": ("read", "*/MARKERS0", "yes", False),
    "lock": ("put_if_absent", ".hoodie/lock", "no", False),
    "publish": ("put_if_absent", "*_*commit", "no", False),
    "after-publish": ("delete_folder", ".hoodie/.temp/*", "no", True),
    "last-step": ("delete", ".hoodie/.heartbeat/*", "no", True),
}
SAMPLE = {("in-a-task", "logs"), ("publish", "files")}
#: each step of writes that rewrite base files, and of those that add logs
CASES = [
    pytest.param(*given, kind == "logs", id=f"{step}-{kind}",
                 marks=() if (step, kind) in SAMPLE else matrix)
    for kind in ("files", "logs") for step, given in STEPS.items()
]  # fmt: skip


def rows(spark: SparkSession, first: int, end: int, name: str, ts: int) -> DataFrame:
    return spark.range(first, end).selectExpr(
        "id", f"concat('{name}', id) name", f"{ts}L ts", "concat('2024-01-0', id % 3 + 1) dt"
    )


def write(frame: DataFrame, table: Path, **more: str) -> None:
    options = {**OPTIONS, **more}
    frame.write.format("pyhudi").options(**options).mode("append").save(str(table))


def names(spark: SparkSession, table: Path) -> dict[int, str]:
    found = spark.read.format("pyhudi").load(str(table)).collect()
    assert len({row.id for row in found}) == len(found), "a key is in the table twice"
    return {row.id: row.name for row in found}


def said(options: Mapping[str, str]) -> list[str]:
    """Options as the killed writer takes them."""
    return [f"{key}={text}" for key, text in options.items()]


def kill(table: Path, method: str, pattern: str, staged: str, *options: str) -> None:
    """Run a writer that dies at the chosen step."""
    argv = ["-m", "integration.killed_writer", str(table), method, pattern, staged, *options]
    killed = subprocess.run([sys.executable, *argv], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]


@pytest.mark.parametrize(("method", "pattern", "staged", "committed", "logs"), CASES)
def test_a_writer_killed_at_any_step_leaves_exact_rows_and_no_stray_file(
    spark: SparkSession,
    tmp_path: Path,
    method: str,
    pattern: str,
    staged: str,
    committed: bool,
    logs: bool,
) -> None:
    table, options = tmp_path / "trips", LOGS if logs else {}
    write(rows(spark, 0, 200, "first", 1), table, **options)
    kill(table, method, pattern, staged, *said(options))

    write(rows(spark, 250, 260, "next", 3), table, **options)

    expected = {i: f"first{i}" for i in range(200)}
    if committed:
        expected |= {i: f"killed{i}" for i in range(100, 300)}
    expected |= {i: f"next{i}" for i in range(250, 260)}
    assert names(spark, table) == expected
    if not committed:
        assert stray_files(table) == set()


#: the form of markers -> the storage call of the seal, when all data files are there
SEALED = {
    "timeline_server_based": ("read", "*/MARKERS0"),
    "direct": ("walk", ".hoodie/.temp/*"),
}


@pytest.mark.parametrize("form", [pytest.param("direct", marks=matrix), "timeline_server_based"])
@pytest.mark.parametrize(
    ("hudi", "version", "logs"),
    [
        ("hudi-1.2.0", "9", True),
        ("hudi-0.15.0", "6", False),
        pytest.param("hudi-1.2.0", "9", False, marks=matrix),
        pytest.param("hudi-1.2.0", "6", False, marks=matrix),
        pytest.param("hudi-1.2.0", "8", True, marks=matrix),
        pytest.param("hudi-1.2.0", "6", True, marks=matrix),
        pytest.param("hudi-0.15.0", "6", True, marks=matrix),
    ],
)
def test_apache_hudi_rolls_back_a_killed_write_by_its_markers(
    spark: SparkSession,
    peers: Callable[[str], SparkPeer],
    tmp_path: Path,
    hudi: str,
    version: str,
    logs: bool,
    form: str,
) -> None:
    table, options = tmp_path / "trips", LOGS if logs else {}
    created = {**options, "hoodie.write.table.version": version}
    write(rows(spark, 0, 200, "first", 1), table, **created)
    kill(table, *SEALED[form], "yes", f"hoodie.write.markers.type={form}", *said(options))
    # In a merge-on-read table three logs, and three base files for the new keys.
    assert len(unnamed_files(table)) == (6 if logs else 3), "the killed write had written its files"
    lists = list((table / ".hoodie" / ".temp").glob("*/MARKERS*"))
    assert bool(lists) == (form != "direct")

    columns = {"id": [250], "name": ["next250"], "ts": [3], "dt": ["2024-01-02"]}
    peers(hudi).write_into(table, pa.table(columns))

    expected = {i: f"first{i}" for i in range(200)} | {250: "next250"}
    assert {row["id"]: row["name"] for row in peers(hudi).read(table).rows} == expected
    assert names(spark, table) == expected
    assert unnamed_files(table) == set()
    assert not list((table / ".hoodie" / ".temp").glob("*/*"))


def test_a_task_that_fails_after_writing_and_runs_again_leaves_nothing_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "trips"

    def fail_first(batches: Iterator[object]) -> Iterator[object]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.attemptNumber() == 0:
            time.sleep(0.5)
            raise RuntimeError("this attempt was to fail")

    frame = rows(spark, 0, 3000, "only", 1).repartition(2)
    doubled = frame.mapInArrow(fail_first, frame.schema)  # type: ignore[arg-type]
    write(doubled, table, **{"hoodie.datasource.write.operation": "bulk_insert"})
    assert names(spark, table) == {i: f"only{i}" for i in range(3000)}
    assert stray_files(table) == set()
