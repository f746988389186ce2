"""A table as the driver holds it: its storage and its properties, opened and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.errors import HistoryExpired, HudiError, TableCorrupt, TableNotFound, UnsupportedTable
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig, parse_table_config
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, load_timeline
from pyhudi.timeline.view import VIEWS, FileSystemView

PROPERTIES = ".hoodie/hoodie.properties"
#: the old properties while new ones are put in their place; what is left of a change that died
BACKUP = f"{PROPERTIES}.backup"
CHECKSUM = b"hoodie.table.checksum"
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
    """Read and check ``hoodie.properties``; ``TableNotFound`` where there is none.

    Apache Hudi changes that file in steps: it puts a backup, deletes the file, puts it again and
    deletes the backup. Where the file is absent or torn the backup counts, as for Hudi's readers,
    and where that is gone by then Hudi has come to its end, and the file is whole. A file that was
    cut off may lack its version and its checksum.
    """
    reason: HudiError | None = None
    for path in (PROPERTIES, BACKUP, PROPERTIES):
        try:
            data = storage.read(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            return Table(storage, config_of(storage, data, path))
        except (TableCorrupt, UnsupportedTable) as error:
            if isinstance(error, UnsupportedTable) and CHECKSUM in data:
                raise
            reason = error
    raise reason or TableNotFound(
        f"There is no Hudi table at {storage.root}: it has no {PROPERTIES}. "
        "Check the path, or write to it first.",
        path=storage.root,
    )


def config_of(storage: Storage, data: bytes, path: str = PROPERTIES) -> TableConfig:
    """The facts that ``data``, read from ``path``, tells of the table that ``storage`` holds."""
    return parse_table_config(data, f"{storage.root}/{path}")


def table_exists(storage: Storage) -> bool:
    """Whether the folder holds a Hudi table, also one whose properties are being changed."""
    return any(map(storage.exists, (PROPERTIES, BACKUP, PROPERTIES)))
