"""An opened table in the driver: its storage and its checked properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.errors import HistoryExpired, HudiError, TableCorrupt, TableNotFound, UnsupportedTable
from pyhudi.format.instants import InstantTime
from pyhudi.format.properties import PATH
from pyhudi.format.table_config import TableConfig, parse_table_config
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import LISTINGS, Timeline, load_timeline, timeline_of
from pyhudi.timeline.surroundings import what_is_there
from pyhudi.timeline.view import VIEWS, FileSystemView

PROPERTIES = PATH
#: the old properties during a change; it stays if the change dies
BACKUP = f"{PROPERTIES}.backup"
CHECKSUM = b"hoodie.table.checksum"
#: how often a table is listed that changes during each listing, as by a commit and a clean
LOOKS = 5
#: timeline layout -> the folder with the rest of the timeline while a table changes its layout
OTHER_FOLDER = {1: ".hoodie/timeline", 2: ".hoodie"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Table:
    """An opened table; cheap to make, without a listing."""

    storage: Storage
    config: TableConfig

    def timeline(self) -> Timeline:
        """The active timeline, listed now.

        ``HistoryExpired`` if the table has changed its layout since it was opened: in its old place
        it would look empty, or begin late. This is checked if completed instants have left the
        timeline, or if none was known.
        """
        storage, config = self.storage, self.config
        before = LISTINGS.known(storage, config.timeline_folder)
        timeline = load_timeline(storage, config)
        if not before or before.keys() - LISTINGS.known(storage, config.timeline_folder).keys():
            try:
                _check_layout(storage, config)
            except HistoryExpired:
                # Otherwise the next listing, compared with this one, would look complete.
                LISTINGS.forget(storage, config.timeline_folder)
                raise
        return timeline

    def view(self, timeline: Timeline) -> FileSystemView:
        """The file groups under ``timeline``."""
        return VIEWS.load(self.storage, self.config, timeline)

    def now(self, question: Callable[[FileSystemView], T]) -> T:
        """The answer to a question about the table as it is now.

        If the table changes during the listing, it is listed again; ``HistoryExpired`` only if that
        happens each time.
        """

        tables = iter((self,))

        def ask() -> T:
            table = next(tables, None) or open_table(self.storage)
            return question(table.view(table.timeline()))

        return _looking_again(ask)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one query sees: a table, one timeline, and the instant to which it is pinned."""

    table: Table
    timeline: Timeline
    as_of: InstantTime | None


def open_table(storage: Storage) -> Table:
    """Read and check ``hoodie.properties``; ``TableNotFound`` if there is none.

    Apache Hudi changes that file in steps: it puts a backup, deletes the file, puts it again and
    deletes the backup. If the file is absent or cut off, the backup counts, as for Hudi's readers.
    If the backup is gone by then, Hudi has finished, and the file is complete. A file that was cut
    off may lack its version and its checksum.
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
        f"{what_is_there(storage)}",
        path=storage.root,
    )


def config_of(storage: Storage, data: bytes, path: str = PROPERTIES) -> TableConfig:
    """The facts in ``data``, which was read from ``path``, about the table in ``storage``."""
    return parse_table_config(data, f"{storage.root}/{path}")


def open_with_timeline(storage: Storage) -> tuple[Table, Timeline]:
    """``open_table`` and the table's timeline, both in one layout."""

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
    """``HistoryExpired`` if the table's timeline, or a part of it, has moved."""
    try:
        now = open_table(storage).config
    except TableNotFound:  # dropped, or never made
        return
    if now.timeline_folder != config.timeline_folder:
        raise HistoryExpired(
            f"The table {storage.root} was opened in version {config.version} and now has version "
            f"{now.version}, so its timeline is in another place. Nothing was changed. Run the "
            "statement again.",
            asked=None,
            earliest=None,
            moved=True,
        )
    other = 3 - config.layout
    folder = OTHER_FOLDER[config.layout]
    if timeline_of(storage.list(folder), other, folder).commits:
        raise HistoryExpired(
            f"The table {storage.root} has version {config.version}, but {folder} has commits of "
            "another version: an upgrade or downgrade is running, or was interrupted. Nothing was "
            "changed. Try again later; if no upgrade is running, let Apache Hudi finish it.",
            asked=None,
            earliest=None,
            moved=True,
        )


def table_exists(storage: Storage) -> bool:
    """Whether the folder holds a Hudi table, also one whose properties are being changed."""
    return any(map(storage.exists, (PROPERTIES, BACKUP, PROPERTIES)))
