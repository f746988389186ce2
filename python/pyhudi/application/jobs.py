"""What a write asks of Spark beyond PySpark's own API, handed in with the ``Runtime``."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa
from pyspark import RDD
from pyspark.sql import Column, DataFrame


class Jobs(Protocol):
    """Spark's jobs as the shim sees them; ``spark/jobs.py`` implements it.

    Jobs are known by the key of their write, which they carry as a local property
    (``writes/stage.py``).
    """

    def estimated_bytes(self, rows: DataFrame) -> int:
        """Spark's estimate of a size; 0 for sources it knows nothing of but can cut."""

    def collect(self, rows: DataFrame, limit_bytes: int, description: str) -> pa.Table | None:
        """``rows`` as one Arrow table on the driver; None where they are more than the limit.

        The limit is on the rows as Spark holds them, and a task may take twice its even share.
        """

    def held(self, result: DataFrame) -> DataFrame:
        """The same rows, in tasks whose attempts end once their Python workers let go of them."""

    def held_tasks(self, tasks: RDD[Any]) -> RDD[Any]:
        """``held`` for an RDD of Python's."""

    def text_hash(self, text: Column) -> Column:
        """Java's hash of a text, an int (spec/keys.md K6)."""

    def ended(self, key: str, timeout_s: float) -> bool:
        """Whether every attempt of the jobs of ``key`` ended within the time."""

    def quiet(self, key: str, timeout_s: float) -> bool:
        """The same after a failure: true as well where no job of ``key`` ever began."""

    def forget(self, key: str) -> None:
        """Drop what is known of ``key``."""
