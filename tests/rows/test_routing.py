"""Incoming rows that are routed to the units of the old file, in memory and on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.rows.base_file import TableFiles
from pyhudi.rows.incoming import KeyHomes, RoutedRows
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.spec import DELETE, KEY_COLUMN
from pyhudi.rows.spill import BucketStore
from pyhudi.rows.task import Task
from tests.rows.workers import SCHEMA, T2, insert, rows_of, spec, upsert, values

ROWS = 6_000
SMALL = {"row_group_rows": 1_024}


def numbered(numbers: range | list[int], ts: int, name: str) -> pa.Table:
    return rows_of([{"id": f"k{n}", "name": f"{name} {n}", "ts": ts} for n in numbers])


@pytest.mark.parametrize("memory_bytes", [1, 40_000, 300_000, 1 << 30])
def test_a_merge_gives_the_same_rows_however_little_memory_it_may_use(
    tmp_path: Path, memory_bytes: int
) -> None:
    first = insert(spec(tmp_path, **SMALL), numbered(range(ROWS), 10, "old"))
    assert pq.ParquetFile(tmp_path / first["path"]).metadata.num_row_groups > 4
    tables = [
        numbered(list(range(0, ROWS, 3)), 11, "new"),
        numbered(list(range(1, ROWS, 600)), 9, "too old"),
        numbered(range(ROWS, ROWS + 500), 1, "added"),
        numbered([0, ROWS], 12, "twice"),
        numbered(range(300, 330, 3), 11, "tied, later"),
    ]
    plain = pa.concat_tables(tables)
    incoming = plain.append_column(DELETE, pa.array(np.zeros(plain.num_rows, dtype=bool)))
    gone = numbered([2, 5, 10**9], 99, "gone").append_column(DELETE, pa.array([True] * 3))
    write = spec(tmp_path, T2, memory_bytes=memory_bytes, spill_folder=str(tmp_path), **SMALL)
    second = upsert(write, first, pa.concat_tables([incoming, gone]))
    wanted = {f"k{n}": f"old {n}" for n in range(ROWS)}
    wanted |= {f"k{n}": f"new {n}" for n in range(0, ROWS, 3)}
    wanted |= {f"k{n}": f"added {n}" for n in range(ROWS, ROWS + 500)}
    wanted |= {"k0": "twice 0", f"k{ROWS}": f"twice {ROWS}"}
    wanted |= {f"k{n}": f"tied, later {n}" for n in range(300, 330, 3)}
    del wanted["k2"], wanted["k5"]
    assert dict(values(tmp_path, second, "id", "name")) == wanted
    assert (second["num_inserts"], second["num_deletes"]) == (500, 2)
    assert second["num_updates"] == ROWS // 3
    assert second["num_writes"] == len(wanted)
    assert not list(tmp_path.glob("*.arrow"))


@pytest.mark.parametrize("memory_bytes", [1, 1 << 30])
def test_a_new_group_is_combined_however_little_memory_it_may_use(
    tmp_path: Path, memory_bytes: int
) -> None:
    from pyhudi.rows.groups import write_groups
    from pyhudi.rows.spec import GROUP, GroupPlan
    from tests.rows.workers import run, with_columns

    rows = [*range(ROWS), *range(0, ROWS, 2)]
    table = numbered(rows, 1, "n").set_column(3, "ts", pa.array(np.arange(len(rows))))
    write = spec(tmp_path, combine=True, memory_bytes=memory_bytes)
    work = write_groups(write, {0: GroupPlan(0, "f-0", "")})
    (stat,) = run(work, with_columns(table, **{GROUP: 0}), batch_rows=700)
    assert stat["num_writes"] == ROWS
    found = dict(values(tmp_path, stat, "id", "ts"))
    assert [found[f"k{n}"] for n in (0, 1, 2)] == [ROWS, 1, ROWS + 1]


def old_file(root: Path, keys: list[str]) -> OldFile:
    stat = insert(spec(root, **SMALL), rows_of([{"id": key, "ts": 1} for key in keys]))
    files = TableFiles(spec(root, T2, memory_bytes=1, **SMALL), Task(0, 0))
    return OldFile(files, stat["path"], SCHEMA)


@pytest.mark.parametrize("spare_bits", [0, 50, 56])
def test_rows_find_their_unit_even_where_hashes_collide(tmp_path: Path, spare_bits: int) -> None:
    """With 50 bits of the hash unused many keys share the rest; none may be lost or doubled."""
    keys = [f"k{n}" for n in range(4_000)]
    old = old_file(tmp_path, [*keys, "k7"])  # one key lives in two units
    units = list(old.unit_keys())
    assert len(units) > 2
    incoming = numbered([*range(0, 4_000, 2), 7, *range(9_000, 9_500)], 5, "new")
    routed = RoutedRows(spec(tmp_path, memory_bytes=1), old, incoming.schema, spare_bits)
    routed.add(incoming.slice(0, 1_200))
    routed.add(incoming.slice(1_200))
    hits = []
    for number, unit in enumerate(units):
        rows = routed.of_unit(number)
        known = set(unit.to_pylist())
        at = [n for n, key in enumerate(rows.column(KEY_COLUMN).to_pylist()) if key in known]
        hits += rows.column(KEY_COLUMN).take(pa.array(at, pa.int64())).to_pylist()
        routed.settle(number, np.array(at, dtype=np.int64))
    left = [key for table in routed.rest() for key in table.column(KEY_COLUMN).to_pylist()]
    routed.close()
    assert sorted(hits) == sorted([*(f"k{n}" for n in range(0, 4_000, 2)), "k7", "k7"])
    assert sorted(left) == [f"k{n}" for n in range(9_000, 9_500)]


def test_without_an_old_file_no_key_has_a_home() -> None:
    picks, units, known = KeyHomes(None).find(np.arange(5, dtype=np.uint64))
    assert (len(picks), len(units), known.any()) == (0, 0, False)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=20), min_size=1, max_size=5),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_a_bucket_gives_back_its_rows_in_their_order(
    runs: list[list[int]], memory_bytes: int
) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    store = BucketStore(schema, 7, memory_bytes, None)
    wanted: dict[int, list[int]] = {}
    number = 0
    for buckets in runs:
        numbers = list(range(number, number + len(buckets)))
        number += len(buckets)
        table = pa.table([numbers, [str(n) for n in numbers]], schema=schema)
        store.add(table, np.arange(len(buckets)), np.array(buckets))
        for bucket, value in zip(buckets, numbers, strict=True):
            wanted.setdefault(bucket, []).append(value)
    for bucket in range(7):
        assert store.read(bucket).column("n").to_pylist() == wanted.get(bucket, [])
    store.close()
    assert not store.on_disk
