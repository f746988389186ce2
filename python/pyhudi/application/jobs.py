"""What a write needs of Spark beyond PySpark's own API; the ``Runtime`` brings it."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import Column, DataFrame, Row


class Jobs(Protocol):
    """Spark's jobs as the shim sees them; ``spark/jobs.py`` implements it.

    A job is identified by the key of its write, which it carries as a local property
    (``writes/stage.py``).
    """

    def estimated_bytes(self, rows: DataFrame) -> int:
        """Spark's estimate of the size; 0 if Spark cannot estimate it but can cut the rows off."""

    def collect(self, rows: DataFrame, limit_bytes: int, description: str) -> pa.Table | None:
        """``rows`` as one Arrow table on the driver; None if they exceed the limit.

        The limit counts rows as Spark holds them; a task may use twice its even share.
        """

    def checkpointed(self, rows: DataFrame, description: str) -> DataFrame:
        """``rows``, which no task computes twice; their joins may run before this returns."""

    def collect_held(self, result: DataFrame) -> list[Row]:
        """All rows, from tasks whose attempts end only after their Python workers end."""

    def held_tasks(self, tasks: RDD[Any]) -> RDD[Any]:
        """The same tasks, held like that and ``in_shared_workers``."""

    def in_shared_workers(self, tasks: RDD[Any]) -> RDD[Any]:
        """``tasks``, run by the Python workers that the functions of DataFrames run in."""

    def text_hash(self, text: Column) -> Column:
        """Java's hash of a text, as an int (spec/keys.md K6)."""

    def ended(self, key: str, timeout_s: float) -> bool:
        """Whether all attempts of the jobs of ``key`` ended within ``timeout_s``."""

    def quiet(self, key: str, timeout_s: float) -> bool:
        """The same after a failure, with the jobs cancelled: also true if none ever began."""

    def reading(self, seconds: float) -> list[str]:
        """The pins of the states that queries have been reading for so long."""

    def forget(self, key: str) -> None:
        """Forget the jobs of ``key``."""
