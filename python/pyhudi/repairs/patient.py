"""A table that may be broken: what can be read of it, each thing once.

Nothing here changes the table. What cannot be read is None, so that a fault of one file does not
hide the faults of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyhudi.errors import HudiError
from pyhudi.format.commit_metadata import CommitMetadata, parse_commit
from pyhudi.format.filenames import (
    BaseFileName,
    LogFileName,
    parse_base_file_name,
    parse_log_file_name,
)
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.table_config import TableConfig, TableType
from pyhudi.services.bin import kept_copy
from pyhudi.slices.file_listing import StorageListing
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import BACKUP, PROPERTIES, config_of
from pyhudi.timeline.view import FileSystemView, list_view
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.writer import Writer

#: layout -> timeline folder where the properties say nothing else
FOLDERS = {1: ".hoodie", 2: ".hoodie/timeline"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller of the doctor has asked for.

    ``read_files``: look into data files, too. ``forget_lost``: let commits forget files that are
    gone. ``older_than_ms``: what is younger may be somebody's work.
    """

    read_files: bool
    forget_lost: bool
    older_than_ms: int
    options: Mapping[str, str]


class Patient:
    """A table at one moment, by the storage's ``now_ms``.

    ``config`` is None if its properties cannot be read. The ``writer`` is never used to write here.
    """

    def __init__(self, writer: Writer, config: TableConfig | None, now_ms: int, wishes: Wishes):
        self.writer = writer
        self.storage = writer.table.storage
        self.now_ms = now_ms
        self.wishes = wishes
        self._config = config
        self._commits: dict[Instant, CommitMetadata | None] = {}

    @property
    def is_open(self) -> bool:
        """Whether the properties can be read."""
        return self._config is not None

    @property
    def config(self) -> TableConfig:
        """The table's facts; ``RuntimeError`` if they cannot be read."""
        if self._config is None:
            raise RuntimeError("the table's properties cannot be read")
        return self._config

    @property
    def is_merge_on_read(self) -> bool:
        return self._config is not None and self._config.table_type is TableType.MERGE_ON_READ

    def read(self, path: str) -> bytes | None:
        """The file's bytes; None if it is absent."""
        try:
            return self.storage.read(path)
        except FileNotFoundError:
            return None

    @cached_property
    def raw(self) -> bytes | None:
        """The bytes of ``hoodie.properties``."""
        return self.read(PROPERTIES)

    @cached_property
    def backup(self) -> bytes | None:
        """The bytes of the backup, if it is whole."""
        data = self.read(BACKUP)
        return data if data is not None and self.parses(data) is None else None

    def parses(self, data: bytes) -> HudiError | None:
        """What is wrong with properties; None if a table opens by them."""
        try:
            config_of(self.storage, data)
        except HudiError as e:
            return e
        return None

    @cached_property
    def timeline_files(self) -> list[StoredFile]:
        """The files of the timeline's folder."""
        return self.storage.list(self.config.timeline_folder)

    @cached_property
    def timeline(self) -> Timeline:
        """The active timeline, also of a table whose instants lie in two places."""
        config = self.config
        return timeline_of(self.timeline_files, config.layout, config.timeline_folder)

    def files_of(self, time: InstantTime) -> list[StoredFile]:
        """The timeline's files of an instant, in each of its states."""
        starts = (f"{time}.", f"{time}_")
        return [file for file in self.timeline_files if file.name.startswith(starts)]

    @cached_property
    def files(self) -> list[StoredFile]:
        """Each file outside ``.hoodie``."""
        return sorted(StorageListing(self.storage).files(), key=lambda file: file.path)

    @cached_property
    def base_files(self) -> list[tuple[StoredFile, BaseFileName]]:
        """The base files and their names' parts, whether they count or not."""
        named = ((file, parse_base_file_name(file.name)) for file in self.files)
        return [(file, name) for file, name in named if name is not None]

    def base_files_of(self, time: InstantTime) -> list[tuple[StoredFile, BaseFileName]]:
        return [(file, name) for file, name in self.base_files if name.instant == time]

    @cached_property
    def log_files(self) -> list[tuple[StoredFile, LogFileName]]:
        """The log files and their names' parts, whether they count or not."""
        named = ((file, parse_log_file_name(file.name)) for file in self.files)
        return [(file, name) for file, name in named if name is not None]

    @cached_property
    def data_files(self) -> list[tuple[StoredFile, InstantTime]]:
        """The base and log files, each with the instant in its name."""
        bases = [(file, name.instant) for file, name in self.base_files]
        return [*bases, *((file, name.instant) for file, name in self.log_files)]

    def has_data_of(self, time: InstantTime) -> bool:
        """Whether a data file has the instant in its name."""
        return any(instant == time for _, instant in self.data_files)

    @cached_property
    def view(self) -> FileSystemView:
        """Which files count; errors as of ``list_view``."""
        return list_view(self.storage, self.timeline, Archive(self.storage, self.config))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each file outside ``.hoodie``, by path."""
        return {file.path: file.size_bytes for file in self.files}

    def commit(self, instant: Instant) -> CommitMetadata | None:
        """What a completed commit says; None if its file cannot be read."""
        if instant not in self._commits:
            path = self.timeline.file_of(instant)
            try:
                self._commits[instant] = parse_commit(self.storage.read(path), path)
            except (HudiError, FileNotFoundError):
                self._commits[instant] = None
        return self._commits[instant]

    @cached_property
    def commits(self) -> list[Instant]:
        """The completed commits, oldest first."""
        return [i for i in self.timeline.commits if i.action in COMMIT_ACTIONS]

    @cached_property
    def beating(self) -> frozenset[str]:
        """The instants with a heartbeat that is not stale."""
        lapse_ms = self.writer.policy.heartbeat.lapse_ms
        beats = self.storage.list(HEARTBEATS)
        return frozenset(b.name for b in beats if self.now_ms - b.modified_ms <= lapse_ms)

    def is_old(self, file: StoredFile) -> bool:
        """Whether a file is too old to be anybody's work."""
        return self.now_ms - file.modified_ms >= self.wishes.older_than_ms

    def is_committed(self, time: InstantTime) -> bool:
        """Whether readers count files of an instant: committed, or below the timeline."""
        first = self.timeline.first_time
        return any(i.time == time for i in self.commits) or (first is not None and time < first)

    def from_bins(self, path: str, size_bytes: int = 0) -> bytes | None:
        """The bytes that a bin has of a file that is gone, if they have that size (0: any)."""
        data = kept_copy(self.storage, path)
        return data if data is not None and size_bytes in (0, len(data)) else None
