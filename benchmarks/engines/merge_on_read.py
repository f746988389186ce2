"""The engines on tables whose changes go beside the data files; of ``benchmarks.merge_on_read``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame

from benchmarks.engines.base import Engine
from benchmarks.engines.delta import VECTORS, Delta
from benchmarks.engines.hudi import LOGS, ApacheHudi
from benchmarks.engines.iceberg import Iceberg
from benchmarks.engines.pyhudi import Pyhudi


class PyhudiLogTable(Pyhudi):
    """pyhudi's merge-on-read."""

    name = "pyhudi-mor"
    label = "pyhudi, MOR"
    notes = "the same on merge-on-read; `hoodie.compact.inline` off"
    extra: ClassVar[dict[str, str]] = {**LOGS, "hoodie.compact.inline": "false"}

    def compact(self, table: str) -> None:
        call = f"CALL pyhudi.system.run_compaction(table => '{self.path(table)}')"
        self.spark.sql(call).collect()


class HudiLogTable(ApacheHudi):
    """Apache Hudi's merge-on-read."""

    name = "hudi-mor"
    label = "Apache Hudi 1.2.0, MOR"
    notes = (
        "merge-on-read, otherwise its defaults, with the metadata table; `hoodie.compact.inline` "
        "off, which is the default"
    )
    extra = LOGS


class DeltaVectorTable(Delta):
    """Delta with deletion vectors."""

    name = "delta-dv"
    label = "Delta 3.3.2, vectors"
    notes = (
        "`delta.enableDeletionVectors`; upsert and delete by MERGE on id and region; a full read "
        "counts all rows with all columns, as Spark's sink takes no table with deletion vectors "
        "(delta-io/delta#4794)"
    )

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        return {**super().conf(root), **VECTORS}

    def drain(self, rows: DataFrame) -> None:
        rows._jdf.queryExecution().toRdd().count()


class IcebergDeleteTable(Iceberg):
    """Iceberg with position deletes."""

    name = "iceberg-mor"
    label = "Iceberg 1.10.1, MOR"
    notes = (
        "format version 2, `write.merge.mode=merge-on-read`: position deletes; fan-out writers; "
        "upsert and delete by MERGE on id and region"
    )
    extra: ClassVar[dict[str, str]] = {"write.merge.mode": "merge-on-read"}


class IcebergVectorTable(IcebergDeleteTable):
    """Iceberg with deletion vectors."""

    name = "iceberg-v3"
    label = "Iceberg 1.10.1, v3"
    notes = "the same with format version 3: deletion vectors"
    extra: ClassVar[dict[str, str]] = {**IcebergDeleteTable.extra, "format-version": "3"}


LOG_TABLES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        PyhudiLogTable, HudiLogTable, DeltaVectorTable, IcebergDeleteTable, IcebergVectorTable,
    )
}  # fmt: skip
