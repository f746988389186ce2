"""pyhudi, set up as its users set it up, with the same options as Apache Hudi."""

from __future__ import annotations

from pyspark.sql import SparkSession

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

    @classmethod
    def configure(cls, builder: SparkSession.Builder) -> SparkSession.Builder:
        import pyhudi

        configured: SparkSession.Builder = pyhudi.configure(builder)
        return configured
