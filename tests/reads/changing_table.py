"""A table in memory whose files are dicts of rows, and what each range of its commits changed.

Commits are put by hand, in any order of completion. The oracle knows no files: it applies the
commits, in the order in which they completed, to one dict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.reads.scan import Query, open_query
from pyhudi.slices.files import base_files
from tests.reads.pinned_table import World

INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
ORDER = "hoodie.datasource.read.incr.order"
END_SCHEMA = "hoodie.datasource.read.schema.use.end.instanttime"
REST = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"

#: key -> value and the number of the commit that wrote it
Rows = Mapping[str, tuple[int, int]]
Change = Callable[[Rows], Rows]


def asked(begin: int | str, end: int | None = None, order: str | None = None) -> dict[str, str]:
    """Options of an incremental read; numbers are those of commits."""
    options = {**INCREMENTAL, BEGIN: begin if isinstance(begin, str) else time(begin)}
    if end is not None:
        options[END] = time(end)
    if order is not None:
        options[ORDER] = order
    return options


def time(number: int) -> InstantTime:
    return InstantTime(f"202401010000{number:05d}")


def schema_of(columns: Iterable[str]) -> dict[str, Any]:
    fields = [{"name": c, "type": "string", "nullable": True, "metadata": {}} for c in columns]
    return {"type": "struct", "fields": fields}


@dataclass(slots=True)
class Began:
    """A write that has begun: its file slices, and what it does to the rows of the table."""

    number: int
    files: dict[str, Rows]
    replaced: tuple[str, ...]
    then: Change
    moves: bool


@dataclass(slots=True)
class Changing:
    """One partition ``p``; numbers of commits are their request and completion times."""

    world: World
    #: path of a base file -> its rows
    contents: dict[str, Rows] = field(default_factory=dict)
    #: file group -> its newest rows
    groups: dict[str, Rows] = field(default_factory=dict)
    #: request, completion, what it did; in the order of completion
    done: list[tuple[int, int, Change]] = field(default_factory=list)

    # ---- writes

    def write(self, number: int, group: str, rows: Mapping[str, int | None]) -> Began:
        """Inserts, updates and (None) deletes of one group; the other rows are copied."""
        made = {key: (value, number) for key, value in rows.items() if value is not None}
        old = {k: v for k, v in self.groups.get(group, {}).items() if k not in rows}

        def then(table: Rows) -> Rows:
            return {**{k: v for k, v in table.items() if k not in rows}, **made}

        return Began(number, {group: {**old, **made}}, (), then, False)

    def overwrite(
        self, number: int, groups: Iterable[str], made: str | None, rows: Mapping[str, int]
    ) -> Began:
        """Replaces ``groups`` by ``rows`` in the group ``made``; by nothing without one."""
        gone = tuple(groups)
        written = {key: (value, number) for key, value in rows.items()}
        keys = {key for group in gone for key in self.groups[group]}

        def then(table: Rows) -> Rows:
            return {**{k: v for k, v in table.items() if k not in keys}, **written}

        return Began(number, {made: written} if made else {}, gone, then, False)

    def cluster(self, number: int, groups: Iterable[str], made: str) -> Began:
        """Moves the rows of ``groups`` to one group, as they are."""
        gone = tuple(groups)
        rows = {k: v for group in gone for k, v in self.groups[group].items()}
        return Began(number, {made: rows}, gone, lambda table: table, True)

    def complete(
        self,
        began: Began,
        done: int | None = None,
        sized: bool = True,
        columns: Iterable[str] = ("id", "p"),
    ) -> None:
        """Puts the files and the completed instant; ``done`` is its completion time."""
        completed = began.number if done is None else done
        stats = []
        for group, rows in began.files.items():
            name = BaseFileName(FileId(group), "0-0-0", time(began.number), ".parquet").render()
            path = f"p/{name}"
            self.world.storage.put_if_absent(path, b"x" * 10)
            self.contents[path] = rows
            self.groups[group] = rows
            size = 10 if sized else 0
            stats.append(WriteStat(FileId(group), path, "p", None, len(rows), file_size_bytes=size))
        for group in began.replaced:
            del self.groups[group]
        replaces = bool(began.replaced)
        metadata = CommitMetadata(
            "CLUSTER" if began.moves else "UPSERT",
            tuple(stats),
            {SCHEMA_KEY: canonical_json(spark_to_avro(schema_of(columns), "t"))},
            replaced={"p": tuple(map(FileId, began.replaced))} if replaces else None,
        )
        action = Action.REPLACECOMMIT if replaces else Action.COMMIT
        layout = self.world.layout
        instant = Instant(
            time(began.number), action, State.COMPLETED, time(completed) if layout == 2 else None
        )
        self.world.clock.advance(0.001)
        self.world.storage.put_if_absent(
            f"{self.world.folder}/{instant_file_name(instant, layout)}",
            render_commit(metadata, layout),
        )
        self.done.append((began.number, completed, began.then))

    def pending(self, number: int) -> None:
        """A write that has begun and has not ended."""
        instant = Instant(time(number), Action.COMMIT, State.REQUESTED)
        name = instant_file_name(instant, self.world.layout)
        self.world.storage.put_if_absent(f"{self.world.folder}/{name}", b"")

    def forget_files(self, group: str, number: int) -> None:
        """A clean deletes one slice."""
        at = time(number)
        paths = [p for p in self.contents if p.startswith(f"p/{group}_") and at in p]
        self.world.storage.delete(paths)

    # ---- reads

    def open(self, options: Mapping[str, str]) -> Query:
        return open_query(self.world.runtime, self.world.root, options, {})

    def read(self, options: Mapping[str, str]) -> dict[str, int]:
        """The rows of an incremental read, from the planned files; a key comes once."""
        return self.rows_of(self.open(options))

    def rows_of(self, query: Query) -> dict[str, int]:
        counted = query.rows
        found: dict[str, int] = {}
        for file in base_files(query.slices(())):
            for key, (value, commit) in self.contents[file.path].items():
                at = time(commit)
                counts = counted is None or at in counted.commits
                if counts or (counted is not None and counted.above and at > counted.above):
                    assert key not in found, f"{key} comes twice"
                    found[key] = value
        return found

    def files(self, options: Mapping[str, str]) -> list[str]:
        """The names of the files that are read."""
        return [file.name for file in base_files(self.open(options).slices(()))]

    def wanted(
        self, begin: int | None, end: int | None, by: Callable[[int, int], int]
    ) -> dict[str, int]:
        """The oracle: the rows that commits after ``begin`` changed, as ``end`` leaves them."""
        table: Rows = {}
        inside = set()
        for number, completed, then in self.done:
            key = by(number, completed)
            if end is None or key <= end:
                table = then(table)
                if begin is None or key > begin:
                    inside.add(number)
        return {k: value for k, (value, commit) in table.items() if commit in inside}


def changing(version: int = 9) -> Changing:
    return Changing(World(version))


def by_request(number: int, completed: int) -> int:
    return number


def by_completion(number: int, completed: int) -> int:
    return completed
