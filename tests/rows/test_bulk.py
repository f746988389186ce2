"""Bulk inserts through the worker function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import StorageError
from pyhudi.rows.bulk import bulk_write
from pyhudi.rows.spec import KEY_COLUMN, PARTITION_COLUMN
from tests.rows.workers import SCHEMA, T1, content, rows_of, run, spec, with_columns

MANY = pa.table(
    {
        "id": pa.array([f"key-{n:06d}" for n in range(30_000)]),
        "name": pa.array([f"name-{n % 50}" for n in range(30_000)]),
        "price": pa.array(np.arange(30_000) / 7),
        "ts": pa.array(np.arange(30_000)),
    },
    schema=SCHEMA,
)


def keyed(table: pa.Table, partitions: list[str]) -> pa.Table:
    return with_columns(
        table,
        **{KEY_COLUMN: table.column("id"), PARTITION_COLUMN: pa.array(partitions, pa.string())},
    )


def test_rows_reach_the_files_of_their_partitions(tmp_path: Path) -> None:
    paths = [f"dt={n % 3}" for n in range(30_000)]
    stats = run(bulk_write(spec(tmp_path), "seed"), keyed(MANY, paths), batch_rows=7_000)
    assert sorted(stat["partition_path"] for stat in stats) == ["dt=0", "dt=1", "dt=2"]
    found = {}
    for stat in stats:
        for row in content(tmp_path, stat):
            assert row["_hoodie_partition_path"] == stat["partition_path"]
            assert row["_hoodie_file_name"] == Path(stat["path"]).name
            assert row["_hoodie_commit_time"] == T1
            found[row["id"]] = (row["name"], row["price"], row["ts"], stat["partition_path"])
    names, prices, stamps = (MANY.column(n).to_pylist() for n in ("name", "price", "ts"))
    wanted = zip(MANY.column("id").to_pylist(), names, prices, stamps, paths, strict=True)
    assert found == {key: rest for key, *values in wanted for rest in [tuple(values)]}


def test_sequence_numbers_are_unique_in_the_task(tmp_path: Path) -> None:
    paths = [f"dt={n % 4}" for n in range(30_000)]
    stats = run(bulk_write(spec(tmp_path), "seed"), keyed(MANY, paths))
    seqnos = [row["_hoodie_commit_seqno"] for stat in stats for row in content(tmp_path, stat)]
    assert sorted(seqnos) == sorted(f"{T1}_0_{n}" for n in range(30_000))


def test_a_table_without_record_keys_gets_generated_ones(tmp_path: Path) -> None:
    table = with_columns(MANY, **{PARTITION_COLUMN: ""})
    (stat,) = run(bulk_write(spec(tmp_path), "seed"), table)
    rows = content(tmp_path, stat)
    assert {row["_hoodie_record_key"] for row in rows} == {f"{T1}_0_{n}" for n in range(30_000)}


def test_file_ids_depend_on_the_seed_and_not_on_the_attempt(tmp_path: Path) -> None:
    paths = [f"dt={n % 2}" for n in range(30_000)]

    def ids(folder: str, seed: str) -> set[str]:
        stats = run(bulk_write(spec(tmp_path / folder), seed), keyed(MANY, paths))
        return {stat["file_id"] for stat in stats}

    first = ids("one", "seed")
    assert first == ids("two", "seed")
    assert first.isdisjoint(ids("three", "other"))
    assert all(file_id.endswith("-0") and len(file_id) == 38 for file_id in first)


def test_a_file_that_reached_the_target_size_is_followed_by_another(tmp_path: Path) -> None:
    write = spec(tmp_path, target_file_bytes=100_000, row_group_rows=4_096)
    stats = run(bulk_write(write, "seed"), keyed(MANY, [""] * 30_000), batch_rows=1_000)
    assert len(stats) > 2
    assert len({stat["file_id"] for stat in stats}) == len(stats)
    assert sum(stat["num_writes"] for stat in stats) == 30_000
    assert all(stat["file_size_bytes"] < 400_000 for stat in stats)


def test_few_files_stay_open_and_little_memory_waits(tmp_path: Path) -> None:
    write = spec(tmp_path, memory_bytes=200_000, max_open_files=2, row_group_rows=1_024)
    paths = [f"dt={n % 7}" for n in range(30_000)]
    stats = run(bulk_write(write, "seed"), keyed(MANY, paths), batch_rows=1_000)
    assert sum(stat["num_writes"] for stat in stats) == 30_000
    keys = [row["id"] for stat in stats for row in content(tmp_path, stat)]
    assert sorted(keys) == MANY.column("id").to_pylist()


def test_statistics_tell_what_is_on_disk(tmp_path: Path) -> None:
    (stat,) = run(bulk_write(spec(tmp_path), "seed"), keyed(MANY, [""] * 30_000))
    path = tmp_path / stat["path"]
    assert stat["file_size_bytes"] == path.stat().st_size
    assert stat["num_writes"] == stat["num_inserts"] == pq.ParquetFile(path).metadata.num_rows
    assert (stat["min_key"], stat["max_key"]) == ("key-000000", "key-029999")
    assert (stat["num_updates"], stat["num_deletes"], stat["marker"]) == (0, 0, "CREATE")


def test_no_rows_write_no_file(tmp_path: Path) -> None:
    table = with_columns(rows_of([]), **{PARTITION_COLUMN: pa.array([], pa.string())})
    assert run(bulk_write(spec(tmp_path), "seed"), table) == []
    assert list(tmp_path.iterdir()) == []


def test_a_failed_task_leaves_no_file_that_could_appear_later(tmp_path: Path) -> None:
    started: list[Path] = []

    def batches() -> Iterator[pa.RecordBatch]:
        while not started:
            yield from keyed(MANY, ["dt=1"] * 30_000).to_batches()
            started.extend(tmp_path.glob("dt=1/*.parquet"))
        raise OSError("the source fails")

    with pytest.raises(StorageError):
        list(bulk_write(spec(tmp_path), "seed")(batches()))

    assert started
    assert list(tmp_path.glob("dt=1/*.parquet")) == []
