"""Merges and new files through the worker function."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import InvalidRecord, TableCorrupt, WriteFailed
from pyhudi.rows.groups import write_groups
from pyhudi.rows.spec import COMMIT_TIME, DELETE, GROUP, GroupPlan
from tests.rows.workers import (
    SCHEMA,
    T1,
    T2,
    T3,
    content,
    insert,
    rows_of,
    run,
    spec,
    upsert,
    values,
    with_columns,
)

OLD = [
    {"id": "a", "name": "old a", "price": 1.0, "ts": 10},
    {"id": "b", "name": "old b", "price": 2.0, "ts": 10},
    {"id": "c", "name": "old c", "price": 3.0, "ts": 10},
]


def test_an_upsert_updates_inserts_and_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    incoming = [{"id": "b", "name": "new b", "ts": 11}, {"id": "d", "name": "new d", "ts": 1}]
    second = upsert(spec(tmp_path, T2), first, rows_of(incoming))
    assert values(tmp_path, second, "id", "name", "_hoodie_commit_time") == [
        ("a", "old a", T1),
        ("b", "new b", T2),
        ("c", "old c", T1),
        ("d", "new d", T2),
    ]
    assert (second["num_writes"], second["num_inserts"], second["num_updates"]) == (4, 1, 1)
    assert second["num_deletes"] == 0
    assert second["prev_base_file"] == first["path"]
    assert second["prev_instant"] == T1
    assert second["marker"] == "MERGE"


def test_copied_rows_keep_their_sequence_number_and_get_the_new_file_name(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    second = upsert(spec(tmp_path, T2), first, rows_of([{"id": "b", "name": "new", "ts": 11}]))
    rows = content(tmp_path, second)
    assert [row["_hoodie_commit_seqno"] for row in rows] == [f"{T1}_0_0", f"{T2}_0_0", f"{T1}_0_2"]
    assert {row["_hoodie_file_name"] for row in rows} == {Path(second["path"]).name}
    assert [row["_hoodie_record_key"] for row in rows] == ["a", "b", "c"]


def test_under_event_time_an_older_row_loses_and_a_tie_goes_to_the_incoming(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    incoming = [{"id": "a", "name": "older", "ts": 9}, {"id": "b", "name": "tied", "ts": 10}]
    second = upsert(spec(tmp_path, T2), first, rows_of(incoming))
    assert values(tmp_path, second, "id", "name") == [
        ("a", "old a"),
        ("b", "tied"),
        ("c", "old c"),
    ]
    assert second["num_updates"] == 1


def test_under_commit_time_the_incoming_row_wins_whatever_its_age(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    write = spec(tmp_path, T2, merge_mode=COMMIT_TIME)
    second = upsert(write, first, rows_of([{"id": "a", "name": "older", "ts": 9}]))
    assert values(tmp_path, second, "id", "name")[0] == ("a", "older")


def test_deletes_remove_rows_and_an_older_delete_loses_under_event_time(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    incoming = [
        {"id": "a", "ts": 11},
        {"id": "b", "ts": 9},
        {"id": "c"},  # no ordering value: always deletes
        {"id": "zz", "ts": 5},
    ]
    marks = {DELETE: pa.array([True] * 4)}
    second = upsert(spec(tmp_path, T2), first, rows_of(incoming, **marks))
    assert values(tmp_path, second, "id") == [("b",)]
    assert (second["num_deletes"], second["num_inserts"], second["num_writes"]) == (2, 0, 1)


def test_the_operation_delete_ignores_ordering_values(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    gone = rows_of([{"id": "b", "ts": 9}], **{DELETE: pa.array([True])})
    second = upsert(spec(tmp_path, T2, always_delete=True), first, gone)
    assert values(tmp_path, second, "id") == [("a",), ("c",)]


def test_a_delete_of_every_row_leaves_an_empty_file_without_key_range(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    gone = rows_of([{"id": key} for key in "abc"], **{DELETE: pa.array([True] * 3)})
    second = upsert(spec(tmp_path, T2), first, gone)
    file = pq.ParquetFile(tmp_path / second["path"])
    assert file.metadata.num_rows == 0
    assert file.schema_arrow.names[5:] == SCHEMA.names
    assert (second["min_key"], second["max_key"]) == (None, None)
    entries = file.metadata.metadata or {}
    assert b"org.apache.hudi.bloomfilter" in entries
    assert b"hoodie_min_record_key" not in entries


def test_mixed_deletes_and_updates_of_one_file(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    incoming = [{"id": "c", "name": "new c", "ts": 11}, {"id": "a", "ts": 11}]
    marks = {DELETE: pa.array([None, True])}
    second = upsert(spec(tmp_path, T2), first, rows_of(incoming, **marks))
    assert [(row["id"], row["name"]) for row in content(tmp_path, second)] == [
        ("b", "old b"),
        ("c", "new c"),
    ]


def test_rows_of_one_key_in_one_write_are_combined_before_the_merge(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    incoming = [
        {"id": "a", "name": "best", "ts": 30},
        {"id": "a", "name": "late but old", "ts": 20},
        {"id": "n", "name": "first", "ts": 5},
        {"id": "n", "name": "second, tied", "ts": 5},
    ]
    second = upsert(spec(tmp_path, T2), first, rows_of(incoming))
    assert values(tmp_path, second, "id", "name")[0] == ("a", "best")
    assert values(tmp_path, second, "id", "name")[3] == ("n", "second, tied")
    assert second["num_writes"] == 4


def test_an_insert_appends_without_looking_for_keys(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD))
    second = upsert(spec(tmp_path, T2, match_keys=False), first, rows_of(OLD[:1]))
    assert values(tmp_path, second, "id") == [("a",), ("a",), ("b",), ("c",)]
    assert second["num_inserts"] == 1


def test_every_duplicate_of_a_key_in_the_old_file_is_updated(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of([OLD[0], OLD[0], OLD[1]]))
    second = upsert(spec(tmp_path, T2), first, rows_of([{"id": "a", "name": "new", "ts": 11}]))
    assert values(tmp_path, second, "id", "name") == [("a", "new"), ("a", "new"), ("b", "old b")]


def test_several_groups_in_one_task_become_a_file_each(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD), "dt=1")
    groups = {
        3: GroupPlan(3, "new-0", "dt=2"),
        7: GroupPlan(7, first["file_id"], "dt=1", first["path"], T1),
        9: GroupPlan(9, "untouched-0", "dt=3"),
    }
    incoming = [{"id": "x", "ts": 1}, {"id": "y", "ts": 1}, {"id": "a", "name": "new", "ts": 99}]
    table = with_columns(rows_of(incoming), **{GROUP: pa.array([3, 3, 7], pa.int32())})
    created, merged = run(write_groups(spec(tmp_path, T2), groups), table, batch_rows=2)
    assert (created["file_id"], created["partition_path"], created["marker"]) == (
        "new-0",
        "dt=2",
        "CREATE",
    )
    assert created["prev_base_file"] is None
    assert values(tmp_path, created, "id") == [("x",), ("y",)]
    assert values(tmp_path, merged, "id", "name")[0] == ("a", "new")
    seqnos = [row["_hoodie_commit_seqno"] for row in content(tmp_path, created)]
    assert seqnos == [f"{T2}_0_0", f"{T2}_0_1"]
    assert not (tmp_path / "dt=3").exists()


def test_a_new_group_combines_its_rows_only_when_asked(tmp_path: Path) -> None:
    table = with_columns(rows_of([OLD[0], OLD[0]]), **{GROUP: 0})
    plans = {0: GroupPlan(0, "f-0", "")}
    plain = run(write_groups(spec(tmp_path, T1), plans), table)
    combined = run(write_groups(spec(tmp_path, T2, combine=True), plans), table)
    assert (plain[0]["num_writes"], combined[0]["num_writes"]) == (2, 1)


def test_a_group_that_comes_twice_is_refused(tmp_path: Path) -> None:
    table = with_columns(rows_of(OLD), **{GROUP: pa.array([0, 1, 0], pa.int32())})
    plans = {n: GroupPlan(n, f"f{n}-0", "") for n in (0, 1)}
    with pytest.raises(WriteFailed, match="unsorted"):
        run(write_groups(spec(tmp_path), plans), table)


def test_no_rows_write_no_file(tmp_path: Path) -> None:
    table = with_columns(rows_of([]), **{GROUP: pa.array([], pa.int32())})
    assert run(write_groups(spec(tmp_path), {}), table) == []
    assert list(tmp_path.iterdir()) == []


def test_a_null_key_is_refused_with_its_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match=r"null or empty record key \(column 'id'\)") as caught:
        insert(spec(tmp_path), rows_of([{"id": None, "ts": 1}]))
    assert caught.value.column == "id"


def test_a_missing_base_file_is_table_corruption_with_its_path(tmp_path: Path) -> None:
    gone = {"file_id": "f-0", "partition_path": "", "path": f"f-0_0-0-0_{T1}.parquet"}
    with pytest.raises(TableCorrupt, match="f-0_0-0-0.* is not there"):
        upsert(spec(tmp_path, T2), gone, rows_of(OLD))


def test_a_base_file_that_is_no_parquet_is_table_corruption(tmp_path: Path) -> None:
    path = f"f-0_0-0-0_{T1}.parquet"
    (tmp_path / path).write_bytes(b"PAR1 but not really")
    with pytest.raises(TableCorrupt, match="f-0_0-0-0"):
        upsert(
            spec(tmp_path, T2), {"file_id": "f-0", "partition_path": "", "path": path}, rows_of(OLD)
        )


def test_markers_and_partition_metadata_are_where_hudi_looks(tmp_path: Path) -> None:
    first = insert(spec(tmp_path), rows_of(OLD), "region=eu/dt=2024-01-01")
    second = upsert(spec(tmp_path, T2), first, rows_of(OLD))
    temp = tmp_path / ".hoodie" / ".temp"
    assert (temp / T1 / f"{first['path']}.marker.CREATE").read_bytes() == b""
    assert (temp / T2 / f"{second['path']}.marker.MERGE").read_bytes() == b""
    folder = tmp_path / "region=eu" / "dt=2024-01-01"
    text = (folder / ".hoodie_partition_metadata").read_text()
    assert f"commitTime={T1}" in text
    assert "partitionDepth=2" in text
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [".hoodie_partition_metadata", Path(first["path"]).name, Path(second["path"]).name]
    )


def test_many_small_upserts_do_not_pile_up_row_groups(tmp_path: Path) -> None:
    stat = insert(spec(tmp_path), rows_of(OLD))
    for number in range(12):
        instant = f"{int(T3) + number}"
        stat = upsert(spec(tmp_path, instant), stat, rows_of([{"id": f"n{number}", "ts": 1}]))
    assert pq.ParquetFile(tmp_path / stat["path"]).metadata.num_row_groups <= 2
    assert stat["num_writes"] == 15


def test_rows_may_leave_out_a_key_that_is_one_of_their_columns(tmp_path: Path) -> None:
    facts = {"key_from": "id"}
    first = insert(spec(tmp_path, **facts), rows_of(OLD).drop_columns(["_hoodie_record_key"]))
    incoming = rows_of([{"id": "b", "name": "new b", "ts": 11}, {"id": "d", "ts": 1}])
    bare = incoming.drop_columns(["_hoodie_record_key"])
    second = upsert(spec(tmp_path, T2, **facts), first, bare)
    assert values(tmp_path, second, "_hoodie_record_key", "id", "name") == [
        ("a", "a", "old a"),
        ("b", "b", "new b"),
        ("c", "c", "old c"),
        ("d", "d", None),
    ]


def test_an_integer_column_as_the_key_becomes_its_text(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    facts = {"key_from": "id", "schema": schema}
    rows = pa.table({"id": [7, -1], "name": ["x", "y"]}, schema=schema)
    first = insert(spec(tmp_path, **facts), rows)
    second = upsert(spec(tmp_path, T2, **facts), first, rows.slice(1))
    assert values(tmp_path, second, "_hoodie_record_key", "id") == [("-1", -1), ("7", 7)]
    assert second["num_updates"] == 1
    with pytest.raises(InvalidRecord, match="column 'id'"):
        insert(spec(tmp_path, **facts), pa.table({"id": [None], "name": ["x"]}, schema=schema))


def test_new_rows_join_the_row_group_of_a_coded_column(tmp_path: Path) -> None:
    old = [{"id": f"k{n}", "name": f"n{n % 3}", "ts": 1} for n in range(2_000)]
    first = insert(spec(tmp_path), rows_of(old))
    added = [{"id": f"new{n}", "name": f"n{n % 4}", "ts": 1} for n in range(9)]
    second = upsert(spec(tmp_path, T2), first, rows_of([*added, {**old[0], "name": "changed"}]))
    found = dict(values(tmp_path, second, "id", "name"))
    assert found == {row["id"]: row["name"] for row in [*old, *added]} | {"k0": "changed"}
