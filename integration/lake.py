"""A database in a real Hive Metastore that sessions of two engines know by name.

The session with Apache Hudi has its bundle, extension and catalog on Spark 3.5; pyhudi's is a
session of its own without the bundle, on either line of Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.peers import SparkPeer, apache_hudi, pyhudi_on_spark
from tests.servers.hive_metastore import META, HiveMetastore
from tests.spark_lines import NEWEST, python

KEYED = "tblproperties (primaryKey = 'id', preCombineField = 'v', type = 'cow')"
#: for names that no test has had
numbers = itertools.count()


@dataclass(frozen=True)
class Lake:
    """A database that both engines know, and what its metastore has of a table."""

    ours: SparkPeer
    hudi: SparkPeer
    metastore: HiveMetastore
    folder: Path
    database: str

    def new(self, columns: str, more: str = "", by: str = "pyhudi", properties: str = KEYED) -> str:
        """A table made by ``by``; its name with that of the database."""
        name = f"{self.database}.t{next(numbers)}"
        writer = self.ours if by == "pyhudi" else self.hudi
        writer.sql(f"create table {name} ({columns}) using {by} {more} {properties}")
        return name

    def entry(self, name: str) -> Any:
        with self.metastore.client() as client:
            return client.get_table(*name.split("."))

    def partitions(self, name: str) -> list[list[str]]:
        with self.metastore.client() as client:
            return sorted(one.values for one in client.get_partitions(*name.split("."), -1))

    def refresh(self, name: str) -> None:
        """Have Apache Hudi's session forget the files of the table, which Spark keeps there."""
        self.hudi.sql(f"refresh table {name}")

    def rows(self, name: str, columns: str) -> list[tuple[Any, ...]]:
        """The rows that both engines read by name."""
        self.refresh(name)
        found = [
            sorted(
                tuple(row[c.strip()] for c in columns.split(","))
                for row in peer.sql(f"select {columns} from {name}").rows
            )
            for peer in (self.ours, self.hudi)
        ]
        assert found[0] == found[1], "pyhudi reads other rows than Apache Hudi"
        return found[0]

    def in_hive(self, name: str, columns: str) -> list[tuple[Any, ...]]:
        """The rows that Hive's reader finds with what the metastore says alone.

        Spark is that reader, with Hudi's input format: for a copy of the entry without the
        properties from which Spark would take it for a table of a data source.
        """
        copied = f"{name}_in_hive"
        with self.metastore.client() as client:
            entry, partitions = self.entry(name), client.get_partitions(*name.split("."), -1)
            entry.tableName, entry.tableType = copied.split(".")[1], "EXTERNAL_TABLE"
            entry.parameters = {"EXTERNAL": "TRUE"}
            for one in (entry, *partitions):
                one.sd.serdeInfo.parameters = {"serialization.format": "1"}
            client.create_table(entry)
            for one in partitions:
                one.tableName = entry.tableName
                client.add_partition(one)
        try:
            self.hudi.sql("set spark.sql.hive.convertMetastoreParquet=false")
            found = self.hudi.sql(f"select {columns} from {copied}").rows
        finally:
            self.hudi.sql(f"drop table {copied}")
        return sorted(tuple(row[c.strip()] for c in columns.split(",")) for row in found)

    def seen(self, name: str, columns: str) -> list[tuple[Any, ...]]:
        """The rows that all find by name: pyhudi, Apache Hudi, and Hive's reader."""
        rows = self.rows(name, columns)
        assert self.in_hive(name, columns) == rows, "Hive's reader finds other rows"
        return rows

    def columns(self, name: str) -> list[str]:
        """The columns that the metastore tells Hive, without the meta columns."""
        entry = self.entry(name)
        assert entry.sd.inputFormat == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
        return [one.name for one in (*entry.sd.cols, *entry.partitionKeys) if one.name not in META]


def read_by_ids(hudi: SparkPeer, request: pytest.FixtureRequest) -> None:
    """Have Apache Hudi's session, which tests share, read with schema-on-read in this test."""
    hudi.sql("set hoodie.schema.on.read.enable=true")
    request.addfinalizer(lambda: hudi.sql("reset hoodie.schema.on.read.enable"))


def by_name(server: HiveMetastore) -> dict[str, str]:
    """The settings of a session whose tables are in this metastore."""
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": server.uri,
        "spark.driver.memory": "1g",
    }


@contextmanager
def hudi_by_name(metastore: HiveMetastore) -> Iterator[SparkPeer]:
    """A session of Apache Hudi."""
    with ExitStack() as stack:
        peer = apache_hudi("1.2.0", conf=by_name(metastore))
        stack.callback(peer.close)
        peer.sql("set hoodie.metadata.enable=false")
        yield peer


@contextmanager
def open_lake(line: str, hudi: SparkPeer, metastore: HiveMetastore, folder: Path) -> Iterator[Lake]:
    """A new database in ``folder``, with pyhudi on this line of Spark."""
    database = f"lake_{next(numbers)}"
    given = ("pyhudi-newest", str(python(NEWEST))) if line == "newest" else ()
    with ExitStack() as stack:
        ours = pyhudi_on_spark(*given, conf=by_name(metastore))
        stack.callback(ours.close)
        ours.sql(f"create database {database} location 'file:{folder}'")
        yield Lake(ours, hudi, metastore, folder, database)
