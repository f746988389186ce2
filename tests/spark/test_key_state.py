"""Where keys live, remembered between the writes of an application and beside other writers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.application.runtime import Runtime
from pyhudi.index.stateful_lookup import KeyLookup
from pyhudi.spark.session import runtime_of, spark_runtime
from pyhudi.writes import collected
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.write import write_table
from tests.spark.racing import SlowInput, in_background
from tests.spark.tables import DELETED, INDEX, TYPE, HudiTable, Lake, Row

MOST = "hoodie.index.key.state.max.bytes"
TRIGGER = "hoodie.compact.inline.max.delta.commits"
OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
DDL = f"id long, name string, ts long, dt string, {DELETED} boolean"

pytestmark = pytest.mark.spark


def row(key: int, name: str = "x", day: str = "a", gone: bool = False) -> tuple[Any, ...]:
    return (key, name, 1, day, gone)


@pytest.fixture(autouse=True)
def collects(monkeypatch: pytest.MonkeyPatch) -> None:
    # Spark knows no size of rows that a test makes from a list: it takes them for immense.
    monkeypatch.setattr(collected, "COLLECT_BYTES", (1 << 63) - 1)


class Looks:
    """The figures of the lookups so far, in their order, as they are logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def __iter__(self) -> Iterator[KeyLookup]:
        for record in self._caplog.records:
            for told in record.args if isinstance(record.args, tuple) else ():
                if isinstance(told, KeyLookup):
                    yield told

    def files(self) -> list[int]:
        """How many files each lookup has opened."""
        return [look.files_read + look.files_verified for look in self]


@pytest.fixture
def looks(caplog: pytest.LogCaptureFixture) -> Looks:
    caplog.set_level(logging.DEBUG, "pyhudi.writes.key_lookup")
    return Looks(caplog)


@pytest.fixture
def another(spark: SparkSession) -> Runtime:
    """The surroundings of another application: it knows nothing of what ours has learned."""
    return spark_runtime(spark)


def write_by(runtime: Runtime, table: HudiTable, rows: list[Row]) -> None:
    """An upsert of that application; its new keys go to a file that changes anyway."""
    options = {**table.options, "hoodie.parquet.small.file.limit": "0"}
    asked = lambda exists: Intent(Route.SAVE)  # noqa: E731
    write_table(runtime, table.frame(rows), table.path, options, {}, asked)


