"""A write whose table moves on while it begins has lost a race: it is written again, or says so."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, resolve_write
from pyhudi.errors import CommitConflict, TableCorrupt
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.plans import (
    InstantInfo,
    RestorePlan,
    RollbackMetadata,
    render_restore_plan,
    render_rollback_metadata,
)
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.rows.damage import damaged
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import PROPERTIES, open_table
from pyhudi.writes import write
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.overtaken import end_of
from pyhudi.writes.own_reads import OwnReads
from pyhudi.writes.write import Request
from tests.fakes import FakeClock

TIMES = [InstantTime(f"2024010100000000{n}") for n in range(9)]


class World:
    def __init__(self, root: Path) -> None:
        self.storage = LocalStorage(str(root))
        self.declare(9)

    def declare(self, version: int) -> None:
        properties = new_table_properties(
            name="t", version=version, record_key_fields=["id"], partition_fields=[],
            ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.NON_PARTITION,
        )  # fmt: skip
        self.storage.replace(PROPERTIES, render_properties(properties))

    def commit(self, at: int, *groups: str, replaced: str | None = None) -> str:
        """A commit of one file of each group; the first one's path."""
        paths = [BaseFileName(FileId(g), "0-0-0", TIMES[at]).render() for g in groups]
        for path in paths:
            self.storage.put_if_absent(path, b"x")
        stats = tuple(
            WriteStat(FileId(group), path, "", num_writes=1, file_size_bytes=1)
            for group, path in zip(groups, paths, strict=True)
        )
        gone = {"": (FileId(replaced),)} if replaced else None
        action = Action.REPLACECOMMIT if replaced else Action.COMMIT
        done = Instant(TIMES[at], action, State.COMPLETED, TIMES[at + 1])
        data = render_commit(CommitMetadata("UPSERT", stats, replaced=gone), 2)
        self.storage.put_if_absent(f".hoodie/timeline/{instant_file_name(done, 2)}", data)
        return paths[0] if paths else ""

    def undo(self, at: int, ended: bool) -> None:
        """Roll a completed commit back, as a restore does too; its end tells what was undone."""
        folder = ".hoodie/timeline"
        undone = [f.path for f in self.storage.list(folder) if f.name.startswith(TIMES[at])]
        self.storage.delete(undone)
        if not ended:
            return
        told = RollbackMetadata(TIMES[3], 1, 0, (TIMES[at],), {})
        done = Instant(TIMES[3], Action.ROLLBACK, State.COMPLETED, TIMES[4])
        data = render_rollback_metadata(told)
        self.storage.put_if_absent(f"{folder}/{instant_file_name(done, 2)}", data)

    def request(self, since: Timeline | None) -> Request:
        """An insert whose rows nobody will ask for."""
        table = open_table(self.storage)
        runtime = Runtime(FakeClock(), None, None, None, None)  # type: ignore[arg-type]
        options = resolve_write({}, table.config.raw, {})
        rows = None
        return Request(
            runtime, rows, options, Operation.INSERT, Intent(Route.SQL), since=since  # type: ignore[arg-type]
        )  # fmt: skip


def test_a_view_that_a_commit_and_a_clean_have_torn_is_a_lost_race(tmp_path: Path) -> None:
    world = World(tmp_path)
    old = world.commit(1, "g", "h")
    table = open_table(world.storage)
    listed = table.timeline()
    world.commit(3, "g")
    world.storage.delete([old])

    with pytest.raises(CommitConflict, match="lost a race.*files of the earlier state are gone"):
        write._tried(world.request(listed), table)


def test_rows_are_judged_from_the_state_that_they_were_read_in(tmp_path: Path) -> None:
    world = World(tmp_path)
    old = world.commit(1, "g", "h")
    table = open_table(world.storage)
    read = OwnReads(table.timeline(), None)
    world.commit(3, "g")
    world.storage.delete([old])

    with pytest.raises(CommitConflict, match="files of the earlier state are gone"):
        write._written_or_again(world.request(None), table, read, created=False)


@pytest.mark.parametrize("operation", [Operation.INSERT, *write.REPLACING])
def test_a_write_that_replaces_needs_no_lost_file(tmp_path: Path, operation: Operation) -> None:
    world = World(tmp_path)
    old = world.commit(1, "g", "h")
    world.storage.delete([old])
    table, replaces = open_table(world.storage), operation in write.REPLACING
    request = replace(world.request(None), operation=operation)

    # What comes next is the preparation of rows, of which this test has none.
    with pytest.raises(AttributeError if replaces else TableCorrupt):
        write._checked(request, table, table.timeline())


