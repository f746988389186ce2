"""The spool: rows that Spark's batch writers store for a later write by Python.

It lies in ``.hoodie/.temp/.spool-<id>``, never in an instant's marker folder, where Hudi's rollback
would read every name as a marker. Only files named in the commit messages are read. It has a
heartbeat as long as its statement lives, so that others may delete the spool of a dead one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyhudi.application.runtime import Runtime
from pyhudi.config import resolve_write
from pyhudi.errors import ConfigError
from pyhudi.format.markers import FOLDER
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.timeline.table import open_table
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.recovery.spools import BEAT, PREFIX

INSIDE = f"/{FOLDER}/{PREFIX}"


class Spools:
    """The spools of an application's statements that are running."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._hearts: dict[str, Heartbeat] = {}

    def begin(self, root: str, given: Mapping[str, str], session: Mapping[str, str]) -> str:
        """A folder of its own for one write, as Hadoop names it; ``given`` are its options."""
        storage, clock = self._runtime.storage(root), self._runtime.clock
        table = open_table(storage)
        options = resolve_write(given, table.config.raw, session)
        folder = f"{FOLDER}/{PREFIX}{clock.uuid()}"
        policy = writer_policy(options, table, clock).heartbeat
        heart = Heartbeat(storage, clock, BEAT, policy, folder)
        heart.start()
        start = f"file:{root}" if root.startswith("/") else root
        spool = f"{start}/{folder}"
        self._hearts[spool] = heart
        return spool

    def drop(self, root: str, spool: str) -> None:
        """Delete a spool folder; ``ConfigError`` for any other folder."""
        position = spool.rfind(INSIDE)
        if position < 0 or "/" in spool[position + len(INSIDE) :]:
            raise ConfigError(f"'{spool}' is not a spool folder of {root}.", key="spool")
        heart = self._hearts.pop(spool, None)
        if heart is not None:
            heart.stop(settled=False)
        self._runtime.storage(root).delete_folder(spool[position + 1 :])

    def close(self) -> None:
        """End the heartbeats: the next writer deletes these spools when they are silent."""
        while self._hearts:
            self._hearts.popitem()[1].stop(settled=False)


def spooled_rows(spark: SparkSession, files: Sequence[str], schema: SparkSchema) -> DataFrame:
    """The rows of all spool files that the commit messages name; an error if one is missing."""
    struct = StructType.fromJson(schema.json())
    if not files:
        return spark.createDataFrame([], struct)
    # A session may allow missing files: here rows would be lost.
    reader = spark.read.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")
    return reader.schema(struct).parquet(*files)
