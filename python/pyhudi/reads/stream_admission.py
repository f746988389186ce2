"""How much of what lies ahead one batch of a stream takes: a function of values.

Invariants: a batch is whole commits, or a part of one commit that alone exceeds a limit; it is
never empty while something lies ahead; of the commits it takes the first, none is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyhudi.format.instants import InstantTime


@dataclass(frozen=True, slots=True)
class Load:
    """What a batch reads: files, their bytes, and the rows in them that count."""

    files: int = 0
    size_bytes: int = 0
    rows: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.files + other.files, self.size_bytes + other.size_bytes, self.rows + other.rows
        )


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most that one batch may read; None for no limit."""

    files: int | None = None
    size_bytes: int | None = None
    rows: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return self != BatchLimits()

    def allow(self, load: Load) -> bool:
        """Whether a batch may read so much."""
        return (
            (self.files is None or load.files <= self.files)
            and (self.size_bytes is None or load.size_bytes <= self.size_bytes)
            and (self.rows is None or load.rows <= self.rows)
        )


@dataclass(frozen=True, slots=True)
class Ahead:
    """One commit that lies ahead: its time, and each file that it wrote. Some cannot be cut."""

    at: InstantTime
    files: Sequence[Load]
    cuttable: bool = True

    @property
    def load(self) -> Load:
        """All its files."""
        return sum(self.files, Load())


def cut(files: Sequence[Load], done: int, limits: BatchLimits) -> int | None:
    """How many ``files`` have been read after the next batch, which has at least one; None: all."""
    taken, load = done, Load()
    for file in files[done:]:
        load += file
        if taken > done and not limits.allow(load):
            return taken
        taken += 1
    return None


def admitted(ahead: Iterable[Ahead], limits: BatchLimits) -> tuple[InstantTime, int | None] | None:
    """The end of the next batch: a time, and how many files of the commit there; None: all.

    ``ahead`` are the unread commits in order, of which only as many are asked as are needed; None
    if there is none.
    """
    end: InstantTime | None = None
    load = Load()
    for commit in ahead:
        load += commit.load
        if not limits.allow(load):
            if end is None:
                return commit.at, cut(commit.files, 0, limits) if commit.cuttable else None
            break
        end = commit.at
    return (end, None) if end is not None else None
