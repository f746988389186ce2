"""A table in memory whose listings are counted, for queries that are pinned to one of them."""

from __future__ import annotations

from typing import Any

from pyhudi.application.runtime import Runtime
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.reads.conditions import Filter
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.reads.scan import Query, count_rows, open_query
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import PROPERTIES
from tests.fakes import FakeClock
from tests.reads.conditions import compare

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("p", "string"))
    ],
}
TIMELINE = ".hoodie/timeline"
HIDDEN = "__HIVE_DEFAULT_PARTITION__"


class Counting(MemoryStorage):
    """Counts the listings of the timeline."""

    listings = 0

    def list(self, folder: str, *known: Any) -> Any:
        self.listings += folder == TIMELINE
        return super().list(folder, *known)


class World:
    """A table in memory, to which commits are added by hand; each file holds three rows."""

    numbers = iter(range(1_000_000))

    def __init__(self, version: int = 9) -> None:
        self.root = f"memory:/pins{next(self.numbers)}"
        self.clock = FakeClock()
        self.storage = Counting(self.root, self.clock)
        self.layout, self.folder = (1, ".hoodie") if version == 6 else (2, TIMELINE)
        properties = new_table_properties(
            name="t", version=version, record_key_fields=["id"], partition_fields=["p"],
            ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.SIMPLE,
        )  # fmt: skip
        self.storage.put_if_absent(PROPERTIES, render_properties(properties))
        self.runtime = Runtime(
            self.clock, lambda root: self.storage, None, None, None  # type: ignore[arg-type]
        )  # fmt: skip
        self.pins = PinnedQueries(self.runtime)

    def commit(
        self,
        time: int,
        *partitions: str,
        done: int | None = None,
        replaced: tuple[str, str] | None = None,
    ) -> None:
        """``replaced`` is a file group, and the partition where this commit has its successor."""
        if replaced is not None:
            partitions = (replaced[1],)
            gone = [f.path for f in Counting.walk(self.storage, "") if f"{replaced[0]}_" in f.path]
            self.storage.delete(gone)
        instant = InstantTime(f"202401010000{time:05d}")
        stats = []
        for number, partition in enumerate(partitions):
            file_id = FileId(f"{time}-{number}")
            path = f"{partition}/{BaseFileName(file_id, '0-0-0', instant, '.parquet').render()}"
            self.storage.put_if_absent(path, b"x" * 10)
            stats.append(WriteStat(file_id, path, partition, None, 3, 3, file_size_bytes=10))
        extra = {SCHEMA_KEY: canonical_json(spark_to_avro(SCHEMA, "t"))}
        completion = InstantTime(f"202401020000{done or time:05d}")
        done_at = completion if self.layout == 2 else None
        action = Action.REPLACECOMMIT if replaced else Action.COMMIT
        groups = {replaced[1]: (FileId(replaced[0]),)} if replaced else None
        commit = Instant(instant, action, State.COMPLETED, done_at)
        metadata = CommitMetadata("UPSERT", tuple(stats), extra, replaced=groups)
        data = render_commit(metadata, self.layout)
        self.clock.advance(0.001)
        self.storage.put_if_absent(f"{self.folder}/{instant_file_name(commit, self.layout)}", data)

    def archive(self, time: int) -> None:
        for file in self.storage.list(self.folder):
            if file.name.startswith(f"202401010000{time:05d}"):
                self.storage.delete([file.path])

    def open(self, as_of: str | None = None) -> Query:
        return open_query(self.runtime, self.root, {}, {}, as_of)

    def describe(self) -> Pinned:
        query = self.open()
        return Pinned(self.pins.pin(query), self.root, {}, {}, query.instant)

    def rows(self, asked: Pinned, *filters: Filter) -> int | None:
        return self.pins.ask(asked, lambda query: count_rows(query, filters))


def equal(value: str) -> dict[str, Any]:
    return compare("p", "=", value)


def evicted(world: World) -> None:
    """Another planner process, or so many queries later that the pins are gone."""
    world.pins = PinnedQueries(world.runtime)


def commits_of(query: Query | None) -> list[int] | None:
    """The numbers of the commits in the state that a statement is judged from."""
    if query is None:
        return None
    return [int(commit.time[-5:]) for commit in query.timeline.commits]
