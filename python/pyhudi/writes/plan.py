"""The plan of one attempt of a write: it is decided, but nothing is done yet.

Each way to write answers the same questions (``Way``), and ``operations.py`` asks them in order. So
a way never begins, claims, publishes or commits anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId
from pyhudi.slices.files import BaseFile, FileSlice
from pyhudi.transactions.conflicts.comparison import Group
from pyhudi.writes.stage import Written


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a replace commit replaces: the slices, and the partitions that it replaces
    completely."""

    slices: Sequence[FileSlice] = ()
    partitions: frozenset[str] = frozenset()

    def groups(self) -> frozenset[Group]:
        """The file groups of the slices."""
        return frozenset((each.partition_path, each.file_id) for each in self.slices)

    def by_partition(self) -> dict[str, tuple[FileId, ...]]:
        """Partition path -> ids of the file groups, as the commit records them."""
        found: dict[str, list[FileId]] = {}
        for each in self.slices:
            found.setdefault(each.partition_path, []).append(each.file_id)
        return {partition: tuple(ids) for partition, ids in found.items()}


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the rows go.

    ``write`` runs the write stage. ``updated`` are the file groups that change, ``created`` the new
    buckets, ``swept`` the replaced partitions that are known before the rows are written.
    ``profile`` goes to the inflight file; None leaves that file empty.
    """

    write: Callable[[], Written]
    updated: Collection[Group] = frozenset()
    created: Collection[Group] = frozenset()
    swept: Collection[str] = frozenset()
    profile: CommitMetadata | None = None


class Way(Protocol):
    """One way to write the rows of an attempt. The questions come in this order, each once."""

    @property
    def targets(self) -> Sequence[BaseFile | FileSlice]:
        """The files into which rows may be merged, and the replaced slices that are known."""

    def plan(self) -> Plan:
        """Look up and place the rows; errors of bad input."""

    def replaced(self, written: Written) -> Replaced | None:
        """What the commit replaces, after the rows are written; None if it only adds."""
