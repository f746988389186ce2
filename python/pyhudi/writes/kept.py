"""What the attempts of one write share: the input, evaluated once, and the places of its keys.

A write that lost a race is made again as a new instant and writes all its files again. But it
neither repeats the caller's query nor looks up keys in files that nobody has changed
(ARCHITECTURE.md, "One commit, end to end").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from pyhudi.application.jobs import Jobs
from pyhudi.index.key_state import GroupChange
from pyhudi.index.stateful_lookup import KeyLookup
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.transactions.schema_saving import check_columns
from pyhudi.writes.prepare import Prepared


@dataclass(frozen=True, slots=True)
class Tagged:
    """Rows with the ordinals of their keys in ``files``."""

    rows: DataFrame
    files: Sequence[BaseFile]


@dataclass(slots=True)
class Kept:
    """Empty before the first attempt; a later one may use it if its rows look the same."""

    retries: int = 0
    #: whether an earlier attempt took a key for another one with the same hash
    sure: bool = False
    #: the groups with logs that the last attempt would write logs of
    logged: frozenset[Group] = frozenset()
    #: those of them whose logs have deletes that a row may come after too late
    deleting: frozenset[Group] = frozenset()
    lock_wait_s: float = 0.0
    #: the columns that the first attempt was made for
    began: SchemaHistory | None = None
    rows: DataFrame | None = None
    tagged: Tagged | None = None
    table: pa.Table | None = None
    #: positions of keys (``index.matches``) by the path of the base file that holds them
    matches: dict[str, bytes] = field(default_factory=dict)
    #: the figures of the last lookup through the state; None if there was none
    lookup: KeyLookup | None = None
    #: what the state is told once the attempt has committed, by partition
    changes: Mapping[str, Sequence[GroupChange]] | None = None
    _shape: Any = None

    def check_columns(self, history: SchemaHistory) -> None:
        """``SchemaConflict`` if columns were renamed or dropped since the first attempt.

        The caller's names now mean other columns: a retry must not add them as new columns.
        """
        if self.began is None:
            self.began = history
        check_columns(self.began, history)

    def fit(self, prepared: Prepared) -> None:
        """Drop everything unless the rows of ``prepared`` are the kept ones.

        Another writer may have added a column meanwhile, or decided how keys are written. Then the
        rows differ, and the input is evaluated once more.
        """
        self.changes = None
        shape = (prepared.schema, prepared.named_keys)
        if shape != self._shape:
            self.rows = self.tagged = self.table = None
            self.matches = {}
            self._shape = shape

    def checkpointed(self, jobs: Jobs, prepared: Prepared, description: str) -> DataFrame:
        """The rows on the executors; no task computes them again. The text names the Spark job."""
        if self.rows is None:
            self.rows = jobs.checkpointed(prepared.rows, description)
        return self.rows
