"""The spool: rows that Spark's batch writers put aside for a write that Python then does.

It lies in ``.hoodie/.temp/.spool-<id>``, never in an instant's marker folder, where Hudi's rollback
would read every name as a marker. Only files named in the commit messages are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyhudi.errors import ConfigError
from pyhudi.planner.runtime import Runtime

PREFIX = ".hoodie/.temp/.spool-"


def begin_spool(runtime: Runtime, root: str) -> str:
    """A folder of its own for one write, as Hadoop names it."""
    start = f"file:{root}" if root.startswith("/") else root
    return f"{start}/{PREFIX}{runtime.clock.uuid()}"


def spooled_rows(spark: SparkSession, files: Sequence[str], schema: dict[str, Any]) -> DataFrame:
    """The rows of the spool files that the commit messages name."""
    struct = StructType.fromJson(schema)
    if not files:
        return spark.createDataFrame([], struct)
    return spark.read.schema(struct).parquet(*files)


def drop_spool(runtime: Runtime, root: str, spool: str) -> None:
    """Delete a spool folder; ``ConfigError`` for a folder that is none."""
    position = spool.rfind("/" + PREFIX)
    if position < 0 or "/" in spool[position + len(PREFIX) + 1 :]:
        raise ConfigError(f"'{spool}' is no spool folder of {root}.", key="spool")
    runtime.storage(root).delete_folder(spool[position + 1 :])
