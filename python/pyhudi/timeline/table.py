"""A table as the driver holds it: its storage and its properties, opened and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.errors import HistoryExpired, HudiError, TableCorrupt, TableNotFound, UnsupportedTable
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig, parse_table_config
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import LISTINGS, Timeline, load_timeline, timeline_of
from pyhudi.timeline.view import VIEWS, FileSystemView

PROPERTIES = ".hoodie/hoodie.properties"
#: the old properties while new ones are put in their place; what is left of a change that died
BACKUP = f"{PROPERTIES}.backup"
CHECKSUM = b"hoodie.table.checksum"
#: looks at a table that moves on while it is listed, as by a commit and a clean, each time
LOOKS = 5
#: timeline layout -> where a table that moves to or from the other one has the rest of its timeline
OTHER_FOLDER = {1: ".hoodie/timeline", 2: ".hoodie"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """An opened table; cheap to make, holds no listing."""

    storage: Storage
    config: TableConfig

    def timeline(self) -> Timeline:
        """The active timeline as it is listed now.

        ``HistoryExpired`` where the table has moved to another layout since it was opened: in its
        old place it would look empty, or begin late. That is asked where completed instants have
        left the timeline, or none was known.
        """
        storage, config = self.storage, self.config
        before = LISTINGS.known(storage, config.timeline_folder)
        timeline = load_timeline(storage, config)
        if not before or before.keys() - LISTINGS.known(storage, config.timeline_folder).keys():
            try:
                _check_layout(storage, config)
            except HistoryExpired:
                # Compared with this listing, the next one would look whole.
                LISTINGS.forget(storage, config.timeline_folder)
                raise
        return timeline

    def view(self, timeline: Timeline) -> FileSystemView:
        """The file groups under ``timeline``."""
        return VIEWS.load(self.storage, self.config, timeline)

    def now(self, question: Callable[[FileSystemView], T]) -> T:
        """The answer to a question about the table as it is now.

        Where the table moved on while it was listed it is listed again: ``HistoryExpired`` only
        if that happens each time.
        """

        tables = iter((self,))

        def ask() -> T:
            table = next(tables, None) or open_table(self.storage)
            return question(table.view(table.timeline()))

        return _looking_again(ask)


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


def open_with_timeline(storage: Storage) -> tuple[Table, Timeline]:
    """``open_table`` and the table's timeline, in one layout."""

    def look() -> tuple[Table, Timeline]:
        table = open_table(storage)
        return table, table.timeline()

    return _looking_again(look)


def _looking_again(look: Callable[[], T]) -> T:
    for _ in range(LOOKS - 1):
        try:
            return look()
        except HistoryExpired as expired:
            if not expired.moved:
                raise
    return look()


def _check_layout(storage: Storage, config: TableConfig) -> None:
    """``HistoryExpired`` where the timeline of the table is not, or not wholly, where it was."""
    try:
        now = open_table(storage).config
    except TableNotFound:  # dropped, or never there
        return
    if now.timeline_folder != config.timeline_folder:
        raise HistoryExpired(
            f"The table {storage.root} was opened in version {config.version} and has moved to "
            f"version {now.version} since, so its timeline is in another place. Nothing was "
            "changed. Run it again.",
            asked=None,
            earliest=None,
            moved=True,
        )
    other = 3 - config.layout
    folder = OTHER_FOLDER[config.layout]
    if timeline_of(storage.list(folder), other, folder).commits:
        raise HistoryExpired(
            f"The table {storage.root} is in version {config.version}, but {folder} has commits "
            "of another one: it is being upgraded or downgraded, or that was cut off. Nothing was "
            "changed. Run it again later; if nobody works on it, let Apache Hudi finish the move.",
            asked=None,
            earliest=None,
            moved=True,
        )


def table_exists(storage: Storage) -> bool:
    """Whether the folder holds a Hudi table, also one whose properties are being changed."""
    return any(map(storage.exists, (PROPERTIES, BACKUP, PROPERTIES)))
