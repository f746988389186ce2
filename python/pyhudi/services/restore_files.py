"""The data files that go with each instant of a restore.

Invariant: no block of a commit that stays goes. In layout 2 the name of a log says its delta
commit. In layout 1 it says the slice, and the log's blocks say which delta commits wrote them
(spec/log_files.md L3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from pyhudi.errors import UnsupportedTable
from pyhudi.format.filenames import LogFileName, parse_data_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks
from pyhudi.slices.file_listing import StorageListing
from pyhudi.storage.base import Storage, StoredFile
from pyhudi.timeline.table import Table

FilesOf = Mapping[InstantTime, tuple[StoredFile, ...]]
#: logs that are read at a time
READING_THREADS = 8


def files_of(table: Table) -> FilesOf:
    """The data files of each instant, from a listing of the whole table.

    Those that are named by it, and in layout 1 the logs with a block of it: all logs are read.
    """
    found: dict[InstantTime, set[StoredFile]] = defaultdict(set)
    logs = []
    for file in StorageListing(table.storage).files():
        name = parse_data_file_name(file.name)
        if name is not None:
            found[name.instant].add(file)
            if table.config.layout == 1 and isinstance(name, LogFileName) and not name.cdc:
                logs.append(file)
    if logs:
        with ThreadPoolExecutor(min(READING_THREADS, len(logs))) as pool:
            read = pool.map(lambda log: writers_of(table.storage, log.path), logs)
            for log, writers in zip(logs, read, strict=True):
                for time in writers:
                    found[time].add(log)
    return {time: tuple(sorted(f, key=lambda file: file.path)) for time, f in found.items()}


def deleted_of(files: FilesOf) -> FilesOf:
    """``files`` without the logs of which only the blocks of an instant go."""
    times: dict[str, int] = defaultdict(int)
    for time, held in files.items():
        for file in held:
            times[file.path] += not _is_named(file, time)
    return {
        time: tuple(f for f in held if times[f.path] < 2 or _is_named(f, time))
        for time, held in files.items()
    }


def _is_named(file: StoredFile, time: InstantTime) -> bool:
    name = parse_data_file_name(file.name)
    return name is not None and name.instant == time


def writers_of(storage: Storage, path: str) -> frozenset[InstantTime]:
    """The instants whose rows and deletes are in a log; none if it is gone."""
    try:
        blocks = list(read_blocks(storage.read(path)))
    except FileNotFoundError:
        return frozenset()
    writing = (block for block in blocks if block.block_type is not BlockType.COMMAND)
    held = (block.header.get(HeaderKey.INSTANT_TIME) for block in writing)
    return frozenset(InstantTime(time) for time in held if time)


def check_shared(
    goal: InstantTime,
    gone: Collection[InstantTime],
    kept: Collection[InstantTime],
    files: FilesOf,
) -> None:
    """``UnsupportedTable`` if a slice that goes has a block of a commit in ``kept``.

    Only in layout 1 a slice may have a block that is older than the instant in its name: of a write
    that began before the compaction of that instant was planned.
    """
    for time in sorted(gone):
        for file in files.get(time, ()):
            name = parse_data_file_name(file.name)
            if not isinstance(name, LogFileName) or name.instant != time:
                continue
            older = next((t for t in sorted(kept) if file in files.get(t, ())), None)
            if older is not None:
                raise UnsupportedTable(
                    f"The table cannot be restored to {goal}: {file.path} goes with {time}, but "
                    f"it also has rows of {older}, which stays. Nothing was changed. Restore the "
                    "table to another commit, or let Apache Hudi compact it and try again.",
                    feature="undoing a compaction beside an older write",
                )
