"""Writers that race on one table: who conflicts, what a retry repeats, what the commit tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.clock import Clock
from pyhudi.errors import CommitConflict, SchemaConflict
from pyhudi.locks.base import TableLock
from pyhudi.locks.timed import TimedLock
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
from pyhudi.writes import write
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import DS, HudiTable, Lake

RETRIES = "hoodie.write.num.retries.on.conflict.failures"
SCHEMAS = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
KEYS = "hoodie.write.concurrency.key.conflict.check.enable"
NULLS = "hoodie.write.set.null.for.missing.columns"
OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}

pytestmark = pytest.mark.spark


def row(key: int, name: str = "x", day: str = "a", ts: int = 1) -> tuple[Any, ...]:
    return (key, name, ts, day)


@pytest.fixture
def table(lake: Lake) -> HudiTable:
    """Four rows in each of two partitions, one file group each."""
    made = lake.table(**OPTIMISTIC)
    made.write([row(n, day="ab"[n % 2]) for n in range(8)], "bulk_insert")
    return made


def slow(table: HudiTable, tmp_path: Path, rows: list[tuple[Any, ...]]) -> SlowInput:
    return SlowInput(table.frame(rows), tmp_path / "slow")


def names(table: HudiTable) -> dict[int, str]:
    return {key: found[1] for key, found in table.rows().items()}


def retries_told(table: HudiTable) -> str | None:
    opened = open_table(LocalStorage(table.path))
    timeline = opened.timeline()
    last = COMMITS.get(opened.storage, timeline, timeline.commits[-1])
    return last.extra.get("pyhudi.conflict.retries")


def test_a_write_whose_files_a_clean_takes_while_it_runs_is_written_again(
    table: HudiTable, tmp_path: Path, way: str
) -> None:
    """Were they not missed, the keys in them would be taken for new ones."""
    rows = slow(table, tmp_path, [row(0, "slow", ts=3), row(100, "new")])
    old = [Path(table.path) / name for name in table.base_files()]
    with in_background(table.write, rows.df, "upsert") as done:
        rows.wait_until_read()
        table.write([row(n, "fast", "ab"[n % 2], 2) for n in range(8)], "upsert")
        for path in old:
            path.unlink()
        rows.go()
        done.result()
    found = names(table)
    assert (found[0], found[1], found[100]) == ("slow", "fast", "new")
    assert retries_told(table) is not None


def test_a_lost_race_heals_and_the_input_is_evaluated_once(
    table: HudiTable, tmp_path: Path, way: str
) -> None:
    """Both change key 0; the slow one loses, begins again and wins."""
    rows = slow(table, tmp_path, [row(0, "slow", ts=2), row(100, "new"), row(1, "slow", "b", 2)])
    with in_background(table.write, rows.df, "upsert") as done:
        rows.wait_until_read()
        table.write([row(0, "fast", ts=2), row(2, "fast", ts=2)], "upsert")
        rows.go()
        done.result()

    found = names(table)
    assert (found[0], found[2], found[100], found[1]) == ("slow", "fast", "new", "slow")
    assert len(found) == 9
    assert rows.evaluations == 1
    assert retries_told(table) == "1 of 4"
    last = pyhudi.last_commit(table.spark)
    assert last is not None
    assert last.conflicts_retried == 1


def test_without_retries_the_error_names_both_sides_and_the_group(
    table: HudiTable, tmp_path: Path
) -> None:
    rows = slow(table, tmp_path, [row(0, "slow", ts=2)])
    with in_background(table.write, rows.df, "upsert", **{RETRIES: "0"}) as done:
        rows.wait_until_read()
        table.write([row(0, "fast", ts=2)], "upsert")
        rows.go()
        with pytest.raises(CommitConflict, match="both changed the same file groups: a/"):
            done.result()

    assert names(table)[0] == "fast"


def test_inserts_and_disjoint_upserts_do_not_conflict(
    table: HudiTable, tmp_path: Path, way: str
) -> None:
    rows = slow(table, tmp_path, [row(1, "slow", "b", 2), row(200, "slow", "b")])
    with in_background(table.write, rows.df, "upsert", **{RETRIES: "0"}) as done:
        rows.wait_until_read()
        table.write([row(0, "fast", ts=2)], "upsert")
        table.write([row(300, "fast", "b")], "insert")
        table.write([row(301, "fast", "b")], "bulk_insert")
        rows.go()
        done.result()

    found = names(table)
    assert (found[1], found[200], found[0], found[300], found[301]) == (
        "slow", "slow", "fast", "fast", "fast",
    )  # fmt: skip


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM"])
def test_two_upserts_of_one_new_key_leave_it_once(
    table: HudiTable, tmp_path: Path, way: str, index: str
) -> None:
    """No file group is shared, so only the keys themselves tell; the retry updates the row."""
    rows = slow(table, tmp_path, [row(500, "slow", "c", 2)])
    more = {"hoodie.index.type": index}
    with in_background(table.write, rows.df, "upsert", **more) as done:
        rows.wait_until_read()
        table.write([row(500, "fast", "c")], "upsert", **more)
        rows.go()
        done.result()

    assert names(table)[500] == "slow"


def test_the_keys_of_two_upserts_are_named_where_nothing_is_tried_again(
    table: HudiTable, tmp_path: Path
) -> None:
    rows = slow(table, tmp_path, [row(500, "slow", "c", 2), row(501, "slow", "c", 2)])
    with in_background(table.write, rows.df, "upsert", **{RETRIES: "0"}) as done:
        rows.wait_until_read()
        table.write([row(500, "fast", "c")], "upsert")
        rows.go()
        with pytest.raises(CommitConflict, match="did not have: 500\\.") as failed:
            done.result()

    assert failed.value.facts["overlap"] == ("500",)
    assert names(table)[500] == "fast"


def test_what_is_lost_with_the_key_check_off(table: HudiTable, tmp_path: Path) -> None:
    rows = slow(table, tmp_path, [row(500, "slow", "c", 2)])
    with in_background(table.write, rows.df, "upsert", **{KEYS: "false"}) as done:
        rows.wait_until_read()
        table.write([row(500, "fast", "c")], "upsert")
        rows.go()
        done.result()

    found = sorted(r[1] for r in table.df().where("id = 500").collect())
    assert found == ["fast", "slow"]


def test_a_column_that_came_meanwhile_does_not_stop_a_writer_without_it(
    table: HudiTable, tmp_path: Path, way: str
) -> None:
    """RFC-82's case 6, and the same through a retry: the older writer's rows hold nulls there."""
    rows = slow(table, tmp_path, [row(0, "slow", ts=2)])
    with in_background(table.write, rows.df, "upsert") as done:
        rows.wait_until_read()
        wider = table.frame([(2, "wide", 2, "a", 7)], table.ddl + ", more int")
        table.write(wider, "upsert")
        rows.go()
        done.result()

    found = {r["id"]: (r["name"], r["more"]) for r in table.df().collect()}
    assert (found[0], found[2]) == (("slow", None), ("wide", 7))


def test_a_column_that_came_just_before_the_begin_loses_no_value(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look at the table and the begin: no conflict tells of it."""
    wider = [table.frame([(2, "wide", 2, "a", 7)], table.ddl + ", more int")]

    def lock(inner: TableLock, clock: Clock) -> TimedLock:
        if wider:
            table.write(wider.pop(), "upsert")
        return TimedLock(inner, clock)

    monkeypatch.setattr(write, "TimedLock", lock)
    table.write([row(0, "late", ts=2)], "upsert", **{NULLS: "true"})

    found = {r["id"]: (r["name"], r["more"]) for r in table.df().collect()}
    assert (found[0], found[2]) == (("late", None), ("wide", 7))


