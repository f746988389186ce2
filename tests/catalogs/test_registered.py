"""Entries of Hudi tables in a real Hive Metastore: made, kept up with commits, renamed."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pymetastore.hive_metastore import ttypes

from pyhudi.catalogs import hive_metastore
from pyhudi.catalogs.hudi_entry import EntryName, PartitionChanges, entry_columns, spark_schema
from pyhudi.catalogs.registered import RegisteredTables, note_columns
from pyhudi.errors import ConfigError, StorageError, TableExists, TableNotFound
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.transaction import Committed
from tests.golden_tables import BY_NAME
from tests.servers.cutting_proxy import Cut, cutting_proxy
from tests.servers.hive_metastore import META, HiveMetastore

#: partitions of the golden table, whose values hold slashes, a colon, a blank and a null
PARTITIONS = {
    ("2024-01-01", "a/b c"): "dt=2024-01-01/name=a%2Fb c",
    ("2024/01/02", "x:y"): "dt=2024%2F01%2F02/name=x%3Ay",
    ("2024-01-03", "__HIVE_DEFAULT_PARTITION__"): "dt=2024-01-03/name=__HIVE_DEFAULT_PARTITION__",
}
PROPERTIES = {"primaryKey": "id", "provider": "hudi", "spark.sql.sources.provider": "hudi"}
_numbers = itertools.count()


@dataclass(frozen=True)
class Lake:
    """A golden table of two commits, and its entry in a metastore."""

    metastore: HiveMetastore
    table: Table
    name: EntryName
    root: Path

    def entry(self) -> Any:
        with self.metastore.client() as client:
            return client.get_table(self.name.database, self.name.table)

    def partitions(self) -> dict[tuple[str, ...], str]:
        """Values -> path below the table."""
        with self.metastore.client() as client:
            found = client.get_partitions(self.name.database, self.name.table, -1)
        start = f"file:{self.root}/"
        return {tuple(one.values): one.sd.location.removeprefix(start) for one in found}

    def commit(self, number: int) -> Committed:
        timeline = self.table.timeline()
        instant = timeline.commits[number]
        metadata = COMMITS.get(self.table.storage, timeline, instant)
        return Committed(instant.time, instant.completion_time or instant.time, metadata)

    def follow(self, told: RegisteredTables, number: int, name: EntryName | None = None) -> None:
        told.follow(
            name or self.name, self.table.storage, self.commit(number), lambda config: PROPERTIES
        )


@pytest.fixture
def lake(metastore: HiveMetastore, tmp_path: Path) -> Lake:
    root = BY_NAME["h120_v9-cow_hive_cplx"].unzip(tmp_path)
    table = open_table(LocalStorage(str(root)))
    database = f"lake_{next(_numbers)}"
    with metastore.client() as client:
        client.create_database(ttypes.Database(database, None, f"file:{tmp_path}/{database}", {}))
    made = Lake(metastore, table, EntryName((metastore.uri,), database, "rides"), root)
    schema = table_schema(table, table.timeline(), None)
    assert schema is not None
    columns = entry_columns(schema, ["dt", "name"])
    hive_metastore.register(
        hive_metastore.NewEntry(made.name, f"file:{root}", columns, PROPERTIES, managed=False)
    )
    return made


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every connection to a metastore from now on."""
    made: list[str] = []
    connected = hive_metastore._connected

    def counted(name: EntryName) -> tuple[Any, Any]:
        made.append(str(name))
        return connected(name)

    monkeypatch.setattr(hive_metastore, "_connected", counted)
    return made


def test_an_entry_is_what_apache_hudi_registers(lake: Lake) -> None:
    seen = lake.entry()
    assert seen.tableType == "EXTERNAL_TABLE"
    assert seen.sd.location == f"file:{lake.root}"
    assert seen.sd.inputFormat == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert seen.sd.serdeInfo.parameters["path"] == f"file:{lake.root}"
    assert [one.name for one in seen.sd.cols] == [*META, "id", "price", "ts"]
    assert [(one.name, one.type) for one in seen.partitionKeys] == [
        ("dt", "string"),
        ("name", "string"),
    ]
    assert PROPERTIES.items() <= seen.parameters.items()
    stored = spark_schema(seen.parameters)
    assert stored is not None
    assert stored.names[-2:] == ("dt", "name")


def test_an_entry_that_nobody_knows_catches_up_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, told = calls_of(monkeypatch), RegisteredTables()
    told.catch_up(lake.name, lake.table.storage)
    assert lake.partitions() == PARTITIONS
    asked = len(made)
    told.catch_up(lake.name, lake.table.storage)
    assert len(made) == asked
    after = RegisteredTables()
    lake.follow(after, 1)
    asked = len(made)
    after.catch_up(lake.name, lake.table.storage)
    assert len(made) == asked, "its commits keep the entry up to date"


