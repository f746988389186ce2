"""``pyhudi.why``: every commit and file that touched one record key, without Spark.

It reads the timeline, the archive, one listing, and of the data files what ``data_files.py`` and
``logged_keys.py`` read.
The commits' metadata is read one commit at a time; only the groups that have had the key are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyhudi.clock import SystemClock
from pyhudi.diagnosis.data_files import Look, Sighting, sightings
from pyhudi.diagnosis.logged_keys import LogEvent, LoggedKey, deletes_between, logged_keys
from pyhudi.diagnosis.touches import (
    Group,
    GroupLife,
    Home,
    KnownCommit,
    SeenSlice,
    Standing,
    Touch,
    What,
    touches_of,
)
from pyhudi.errors import UnsupportedTable
from pyhudi.format.commit_metadata import OUTDATED_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import (
    PARQUET,
    BaseFileName,
    parse_base_file_name,
    parse_data_file_name,
    path_in,
)
from pyhudi.format.instants import Action, Instant, InstantTime
from pyhudi.format.keys import split_composite_key
from pyhudi.format.plans import (
    RollbackMetadata,
    parse_restore_metadata,
    parse_rollback_metadata,
)
from pyhudi.format.table_config import TableConfig
from pyhudi.listing import Listing
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.file_systems import FileSystems, filesystems
from pyhudi.slices.file_listing import StorageListing
from pyhudi.slices.files import BaseFile, FileSlice
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.completion_order import completion_time
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import Table, open_table


def why(
    path: str,
    key: str,
    *,
    partition: str | None = None,
    carried: bool = False,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Touch]:
    """What happened to the record ``key`` of the table at ``path``, oldest first, without Spark.

    Each entry is one event: an instant, what it did to the key, in which file, and how that is
    known. The last entry says where the key is now, or where it was looked for. ``key`` is spelled
    as in ``_hoodie_record_key``: ``id:1,ts:2`` for a key of several columns. ``partition`` is a
    partition's path, and leaves all others out. ``carried`` adds the slices that only copied the
    row. ``hadoop_options`` are ``fs.s3a.*`` settings for tables on S3. Nothing is changed. Errors:
    ``TableNotFound``, ``TableCorrupt``, ``ConfigError`` for a path that is not absolute,
    ``UnsupportedTable`` for a table whose files hold no keys.
    """
    settings = hadoop_options or {}
    table = open_table(open_storage(path, settings, SystemClock()))
    return key_touches(table, filesystems(settings), key, partition, carried)


def key_touches(
    table: Table, files: FileSystems, key: str, partition: str | None, carried: bool
) -> Listing[Touch]:
    """The same for an opened table; ``files`` opens its data files."""
    if not table.config.populate_meta_fields:
        raise UnsupportedTable(
            f"The files of the table {table.storage.root} have no column _hoodie_record_key, since "
            "hoodie.populate.meta.fields is false: nothing records which instant wrote a row. "
            "Compare two states instead, by time travel.",
            feature="why without meta fields",
        )
    timeline = table.timeline()
    past = _Past(table, timeline)
    listed = list(_listed(table, partition))
    place = files(table.storage.root)
    seen = {each.path: each for each in sightings(place, [path for path, _, _ in listed], key)}
    held = {group for path, group, _ in listed if seen[path].look is Look.HELD}
    logged = logged_keys(table, timeline, place, key, partition)
    held |= {group for group, each in logged.items() if each.events}
    lives, cleaned = past.lives(held, listed, seen, partition)
    lives = [replace(each, logged=logged.get(each.group)) for each in lives]
    lives = past.with_deletes(lives, place, key)
    found, now = touches_of(lives, past.known)
    found += past.rolled_back(held)
    found += past.left_out(found)
    found.sort(key=lambda each: each.instant)
    kept = [each for each in found if carried or each.what is not What.CARRIED]
    where = _where(table.config, key, partition, list(seen.values()), cleaned, logged.values())
    last = past.now(now, where, any(each.unread for each in logged.values()))
    return Listing(Touch, [*kept, *last])


#: a base file: its path, its group, and the parts of its name
Listed = tuple[str, Group, BaseFileName]


def _listed(table: Table, partition: str | None) -> Iterator[Listed]:
    """The Parquet base files as they are now, those of failed writes and dead groups too."""
    storage = table.storage
    files = StorageListing(storage).files() if partition is None else storage.list(partition)
    for file in files:
        name = parse_base_file_name(file.name)
        if name is not None and name.extension == PARQUET:
            folder = file.path[: -len(file.name)].rstrip("/")
            yield file.path, (folder, name.file_id), name


@dataclass(slots=True)
class _Parts:
    """What the timeline knows of one group, as it is collected."""

    stats: dict[str, WriteStat] = field(default_factory=dict)
    logs: list[tuple[InstantTime, str]] = field(default_factory=list)
    replaced_by: InstantTime | None = None


class _Past:
    """The commits of a table, active and archived."""

    def __init__(self, table: Table, timeline: Timeline) -> None:
        self._table, self._timeline = table, timeline
        self._active = {i.time: i for i in timeline.commits if i.action in COMMIT_ACTIONS}
        self._pending = {i.time for i in timeline.pending}
        archived = Archive(table.storage, table.config).commits()
        self._archived = {t: e for t, e in archived.items() if t not in self._active}
        #: what is known of each commit, filled by ``lives``
        self.known: dict[InstantTime, KnownCommit] = {}
        #: of commits that left out late rows, how many; filled by ``lives``
        self._late: dict[InstantTime, str] = {}

    def _commits(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        """All commits by time, read one at a time."""
        for time in sorted({*self._active, *self._archived}):
            active = self._active.get(time)
            if active is not None:
                yield active, COMMITS.get(self._table.storage, self._timeline, active)
            else:
                entry = self._archived[time]
                yield entry.instant, entry.commit()

    def lives(
        self,
        groups: set[Group],
        listed: Iterable[Listed],
        seen: Mapping[str, Sighting],
        partition: str | None,
    ) -> tuple[list[GroupLife], int]:
        """The lives of ``groups``, and how many other files that commits name are cleaned."""
        parts = {group: _Parts() for group in groups}
        disowned: set[str] = set()
        cleaned = 0
        files: dict[InstantTime, list[str]] = {}
        own: dict[Group, dict[str, BaseFileName]] = {group: {} for group in groups}
        for path, group, name in listed:
            if group in own:
                own[group][path] = name
                files.setdefault(name.instant, []).append(path)
        for instant, metadata in self._commits():
            self._remember(instant, metadata)
            if late := metadata.extra.get(OUTDATED_KEY):
                self._late[instant.time] = late
            named = set()
            for stat in metadata.stats:
                named.add(stat.path)
                is_cleaned = self._take(stat, parts, instant.time, seen)
                cleaned += is_cleaned and partition in (None, stat.partition_path)
            for folder, ids in (metadata.replaced or {}).items():
                for file_id in ids:
                    if (folder, file_id) in parts:
                        parts[folder, file_id].replaced_by = instant.time
            if metadata.stats:
                disowned.update(path for path in files.get(instant.time, ()) if path not in named)
        found = []
        for group, part in sorted(parts.items()):
            slices = self._slices(own[group], part, seen, disowned)
            found.append(GroupLife(group, slices, sorted(part.logs), part.replaced_by))
        return found, cleaned

    def with_deletes(
        self, lives: Sequence[GroupLife], place: tuple[FileSystemSpec, str], key: str
    ) -> list[GroupLife]:
        """``lives`` with the deletes by which compactions left the key out; after ``lives``."""
        pairs = [(n, *pair) for n, life in enumerate(lives) for pair in life.left_out(self.known)]
        slices = [(_slice(lives[n].group, old), new.instant) for n, old, new in pairs]
        ends = {time: each.completed_at for time, each in self.known.items()}
        told = deletes_between(self._table, self._timeline, place, key, slices, ends)
        found: list[dict[str, LogEvent]] = [{} for _ in lives]
        for (n, _, new), event in zip(pairs, told, strict=True):
            if event is not None:
                found[n][new.path] = event
        return [replace(life, deletes=own) for life, own in zip(lives, found, strict=True)]

    def _remember(self, instant: Instant, metadata: CommitMetadata) -> None:
        completed = instant.completion_time
        if instant.time in self._active:
            completed = completion_time(self._timeline, instant, self._table.config.utc)
        self.known[instant.time] = KnownCommit(instant.time, metadata.operation.lower(), completed)

    @staticmethod
    def _take(
        stat: WriteStat,
        parts: Mapping[Group, _Parts],
        instant: InstantTime,
        seen: Mapping[str, Sighting],
    ) -> bool:
        """Keep what a commit says of a group; whether its file, of another group, is cleaned."""
        name = parse_data_file_name(stat.path.rsplit("/", 1)[-1])
        if name is None:
            return False
        part = parts.get((stat.partition_path, name.file_id))
        if isinstance(name, BaseFileName):
            if part is None:
                return name.extension == PARQUET and stat.path not in seen
            part.stats[stat.path] = stat
        elif part is not None and not name.cdc:
            part.logs.append((instant, stat.path))
        return False

    def _slices(
        self,
        own: Mapping[str, BaseFileName],
        part: _Parts,
        seen: Mapping[str, Sighting],
        disowned: set[str],
    ) -> list[SeenSlice]:
        found = []
        for path in own.keys() | part.stats.keys():
            name = own.get(path) or parse_base_file_name(path.rsplit("/", 1)[-1])
            assert name is not None, "only base files are collected"
            sight = seen.get(path)
            each = SeenSlice(path, name.instant, stat=part.stats.get(path))
            if sight is not None:
                standing = self._standing(name.instant, path in disowned)
                each = replace(
                    each,
                    standing=standing,
                    look=sight.look,
                    rows=sight.rows,
                    written_by=sight.written_by,
                )
            found.append(each)
        return sorted(found, key=lambda each: (each.instant, each.path))

    def _standing(self, instant: InstantTime, disowned: bool) -> Standing:
        if disowned:
            return Standing.FAILED
        if instant in self._active or instant in self._archived:
            return Standing.COMMITTED
        if instant in self._pending:
            return Standing.PENDING
        first = self._timeline.first_time
        oldest = min(self._archived, default=None)
        known = first is None or instant >= first or (oldest is not None and instant >= oldest)
        return Standing.FAILED if known else Standing.COMMITTED

    def rolled_back(self, groups: set[Group]) -> list[Touch]:
        """Rollbacks and restores of the active timeline that deleted files of ``groups``."""
        found = []
        for instant in self._timeline.completed:
            if instant.action not in (Action.ROLLBACK, Action.RESTORE):
                continue
            ended = completion_time(self._timeline, instant, self._table.config.utc)
            for undone, folder, name in self._deleted(instant):
                parsed = parse_data_file_name(name)
                if parsed is None or (folder, parsed.file_id) not in groups:
                    continue
                reason = (
                    f"It undid commit {undone} and deleted this file of the group: whether that "
                    "had touched the key is not known."
                )
                path = path_in(folder, name)
                operation = instant.action.value
                found.append(
                    Touch(instant.time, ended, operation, What.ROLLED_BACK, folder, path, reason)
                )
        return found

    def left_out(self, found: Sequence[Touch]) -> Iterator[Touch]:
        """Commits whose late rows no file has; ``found`` is what else touched the key.

        A commit has one row of a key, and a row loses only against one that was there.
        """
        first = min((each.instant for each in found), default=None)
        wrote = {each.instant for each in found if each.what not in (What.CARRIED, What.UNKNOWN)}
        for time, late in self._late.items():
            if first is None or time < first or time in wrote:
                continue
            known = self.known[time]
            reason = (
                f"Rows older than those of the table came with it, {late} in all, and were left "
                "out: whether one of them had the key is not known."
            )
            what = What.UNKNOWN
            yield Touch(time, known.completed_at, known.operation, what, "", "", reason)

    def _deleted(self, instant: Instant) -> Iterator[tuple[str, str, str]]:
        """(undone instant, partition, file name) of what a rollback or restore deleted."""
        path = self._timeline.file_of(instant)
        rollbacks: list[RollbackMetadata] = []
        with suppress(FileNotFoundError):  # archived since the listing
            data = self._table.storage.read(path)
            if instant.action is Action.ROLLBACK:
                rollbacks = [parse_rollback_metadata(data, path)]
            else:
                restored = parse_restore_metadata(data, path).rollbacks.values()
                rollbacks = [each for many in restored for each in many if each is not None]
        for each in rollbacks:
            for folder, deleted in each.partition_metadata.items():
                for file in deleted.success_delete_files:
                    name = file.rsplit("/", 1)[-1]
                    yield ", ".join(each.commits_rollback), folder, name

    def now(self, homes: list[Home], where: str, unread: bool) -> Iterator[Touch]:
        """The last entries: each place of the key now, or one that says that there is none.

        ``unread``: there are logs that could not be read.
        """
        commits = [i.time for i in self._timeline.commits]
        newest = max(commits, default=InstantTime(""))
        ended = self.known[newest].completed_at if newest in self.known else None
        live = [each for each in homes if each.file]
        if not live:
            told = " ".join(each.told for each in homes)
            none = "No file that was read has it." if unread else "The table does not have it."
            text = " ".join(filter(None, [none, told, where]))
            yield Touch(newest, ended, "", What.NOW, "", "", text)
        for each in live:
            folder = each.file.rpartition("/")[0]
            yield Touch(newest, ended, "", What.NOW, folder, each.file, f"{each.told} {where}")


def _slice(group: Group, of: SeenSlice) -> FileSlice:
    partition, file_id = group
    name = of.path.rpartition("/")[2]
    return FileSlice(BaseFile(partition, name, file_id, of.instant, 0))


def _where(
    config: TableConfig,
    key: str,
    partition: str | None,
    seen: list[Sighting],
    cleaned: int,
    logged: Collection[LoggedKey],
) -> str:
    """Where the key was looked for, and what that leaves open."""
    looks = [each.look for each in seen]
    out, bad = looks.count(Look.RULED_OUT), looks.count(Look.UNREADABLE)
    place = "in all partitions" if partition is None else f"in the partition '{partition}'"
    text = (
        f"Looked {place} at {len(seen)} base files: {out} were ruled out by key ranges and bloom "
        f"filters, {looks.count(Look.HELD)} have or had it."
    )
    if read := sum(len(each.logs) for each in logged if not each.unread):
        text += f" Read {read} logs of the newest slices."
    if unread := sum(len(each.logs) for each in logged if each.unread):
        text += f" {unread} logs of the newest slices could not be read: they may have it."
    if bad:
        text += f" {bad} could not be read: pyhudi check --read-files says why."
    if cleaned:
        text += f" {cleaned} other files that commits name are cleaned: they may have had it."
    fields = config.record_key_fields
    if Look.HELD not in looks and len(fields) > 1 and split_composite_key(key, fields) is None:
        form = ",".join(f"{name}:..." for name in fields)
        text += f" Keys of this table have the form '{form}'."
    return text


__all__ = ["Touch", "What", "key_touches", "why"]
