"""Rows that lose against the base file by event time do not come to a log."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from pyhudi.format.spark_schema import SparkSchema
from pyhudi.rows.groups import write_groups
from pyhudi.rows.old_file import OldFile
from pyhudi.rows.spec import (
    BY_POSITION,
    COMMIT_TIME,
    GROUP,
    Filled,
    GroupPlan,
)
from tests.rows.test_log_writer import (
    EVENTS,
    KEYS,
    Event,
    base_of,
    beside,
    doubled,
    log,
    merged,
    parts,
    table_of,
    write_of,
)
from tests.rows.workers import (
    T1,
    T2,
    T3,
    Stat,
    insert,
    plan_of,
    rows_of,
    run,
    spec,
    upsert,
    with_columns,
)


def logged_keys(root: Path, stat: Stat) -> set[str]:
    """The keys of a log's rows and deletes."""
    _, held = parts(write_of(root, T2), root, [stat])
    return {key for part in held for key in part.keys().to_pylist()}


@pytest.mark.parametrize("layout", [1, 2])
@given(first=EVENTS, second=EVENTS)
@settings(deadline=None, max_examples=40)
def test_a_log_lacks_rows_older_than_the_base_file_and_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, layout: int, first: list[Event], second: list[Event]
) -> None:
    """The base rows have the ordering value 5; a delete is remembered with its own one."""
    root = tmp_path_factory.mktemp("t")
    base = base_of(root, layout)
    told: dict[str, tuple[int, tuple[Any, ...] | None]] = {}
    told |= {key: (5, (key, f"{key}0", 5)) for key in KEYS}
    logs = []
    for number, (instant, events) in enumerate(((T2, first), (T3, second))):
        # A delete of the ordering value 0 is like the others: the column is a long.
        newest: dict[str, Event] = {}
        for event in events:
            if event[0] not in newest or event[2] >= newest[event[0]][2]:
                newest[event[0]] = event
        write = write_of(root, instant, layout=layout)
        stat = log(write, base, events, 1 if layout > 1 else number + 1)
        older = {key for key, event in newest.items() if key in KEYS and event[2] < 5}
        assert (stat["outdated"] or 0) == len(older)
        assert (stat["path"] is None) == (older == set(newest))
        if stat["path"]:
            assert logged_keys(root, stat) == set(newest) - older
            logs.append(stat)
        for key, name, ts, gone in newest.values():
            if key not in told or ts >= told[key][0]:
                told[key] = ts, None if gone else (key, name, ts)
    found = merged(write_of(root, T3, layout=layout), root, base, logs)
    assert found == sorted(row for _, row in told.values() if row is not None)