def test_a_name_that_is_taken_is_an_error(lake: Lake) -> None:
    columns = entry_columns(SparkSchema(), [])
    made = hive_metastore.NewEntry(lake.name, f"file:{lake.root}", columns, {}, managed=False)
    with pytest.raises(TableExists, match="has lake_.*rides already"):
        hive_metastore.register(made)
    gone = replace(lake.name, table="nobody")
    with pytest.raises(TableNotFound, match="has no lake_.*nobody any more"):
        hive_metastore.properties_of(gone)


def test_the_first_commit_registers_all_partitions_and_drops_what_is_gone(lake: Lake) -> None:
    stale = {("1999-12-31", "z"): "dt=1999-12-31/name=z"}
    hive_metastore.change_partitions(lake.name, PartitionChanges(stale, frozenset()))
    lake.follow(RegisteredTables(), 1)
    assert lake.partitions() == PARTITIONS


def test_a_table_that_is_adopted_has_all_its_partitions(lake: Lake) -> None:
    RegisteredTables().adopt(lake.name, lake.table.storage)
    assert lake.partitions() == PARTITIONS


def test_an_adoption_without_the_metastore_warns_and_names_the_repair(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    gone = replace(lake.name, table="nobody")
    with caplog.at_level(logging.WARNING):
        RegisteredTables().adopt(gone, lake.table.storage)
    (warning,) = caplog.records
    assert f"MSCK REPAIR TABLE {gone}" in warning.getMessage()


def test_partitions_are_added_or_dropped_as_the_statement_says(lake: Lake) -> None:
    stale, told = {("1999-12-31", "z"): "dt=1999-12-31/name=z"}, RegisteredTables()
    hive_metastore.change_partitions(lake.name, PartitionChanges(stale, frozenset()))
    added = told.sync(lake.name, lake.table, add=True, drop=False)
    assert added == PartitionChanges(PARTITIONS, frozenset())
    assert lake.partitions() == {**PARTITIONS, **stale}

    with lake.metastore.client() as client:
        name = "dt=2024%2F01%2F02/name=x%3Ay"
        client.drop_partition_by_name(lake.name.database, lake.name.table, name, False)
    dropped = told.sync(lake.name, lake.table, add=False, drop=True)
    assert dropped == PartitionChanges({}, frozenset(stale))
    assert set(lake.partitions()) == {*PARTITIONS} - {("2024/01/02", "x:y")}

    assert told.sync(lake.name, lake.table, add=True, drop=True)
    assert lake.partitions() == PARTITIONS
    assert not told.sync(lake.name, lake.table, add=True, drop=True)


def test_a_commit_after_a_repair_compares_everything(lake: Lake) -> None:
    told = RegisteredTables()
    lake.follow(told, 0)
    stale = {("1999-12-31", "z"): "dt=1999-12-31/name=z"}
    hive_metastore.change_partitions(lake.name, PartitionChanges(stale, frozenset()))
    told.sync(lake.name, lake.table, add=True, drop=False)
    lake.follow(told, 1)
    assert lake.partitions() == PARTITIONS


def test_folders_that_do_not_tell_values_are_not_repaired(lake: Lake, tmp_path: Path) -> None:
    root = BY_NAME["h120_v9-cow_evolve"].unzip(tmp_path / "plain")
    table = open_table(LocalStorage(str(root)))
    told = RegisteredTables()
    with pytest.raises(ConfigError, match=r"rides has no partitions .* Nothing was changed"):
        told.sync(lake.name, table, add=True, drop=True)
    told.adopt(lake.name, table.storage)
    assert lake.partitions() == {}


def test_a_commit_to_known_partitions_does_not_ask_the_metastore(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = RegisteredTables()
    lake.follow(told, 0)
    calls = calls_of(monkeypatch)
    lake.follow(told, 1)
    assert calls == []


def test_after_commits_of_others_all_partitions_are_compared(lake: Lake) -> None:
    _, second = lake.table.timeline().commits
    (theirs,) = (lake.root / ".hoodie" / "timeline").glob(f"{second.time}_*.commit")
    aside = theirs.rename(lake.root / ".hoodie" / theirs.name)
    told, ours = RegisteredTables(), lake.commit(0)
    lake.follow(told, 0)
    with lake.metastore.client() as client:
        name = "dt=2024%2F01%2F02/name=x%3Ay"
        client.drop_partition_by_name(lake.name.database, lake.name.table, name, False)
    assert len(lake.partitions()) == 2
    aside.rename(theirs)
    told.follow(lake.name, lake.table.storage, ours, lambda config: PROPERTIES)
    assert lake.partitions() == PARTITIONS


def test_a_commit_that_empties_partitions_drops_them_and_leaves_the_files(lake: Lake) -> None:
    told, done = RegisteredTables(), lake.commit(1)
    lake.follow(told, 1)
    path, values = "dt=2024-01-03/name=gone", ("2024-01-03", "gone")
    (lake.root / path).mkdir()
    stat = replace(done.metadata.stats[0], partition_path=path)
    filling = replace(done, metadata=replace(done.metadata, stats=(stat,)))
    told.follow(lake.name, lake.table.storage, filling, lambda config: PROPERTIES)
    assert lake.partitions() == {**PARTITIONS, values: path}

    emptying = replace(done, metadata=replace(done.metadata, stats=(), replaced={path: ()}))
    told.follow(lake.name, lake.table.storage, emptying, lambda config: PROPERTIES)
    assert lake.partitions() == PARTITIONS
    assert (lake.root / path).is_dir()


def test_properties_and_columns_that_lag_behind_are_told(lake: Lake) -> None:
    few = SparkSchema((Column("dt", "string"), Column("name", "string")))
    assert hive_metastore.change_columns(lake.name, entry_columns(few, ["dt", "name"]))
    assert [one.name for one in lake.entry().sd.cols] == META
    hive_metastore.change_properties(lake.name, {"primaryKey": "other"}, ["provider"])
    lake.follow(RegisteredTables(), 1)
    seen = lake.entry()
    assert [one.name for one in seen.sd.cols] == [*META, "id", "price", "ts"]
    assert PROPERTIES.items() <= seen.parameters.items()


def test_comments_stay_when_columns_change(lake: Lake) -> None:
    note_columns(lake.name, {"price": "in euros", "dt": "day of the ride"})
    assert [one.comment for one in lake.entry().sd.cols if one.name == "price"] == ["in euros"]
    lake.follow(RegisteredTables(), 1)
    stored = spark_schema(lake.entry().parameters)
    assert stored is not None
    comments = {column.name: column.comment for column in stored.columns}
    assert (comments["price"], comments["dt"]) == ("in euros", "day of the ride")


def test_columns_that_hive_refuses_reach_spark_all_the_same(lake: Lake) -> None:
    schema = SparkSchema(tuple(Column(*pair) for pair in _MOVED))
    assert not hive_metastore.change_columns(lake.name, entry_columns(schema, ["dt", "name"]))
    seen = lake.entry()
    stored = spark_schema(seen.parameters)
    assert stored is not None
    assert stored.names == (*META, "ts", "price", "dt", "name")
    assert [one.name for one in seen.sd.cols] == [*META, "id", "price", "ts"]


_MOVED = (("ts", "string"), ("price", "date"), ("dt", "string"), ("name", "string"))


def test_a_renamed_entry_keeps_place_and_partitions(lake: Lake) -> None:
    lake.follow(RegisteredTables(), 1)
    hive_metastore.rename(lake.name, "trips")
    renamed = replace(lake, name=replace(lake.name, table="trips"))
    assert renamed.entry().parameters["path"] == f"file:{lake.root}"
    assert renamed.partitions() == PARTITIONS


@pytest.mark.parametrize("cut", Cut)
def test_a_metastore_that_is_lost_leaves_a_warning_and_the_next_commit_heals(
    lake: Lake, cut: Cut, caplog: pytest.LogCaptureFixture
) -> None:
    told, target = RegisteredTables(), lake.metastore.uri.removeprefix("thrift://")
    with cutting_proxy(target, b"add_partitions_req", cut) as proxy:
        through = replace(lake.name, uris=(f"thrift://{proxy.address}",))
        with caplog.at_level(logging.WARNING):
            lake.follow(told, 1, through)
        assert proxy.met == [cut]
        (warning,) = caplog.records
        named = "dt=2024-01-01/name=a%2Fb c"
        for text in ("is committed", str(lake.name), named, "next write", "MSCK REPAIR"):
            assert text in warning.getMessage()
        lake.follow(told, 1, through)
    assert lake.partitions() == PARTITIONS


def test_nobody_at_the_address_is_told_with_all_addresses(lake: Lake) -> None:
    nobody = replace(lake.name, uris=("thrift://127.0.0.1:1", "thrift://127.0.0.1:2"))
    with pytest.raises(StorageError, match=r"127.0.0.1:1.*127.0.0.1:2.*hive.metastore.uris"):
        hive_metastore.properties_of(nobody)