@pytest.mark.parametrize("rule", ["simple", "reconcile"])
def test_two_new_columns_at_once_are_refused_or_merged(
    table: HudiTable, tmp_path: Path, rule: str
) -> None:
    mine = table.frame([(1, "slow", 2, "b", 5)], table.ddl + ", mine int")
    rows = SlowInput(mine, tmp_path / "slow")
    with in_background(table.write, rows.df, "upsert", **{SCHEMAS: rule}) as done:
        rows.wait_until_read()
        table.write(table.frame([(0, "fast", 2, "a", 7)], table.ddl + ", theirs int"), "upsert")
        rows.go()
        if rule == "simple":
            with pytest.raises(SchemaConflict, match="column 'mine'"):
                done.result()
            assert table.df().columns[-1] == "theirs"
            return
        done.result()

    assert table.df().columns[-2:] == ["theirs", "mine"]
    found = {r["id"]: (r["theirs"], r["mine"]) for r in table.df().collect()}
    assert (found[0], found[1], found[2]) == ((7, None), (None, 5), (None, None))


def test_by_partition_two_inserts_of_one_partition_conflict(
    table: HudiTable, tmp_path: Path
) -> None:
    rows = slow(table, tmp_path, [row(600, "slow")])
    more = {RETRIES: "0", "hoodie.write.lock.conflict.resolution.strategy": "partition"}
    with in_background(table.write, rows.df, "insert", **more) as done:
        rows.wait_until_read()
        table.write([row(601, "fast")], "insert")
        rows.go()
        with pytest.raises(CommitConflict, match="both wrote to the same partitions: a"):
            done.result()


def test_deletes_race_like_updates(table: HudiTable, tmp_path: Path, way: str) -> None:
    rows = slow(table, tmp_path, [row(0), row(1, day="b")])
    with in_background(table.write, rows.df, "delete") as done:
        rows.wait_until_read()
        table.write([row(2, "fast", ts=2)], "upsert")
        rows.go()
        done.result()

    found = names(table)
    assert (0 in found, 1 in found, found[2], len(found)) == (False, False, "fast", 6)
    assert rows.evaluations == 1


def test_the_bucket_rule_needs_the_bucket_index(table: HudiTable) -> None:
    option = "hoodie.write.lock.conflict.resolution.strategy"
    with pytest.raises(pyhudi.errors.ConfigError, match=option):
        table.write([row(1)], "upsert", **{option: "bucket"})
    assert DS + "x" not in names(table)
