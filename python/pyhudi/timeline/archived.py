"""The archived timeline: completed instants that have left the active one (FORMAT.md 7)."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import TableCorrupt
from pyhudi.format.archive import (
    VERSION_FILE,
    ArchivedInstant,
    archive_log_number,
    parse_history_version,
    parse_manifest,
    read_archive_log,
    read_history_file,
)
from pyhudi.format.instants import State
from pyhudi.format.table_config import TableConfig
from pyhudi.storage.base import Storage


def archived_instants(storage: Storage, config: TableConfig) -> list[ArchivedInstant]:
    """Every completed archived instant, oldest first; empty where nothing was archived.

    Reads the whole archive: for people and audits, not for planning. ``TableCorrupt`` where a
    file of it cannot be read.
    """
    entries = _layout_1(storage, config) if config.layout == 1 else _layout_2(storage, config)
    # A crash while archiving leaves an entry in two files; they say the same.
    found = {
        (entry.instant.time, entry.instant.action): entry
        for entry in entries
        if entry.instant.state is State.COMPLETED
    }
    return [found[key] for key in sorted(found, key=lambda key: (key[0], key[1].value))]


def _layout_1(storage: Storage, config: TableConfig) -> Iterator[ArchivedInstant]:
    numbered = {
        number: file.path
        for file in storage.list(config.history_folder)
        if (number := archive_log_number(file.name)) is not None
    }
    for number in sorted(numbered):
        path = numbered[number]
        yield from read_archive_log(storage.read(path), path)


def _layout_2(storage: Storage, config: TableConfig) -> Iterator[ArchivedInstant]:
    folder = config.history_folder
    try:
        version = storage.read(f"{folder}/{VERSION_FILE}")
    except FileNotFoundError:
        return
    manifest = f"{folder}/{parse_history_version(version, f'{folder}/{VERSION_FILE}')}"
    for name in parse_manifest(_read(storage, manifest), manifest):
        path = f"{folder}/{name}"
        yield from read_history_file(_read(storage, path), path)


def _read(storage: Storage, path: str) -> bytes:
    try:
        return storage.read(path)
    except FileNotFoundError as e:
        raise TableCorrupt(
            f"The archived timeline names {path}, which is not there. If an archival has just "
            "rewritten it, ask again; else the file is lost.",
            path=path,
            rule="FORMAT.md 7",
        ) from e
