"""The schema history of a table for a query: the ids of the columns in each file.

Rules (spec/schema_evolution.md S4, S5): if a commit records its version, that counts. Writers
without schema-on-read record none: such a commit has the columns of the version before it, by name.
A file in ``.hoodie/.schema`` counts if its commit does. If that commit may be archived, the file
counts unless the archive has older commits but not that one. Without any of these a table has no
history, and columns are found by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from pyhudi.errors import TableCorrupt
from pyhudi.format.column_ids import (
    Identified,
    all_ids,
    first_ids,
    held_columns,
    identified,
    set_apart,
    shape_of,
    version_of,
)
from pyhudi.format.corruption import corrupt
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.schema_history import (
    LATEST_SCHEMA_KEY,
    SCHEMA_FOLDER,
    SchemaVersion,
    history_time,
    parse_history,
    parse_version,
    render_history,
    version_at,
)
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.recent import Recent
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import passed_over
from pyhudi.timeline.schema import gone_columns, schema_of
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.strays import Archive, first_write
from pyhudi.timeline.table import Table


@dataclass(frozen=True, slots=True)
class Saved:
    """The versions of a history file, newest first, and its text."""

    versions: tuple[SchemaVersion, ...] = ()
    text: str = ""


@dataclass(slots=True)
class _Found:
    saved: Saved | None = None
    current: tuple[SchemaVersion | None] | None = None


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """The history of a table up to ``as_of`` (None: all of it); it is read on demand."""

    table: Table
    timeline: Timeline
    as_of: InstantTime | None = None
    _found: _Found = field(default_factory=_Found, init=False, repr=False, compare=False)

    def current(self) -> SchemaVersion | None:
        """The version that readers get; None for a table whose columns have no ids."""
        if self._found.current is None:
            self._found.current = (self._current(),)
        return self._found.current[0]

    def saved(self) -> Saved:
        """The contents of the newest history file; nothing if there is none."""
        if self._found.saved is None:
            self._found.saved = self._saved()
        return self._found.saved

    def text(self) -> str:
        """The history as the next commit saves it: at least the current version."""
        current, saved = self.current(), self.saved()
        if current is None or current in saved.versions:
            return saved.text
        return extended(current, saved.text)

    def held(self, table: SparkSchema, instant: InstantTime, file: SparkSchema) -> SparkSchema:
        """The columns of ``table``, this history's schema, as a file of ``instant`` holds them.

        ``file`` has the file's columns; without a history they are the answer. ``TableCorrupt`` if
        the history does not reach back to the file.
        """
        current = self.current()
        if current is None:
            return file
        return held_columns(identified(table, current), self._of_file(instant, file))

    def held_then(self, table: SparkSchema, instant: InstantTime) -> SparkSchema:
        """The same for what an archived commit wrote, by names: the types are not known."""
        version = version_at(self.saved().versions, instant)
        return table if version is None else self.held(table, instant, shape_of(version))

    def _current(self) -> SchemaVersion | None:
        if not self.timeline.commits:
            NO_HISTORY.add(self)
        for instant in reversed(self._commits()):
            schema = schema_of(self.table, self.timeline, instant)
            if schema is not None:
                return self._declared(instant) or self._by_names(instant.time, schema)
        return None

    def _by_names(self, time: InstantTime, schema: SparkSchema) -> SchemaVersion | None:
        """The version of a commit that records none."""
        before = version_at(self.saved().versions, time)
        if before is None:
            return None
        columns = identified(schema, before)
        same = version_of(columns, before.version_id, before, self.timeline.layout)
        if same == before:
            return before
        return version_of(columns, int(time), before, self.timeline.layout)

    def version_of_files(self, time: InstantTime) -> SchemaVersion | None:
        """The version by which files of an instant are read; None if the history is younger."""
        commit = next((i for i in self._commits() if i.time == time), None)
        declared = self._declared(commit) if commit is not None else None
        return declared or version_at(self.saved().versions, time)

    def _of_file(self, time: InstantTime, file: SparkSchema) -> Identified:
        version = self.version_of_files(time)
        if version is None:
            raise corrupt(
                f"{self.table.storage.root}/{SCHEMA_FOLDER}",
                "the schema history reaches back to the oldest file (spec/schema_evolution.md S5)",
                f"it has no columns for the files that commit {time} wrote",
            )
        found = identified(file, version)
        known: Identified = set_apart(found, self._unknown(found, version))
        return known

    def _unknown(self, file: Identified, version: SchemaVersion) -> set[int]:
        """The ids of a file's columns that are none of ``version``, nor of the versions after it.

        A later version has the column if commits have gone on by names. Otherwise the column went
        before the history began, and a column that came later has its number.
        """
        most = version.max_column_id
        if max(all_ids(file)) <= most:
            return set()
        every = (*self.saved().versions, *((now,) if (now := self.current()) else ()))
        later = [each for each in every if each.version_id > version.version_id]
        after = min(later, key=lambda each: each.version_id, default=None)
        went_on = dict(after.paths()) if after and not self._is_declared(after) else {}
        named = version_of(file, 0, None, self.timeline.layout).paths()
        return {own for own, name in named if own > most and went_on.get(own) != name}

    def _is_declared(self, version: SchemaVersion) -> bool:
        """Whether an active commit has made the version, and is not one that goes on by names."""
        own = (i for i in self._commits() if int(i.time) == version.version_id)
        return any(map(self.declared_text, own))

    def first_version(self, schema: SparkSchema) -> SchemaVersion:
        """The version that a table without a history has, before its first change from ``schema``.

        It also has the columns that went by name, since older files have them: one that comes later
        under such a name is another column, to Apache Hudi's readers too.
        """
        every = SparkSchema((*schema.columns, *gone_columns(self.table, self.timeline, schema)))
        return version_of(first_ids(every), 0, None, self.timeline.layout)

    def _declared(self, instant: Instant) -> SchemaVersion | None:
        text = self.declared_text(instant)
        return _parsed(text, self.timeline.file_of(instant)) if text else None

    def declared_text(self, instant: Instant) -> str | None:
        """The version that a commit records, as text."""
        commit = COMMITS.get(self.table.storage, self.timeline, instant)
        return commit.extra.get(LATEST_SCHEMA_KEY)

    def _commits(self) -> tuple[Instant, ...]:
        commits = self.timeline.commits
        return tuple(i for i in commits if self.as_of is None or i.time <= self.as_of)

    def _saved(self) -> Saved:
        if NO_HISTORY.knows(self):
            return Saved()
        listed = self.table.storage.list(SCHEMA_FOLDER)
        if not listed:
            NO_HISTORY.add(self)
        known = {i.time for i in self._commits()}
        files = ((history_time(file.name), file.path) for file in listed)
        for time, path in sorted(((t, p) for t, p in files if t is not None), reverse=True):
            if time in known or self._was_archived(time):
                text = self.table.storage.read(path).decode()
                return Saved(_parsed_history(text, path), text)
        return Saved()

    def _was_archived(self, time: InstantTime) -> bool:
        """Whether a commit that is not active has completed, as far as the archive shows.

        A failed change of columns may leave its history file: Apache Hudi does not remove it.
        """
        archive = Archive(self.table.storage, self.table.config)
        first = first_write(self.timeline, archive, time)
        return first is not None and time < first and not PASSED_OVER.has(self.table, time)


class NoHistory:
    """Tables that had no history when they were read, so that it is not looked for again.

    A history begins with a commit that records its version: as long as no later commit does, there
    is none. If later commits have been archived, this cannot be known.
    """

    def __init__(self, limit: int = 1024, commits: int = 32) -> None:
        self._commits = commits
        self._seen: Recent[str, Timeline] = Recent(limit)

    def knows(self, history: SchemaHistory) -> bool:
        """Whether the table certainly has none; reads only a few commits, which are cached."""
        seen = self._seen.get(history.table.storage.root)
        timeline = history.timeline
        if seen is None or seen.first_time != timeline.first_time:
            return False
        new = [i for i in timeline.since(seen) if i.action in COMMIT_ACTIONS]
        if len(new) > self._commits or any(map(history.declared_text, new)):
            return False
        self.add(history)
        return True

    def add(self, history: SchemaHistory) -> None:
        """Remember that the table has none now."""
        self._seen.put(history.table.storage.root, history.timeline)


NO_HISTORY = NoHistory()


class PassedOver:
    """Times for which the archive has no commit, so that it is read only once for each."""

    def __init__(self, limit: int = 1024) -> None:
        self._known: Recent[tuple[str, InstantTime], bool] = Recent(limit)

    def has(self, table: Table, time: InstantTime) -> bool:
        """Whether no commit ``time`` of the table ever completed; False if that is unknown."""
        key = (table.storage.root, time)
        known = self._known.get(key)
        if known is None:
            try:
                known = passed_over(table.storage, table.config, time)
            except TableCorrupt:  # a read must not fail because of the archive
                known = False
            self._known.put(key, known)
        return known


PASSED_OVER = PassedOver()


def extended(version: SchemaVersion, text: str) -> str:
    """The text of a history with a new version at its beginning."""
    _, colon, tail = text.partition("[")
    one = render_history([version])
    return one if not colon else f"{one.removesuffix(']}')},{tail}"


@lru_cache(maxsize=1024)
def _parsed(text: str, path: str) -> SchemaVersion:
    return parse_version(text, path)


@lru_cache(maxsize=64)
def _parsed_history(text: str, path: str) -> tuple[SchemaVersion, ...]:
    return parse_history(text, path)
