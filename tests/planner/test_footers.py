"""Facts from footers: exact ones, and none where statistics may mislead."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.planner.footers import ColumnFacts, FileFacts, Footers, facts_of

DAY = dt.date(1970, 1, 3)
MOMENT = dt.datetime(1970, 1, 1, 0, 0, 1)


def facts(folder: Path, statistics: bool = True, **columns: pa.Array) -> FileFacts:
    """What is known of a file of two row groups."""
    path = folder / "f.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2, write_statistics=statistics)
    return facts_of(pq.ParquetFile(path))


def test_whole_numbers_days_and_times_have_bounds(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        n=pa.array([3, None, -7, 5], pa.int32()),
        b=pa.array([1 << 40, 1, None, None], pa.int64()),
        day=pa.array([DAY] * 4),
        at=pa.array([MOMENT] * 4, pa.timestamp("us", "UTC")),
    )
    assert found == {
        "n": ColumnFacts("integer", 4, 1, (-7, 5)),
        "b": ColumnFacts("long", 4, 2, (1, 1 << 40)),
        "day": ColumnFacts("date", 4, 0, (2, 2)),
        "at": ColumnFacts("timestamp", 4, 0, (1_000_000, 1_000_000)),
    }


def test_texts_floats_and_other_units_have_counts_alone(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        s=pa.array(["a", None, "b", "c"]),
        d=pa.array([1.0, float("nan"), 2.0, None]),
        at=pa.array([MOMENT] * 4, pa.timestamp("ms")),
    )
    assert [(name, each.nulls, each.bounds) for name, each in found.items()] == [
        ("s", 1, None), ("d", 1, None), ("at", 0, None)
    ]  # fmt: skip


def test_nulls_only_and_files_without_statistics(tmp_path: Path) -> None:
    assert facts(tmp_path, n=pa.nulls(3, pa.int32()))["n"] == ColumnFacts("integer", 3, 3, None)
    unknown = facts(tmp_path, False, n=pa.array([1], pa.int32()))
    assert unknown["n"] == ColumnFacts("integer", 1, None, None)


def test_a_file_is_read_once_while_it_is_among_the_last_used() -> None:
    reads: list[str] = []
    footers = Footers(limit=2)

    def load(path: str) -> None:
        def read() -> FileFacts:
            reads.append(path)
            return {}

        footers.load(path, read)

    for path in ("a", "b", "a", "c", "a", "b"):
        load(path)
    assert reads == ["a", "b", "c", "b"]
