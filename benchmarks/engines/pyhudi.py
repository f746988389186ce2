"""pyhudi, set up as its users set it up, with the same options as Apache Hudi."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import pyhudi
from benchmarks.engines.hudi import HudiFamily


class Pyhudi(HudiFamily):
    """pyhudi with its defaults."""

    name = "pyhudi"
    label = "pyhudi"
    source = "pyhudi"
    notes = (
        "copy-on-write, table version 9; defaults: SIMPLE index, no metadata table; operations "
        "bulk_insert (creation and tiny appends), upsert, delete"
    )

    def __init__(self, spark: SparkSession, root: Path) -> None:
        import pyhudi

        super().__init__(pyhudi.attach(spark), root)

    def sql_name(self, table: str) -> str:
        return f"pyhudi.`{self.path(table)}`"

    @classmethod
    def session(cls, builder: SparkSession.Builder) -> SparkSession:
        return pyhudi.attach(pyhudi.configure(builder).getOrCreate())
