"""Ranges of columns in footers, which clusterings compare."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.column_ranges import ColumnRanges


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1, 3], ["4", "5"], [None, ("4", "5"), ("4", "5")]),
        ([datetime.date(2024, 1, 1)], ["4", "5"], [None, ("4", "5"), ("4", "5")]),
        ([1, 3], [4.5], [(1, 3), (4.5, 4.5), (4.5, 4.5)]),
    ],
    ids=["int to text", "date to text", "int to double"],
)
def test_a_column_that_changed_its_type_has_ranges_of_one_kind(
    old: list[Any], new: list[Any], expected: list[Any], tmp_path: Path
) -> None:
    for number, values in enumerate((old, new, new)):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{number}.parquet")
    ranges = ColumnRanges((FileSystemSpec(), str(tmp_path)), ["a"])
    found = ranges.of([f"{number}.parquet" for number in range(3)])
    assert [found[f"{number}.parquet"] for number in range(3)] == [(each,) for each in expected]


def test_days_and_times_that_python_lacks_stop_no_plan(tmp_path: Path) -> None:
    day, time = pa.array([0, 2_932_897], pa.int32()), pa.array([0, 1 << 60], pa.int64())
    late = pa.table({"day": day.cast(pa.date32()), "time": time.cast(pa.timestamp("us"))})
    pq.write_table(late, tmp_path / "late.parquet")
    ranges = ColumnRanges((FileSystemSpec(), str(tmp_path)), ["day", "time"])
    assert ranges.of(["late.parquet"]) == {"late.parquet": ((0, 2_932_897), None)}