def test_a_write_of_which_each_row_loses_leaves_no_log(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    stat = log(write_of(tmp_path, T2), base, [("a", "old", 4, False), ("b", "", 1, True)])
    assert (stat["path"], stat["outdated"]) == (None, 2)
    assert not list((tmp_path / "p").glob(".*.log.*"))


@pytest.mark.parametrize(
    "more",
    [
        {"merge_mode": COMMIT_TIME},
        {"always_delete": True},
        {"ordering_columns": ()},
        {"filled": Filled()},
        {"alone": False},
    ],
    ids=["commit time", "operation delete", "no ordering columns", "partial updates", "not alone"],
)
def test_other_writes_keep_all_their_rows(tmp_path: Path, more: dict[str, Any]) -> None:
    """In a table of partial updates a row that loses may still give values, and a writer without
    coordination does not see who deletes the other row meanwhile."""
    base = base_of(tmp_path, 2)
    stat = log(write_of(tmp_path, T2, **more), base, [("a", "old", 1, True)])
    assert logged_keys(tmp_path, stat) == {"a"}
    assert stat["outdated"] == 0


def test_a_row_stays_beside_a_delete_that_always_wins(tmp_path: Path) -> None:
    """The row of another key is older than the base file's, and a reader drops it."""
    base = base_of(tmp_path, 2)
    logs = [log(write_of(tmp_path, T2, always_delete=True), base, [("a", "", 0, True)])]
    old = table_of([("b", "old", 3, False)])
    stat = beside(write_of(tmp_path, T3), base, logs, old)
    assert logged_keys(tmp_path, stat) == {"b"}
    found = merged(write_of(tmp_path, T3), tmp_path, base, [*logs, stat])
    assert found[0] == ("b", "b0", 5)


def test_the_rows_of_a_key_that_the_base_file_has_twice_stay(tmp_path: Path) -> None:
    base = doubled(tmp_path)
    plan = GroupPlan(0, base["file_id"], "p", base["path"], T1, None, 1, BY_POSITION)
    rows = with_columns(table_of([("c", "old", 3, False)]), **{GROUP: 0})
    (stat,) = run(write_groups(write_of(tmp_path, T2, row_group_rows=1_024), {0: plan}), rows)
    assert (stat["copies"], stat["num_updates"], stat["outdated"]) == (1, 2, 0)


def test_a_merge_into_a_base_file_counts_them_as_well(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    stat = upsert(write_of(tmp_path, T2), base, table_of([("a", "", 4, False), ("b", "", 5, True)]))
    assert (stat["outdated"], stat["num_updates"], stat["num_deletes"]) == (1, 0, 1)


def asked(root: Path, kind: pa.DataType, stored: Sequence[Any], given: Sequence[Any]) -> set[str]:
    """The columns that a log reads beside the keys, if ``stored`` ordering values are in the base
    file and ``given`` ones come."""
    schema = pa.schema([("id", pa.string()), ("ts", kind)])
    held = [{"id": f"{n}", "ts": value} for n, value in enumerate(stored)]
    base = insert(spec(root, T1, schema), rows_of(held, schema), "p")
    rows = rows_of([{"id": f"{n}", "ts": value} for n, value in enumerate(given)], schema)
    found: set[str] = set()
    before = OldFile.keyed_units

    def noted(self: OldFile, beside: Sequence[str]) -> Any:
        found.update(beside)
        return before(self, beside)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OldFile, "keyed_units", noted)
        plan = plan_of(base)
        place = plan.file_id, plan.partition_path, plan.base_file, plan.base_instant
        avro = json.dumps(SparkSchema.of_arrow(schema).with_meta_columns().avro("t"))
        work = write_groups(
            spec(root, T2, schema, avro_schema=avro), {0: GroupPlan(0, *place, None, 1)}
        )
        run(work, with_columns(rows, **{GROUP: 0}))
    return found


def day(n: int) -> datetime.date:
    return datetime.date(2024, 1, n)


def noon(n: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, n, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "stored", "newer", "older"),
    [
        (pa.int64(), [1, 7, None], [7, 8], [8, 6]),
        (pa.int32(), [1, 7], [7, 8], [8, 6]),
        (pa.int32(), [-5, None], [0, 1], [1, -1]),
        (pa.date32(), [day(1), day(7)], [day(7), day(8)], [day(8), day(6)]),
        (pa.timestamp("us", "UTC"), [noon(1), noon(7)], [noon(7), noon(8)], [noon(8), noon(6)]),
        (pa.int64(), [1, 7], [8, 9], [9, None]),
    ],
    ids=["long", "int", "int that is null", "date", "timestamp", "null comes"],
)
def test_the_statistics_spare_the_ordering_values_where_only_newer_rows_come(
    tmp_path: Path, kind: pa.DataType, stored: list[Any], newer: list[Any], older: list[Any]
) -> None:
    """Null counts as 0 in an int, and is the smallest value elsewhere."""
    assert asked(tmp_path / "n", kind, stored, newer) == set()
    assert asked(tmp_path / "o", kind, stored, older) == {"ts"}


@pytest.mark.parametrize(
    ("kind", "stored", "newer"),
    [
        (pa.string(), ["a"], ["b"]),
        (pa.float64(), [1.0], [2.0]),
        (pa.int64(), [None], [2]),
    ],
    ids=["string", "double", "no value at all"],
)
def test_other_statistics_are_not_asked(
    tmp_path: Path, kind: pa.DataType, stored: list[Any], newer: list[Any]
) -> None:
    assert asked(tmp_path, kind, stored, newer) == {"ts"}
