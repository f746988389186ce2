"""The worker functions in processes that cannot import pyhudi, as Spark hands them over: by value.

A ``sitecustomize`` in the worker refuses every import of pyhudi, be it installed or not. That
Spark's own workers do without pyhudi is shown by ``tests/spark/test_workers.py``.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import InvalidRecord, TableCorrupt, UnsupportedTable
from pyhudi.format.log_blocks import BlockType
from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.groups import write_groups
from pyhudi.rows.log_spec import LogSlice, Merged
from pyhudi.rows.shipping import shipped
from pyhudi.rows.slice_reader import LogPiece, decoded, merge_slices, read_log_rows
from pyhudi.rows.spec import GROUP, KEY_COLUMN, PARTITION_COLUMN
from pyhudi.rows.task import error_from_text
from tests.format.test_delete_block import block as delete_content
from tests.format.test_delete_block import several, wrapped
from tests.rows import logs
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
    """Runs a function over rows in a process without pyhudi; gives its answers or its error."""
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


def test_a_process_makes_the_code_of_its_tasks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "_pyhudi_code", raising=False)
    made, decompress = [], zlib.decompress

    def counted(data: bytes) -> bytes:
        made.append(len(data))
        return decompress(data)

    monkeypatch.setattr(zlib, "decompress", counted)
    for number in range(3):
        folder = tmp_path / str(number)
        task = cloudpickle.dumps(shipped(bulk_write, spec(folder, T1, SCHEMA), "seed"))
        rows = rows_of([{"id": "k", "ts": number, "tags": ["x"]}], SCHEMA)
        given = with_columns(rows, **{PARTITION_COLUMN: "dt=1"})
        (stats,) = pickle.loads(task)(iter(given.to_batches()))
        assert values(folder, stats.to_pylist()[0], "id", "ts") == [("k", number)]
    assert len(made) == 1


def test_workers_without_pyhudi_merge_logs_and_read_their_rows(
    worker: Worker, tmp_path: Path
) -> None:
    root = tmp_path / "table"
    root.mkdir()
    base = pa.table({KEY_COLUMN: ["a", "b", "c"], "ts": [1, 5, 1], "v": ["x", "y", "z"]})
    pq.write_table(base, root / "base.parquet")
    rows = [{"key": key, "ts": 2, "v": f"new {key}"} for key in ("a", "b")]
    table = pa.table({KEY_COLUMN: ["d", "e"], "ts": [1, 1], "v": ["new d", "new e"]})
    data = logs.avro_block(T1, rows, **logs.positions(T1, [0, 1]))
    (root / "placed.log").write_bytes(data)
    data += logs.parquet_block(T1, table) + logs.delete_block(T2, "c", ("e", wrapped("Long", 7)))
    (root / "by_key.log").write_bytes(data)
    whole = logs.spec("ts", root=str(root), completed=(T1, T2))
    names = {T2: {"v": ("v", None)}}
    slices = [
        LogSlice(Slice("base.parquet", None), T1, ("by_key.log",), names),
        LogSlice(Slice("base.parquet", None), T1, ("placed.log",)),
        LogSlice(None, "", ("placed.log",)),
    ]
    tasks = pa.table({"task": pa.array([0, 1], pa.int32())})
    numbered = list(enumerate(slices))
    merge = shipped(merge_slices, whole, [numbered[:2], numbered[2:]])
    kind, answers = worker(merge, tasks)
    assert kind == "stats", answers
    assert [each["slice"] for each in answers] == [0, 1, 2]
    found = [decoded(each["masked"], each["kept"], each["blocks"]) for each in answers]
    assert [lists(each) for each in found] == [
        ([0, 2], [[0], [0], []]),
        ([0], [[0]]),
        ([], [[0, 1]]),
    ]

    for of, each in zip(slices, found, strict=True):
        assert len(each.blocks) == len(each.kept)
        assert {block.path for block in each.blocks} <= set(of.logs)
    pieces = [LogPiece(of, each.kept) for of, each in zip(slices, found, strict=True)]
    read = shipped(read_log_rows, whole, [pieces[:1], pieces[1:]])
    kind, read_rows = worker(read, tasks)
    assert kind == "stats", read_rows
    assert [each["v"] for each in read_rows] == ["new a", "new d", "new a", "new a", "new b"]


def lists(found: Merged) -> tuple[list[int], list[list[int]]]:
    return found.masked.tolist(), [each.tolist() for each in found.kept]


def test_workers_without_pyhudi_tell_what_they_cannot_merge(worker: Worker, tmp_path: Path) -> None:
    several_values = several(wrapped("Date", 1), wrapped("Decimal", Decimal(1)))
    contents = {
        "old.log": logs.rendered(BlockType.DELETE, T1, delete_content(b"java", 2)),
        "torn.log": logs.delete_block(T1, ("k", several_values))[:-40],
        "cut.log": logs.rendered(BlockType.AVRO_DATA, T1, b"x", SCHEMA=logs.schema()),
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    whole = logs.spec("ts", root=str(tmp_path), completed=(T1,))
    slices = [(number, LogSlice(None, "", (name,))) for number, name in enumerate(contents)]

    def told(name: str) -> object:
        of = next(each for each in slices if each[1].logs == (name,))
        work = shipped(merge_slices, whole, [[of]])
        kind, answer = worker(work, pa.table({"task": pa.array([0], pa.int32())}))
        return error_from_text(answer) if kind == "error" else answer

    assert isinstance(told("old.log"), UnsupportedTable)
    assert isinstance(told("cut.log"), TableCorrupt)
    assert told("torn.log") == [{"slice": 1, "masked": b"", "kept": [], "blocks": "[[], []]"}]
