"""The worker functions in processes that cannot import pyhudi, as Spark hands them over: by value.

A ``sitecustomize`` in the worker refuses every import of pyhudi, be it installed or not. That
Spark's own workers do without pyhudi is shown by ``tests/spark/test_workers.py``.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import InvalidRecord
from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.shipping import shipped
from pyhudi.rows.spec import GROUP, PARTITION_COLUMN
from pyhudi.rows.task import error_from_text
from tests.rows.workers import T1, T2, plan_of, rows_of, spec, values, with_columns

cloudpickle = pytest.importorskip("pyspark.cloudpickle")

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("tags", pa.list_(pa.string()))])

BLOCKER = """
import sys
from importlib.abc import MetaPathFinder


class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyhudi":
            raise ModuleNotFoundError("pyhudi is not installed on this worker")
        return None


sys.meta_path.insert(0, Absent())
"""

WORKER = """
import pickle, sys
import pyarrow as pa

try:
    import pyhudi
    sys.exit("pyhudi is importable here")
except ModuleNotFoundError:
    pass
with open(sys.argv[1], "rb") as file:
    work = pickle.load(file)
rows = pa.ipc.open_file(sys.argv[2]).read_all()
try:
    stats = [stat for batch in work(iter(rows.to_batches())) for stat in batch.to_pylist()]
    answer = ("stats", stats)
except Exception as error:
    answer = ("error", str(error))
sys.stdout.buffer.write(pickle.dumps(answer))
"""

Worker = Callable[[Callable[..., Any], pa.Table], tuple[str, Any]]


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    """Runs a function over rows in a process without pyhudi; gives its statistics or its error."""
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(BLOCKER)
    environment = {**os.environ, "PYTHONPATH": str(blocker)}

    def run(work: Callable[..., Any], rows: pa.Table) -> tuple[str, Any]:
        (tmp_path / "work").write_bytes(cloudpickle.dumps(work))
        with pa.ipc.new_file(tmp_path / "rows", rows.schema) as file:
            file.write_table(rows)
        done = subprocess.run(
            [sys.executable, "-c", WORKER, tmp_path / "work", tmp_path / "rows"],
            env=environment, capture_output=True, timeout=120, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        kind, answer = pickle.loads(done.stdout)
        return kind, answer

    return run


def test_workers_without_pyhudi_write_merge_and_report_errors(
    worker: Worker, tmp_path: Path
) -> None:
    root = tmp_path / "table"
    first = rows_of([{"id": f"k{n}", "ts": n, "tags": ["x", "y"]} for n in range(500)], SCHEMA)
    write = shipped(bulk_write, spec(root, T1, SCHEMA), "seed")
    kind, stats = worker(write, with_columns(first, **{PARTITION_COLUMN: "dt=1"}))
    assert kind == "stats", stats
    assert [stat["num_writes"] for stat in stats] == [500]

    def change(tags: list[str | None]) -> pa.Table:
        return with_columns(rows_of([{"id": "k0", "ts": 5000, "tags": tags}], SCHEMA), **{GROUP: 0})

    merge = shipped(write_groups, spec(root, T2, SCHEMA), {0: plan_of(stats[0])})
    kind, merged = worker(merge, change(["new"]))
    assert kind == "stats", merged
    tags = dict(values(root, merged[0], "id", "tags"))
    assert tags["k0"] == ["new"]
    assert tags["k2"] == ["x", "y"]
    assert len(tags) == 500

    kind, told = worker(merge, change([None]))
    assert kind == "error"
    error = error_from_text(told)
    assert isinstance(error, InvalidRecord)
    assert "column 'tags' has a null element" in str(error)