def test_a_write_beside_a_restore_that_has_deleted_files_names_the_restore(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit(1, "g", "h")
    cleaned = world.commit(3, "g")
    world.storage.delete([cleaned])
    target = InstantInfo(TIMES[3], "commit")
    plan = render_restore_plan(RestorePlan((target,), TIMES[1]))
    for state, data in ((State.REQUESTED, plan), (State.INFLIGHT, b"")):
        name = instant_file_name(Instant(TIMES[6], Action.RESTORE, state), 2)
        world.storage.put_if_absent(f".hoodie/timeline/{name}", data)

    with pytest.raises(CommitConflict, match="restore") as told:
        write._tried(world.request(None), open_table(world.storage))
    assert told.value.facts["theirs"] == TIMES[6]


def test_a_lost_file_is_no_lost_race(tmp_path: Path) -> None:
    world = World(tmp_path)
    old = world.commit(1, "g", "h")
    table = open_table(world.storage)
    world.storage.delete([old])

    with pytest.raises(TableCorrupt, match=TIMES[1]):
        write._tried(world.request(table.timeline()), table)


def test_a_table_that_was_downgraded_before_the_first_listing_is_a_lost_race(
    tmp_path: Path,
) -> None:
    """In its old place the timeline is empty: each key would be written once more."""
    world = World(tmp_path)
    world.commit(1, "g")
    table = open_table(world.storage)
    for file in world.storage.list(".hoodie/timeline"):
        world.storage.put_if_absent(f".hoodie/{TIMES[1]}.commit", world.storage.read(file.path))
        world.storage.delete([file.path])
    world.declare(6)

    with pytest.raises(CommitConflict):
        write._tried(world.request(None), table)


@pytest.mark.parametrize(
    "how", ["a newer slice", "a replace", "a restore", "a rollback of the first commit", "nothing"]
)
def test_a_file_that_a_worker_misses_is_a_lost_race_where_it_counts_no_more(
    tmp_path: Path, how: str
) -> None:
    """The process knew the file: it listed the table before the clean."""
    world = World(tmp_path)
    if how == "a restore":
        world.commit(0, "g", "h")
    old = world.commit(1, "g", "h")
    table = open_table(world.storage)
    assert len(table.view(table.timeline()).latest()) == 2
    if how == "a restore":
        world.undo(1, ended=False)
    elif how == "a rollback of the first commit":
        world.undo(1, ended=True)
        world.commit(5, "i")
    elif how == "a newer slice":
        world.commit(3, "g")
    elif how == "a replace":
        world.commit(3, replaced="g")
    world.storage.delete([old])
    told = damaged(f"p 1/{old}", "is not there")

    if how == "nothing":
        with pytest.raises(TableCorrupt, match=TIMES[1]):
            end_of(table, told)
    else:
        undone = how in ("a restore", "a rollback of the first commit")
        end = "undone with its commit" if undone else "replaced and cleaned"
        assert end_of(table, told) == end


def test_a_file_of_an_archived_commit_that_a_worker_misses_is_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit(2, "g")
    archived = BaseFileName(FileId("h"), "0-0-0", TIMES[1]).render()
    assert end_of(open_table(world.storage), damaged(archived, "is not there")) is None


def test_a_file_that_a_worker_missed_and_that_is_there_is_no_lost_race(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit(1, "h")
    there = world.commit(3, "g")
    assert end_of(open_table(world.storage), damaged(there, "is not there")) is None


def test_a_file_of_a_table_whose_commits_were_all_undone_went_with_its_commit(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    gone = world.commit(1, "g")
    world.undo(1, ended=True)
    end = end_of(open_table(world.storage), damaged(gone, "is not there"))
    assert end == "undone with its commit"


def test_a_commit_that_cannot_be_read_is_no_lost_race(tmp_path: Path) -> None:
    world = World(tmp_path)
    done = Instant(TIMES[1], Action.COMMIT, State.COMPLETED, TIMES[2])
    data = render_commit(CommitMetadata("UPSERT", (), {SCHEMA_KEY: "no schema"}), 2)
    world.storage.put_if_absent(f".hoodie/timeline/{instant_file_name(done, 2)}", data)
    with pytest.raises(TableCorrupt, match="not an Avro schema"):
        write._tried(world.request(None), open_table(world.storage))


@pytest.mark.parametrize(
    "advice",
    [
        "Run it again: it then starts from the new state.",
        "Run it again.",
        "Run it again once the other has ended.",
    ],
)
def test_a_write_that_is_repeated_does_not_tell_its_user_to_run_it_again(
    advice: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = CommitConflict(f"It lost a race. {advice} The reason: a clean.", theirs=TIMES[1])
    with caplog.at_level(logging.WARNING, "pyhudi"):
        write._retries(World(tmp_path).request(None)).pause_ms(lost)
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "[COMMIT_CONFLICT] It lost a race. The reason: a clean. Retry 1 of "
    )
    assert isinstance(record.args, tuple)
    assert isinstance(record.args[0], CommitConflict)
    assert advice in str(lost), "its caller is still told"
