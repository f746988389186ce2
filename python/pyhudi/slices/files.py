"""The file slice: a base file and the log files on top of it, one version of a file group.

Rules: spec/file_slices.md F1. This module has only the nouns. ``timeline/view.py`` decides which
slices count; ``listing.py`` lists the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId, LogFileName, parse_log_file_name, path_in
from pyhudi.format.instants import InstantTime


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One base file; ``partition_path`` is relative (``""`` unpartitioned), rows -1 if unknown."""

    partition_path: str
    name: str
    file_id: FileId
    instant: InstantTime
    size_bytes: int
    rows: int = -1

    @property
    def path(self) -> str:
        """Path relative to the table."""
        return path_in(self.partition_path, self.name)


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log file; the meaning of its instant depends on the layout (spec/data_files.md D1)."""

    partition_path: str
    named: LogFileName
    size_bytes: int

    @property
    def name(self) -> str:
        return self.named.render()

    @property
    def file_id(self) -> FileId:
        return self.named.file_id

    @property
    def instant(self) -> InstantTime:
        """Layout 1: the instant of its slice; layout 2: ``T`` of its delta commit."""
        return self.named.instant

    @property
    def path(self) -> str:
        """Path relative to the table."""
        return path_in(self.partition_path, self.name)


#: partition path -> file id -> logs in order
Logs = Mapping[str, Mapping[FileId, tuple[LogFile, ...]]]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A version of a file group: its base file, and its logs in the order of their merge.

    A slice has a base file or logs or both: a group may begin with logs. Logs of change data
    (``named.cdc``) are among the logs; they hold no rows of the slice.
    """

    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def partition_path(self) -> str:
        """Relative to the table; ``""`` if the table has no partitions."""
        return self._first.partition_path

    @property
    def file_id(self) -> FileId:
        """The file group."""
        return self._first.file_id

    @property
    def instant(self) -> InstantTime:
        """The slice's first instant: that of its base file, or else of its first log."""
        base = self.base  # this runs for each file of a table, so it avoids a second property
        return base.instant if base is not None else self.logs[0].instant

    @property
    def files(self) -> tuple[BaseFile | LogFile, ...]:
        """Its base file, if it has one, and its logs."""
        return self.logs if self.base is None else (self.base, *self.logs)

    @property
    def size_bytes(self) -> int:
        """The size of all its files."""
        return (self.base.size_bytes if self.base else 0) + sum(f.size_bytes for f in self.logs)

    @property
    def _first(self) -> BaseFile | LogFile:
        return self.base if self.base is not None else self.logs[0]


def in_order(logs: Iterable[LogFile]) -> tuple[LogFile, ...]:
    """Logs of one slice as they are merged: by instant, version and write token."""
    return tuple(
        sorted(logs, key=lambda f: (f.instant, f.named.version, f.named.write_token or ""))
    )


def with_logs_of(logs: Logs, metadata: CommitMetadata) -> Logs:
    """``logs`` with those that a commit names: files of rows, and change logs."""
    found: dict[str, dict[FileId, tuple[LogFile, ...]]] = {}
    for stat in metadata.stats:
        for path, size in {stat.path: stat.file_size_bytes, **(stat.cdc_stats or {})}.items():
            named = parse_log_file_name(path.rsplit("/", 1)[-1])
            if named is None:
                continue
            partition = stat.partition_path
            by_id = found.setdefault(partition, dict(logs.get(partition, {})))
            log = LogFile(partition, named, size)
            # A writer of layout 1 may append to a file that is known.
            others = (each for each in by_id.get(named.file_id, ()) if each.named != named)
            by_id[named.file_id] = in_order((*others, log))
    return {**logs, **found} if found else logs


def base_files(slices: Iterable[FileSlice]) -> list[BaseFile]:
    """The base files of ``slices``, for code that needs no logs."""
    return [each.base for each in slices if each.base is not None]
