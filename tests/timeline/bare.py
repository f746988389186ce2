"""Timelines and data files in memory, put there by hand or unpacked from golden tables."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import timeline_of
from pyhudi.timeline.view import FileSystemView, list_view
from tests.golden_tables import GoldenTable

Replaced = Mapping[str, tuple[FileId, ...]]


def t(n: int) -> InstantTime:
    return InstantTime(f"202401010000{n:05d}")


class Bare:
    """A timeline and data files in memory, put there by hand."""

    numbers = iter(range(1_000_000))

    def __init__(self, layout: int = 2) -> None:
        self.layout = layout
        self.folder = ".hoodie/timeline" if layout == 2 else ".hoodie"
        self.storage = MemoryStorage(f"memory:/view{next(self.numbers)}")

    def file(self, group: str, time: int, partition: str = "p", token: str = "0-0-0") -> WriteStat:
        """A base file of 10 bytes and 3 rows, and what a commit says of it."""
        name = BaseFileName(FileId(group), token, t(time)).render()
        path = f"{partition}/{name}" if partition else name
        self.storage.put_if_absent(path, b"x" * 10)
        return WriteStat(FileId(group), path, partition, num_writes=3, file_size_bytes=10)

    def log(self, group: str, time: int, partition: str = "p", version: int = 1) -> str:
        """A log file; gives its name."""
        name = LogFileName(FileId(group), t(time), version, "0-0-0").render()
        self.storage.put_if_absent(f"{partition}/{name}", b"y" * 5)
        return name

    def logged(self, time: int, group: str, log: str) -> None:
        """A delta commit that has written this log, whatever the log's name says."""
        stat = WriteStat(FileId(group), f"p/{log}", "p", file_size_bytes=5, log_version=1)
        self.put(Action.DELTACOMMIT, State.COMPLETED, time, stats=(stat,))

    def put(
        self,
        action: Action,
        state: State,
        time: int,
        done: int | None = None,
        stats: tuple[WriteStat, ...] = (),
        replaced: Replaced | None = None,
        torn: bool = False,
        operation: str = "UNKNOWN",
        compacted: bool = False,
    ) -> None:
        completion = t(done or time + 1) if state is State.COMPLETED and self.layout == 2 else None
        name = instant_file_name(Instant(t(time), action, state, completion), self.layout)
        metadata = CommitMetadata(operation, stats, replaced=replaced, compacted=compacted)
        whole = state is State.COMPLETED and not torn
        data = render_commit(metadata, self.layout) if whole else b""
        self.storage.put_if_absent(f"{self.folder}/{name}", data)

    def commit(self, time: int, *stats: WriteStat, done: int | None = None) -> None:
        self.put(Action.COMMIT, State.COMPLETED, time, done, stats)

    def replace(self, time: int, replaced: Replaced, *stats: WriteStat) -> None:
        self.put(Action.REPLACECOMMIT, State.COMPLETED, time, None, stats, replaced)

    def undo(self, time: int, action: Action = Action.COMMIT) -> None:
        """Take every file of an instant off the timeline."""
        files = self.storage.list(self.folder)
        self.storage.delete([f.path for f in files if f.name.startswith(t(time))])

    def timeline(self):  # type: ignore[no-untyped-def]
        return timeline_of(self.storage.list(self.folder), self.layout, self.folder)

    def view(self) -> FileSystemView:
        return list_view(self.storage, self.timeline())

    def seen(self, as_of: int | None = None) -> list[tuple[str, str, str]]:
        """(partition, group, instant) of every file that a reader gets."""
        latest = self.view().latest(t(as_of) if as_of is not None else None)
        return [(f.partition_path, f.file_id, f.instant) for f in latest]


def in_memory(table: GoldenTable) -> MemoryStorage:
    storage = MemoryStorage(f"memory:/view-{table.name}")
    for path, data in table.files().items():
        if not storage.exists(path):
            storage.put_if_absent(path, data)
    return storage


def after(stat: WriteStat, previous: int) -> WriteStat:
    """The same file as the successor of a slice."""
    return WriteStat(
        stat.file_id, stat.path, stat.partition_path, t(previous), num_writes=3, file_size_bytes=10
    )


def names(view: FileSystemView, as_of: int | None = None) -> list[str]:
    return [file.path for file in view.latest(None if as_of is None else t(as_of))]
