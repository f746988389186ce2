"""The archived timeline: completed instants that have left the active timeline.

Rules: spec/archive.md A1, A2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyhudi.errors import TableCorrupt
from pyhudi.format.archive import (
    VERSION_FILE,
    ArchivedInstant,
    archive_log_number,
    history_file_level,
    history_file_range,
    manifest_number,
    parse_history_version,
    parse_manifest_sizes,
    read_archive_log,
    read_archive_log_backwards,
    read_history_file,
)
from pyhudi.format.instants import InstantTime, State
from pyhudi.format.table_config import TableConfig
from pyhudi.storage.base import Storage, StoredFile
from pyhudi.timeline.states import COMMIT_ACTIONS

#: by how much the clocks of a storage's servers may differ
CLOCKS_APART_MS: Final = 60_000


def archived_instants(storage: Storage, config: TableConfig) -> list[ArchivedInstant]:
    """Every completed archived instant, oldest first; empty if nothing was archived.

    It reads the whole archive, so it is for people and audits, not for planning. ``TableCorrupt``
    if a file of the archive cannot be read.
    """
    return _completed(
        _layout_1(storage, config) if config.layout == 1 else _layout_2(storage, config)
    )


def archived_since(
    storage: Storage, config: TableConfig, since_ms: int, least: InstantTime
) -> list[ArchivedInstant]:
    """The instants at or above ``least`` archived since ``since_ms``, a time of the storage.

    Archive files that were not written since then are not read. ``TableCorrupt`` as above.
    """
    folder = config.history_folder
    files = [f for f in storage.list(folder) if f.modified_ms >= since_ms - CLOCKS_APART_MS]
    if config.layout == 1:
        entries = _newest_of_logs(storage, files, least)
    else:
        new = {file.name for file in files}
        names = [n for n in _manifest(storage, folder) if n in new and _reaches(n, least)]
        entries = _history_files(storage, folder, names)
    return [entry for entry in _completed(entries) if entry.instant.time >= least]


def just_archived(
    storage: Storage, config: TableConfig, least: InstantTime, greatest: InstantTime
) -> list[ArchivedInstant]:
    """The instants from ``least`` to ``greatest`` that the last archiver may have put.

    Only the files that may hold such instants are read: in layout 1 the newest. ``TableCorrupt`` as
    above.
    """
    folder = config.history_folder
    if config.layout == 1:
        newest = _logs(storage.list(folder))[-1:]
        entries = [e for path in newest for e in read_archive_log(storage.read(path), path)]
        return [e for e in _completed(entries) if least <= e.instant.time <= greatest]
    names = [n for n in _manifest(storage, folder) if _reaches(n, least) and _begins(n, greatest)]
    found = _completed(_history_files(storage, folder, names))
    return [entry for entry in found if least <= entry.instant.time <= greatest]


def holds_commit(storage: Storage, config: TableConfig, time: InstantTime) -> bool:
    """Whether the archive has the commit ``time``; it is read as by ``archived_commit``."""
    return archived_commit(storage, config, time) is not None


def archived_commit(
    storage: Storage, config: TableConfig, time: InstantTime
) -> ArchivedInstant | None:
    """The commit ``time`` of the archive, or None.

    In layout 2 only the files around ``time`` are read, in layout 1 all. ``TableCorrupt`` as above.
    """
    if config.layout == 1:
        entries = archived_instants(storage, config)
    else:
        entries = just_archived(storage, config, time, time)
    commits = (e for e in entries if e.instant.action in COMMIT_ACTIONS)
    return next((e for e in commits if e.instant.time == time), None)


def passed_over(storage: Storage, config: TableConfig, time: InstantTime) -> bool:
    """Whether the archive has commits older than ``time``, but no commit ``time``.

    Such an instant, if it is below all active ones, never completed. False if the archive does not
    reach back that far, or is gone. In layout 2 only the files around ``time`` are read, in layout
    1 all. ``TableCorrupt`` as above.
    """
    if config.layout == 1:
        entries = _layout_1(storage, config)
    else:
        folder = config.history_folder
        ranges = {name: history_file_range(name) for name in _manifest(storage, folder)}
        older = max((n for n, r in ranges.items() if r and r[1] < time), default=None)
        around = [n for n, r in ranges.items() if r is None or r[0] <= time <= r[1]]
        entries = _history_files(storage, folder, [*around, *([older] if older else ())])
    commits = [e.instant.time for e in _completed(entries) if e.instant.action in COMMIT_ACTIONS]
    return time not in commits and any(commit < time for commit in commits)


def _completed(entries: Iterable[ArchivedInstant]) -> list[ArchivedInstant]:
    # A crash of the archiver may leave an entry in two files; both are equal.
    found = {
        (entry.instant.time, entry.instant.action): entry
        for entry in entries
        if entry.instant.state is State.COMPLETED
    }
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1].value))]


def _layout_1(storage: Storage, config: TableConfig) -> Iterator[ArchivedInstant]:
    for path in _logs(storage.list(config.history_folder)):
        yield from read_archive_log(storage.read(path), path)


def _newest_of_logs(
    storage: Storage, files: Iterable[StoredFile], least: InstantTime
) -> Iterator[ArchivedInstant]:
    """The entries at the end of each log file, back to the first run of older commits.

    The archiver appends runs of instants; each run is newer than those before it.
    """
    for path in _logs(files):
        for entries in read_archive_log_backwards(storage.read(path), path):
            yield from entries
            commits = [e.instant.time for e in entries if e.instant.action in COMMIT_ACTIONS]
            if commits and max(commits) < least:
                break


def _logs(files: Iterable[StoredFile]) -> list[str]:
    """The paths of the archive's log files, in the order of their numbers."""
    numbered = {
        number: file.path for file in files if (number := archive_log_number(file.name)) is not None
    }
    return [numbered[number] for number in sorted(numbered)]


