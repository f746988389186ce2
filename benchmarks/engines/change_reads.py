"""How each engine reads what one commit changed; engines of ``benchmarks.changes`` alone.

Each answers for the last commit, with Hudi's letters for the operations.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.engines.base import Engine
from benchmarks.engines.delta import Delta
from benchmarks.engines.iceberg import Iceberg
from benchmarks.engines.pyhudi import Pyhudi

READ = "hoodie.datasource.read."
FORM = "hoodie.datasource.query.incremental.format"


class ReadsChanges(Protocol):
    """What an engine here does beside its writes."""

    def changed(self, table: str) -> DataFrame:
        """The rows that the last commit inserted or updated, as it left them."""

    def changes(self, table: str) -> DataFrame:
        """Every row that the last commit inserted, updated or deleted, before and after it."""

    def facts(self, table: str) -> list[str]:
        """For each kind of image its number and two sums: equal for all engines."""


class PyhudiChanges(Pyhudi):
    """pyhudi on a table without change logs: the slices are compared."""

    name = "pyhudi-changes"
    label = "pyhudi, no logs"
    notes = "incremental read; change data with images as structs (`cdc_columns`), inferred"

    def _read(self, table: str, form: str) -> DataFrame:
        path = str(self.path(table))
        folder = Path(path) / ".hoodie" / "timeline"
        done = (f.name for f in folder.iterdir() if f.suffix in (".commit", ".replacecommit"))
        times = sorted(name.split("_")[0] for name in done if "_" in name)
        options = {
            "hoodie.datasource.query.type": "incremental",
            FORM: form,
            READ + "incr.order": "requested",
            READ + "begin.instanttime": times[-2],
        }
        return self.spark.read.format("pyhudi").options(**options).load(path)

    def changed(self, table: str) -> DataFrame:
        return self._read(table, "latest_state")

    def changes(self, table: str) -> DataFrame:
        return self._read(table, "cdc_columns")

    def facts(self, table: str) -> list[str]:
        return image_facts(self.changes(table))


class PyhudiLogs(PyhudiChanges):
    """pyhudi on a table with change logs of both images."""

    name = "pyhudi-logs"
    label = "pyhudi, change logs"
    notes = "the same on a table with `hoodie.table.cdc.enabled`"
    extra: ClassVar[dict[str, str]] = {"hoodie.table.cdc.enabled": "true"}


class DeltaFeed(Delta):
    """Delta with its change data feed."""

    name = "delta-feed"
    label = "Delta 3.3.2"
    notes = "`delta.enableChangeDataFeed`; the feed of the last version"

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        feed = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
        return {**super().conf(root), feed: "true"}

    def changes(self, table: str) -> DataFrame:
        folder = self.path(table) / "_delta_log"
        last = max(int(f.stem) for f in folder.glob("*.json"))
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        return reader.option("startingVersion", last).load(str(self.path(table)))

    def changed(self, table: str) -> DataFrame:
        return self.changes(table).where("_change_type in ('insert', 'update_postimage')")

    def facts(self, table: str) -> list[str]:
        named = {"insert": "i+", "update_preimage": "u-", "update_postimage": "u+", "delete": "d-"}
        return row_facts(self.changes(table), named)


class IcebergChangelog(Iceberg):
    """Iceberg with its changelog view."""

    name = "iceberg-changelog"
    label = "Iceberg 1.10.1"
    notes = "`create_changelog_view` with identifier columns, so that it tells updates"

    def changes(self, table: str) -> DataFrame:
        snapshots = self.spark.sql(
            f"SELECT snapshot_id FROM {self.sql_name(table)}.snapshots ORDER BY committed_at"
        ).collect()
        self.spark.sql(
            f"CALL ice.system.create_changelog_view(table => 'db.{table}', options => "
            f"map('start-snapshot-id', '{snapshots[-2][0]}'), changelog_view => 'changelog', "
            "identifier_columns => array('id', 'region'))"
        )
        return self.spark.table("changelog")

    def changed(self, table: str) -> DataFrame:
        return self.changes(table).where("_change_type in ('INSERT', 'UPDATE_AFTER')")

    def facts(self, table: str) -> list[str]:
        named = {"INSERT": "i+", "UPDATE_BEFORE": "u-", "UPDATE_AFTER": "u+", "DELETE": "d-"}
        return row_facts(self.changes(table), named)


def image_facts(changes: DataFrame) -> list[str]:
    """``row_facts`` of changes that have both images in one row."""
    images = [
        changes.where(f"{name} is not null").select(
            F.concat("op", F.lit(sign)).alias("_change_type"), f"{name}.*"
        )
        for name, sign in (("before", "-"), ("after", "+"))
    ]
    return row_facts(images[0].unionByName(images[1]), {})


def row_facts(rows: DataFrame, named: dict[str, str]) -> list[str]:
    """For each kind of image its number and sums over two columns."""
    found = rows.groupBy("_change_type").agg(F.count("id"), F.sum("amount"), F.sum("id")).collect()
    return sorted(f"{named.get(r[0], r[0])} {r[1]} {r[2]} {r[3]}" for r in found)


FEEDS: dict[str, type[Engine]] = {
    engine.name: engine for engine in (PyhudiLogs, PyhudiChanges, DeltaFeed, IcebergChangelog)
}
