"""A merge into a large base file in a process of its own, which tells its peak memory.

``python -m tests.rows.memory_job make FOLDER ROWS GROUP_ROWS`` writes the base file;
``... merge FOLDER SHARE GROUP_ROWS MEMORY_BYTES`` upserts that share of its rows and prints a line
of JSON. ``... logs FOLDER`` merges all logs there, and reads the rows that are left.

Rows are made batch by batch, so that the peak is the worker's own. A base file of 1 GB:
``make FOLDER 18500000 131072``, then ``merge FOLDER 1 131072 100663296``.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.groups import write_groups
from pyhudi.rows.log_spec import CountedInstants, LogSlice, MergeSpec
from pyhudi.rows.slice_reader import LogPiece, log_rows, merged
from pyhudi.rows.spec import GROUP, KEY_COLUMN, PARTITION_COLUMN, FileSystemSpec
from tests.rows.workers import T1, T2, plan_of, spec

SCHEMA = pa.schema(
    [("id", pa.string()), ("user", pa.int64()), ("price", pa.float64()), ("score", pa.float64()),
     ("lat", pa.float64()), ("lon", pa.float64()), ("qty", pa.int32()), ("city", pa.string()),
     ("note", pa.string()), ("ts", pa.int64())]
)  # fmt: skip
BATCH_ROWS = 10_000


def rows_at(numbers: np.ndarray, version: int) -> pa.RecordBatch:
    """The rows of these numbers, as their ``version``-th write has them."""
    chance = np.random.default_rng(int(numbers[0]) * 2 + version)
    count = len(numbers)
    # Keys in no order, so that a batch meets every part of the file.
    keys = pc.binary_join_element_wise("order-", pc.cast(pa.array(numbers), pa.string()), "")
    cities = pa.array([f"city-{n}" for n in range(100)])
    columns = [
        keys, chance.integers(0, 10**6, count), *(chance.random(count) for _ in range(4)),
        chance.integers(0, 50, count).astype(np.int32),
        cities.take(pa.array(chance.integers(0, 100, count))),
        pc.binary_join_element_wise(
            f"note {version}", pc.cast(pa.array(chance.integers(0, 10**9, count)), pa.string()), " "
        ),
        np.full(count, version),
    ]  # fmt: skip
    return pa.record_batch(columns, schema=SCHEMA)


def batches(rows: int, share: float, version: int, **more: object) -> Iterator[pa.RecordBatch]:
    """``share`` of ``rows`` rows, evenly over the file but in another order than the file's."""
    count = int(rows * share)
    for start in range(0, count, BATCH_ROWS):
        picks = np.arange(start, min(count, start + BATCH_ROWS), dtype=np.int64)
        # A multiplier without common factors with rows visits each number once.
        numbers = (picks * 7_919) % rows if version > 1 else picks
        batch = rows_at(numbers, version)
        names, columns = batch.schema.names, batch.columns
        columns = [batch.column(0), *columns]
        names = [KEY_COLUMN, *names]
        for name, value in more.items():
            kind = pa.int32() if isinstance(value, int) else pa.string()
            names.append(name)
            columns.append(pa.array([value] * batch.num_rows, kind))
        yield pa.record_batch(columns, names=names)


def make(folder: Path, rows: int, group_rows: int) -> None:
    write = spec(folder, T1, SCHEMA, target_file_bytes=1 << 40, row_group_rows=group_rows)
    work = bulk_write(write, "seed")
    (stats,) = work(batches(rows, 1, 1, **{PARTITION_COLUMN: ""}))
    (folder / "stat.json").write_text(json.dumps(stats.to_pylist()[0] | {"rows": rows}))


def merge(folder: Path, share: float, group_rows: int, memory_bytes: int) -> None:
    stat = json.loads((folder / "stat.json").read_text())
    bounds = {"row_group_rows": group_rows, "memory_bytes": memory_bytes}
    write = spec(folder, T2, SCHEMA, spill_folder=str(folder), **bounds)
    work = write_groups(write, {0: plan_of(stat)})
    before = peak_bytes()
    (answer,) = work(batches(stat["rows"], share, 2, **{GROUP: 0}))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    result = {
        "before_bytes": before,
        "peak_bytes": peak_bytes(),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "base_bytes": stat["file_size_bytes"],
        **answer.to_pylist()[0],
    }
    sys.stdout.write(json.dumps(result) + "\n")


def logs(folder: Path) -> None:
    paths = tuple(sorted(path.name for path in folder.glob(".*.log.*")))
    kind = pa.struct([(KEY_COLUMN, pa.string()), ("v", pa.string())])
    counted = CountedInstants(frozenset(), "3")
    order = MergeSpec(str(folder), FileSystemSpec(), counted, kind, pa.struct([]))
    of, filesystem = LogSlice(None, "", paths), order.fs.open()
    found = merged(order, filesystem, of)
    last, rows = None, 0
    for batch in log_rows(order, filesystem, LogPiece(of, found.kept)):
        last, rows = batch, rows + batch.num_rows
    assert last is not None
    result = {"peak_bytes": peak_bytes(), "rows": rows, "last": last["v"][-1].as_py()}
    sys.stdout.write(json.dumps(result) + "\n")


def peak_bytes() -> int:
    """The most memory that this process ever had resident."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage() would count what the parent had before it started this program.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    command, target, *arguments = sys.argv[1:]
    if command == "make":
        make(Path(target), *map(int, arguments))
    elif command == "logs":
        logs(Path(target))
    else:
        merge(Path(target), float(arguments[0]), *map(int, arguments[1:]))