def _layout_2(storage: Storage, config: TableConfig) -> Iterator[ArchivedInstant]:
    folder = config.history_folder
    return _history_files(storage, folder, _manifest(storage, folder))


def history_version(storage: Storage, folder: str) -> tuple[int, dict[str, int]]:
    """The number of the newest manifest, 0 if nothing was archived, and its files: name -> bytes.

    Apache Hudi deletes ``_version_`` before it puts the next one. Without it the manifest with the
    greatest number counts, as for Hudi.
    """
    try:
        version = storage.read(f"{folder}/{VERSION_FILE}")
        manifest = parse_history_version(version, f"{folder}/{VERSION_FILE}")
    except FileNotFoundError:
        numbers = [manifest_number(file.name) or 0 for file in storage.list(folder)]
        if not any(numbers):
            return 0, {}
        manifest = f"manifest_{max(numbers)}"
    path = f"{folder}/{manifest}"
    return manifest_number(manifest) or 0, parse_manifest_sizes(_read(storage, path), path)


def whole_history(storage: Storage, folder: str) -> tuple[int, dict[str, int]]:
    """The greatest number of a manifest, and the files of the newest one and of those above it.

    There are some above it if an archiver died before it put ``_version_``, or stood still until
    its lock was another's, and then set ``_version_`` back: what is archived is in these too.
    """
    number, files = history_version(storage, folder)
    listed = {file.name for file in storage.list(folder)}
    above = sorted(n for n in map(manifest_number, listed) if n is not None and n > number)
    for later in above:
        path = f"{folder}/manifest_{later}"
        named = parse_manifest_sizes(_read(storage, path), path)
        merged = [name for name in files if name not in named and _is_within(name, named)]
        files = {n: size for n, size in (files | named).items() if n not in merged}
    if above:
        files = {name: size for name, size in files.items() if name in listed}
    return max([number, *above]), files


def _is_within(name: str, named: Iterable[str]) -> bool:
    """Whether a file of a higher level has the instants of the file ``name``."""
    span, level = history_file_range(name), history_file_level(name)
    return span is not None and any(
        wide[0] <= span[0] and span[1] <= wide[1] and (history_file_level(each) or 0) > (level or 0)
        for each in named
        if (wide := history_file_range(each)) is not None
    )


def _manifest(storage: Storage, folder: str) -> list[str]:
    """The names of the history's files, oldest first; none if nothing was archived."""
    return sorted(whole_history(storage, folder)[1])


def _history_files(
    storage: Storage, folder: str, names: Iterable[str]
) -> Iterator[ArchivedInstant]:
    for path in (f"{folder}/{name}" for name in names):
        yield from read_history_file(_read(storage, path), path)


def _reaches(name: str, least: InstantTime) -> bool:
    """Whether a history file may hold instants at or above ``least``."""
    found = history_file_range(name)
    return found is None or found[1] >= least


def _begins(name: str, greatest: InstantTime) -> bool:
    """Whether a history file may hold instants at or below ``greatest``."""
    found = history_file_range(name)
    return found is None or found[0] <= greatest


def _read(storage: Storage, path: str) -> bytes:
    try:
        return storage.read(path)
    except FileNotFoundError as e:
        raise TableCorrupt(
            f"The archived timeline names {path}, which does not exist. If an archiver has just "
            "rewritten the archive, try again; otherwise the file is lost.",
            path=path,
            rule="spec/archive.md A4",
        ) from e
