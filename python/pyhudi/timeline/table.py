"""A table as the driver holds it: its storage and its properties, opened and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.errors import HistoryExpired, TableNotFound
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig, parse_table_config
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, load_timeline
from pyhudi.timeline.view import VIEWS, FileSystemView

PROPERTIES = ".hoodie/hoodie.properties"
#: looks at a table that moves on while it is listed, as by a commit and a clean, each time
LOOKS = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """An opened table; cheap to make, holds no listing."""

    storage: Storage
    config: TableConfig

    def timeline(self) -> Timeline:
        """The active timeline as it is listed now."""
        return load_timeline(self.storage, self.config)

    def view(self, timeline: Timeline) -> FileSystemView:
        """The file groups under ``timeline``."""
        return VIEWS.load(self.storage, self.config, timeline)

    def now(self, question: Callable[[FileSystemView], T]) -> T:
        """The answer to a question about the table as it is now.

        Where the table moved on while it was listed it is listed again: ``HistoryExpired`` only
        if that happens each time.
        """
        for _ in range(LOOKS - 1):
            try:
                return question(self.view(self.timeline()))
            except HistoryExpired as expired:
                if not expired.facts.get("moved"):
                    raise
        return question(self.view(self.timeline()))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one query sees: a table, one timeline, and the instant it is pinned to."""

    table: Table
    timeline: Timeline
    as_of: InstantTime | None


def open_table(storage: Storage) -> Table:
    """Read and check ``hoodie.properties``; ``TableNotFound`` where there is none."""
    try:
        data = storage.read(PROPERTIES)
    except (FileNotFoundError, NotADirectoryError) as e:
        raise TableNotFound(
            f"There is no Hudi table at {storage.root}: it has no {PROPERTIES}. "
            "Check the path, or write to it first.",
            path=storage.root,
        ) from e
    return Table(storage, parse_table_config(data, f"{storage.root}/{PROPERTIES}"))


def table_exists(storage: Storage) -> bool:
    """Whether the folder holds a Hudi table."""
    return storage.exists(PROPERTIES)