@pytest.fixture(params=["SIMPLE", "BLOOM"])
def table(lake: Lake, request: pytest.FixtureRequest) -> HudiTable:
    """Eight keys in each of two partitions, in two file groups each."""
    made = lake.table(ddl=DDL, **{INDEX: request.param})
    for half in range(2):
        keys = range(half, 16, 2)
        made.write(
            [row(key, day="ab"[key // 2 % 2]) for key in keys],
            "bulk_insert",
            hoodie__parquet__small__file__limit="0",
        )
    return made


def names(table: HudiTable) -> dict[int, str]:
    return {key: found[1] for key, found in table.rows().items()}


def test_later_upserts_and_deletes_read_no_keys_of_their_own_files(
    table: HudiTable, looks: Looks
) -> None:
    everything = [row(key, "first", "ab"[key // 2 % 2]) for key in range(16)]
    table.write(everything, "upsert")
    table.write([row(0, "second"), row(100, "new"), row(1, gone=True)], "upsert")
    table.write([row(100, "third"), row(1, "back"), row(2, "second", "b")], "upsert")
    table.write([row(100), row(4), row(77)], "delete")

    assert looks.files() == [4, 0, 0, 0]
    assert [look.hits for look in looks] == [16, 2, 2, 2]
    wanted = dict.fromkeys(range(16), "first") | {0: "second", 1: "back", 2: "second"}
    del wanted[4]
    assert names(table) == wanted


def test_files_of_another_writer_are_read_again_and_no_others(
    table: HudiTable, looks: Looks, another: Runtime
) -> None:
    everything = [row(key, "ours", "ab"[key // 2 % 2]) for key in range(16)]
    table.write(everything, "upsert")
    write_by(another, table, [row(1, "theirs"), row(200, "theirs")])
    write_by(another, table, [row(3, "theirs", "b")])
    table.write([row(1, "ours again"), row(200, "ours"), row(0, "ours again")], "upsert")
    table.write([row(2, "ours again", "b"), row(300, "ours", "b")], "upsert")

    assert looks.files() == [4, 2, 2, 1, 1]
    assert names(table) == {
        **dict.fromkeys(range(16), "ours"),
        1: "ours again",
        0: "ours again",
        3: "theirs",
        2: "ours again",
        200: "ours",
        300: "ours",
    }


def test_a_write_that_lost_a_race_looks_at_the_winners_files(
    table: HudiTable, looks: Looks, another: Runtime, tmp_path: Path
) -> None:
    table.options.update(OPTIMISTIC)
    table.write([row(0, "first"), row(1, "first")], "upsert")
    ours = SlowInput(table.frame([row(0, "ours"), row(700, "ours")]), tmp_path / "slow")
    with in_background(lambda: table.write(ours.df, "upsert")) as done:
        ours.wait_until_read()
        write_by(another, table, [row(0, "theirs"), row(1, "theirs"), row(700, "theirs")])
        ours.go()
        done.result()
    table.write([row(700, "last"), row(1, "last"), row(701, "new")], "upsert")

    wanted = dict.fromkeys(range(16), "x") | {0: "ours", 1: "last", 700: "last", 701: "new"}
    assert names(table) == wanted
    assert table.df().count() == len(wanted)


def test_a_commit_that_is_taken_back_leaves_no_trace(table: HudiTable) -> None:
    table.write([row(0, "kept")], "upsert")
    table.write([row(0, "undone"), row(400, "undone"), row(1, gone=True)], "upsert")
    kept = sorted(entry.instant for entry in pyhudi.history(table.path))[-2]
    pyhudi.restore(table.path, kept)
    table.write([row(400, "again"), row(1, "again")], "upsert")

    assert names(table) == dict.fromkeys(range(16), "x") | {0: "kept", 1: "again", 400: "again"}
    assert table.df().count() == 17


def test_a_clustering_between_upserts_is_seen(table: HudiTable, looks: Looks) -> None:
    table.write([row(key, "first", "ab"[key // 2 % 2]) for key in range(16)], "upsert")
    pyhudi.cluster(table.path)
    table.write([row(0, "last"), row(800, "new")], "upsert")

    assert looks.files() == [4, 1]
    assert names(table) == dict.fromkeys(range(16), "first") | {0: "last", 800: "new"}
    assert table.df().count() == 17


def test_the_files_of_a_compaction_of_ours_are_known_unless_their_keys_are_others(
    lake: Lake, looks: Looks
) -> None:
    given = {TYPE: "MERGE_ON_READ", "hoodie.compact.inline": "true", TRIGGER: "2"}
    table = lake.table(ddl=DDL, **given)
    table.write([row(key, day="ab"[key % 2]) for key in range(8)], "bulk_insert")
    table.write([row(0, "first"), row(1, "first", "b")], "upsert")
    assert compactions(table) == 1
    table.write([row(2, gone=True), row(1, "second", "b")], "upsert")
    table.write([row(0, "second"), row(3, "second", "b")], "upsert")
    assert compactions(table) == 2
    table.write([row(2, "back"), row(5, "third", "b"), row(8, "new")], "upsert")
    table.write([row(2, "last"), row(3, "last", "b"), row(8, "last")], "upsert")

    assert looks.files() == [2, 0, 0, 1, 0], "only the second compaction took a key away, of 'a'"
    wanted = dict.fromkeys(range(9), "x") | dict.fromkeys((2, 3, 8), "last")
    assert names(table) == wanted | {0: "second", 1: "second", 5: "third"}


def compactions(table: HudiTable) -> int:
    return [commit.operation for commit in pyhudi.history(table.path)].count("compact")


def test_inserts_and_overwrites_between_upserts_are_seen(table: HudiTable) -> None:
    table.write([row(0, "first")], "upsert")
    table.write([row(500, "inserted"), row(500, "twin")], "insert")
    table.write([row(500, "upserted"), row(0, "second")], "upsert")
    assert sorted(r.name for r in table.df().where("id = 500").collect()) == ["upserted"] * 2
    table.write([row(0, "only")], "insert_overwrite")
    table.write([row(0, "last"), row(1, "back")], "upsert")
    held = {r.id: r.name for r in table.df().where("dt = 'a'").collect()}
    assert held == {0: "last", 1: "back"}


def test_merge_does_not_take_a_shared_hash_for_a_known_key(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """All hashes are equal here, and an unverified one would refuse the new row."""
    monkeypatch.setattr(runtime_of(spark).key_states, "_unused_bits", 48)
    table.write([row(0, "first"), row(1, "first")], "upsert")
    table.frame([row(0, "merged"), row(600, "merged")], DDL).createOrReplaceTempView("source")
    spark.sql(
        f"MERGE INTO pyhudi.`{table.path}` t USING source s ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"
    )
    table.write([row(600, "upserted"), row(601, "new"), row(1, gone=True)], "upsert")
    wanted = dict.fromkeys(range(16), "x") | {0: "merged", 600: "upserted", 601: "new"}
    del wanted[1]
    assert names(table) == wanted
    assert table.df().count() == len(wanted)


def test_a_shared_hash_sends_no_new_key_to_a_log(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In a log a reader would find the key, but no lookup would: the write looks again."""
    monkeypatch.setattr(runtime_of(lake.spark).key_states, "_unused_bits", 48)
    table = lake.table(ddl=DDL, **{TYPE: "MERGE_ON_READ"})
    table.write([row(0), row(1)], "bulk_insert")
    table.write([row(0, "first")], "upsert")
    table.write([row(2, "new"), row(1, "second"), row(0, "second")], "upsert")
    assert "was taken for one of" in caplog.text
    table.write([row(2, "third")], "upsert")
    assert names(table) == {0: "second", 1: "second", 2: "third"}
    assert table.df().count() == 3


def test_without_a_bound_nothing_is_remembered(table: HudiTable, looks: Looks) -> None:
    def write(name: str, **more: str) -> None:
        table.write([row(4, name), row(5, name)], "upsert", **more)

    write("first")
    write("second", **{MOST: "0"})
    write("third", **{MOST: "0"})
    write("fourth")
    write("fifth")

    assert looks.files() == [2, 2, 2, 2, 0]
    assert names(table) == dict.fromkeys(range(16), "x") | {4: "fifth", 5: "fifth"}
