"""Making and removing a table under its lock, and recognizing it by its id.

``hoodie.properties`` is the table. Its maker gives it an id, which every commit compares under the
lock with the id that its writer has opened.

Invariants: of a commit and a removal one comes first under the lock, so that the removal sees the
commit, or the commit misses its table; files of a write that began meanwhile are its own to delete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyhudi.clock import Clock
from pyhudi.errors import (
    ConfigError,
    FileExists,
    HudiError,
    TableCorrupt,
    TableExists,
    TableNotFound,
    UnsupportedTable,
    WriteFailed,
)
from pyhudi.format.filenames import parse_data_file_name
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.markers import FOLDER as MARKERS
from pyhudi.format.properties import render_properties
from pyhudi.locks.base import TableLock
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.timeline.table import BACKUP, CHECKSUM, PROPERTIES, Table, open_table, table_exists
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import has_passed
from pyhudi.transactions.markers.markers import delete_files
from pyhudi.transactions.properties import rewrite_properties
from pyhudi.transactions.recovery.settle import is_write, last_sign_ms, settle_failed_writes
from pyhudi.transactions.recovery.spools import PREFIX as SPOOL
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: pyhudi's key in ``hoodie.properties`` by which two tables at one path differ
ID: Final = "pyhudi.table.id"
#: key of ours that keeps a new table if its creator fails, since another statement uses it
ADOPTED: Final = "pyhudi.table.adopted"
PARTITION_METADATA: Final = ".hoodie_partition_metadata"
#: locks outlive the table, as another writer may wait for one
LOCKS: Final = (".hoodie/lock", ".hoodie/locks/", ".hoodie/.locks/")
META: Final = ".hoodie"
#: names that both Spark and Hudi ignore
HIDDEN: Final = (".", "_")
#: layout -> timeline folder of a table whose properties are not known
TIMELINES: Final = {1: ".hoodie", 2: ".hoodie/timeline"}
#: age at which incomplete properties count as those of a dead creator
TORN_MS: Final = 60_000


# -- coming


def find_table(storage: Storage, clock: Clock) -> Table | None:
    """The table; None if a first write makes one.

    That is also the case if its creator died while it put the properties.
    """
    if not table_exists(storage):
        return None
    try:
        return open_table(storage)
    except (TableCorrupt, UnsupportedTable):
        if _is_torn(storage, clock):
            return None
        raise


def make_table(writer: Writer) -> Table:
    """Put the properties of the writer's table, under the lock.

    Settles what dead writers left here. ``TableExists`` if another writer was first,
    ``ConfigError`` if the folder holds files of something else, ``TableCorrupt`` if it already has
    commits.
    """
    storage, config, lock = writer.table.storage, writer.table.config, writer.lock
    _settle_leftovers(writer)
    _check_folder(storage)
    raw = {**config.raw, ID: writer.clock.uuid()}
    with writer.locked():
        torn = _is_torn(storage, writer.clock)
        if not torn:
            # Files may also be those of a table that another writer has made meanwhile.
            _refuse_table(storage)
            _check_folder(storage)
        lock.check(storage.put_timeout_s)
        try:
            put = storage.replace if torn else storage.put_if_absent
            put(PROPERTIES, render_properties(raw))
        except FileExists:
            _refuse_table(storage)
            raise
    VIEWS.forget(storage)
    return Table(storage, replace(config, raw=raw))


def _refuse_table(storage: Storage) -> None:
    if table_exists(storage):
        raise TableExists(
            f"A table was created at {storage.root} meanwhile. Write to it, or choose another "
            "path.",
            path=storage.root,
        )


def _is_torn(storage: Storage, clock: Clock) -> bool:
    """Whether no writer finished the properties, and nobody has committed anything."""
    stored = next((f for f in storage.list(".hoodie") if f.path == PROPERTIES), None)
    if stored is None:
        return False
    try:
        open_table(storage)
        return False
    except (TableCorrupt, UnsupportedTable):
        # Incomplete properties may lack the version and the checksum.
        whole = CHECKSUM in storage.read(PROPERTIES)
        settled = any(timeline.commits for timeline in _timelines(storage))
        return not whole and not settled and has_passed(storage, clock, stored.modified_ms, TORN_MS)


def _timelines(storage: Storage) -> list[Timeline]:
    """The timeline of a folder without properties, in each layout."""
    return [timeline_of(storage.list(path), n, path) for n, path in TIMELINES.items()]


def _settle_leftovers(writer: Writer) -> None:
    """Roll back what dead writers left in a folder without a table."""
    storage, config = writer.table.storage, writer.table.config
    for timeline in _timelines(storage):
        if table_exists(storage) and not _is_torn(storage, writer.clock):
            return
        if timeline.commits:
            raise TableCorrupt(
                f"The folder {storage.root} has commits of a Hudi table, but no {PROPERTIES}. "
                "Bring that file back, from a copy or from a table of the same settings, or "
                "delete the folder. Nothing was changed.",
                path=PROPERTIES,
                rule="spec/properties.md P1",
            )
        if not timeline.pending:
            continue
        like = replace(config, layout=timeline.layout, timeline_folder=timeline.folder)
        settle_failed_writes(writer.on(Table(storage, like)))
        left = timeline_of(storage.list(timeline.folder), timeline.layout, timeline.folder).pending
        if left and timeline.layout != config.layout:
            raise ConfigError(
                f"{left[0].action.value} {left[0].time} is still running in {storage.root}, where "
                "there is no table any more, and it belongs to another table version than this "
                "one. Try again when it has ended.",
                key="path",
            )


def _check_folder(storage: Storage) -> None:
    begun = {i.time for timeline in _timelines(storage) for i in timeline.pending}
    stranger = _visible_file(storage, "", begun)
    if stranger is not None and not table_exists(storage):
        raise ConfigError(
            f"The folder {storage.root} holds no Hudi table, but other files, such as "
            f"'{stranger}'. Choose an empty folder, or delete these files first.",
            key="path",
        )


def _visible_file(storage: Storage, folder: str, begun: AbstractSet[InstantTime]) -> str | None:
    """A file at any depth whose path has no part that begins with ``.`` or ``_``, if any.

    Data files of instants that have ``begun`` do not count: their writers delete them.
    """
    for file in storage.list(folder):
        if not file.name.startswith(HIDDEN) and not _belongs(file.path, begun):
            return file.path
    for inner in storage.list_folders(folder):
        if not inner.rsplit("/", 1)[-1].startswith(HIDDEN):
            found = _visible_file(storage, inner, begun)
            if found is not None:
                return found
    return None


def holds_locks_alone(storage: Storage) -> bool:
    """Whether the folder has locks, which outlive a table, and nothing else."""
    if storage.list("") or storage.list_folders("") != [META]:
        return False
    found = [file.path for file in storage.list(META)]
    found += [f"{folder}/" for folder in storage.list_folders(META)]
    return bool(found) and all(path in LOCKS for path in found)


def adopt(writer: Writer) -> Table:
    """Let the table stay even if its creator fails; ``TableNotFound`` if it is already gone.

    A table with commits stays anyway.
    """
    table = writer.table
    if ID not in table.config.raw or table.timeline().commits:
        return table
    with writer.locked():
        table = still_there(table)
        return rewrite_properties(table, {**table.config.raw, ADOPTED: "true"}, writer.lock)


# -- being there


def still_there(table: Table) -> Table:
    """The table with its properties as they are now; ``TableNotFound`` if it is gone."""
    try:
        now = open_table(table.storage)
    except TableNotFound as e:
        raise _gone(table, "was taken away") from e
    if now.config.raw.get(ID) != table.config.raw.get(ID):
        raise _gone(table, "was taken away, and another one made in its place,")
    return now


@contextmanager
def while_there(table: Table) -> Iterator[None]:
    """If the table is gone, an error of the body as ``TableNotFound``, which says more."""
    try:
        yield
    except HudiError:
        still_there(table)
        raise


def is_gone(table: Table) -> bool:
    """Whether the table was removed since it was opened."""
    try:
        still_there(table)
        return False
    except TableNotFound:
        return True


def _gone(table: Table, what: str) -> TableNotFound:
    return TableNotFound(
        f"The table at {table.storage.root} {what} while this write ran: by DROP TABLE, or "
        "because the first write of the table failed. Nothing of this write is visible. Run it "
        "again if you want the table.",
        path=table.storage.root,
    )


# -- going


def discard(writer: Writer) -> bool:
    """Remove a table that its creator could not fill, unless somebody else uses it.

    Whether the table is gone. Only the properties and hidden folders are deleted; a table that
    another writer began to write to, or whose properties another changed, stays.
    """
    table, lock = writer.table, writer.lock
    storage = table.storage
    with writer.locked():
        if not table_exists(storage):
            return True
        timeline = table.timeline()
        raw = open_table(storage).config.raw
        if raw != table.config.raw or ADOPTED in raw or _is_used(table, timeline):
            return False
        lock.check(storage.put_timeout_s)
        _delete(table, timeline, lock, _is_hidden)
    _after_removal(storage)
    return True


def remove(writer: Writer) -> None:
    """Delete the table with all of its rows; ``WriteFailed`` while a write to it is running."""
    table, lock = writer.table, writer.lock
    storage = table.storage
    with writer.locked():
        timeline = table.timeline()
        _refuse_running(writer, timeline)
        lock.check(storage.put_timeout_s)
        _delete(table, timeline, lock, lambda path: True)
    _after_removal(storage)


def _is_used(table: Table, timeline: Timeline) -> bool:
    """Whether anybody except the failed writers has left something in the table."""
    storage = table.storage
    if timeline.pending or any(i.action is not Action.ROLLBACK for i in timeline.completed):
        return True
    spools = (f for f in storage.list_folders(MARKERS) if f.rsplit("/", 1)[-1].startswith(SPOOL))
    return bool(storage.list(HEARTBEATS)) or any(spools)


def _refuse_running(writer: Writer, timeline: Timeline) -> None:
    table, clock, lapse_ms = writer.table, writer.clock, writer.policy.heartbeat.lapse_ms
    for instant in timeline.pending:
        if not is_write(table, timeline, instant):
            continue
        if not has_passed(table.storage, clock, last_sign_ms(table, instant), lapse_ms):
            raise WriteFailed(
                f"{instant.action.value} {instant.time} is being written to "
                f"{table.config.name}, at {table.storage.root}, so the table was not dropped. "
                "Wait for that write or stop it, and drop the table again; a dead write is "
                f"ignored after {lapse_ms / 1000:g} s without a heartbeat.",
                theirs=instant.time,
            )


def _delete(
    table: Table, looked_at: Timeline, lock: TableLock, is_doomed: Callable[[str], bool]
) -> None:
    """Delete the properties first: every later commit misses them.

    A write that began since the caller's look notices at its commit, and deletes its files then.
    """
    storage = table.storage
    before = {i.time for i in looked_at.pending}
    found = [file.path for file in storage.walk("")]
    storage.delete([BACKUP])
    storage.delete([PROPERTIES])
    begun = {i.time for i in table.timeline().pending} - before
    doomed = [
        path
        for path in found
        if is_doomed(path) and not path.startswith(LOCKS) and not _belongs(path, begun)
    ]
    delete_files(storage, doomed, lock.renew)


def _is_hidden(path: str) -> bool:
    return path.startswith(".hoodie/") or path.rsplit("/", 1)[-1] == PARTITION_METADATA


def _belongs(path: str, begun: AbstractSet[InstantTime]) -> bool:
    """Whether a file is one of an instant that has ``begun``: data, timeline, marker or beat."""
    parsed = parse_data_file_name(path.rsplit("/", 1)[-1])
    if parsed is not None and not path.startswith(".hoodie/"):
        return parsed.instant in begun
    inside = (part.partition(".")[0].partition("_")[0] for part in path.split("/"))
    return path.startswith(".hoodie/") and not begun.isdisjoint(map(InstantTime, inside))


def _after_removal(storage: Storage) -> None:
    VIEWS.forget(storage)
    storage.delete_empty_folders("")
