"""New keys are compared also where the other write's file, or its commit, has gone meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, resolve_write
from pyhudi.errors import CommitConflict, TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.index.lookup import KEY
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.kept import Kept
from pyhudi.writes.key_conflicts import KeyCheck
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.write_context import Write
from tests.fakes import FakeClock
from tests.transactions.world import World, put_instant

THEIRS = InstantTime("20991231000000000")


@dataclass
class Race:
    """A write that brings the key ``k``, and a commit that came between and brings ``theirs``."""

    root: Path
    version: int
    theirs: str = "k"

    def __post_init__(self) -> None:
        self.world = World(self.version)
        properties = self.world.memory.read(PROPERTIES)
        self.storage = self.world.memory = LocalStorage(str(self.root))  # type: ignore[assignment]
        self.storage.put_if_absent(PROPERTIES, properties)
        transaction = self.world.begin()
        table = transaction.table
        done = THEIRS if self.version > 6 else None
        self.instant = Instant(THEIRS, Action.COMMIT, State.COMPLETED, done)
        self.stat = self.file("g", THEIRS, self.theirs)
        self.metadata = CommitMetadata("UPSERT", (self.stat,))
        put_instant(self.world, self.instant, render_commit(self.metadata, table.config.layout))
        ours = self.file("h", transaction.instant, "k")
        rows = pa.table({RECORD_KEY: ["k"], PARTITION_PATH: ["a"]})
        runtime = Runtime(
            FakeClock(), None, lambda root: (FileSystemSpec(), root), None, None  # type: ignore[arg-type]
        )  # fmt: skip
        options = resolve_write({}, table.config.raw, {})
        nothing: Any = None
        write = Write(
            runtime, table, options, Operation.UPSERT, Intent(Route.SQL), nothing, transaction,
            Kept(table=rows),
        )  # fmt: skip
        self.check = KeyCheck(write, [ours])

    def file(self, group: str, instant: InstantTime, key: str) -> WriteStat:
        path = f"a/{BaseFileName(FileId(f'{group}-0'), '0-0-0', instant).render()}"
        place = self.root / path
        place.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({KEY: [key]}), place)
        size = place.stat().st_size
        return WriteStat(
            FileId(f"{group}-0"), path, "a", num_writes=1, num_inserts=1, file_size_bytes=size
        )


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Any]:
    made: list[Race] = []

    def make(version: int = 9, theirs: str = "k") -> Race:
        made.append(Race(tmp_path / str(len(made)), version, theirs))
        return made[-1]

    yield make
    for race in made:
        race.world.close()


def test_a_key_that_both_bring_is_a_conflict_and_another_is_none(races: Any) -> None:
    race = races()
    with pytest.raises(CommitConflict, match="both brought rows"):
        race.check(race.instant, race.metadata)
    race = races(theirs="j")
    race.check(race.instant, race.metadata)


def test_a_file_that_a_clean_took_before_its_keys_were_compared_is_a_conflict(races: Any) -> None:
    race = races(theirs="j")
    race.storage.delete([race.stat.path])

    with pytest.raises(CommitConflict, match="cannot be compared") as told:
        race.check(race.instant, race.metadata)
    assert told.value.facts["theirs"] == THEIRS
    assert race.stat.path in str(told.value)
    with pytest.raises(CommitConflict, match="cannot be compared"):
        race.check(race.instant, race.metadata)


def test_a_file_of_the_other_write_that_is_no_parquet_file_is_no_conflict(races: Any) -> None:
    race = races()
    race.storage.replace(race.stat.path, b"cut off")
    with pytest.raises(TableCorrupt, match=race.stat.path):
        race.check(race.instant, race.metadata)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_commit_that_is_archived_while_it_is_looked_at_is_left_to_the_commit(
    races: Any, version: int
) -> None:
    race = races(version)
    read = race.storage.read

    def archived(path: str) -> bytes:
        if THEIRS in path:
            raise FileNotFoundError(path)
        return read(path)

    race.storage.read = archived
    race.check.look_ahead()
    race.storage.read = read
    with pytest.raises(CommitConflict, match="both brought rows"):
        race.check(replace(race.instant), race.metadata)
