"""What an engine must do, and nothing else."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from benchmarks.data import PARTITION

#: of a MERGE of a source ``s`` into a table ``t``
ON = "ON t.id = s.id AND t.region = s.region"
#: conditions that exclude each other: Apache Hudi tries every UPDATE before a DELETE
MERGE_CLAUSES = (
    "WHEN MATCHED AND s.status = 'returned' THEN DELETE "
    "WHEN MATCHED AND s.status != 'returned' THEN UPDATE SET * "
    "WHEN NOT MATCHED THEN INSERT *"
)


class Engine(ABC):
    """One table format on a Spark session. Tables have names and live under ``root``."""

    name: ClassVar[str]
    label: ClassVar[str]
    notes: ClassVar[str]
    """How it is set up and which statement does each operation, for the result page."""
    partition: ClassVar[str] = PARTITION

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root

    @classmethod
    def jars(cls) -> tuple[str, ...]:
        """Maven coordinates of what goes on Spark's class path."""
        return ()

    @classmethod
    def conf(cls, root: Path) -> dict[str, str]:
        """Settings of the Spark session beside those that all engines share."""
        return {}

    @classmethod
    def session(cls, builder: SparkSession.Builder) -> SparkSession:
        """The session, as the engine's users make it from a builder with ``conf``."""
        return builder.getOrCreate()

    def expect_other_writers(self) -> None:  # noqa: B027 - most need nothing
        """Prepare for writers beside this one; nothing for formats that always are."""

    def merge_into(self, target: str, rows: DataFrame, clauses: str) -> None:
        """A MERGE of ``rows`` into what SQL calls ``target``."""
        view = f"incoming_{threading.get_ident()}"
        rows.createOrReplaceTempView(view)
        self.spark.sql(f"MERGE INTO {target} t USING {view} s {ON} {clauses}")

    def path(self, table: str) -> Path:
        """The folder of a table."""
        return self.root / table

    def drain(self, rows: DataFrame) -> None:
        """Read all of them, and drop them."""
        rows.write.format("noop").mode("overwrite").save()

    @abstractmethod
    def create(self, table: str, rows: DataFrame) -> None:
        """Make the table from ``rows`` (bulk insert), partitioned by ``partition``."""

    @abstractmethod
    def append(self, table: str, rows: DataFrame) -> None:
        """Add ``rows``, whose keys are known to be new."""

    def insert(self, table: str, rows: DataFrame) -> None:
        """The same by the operation that may fill small files, where the engine has one."""
        self.append(table, rows)

    @abstractmethod
    def upsert(self, table: str, rows: DataFrame) -> None:
        """Replace the rows that have the same key and region, add the others."""

    @abstractmethod
    def delete(self, table: str, keys: DataFrame) -> None:
        """Remove the rows whose id and region are in ``keys`` (id, region, ts)."""

    def compact(self, table: str) -> None:
        """Merge all logs into data files; of engines that have logs."""
        raise NotImplementedError(self.name)

    def merge(self, table: str, rows: DataFrame) -> None:
        """MERGE with ``MERGE_CLAUSES``: rows sent back go, others change, new ones come."""
        self.merge_into(self.sql_name(table), rows, MERGE_CLAUSES)

    @abstractmethod
    def sql_name(self, table: str) -> str:
        """What SQL calls the table; it is registered where SQL knows no paths."""

    @abstractmethod
    def frame(self, table: str) -> DataFrame:
        """The table's rows as they are now."""
