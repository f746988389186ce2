"""A bin in the table: what repairs take away or change, so that it can be put back.

A repair is a list of ``Edit``. Invariant: a file changes or goes only after its bytes, and the list
of all edits of the repair, are in the bin. So after a crash at any point the table is as before, or
``put_back`` makes it so. Putting back changes only files that are still as the repair left them.

Layout: spec/other_files.md O9.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.errors import ConfigError, StorageError, TableCorrupt
from pyhudi.format.instants import InstantTime, format_time
from pyhudi.listing import Listing
from pyhudi.locks.renewal import kept
from pyhudi.services.opened import open_writer
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, LISTINGS
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.epochs import forget_marks
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

FOLDER: Final = ".hoodie/.bin"
LIST: Final = "list.json"
VERSION: Final = 1
RULE: Final = "spec/other_files.md O9"


@dataclass(frozen=True, slots=True)
class Edit:
    """One file of a repair: its bytes after it, None if the file goes; and why."""

    path: str
    data: bytes | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Bin:
    """One repair in the bin: its name, who made it, when (epoch ms), and how many files it has."""

    name: str
    by: str
    made_at_ms: int
    files: int


class Return(str, Enum):
    """What became of a file when its bin was put back."""

    BACK = "put back"
    ALREADY = "was back already"
    CHANGED = "changed since: left alone"


@dataclass(frozen=True, slots=True)
class ReturnedFile:
    """A file of a bin that was put back."""

    path: str
    outcome: Return


@dataclass(frozen=True, slots=True)
class _Moved:
    """An edit as the list has it; ``before`` and ``after`` are digests, None for no file."""

    path: str
    kept: str
    before: str | None
    after: str | None


def bins(
    path: str,
    *,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Bin]:
    """The repairs of the table at ``path`` that can be put back, oldest first; without Spark.

    A bin that is not needed any more is emptied by deleting its folder ``.hoodie/.bin/<name>``.
    Errors: ``TableNotFound``, ``TableCorrupt`` for a list that cannot be read.
    """
    writer, _ = open_writer(path, options, hadoop_options)
    return bins_of(writer.table.storage)


def put_back(
    path: str,
    name: str,
    *,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[ReturnedFile]:
    """Undo a repair of the table at ``path``: put the files of the bin ``name`` back.

    Without Spark, under the table's lock, which ``options`` must name. A file that has changed
    since the repair stays as it is, and then so does its bin. Errors: ``TableNotFound``,
    ``LockTimeout``, ``ConfigError`` for a bin that is not there, ``TableCorrupt``.
    """
    writer, _ = open_writer(path, options, hadoop_options)
    return returned(writer, name)


def bins_of(storage: Storage) -> Listing[Bin]:
    """``bins`` of an open storage. A folder without a list is of a repair that changed nothing."""
    found = []
    for folder in storage.list_folders(FOLDER):
        name = folder.rsplit("/", 1)[-1]
        said = _read(storage, name)
        if said is not None:
            facts, moves = said
            found.append(Bin(name, str(facts["by"]), int(facts["made_at_ms"]), len(moves)))
    return Listing(Bin, found)


def carried_out(writer: Writer, by: str, edits: Sequence[Edit]) -> str:
    """Carry out ``edits`` under the writer's lock, which is held; returns the name of their bin.

    Files are copied through memory, one at a time. ``WriterFenced`` if the lease on the lock might
    not outlast the next step; ``StorageError``. Before the list is put the table is unchanged.
    """
    storage, clock = writer.table.storage, writer.clock
    with kept(writer.lock):
        name = _free_name(storage, format_time(clock.now_ms(), utc=True))
        moves = []
        for number, edit in enumerate(edits):
            old = _contents(storage, edit.path)
            if old is not None:
                storage.put_if_absent(_kept(name, str(number)), old)
            moves.append(_Moved(edit.path, str(number), _digest(old), _digest(edit.data)))
        _check_copies(storage, name, moves)
        writer.lock.check(storage.put_timeout_s)
        storage.put_if_absent(f"{FOLDER}/{name}/{LIST}", _rendered(by, clock.now_ms(), moves))
        for edit, moved in zip(edits, moves, strict=True):
            writer.lock.check(storage.put_timeout_s)
            _set(storage, edit.path, edit.data, moved.before is None)
    forget(writer)
    return name


def returned(writer: Writer, name: str) -> Listing[ReturnedFile]:
    """``put_back`` by the writer of an application."""
    storage = writer.table.storage
    with writer.locked(), kept(writer.lock):
        said = _read(storage, name)
        if said is None:
            there = ", ".join(each.name for each in bins_of(storage)) or "none"
            raise ConfigError(
                f"The table at {storage.root} has no bin '{name}'. Its bins are: {there}.",
                key="name",
            )
        found = []
        for moved in reversed(said[1]):
            now = _contents(storage, moved.path)
            outcome = Return.ALREADY
            if _digest(now) != moved.before:
                outcome = Return.BACK if _digest(now) == moved.after else Return.CHANGED
            if outcome is Return.BACK:
                old = None if moved.before is None else _copy(storage, name, moved)
                writer.lock.check(storage.put_timeout_s)
                _set(storage, moved.path, old, now is None)
            found.append(ReturnedFile(moved.path, outcome))
        if not any(each.outcome is Return.CHANGED for each in found):
            storage.delete_folder(f"{FOLDER}/{name}")
    forget(writer)
    return Listing(ReturnedFile, found)


def forget(writer: Writer) -> None:
    """Drop what this process remembers of the table: files have changed in their places."""
    table = writer.table
    VIEWS.forget(table.storage)
    LISTINGS.forget(table.storage, table.config.timeline_folder)
    COMMITS.forget_all()
    forget_marks()


def _set(storage: Storage, path: str, data: bytes | None, absent: bool) -> None:
    if data is None:
        storage.delete([path])
    elif absent:
        storage.put_if_absent(path, data)
    else:
        storage.replace(path, data)


def _contents(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except FileNotFoundError:
        return None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _kept(name: str, number: str) -> str:
    """Where a bin has a file: by number, so that nobody takes it for the file that it was."""
    return f"{FOLDER}/{name}/{number}"


def _free_name(storage: Storage, time: InstantTime) -> str:
    """The first name from ``time`` on that no bin has, not even one without a list."""
    taken = {folder.rsplit("/", 1)[-1] for folder in storage.list_folders(FOLDER)}
    number = int(time)
    while str(number) in taken:
        number += 1
    return str(number)


def _check_copies(storage: Storage, name: str, moves: Iterable[_Moved]) -> None:
    """``StorageError`` unless each copy reads back as the file that it is of."""
    for moved in moves:
        if moved.before is not None and _digest(_copy(storage, name, moved)) != moved.before:
            raise StorageError(
                f"The copy of '{moved.path}' in {FOLDER}/{name} differs from it. Nothing was "
                "changed. Try again.",
                path=moved.path,
            )


def _copy(storage: Storage, name: str, moved: _Moved) -> bytes:
    return storage.read(_kept(name, moved.kept))


def _rendered(by: str, now_ms: int, moves: Iterable[_Moved]) -> bytes:
    entries = [
        {"path": m.path, "kept": m.kept, "before": m.before, "after": m.after} for m in moves
    ]
    said = {"version": VERSION, "by": by, "made_at_ms": now_ms, "moves": entries}
    return json.dumps(said, indent=2).encode()


def _read(storage: Storage, name: str) -> tuple[dict[str, Any], list[_Moved]] | None:
    path = f"{FOLDER}/{name}/{LIST}"
    data = _contents(storage, path)
    if data is None:
        return None
    try:
        said = json.loads(data)
        entries = said["moves"]
        moves = [_Moved(e["path"], str(e["kept"]), e["before"], e["after"]) for e in entries]
        if said["version"] != VERSION:
            raise ValueError(f"version {said['version']}")
        return said, moves
    except (ValueError, KeyError, TypeError) as cause:
        raise TableCorrupt(
            f"The list {path} of a repair cannot be read ({cause}). Its files are beside it, by "
            "their numbers.",
            path=path,
            rule=RULE,
        ) from cause


def kept_copy(storage: Storage, path: str) -> bytes | None:
    """The newest bytes that a bin has of the file ``path``; None without."""
    for folder in reversed(storage.list_folders(FOLDER)):
        name = folder.rsplit("/", 1)[-1]
        said = _read(storage, name)
        for moved in said[1] if said is not None else ():
            if moved.path == path and moved.before is not None:
                data = _contents(storage, _kept(name, moved.kept))
                if _digest(data) == moved.before:
                    return data
    return None
