"""Clustering through the worker function: which rows the new files have, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.bloom import FOOTER_MAX_KEY, FOOTER_MIN_KEY
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.cluster import cluster_files
from pyhudi.rows.curves import HILBERT, LINEAR
from pyhudi.rows.log_spec import ClusterTask, LogSlice
from pyhudi.rows.spec import GROUP, META_COLUMNS, BloomSpec, WriteSpec
from tests.rows.workers import T1, T2, T3, Stat, content, footer, insert, rows_of, run, spec

COPIED = META_COLUMNS[:3]


def table_of(numbers: Sequence[int]) -> pa.Table:
    return rows_of(
        [
            {"id": f"k{n:05d}", "name": f"n{n % 7}", "price": n * 37 % 101 / 2, "ts": n}
            for n in numbers
        ]
    )


def two_files(root: Path, rows: int = 400) -> list[Stat]:
    """Two files of a partition, whose rows two commits wrote."""
    even, odd = range(0, rows, 2), range(1, rows, 2)
    return [
        insert(spec(root, T1), table_of(even), "p"),
        insert(spec(root, T2), table_of(odd), "p"),
    ]


def clustered(
    root: Path, stats: list[Stat], outputs: int = 1, *order: Any, **changes: Any
) -> list[Stat]:
    slices = tuple(LogSlice(Slice(stat["path"]), "", ()) for stat in stats)
    task = ClusterTask("p", slices, outputs, "new")
    return run_task(spec(root, T3, **changes), task, *order)


def run_task(write: WriteSpec, task: ClusterTask, *order: Any) -> list[Stat]:
    return run(
        cluster_files(write, {5: task}, *order), pa.table({GROUP: pa.array([5], pa.int32())})
    )


def rows_in(root: Path, stats: list[Stat]) -> list[dict[str, Any]]:
    return [row for stat in stats for row in content(root, stat)]


def test_rows_move_with_their_meta_columns_into_new_groups(tmp_path: Path) -> None:
    old = two_files(tmp_path)
    before = {row["id"]: row for row in rows_in(tmp_path, old)}

    (new,) = clustered(tmp_path, old)

    assert new["file_id"] == "new-0"
    assert new["prev_instant"] is None
    assert new["num_writes"] == new["num_inserts"] == 400
    name = Path(new["path"]).name
    after = {row["id"]: row for row in content(tmp_path, new)}
    assert after == {k: row | {"_hoodie_file_name": name} for k, row in before.items()}
    assert {row["_hoodie_commit_time"] for row in after.values()} == {T1, T2}
    assert footer(tmp_path, new)[FOOTER_MIN_KEY] == "k00000"
    assert footer(tmp_path, new)[FOOTER_MAX_KEY] == "k00399"


def test_rows_are_sorted_over_all_files_of_the_task_and_cut_evenly(tmp_path: Path) -> None:
    old = two_files(tmp_path, 401)
    new = clustered(tmp_path, old, 3, ("price", "id"), LINEAR)
    found = [(row["price"], row["id"]) for row in rows_in(tmp_path, new)]
    assert found == sorted(found)
    assert [stat["num_writes"] for stat in new] == [134, 134, 133]
    assert [stat["file_id"] for stat in new] == ["new-0", "new-1", "new-2"]


@pytest.mark.parametrize("layout", [LINEAR, HILBERT])
def test_what_does_not_fit_in_memory_is_sorted_on_disk_to_the_same_files(
    tmp_path: Path, layout: str
) -> None:
    rows = 5_000
    one, two = tmp_path / "one", tmp_path / "two"
    roomy = clustered(one, two_files(one, rows), 2, ("price", "ts"), layout)
    tight = clustered(two, two_files(two, rows), 2, ("price", "ts"), layout, memory_bytes=20_000)
    assert rows_in(two, tight) == rows_in(one, roomy)
    assert [stat["num_writes"] for stat in tight] == [2_500, 2_500]


def test_new_files_have_a_bloom_filter_if_the_index_needs_one(tmp_path: Path) -> None:
    def filter_bytes(root: Path, **changes: Any) -> int:
        (new,) = clustered(root, two_files(root), **changes)
        return len(footer(root, new)["org.apache.hudi.bloomfilter"])

    plain = filter_bytes(tmp_path / "plain")
    assert filter_bytes(tmp_path / "bloom", bloom=BloomSpec()) > 10 * plain


def test_files_without_rows_become_no_file(tmp_path: Path) -> None:
    old = [insert(spec(tmp_path, T1), table_of([1]), "p")]
    empty = run_task(spec(tmp_path, T3), ClusterTask("p", (), 2, "none"))
    assert empty == []
    assert len(clustered(tmp_path, old)) == 1


def test_a_lost_input_fails_the_task_and_leaves_no_file(tmp_path: Path) -> None:
    old = two_files(tmp_path)
    (tmp_path / old[1]["path"]).unlink()
    with pytest.raises(TableCorrupt, match="is not there"):
        clustered(tmp_path, old)
    assert not list(tmp_path.rglob(f"*{T3}.parquet"))


def test_a_column_that_older_files_lack_is_null(tmp_path: Path) -> None:
    old = two_files(tmp_path, 4)
    wider = spec(tmp_path).schema.append(pa.field("more", pa.int64()))
    (new,) = clustered(tmp_path, old, 1, ("more", "id"), LINEAR, schema=wider)
    assert {row["more"] for row in content(tmp_path, new)} == {None}
    assert np.all([name in content(tmp_path, new)[0] for name in COPIED])
