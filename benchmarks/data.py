"""The rows of a run: deterministic, made once, read by every engine from the same Parquet files.

Orders of a shop, 12 columns, 10 regions (the partitions). Ids ascend; the region is a hash of the
id, so that every file of every engine spans all regions and an update touches every file.
"""

from __future__ import annotations

import decimal
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEY = "id"
PARTITION = "region"
ORDERING = "ts"
REGIONS = 10
COLUMNS = (
    "id", "ts", "region", "customer", "product", "country",
    "quantity", "price", "amount", "paid", "status", "note",
)  # fmt: skip
_BULK_FILES = 4
_START_MICROS = 1_700_000_000_000_000
_STATUSES = ["new", "packed", "sent", "returned"]

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Folders of Parquet files, and what the queries ask for."""

    rows: int
    bulk: Path
    upsert: Path
    delete: Path
    merge: Path
    appends: tuple[Path, ...]
    lookups: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]


def orders(ids: Ids, version: int) -> pa.Table:
    """The rows of ``ids``; a higher ``version`` gives later ``ts`` and other values."""
    draw = np.random.default_rng([version, int(ids[0]) if len(ids) else 0])
    n = len(ids)
    cents = draw.integers(100, 1_000_000, n)
    noise = draw.bytes(8 * n).hex()
    products = pa.array([f"product-{k:05d}" for k in range(5000)])
    countries = pa.array([f"country-{k:02d}" for k in range(50)])
    columns = {
        "id": pa.array(ids),
        "ts": pa.array(_START_MICROS + ids * 1_000 + version * 10**12).cast(
            pa.timestamp("us", tz="UTC")
        ),
        "region": pa.array([f"r{k}" for k in range(REGIONS)]).take(pa.array(region_of(ids))),
        "customer": pa.array(draw.integers(0, 200_000, n)),
        "product": products.take(pa.array(draw.integers(0, 5000, n))),
        "country": countries.take(pa.array(draw.integers(0, 50, n))),
        "quantity": pa.array(draw.integers(1, 20, n, dtype=np.int32)),
        "price": pa.array(cents / 100),
        "amount": _money(cents),
        "paid": pa.array(draw.integers(0, 2, n).astype(np.bool_)),
        "status": pa.array(_STATUSES).take(pa.array(draw.integers(0, 4, n))),
        "note": pa.array([noise[i : i + 16] for i in range(0, 16 * n, 16)], pa.string()),
    }
    return pa.table({name: columns[name] for name in COLUMNS})


def _money(cents: Ids) -> pa.Array:
    whole = pa.array(cents).cast(pa.decimal128(19, 0))
    hundredth = pa.scalar(decimal.Decimal("0.01"), pa.decimal128(3, 2))
    return pc.multiply(whole, hundredth).cast(pa.decimal128(12, 2))


def region_of(ids: Ids) -> Ids:
    """The number of the region of each id."""
    return ((ids * 2_654_435_761) >> 16) % REGIONS


def make_inputs(folder: Path, rows: int, appends: int, append_rows: int) -> Inputs:
    """Write all inputs of a run with ``rows`` rows under ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    draw = np.random.default_rng(rows)
    bulk = write_bulk(folder / "bulk", rows)
    touched = draw.permutation(rows).astype(np.int64)
    updates, news = rows * 4 // 100, rows // 100
    changed = np.sort(np.concatenate([touched[:updates], np.arange(rows, rows + news)]))
    write_rows(folder / "upsert", "part-0", orders(changed, 1))
    gone = np.sort(touched[updates : updates + rows // 100])
    write_rows(folder / "delete", "part-0", orders(gone, 2).select([KEY, PARTITION, ORDERING]))
    others = touched[updates + rows // 100 :][:updates]
    merged = np.sort(np.concatenate([others, np.arange(rows + news, rows + 2 * news)]))
    write_rows(folder / "merge", "part-0", orders(merged, 3))
    tiny = []
    for number in range(appends):
        first = rows * 2 + number * append_rows
        ids = np.arange(first, first + append_rows, dtype=np.int64)
        tiny.append(write_rows(folder / f"append-{number:04d}", "part-0", orders(ids, 0)))
    width = max(rows // 100, 1)
    starts = [int(k) for k in draw.integers(0, rows - width, 5)]
    return Inputs(
        rows=rows,
        bulk=bulk,
        upsert=folder / "upsert",
        delete=folder / "delete",
        merge=folder / "merge",
        appends=tuple(tiny),
        lookups=tuple(int(k) for k in touched[-10:]),
        ranges=tuple((start, start + width) for start in starts),
    )


def write_bulk(folder: Path, rows: int) -> Path:
    """The rows that a table begins with."""
    for number, part in enumerate(np.array_split(np.arange(rows, dtype=np.int64), _BULK_FILES)):
        write_rows(folder, f"part-{number}", orders(part, 0))
    return folder


def write_rows(folder: Path, name: str, rows: pa.Table) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / f"{name}.parquet", compression="snappy")
    return folder
