"""What a commit answers to the shim, and its question about a micro-batch (``protocol.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.application.last_commit import ChangedRows, Shown


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """A commit by its instant, None without one, and the numbers that its statement answers."""

    instant: str | None
    shown: Shown | None
    changed: ChangedRows


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """A micro-batch of ``df.writeStream``; in ``complete`` mode its rows are the whole table."""

    complete: bool
    partitioning: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """What became of a micro-batch: as ``CommitAnswer``, and facts for the query's progress."""

    instant: str | None
    shown: Shown | None
    changed: ChangedRows
    progress: Mapping[str, str]
