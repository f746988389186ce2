"""What happened to the table between a write's load of the timeline and its commit, beside Apache
Hudi's archiver."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.errors import CommitConflict, TableCorrupt, WriteFailed
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.storage.faults import FaultyStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.archived import archived_since
from pyhudi.timeline.schema import table_schema
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.conflicts.judgement import check_conflicts
from pyhudi.transactions.conflicts.meanwhile import conflict_if_gone
from pyhudi.transactions.pessimistic import check_unlocked
from pyhudi.transactions.transaction import Committed, Transaction
from tests.archiver import archive
from tests.transactions.world import World, begin_beside, finish, put_instant, work

LATE = InstantTime("20991231000000000")


def other_partition(world: World, transaction: Transaction | None = None) -> Committed:
    """A commit that touches nothing of partition a."""
    other = transaction or begin_beside(world)
    return finish(other, work(other, {"z": "1"}, partition="z"))


def put_completed(world: World, action: Action, time: InstantTime) -> None:
    completion = time if world.version > 6 else None
    put_instant(world, Instant(time, action, State.COMPLETED, completion))


def touching_everything(world: World) -> Footprint:
    latest = world.view().latest()
    return Footprint("upsert X", frozenset((f.partition_path, f.file_id) for f in latest))


def test_a_write_that_was_pending_at_the_load_is_judged_from_the_archive(world: World) -> None:
    """It completes and is archived before ours commits: the active timeline tells nothing of it."""
    seed = world.upsert({"k": "1"})
    slow, beside = begin_beside(world), begin_beside(world)
    ours = begin_beside(world)
    theirs, mine = work(slow, {"k": "theirs"}), work(ours, {"k": "ours"})
    done = finish(slow, theirs)
    other_partition(world, beside)
    archive(world.table(), seed.instant, done.instant)

    with pytest.raises(CommitConflict, match="changed the same file groups") as lost:
        finish(ours, mine)

    ours.abort()
    assert lost.value.facts["theirs"] == done.instant
    assert world.rows() == {"k": "theirs", "z": "1"}


@pytest.mark.parametrize("version", [8, 9])
def test_the_oldest_instant_that_completes_and_is_archived_alone_is_judged(
    new_world: Callable[..., World], version: int
) -> None:
    """Both timelines show the same completed instants then; in version 6 no write completes behind
    a newer one."""
    world = new_world(version)
    world.upsert({"k": "1"})
    (first,) = world.table().timeline().commits
    slow = begin_beside(world)
    table_schema(world.table(), slow.timeline, None)  # as the planner asks for it
    other_partition(world)
    archive(world.table(), first.time)
    ours = begin_beside(world)
    theirs, mine = work(slow, {"k": "theirs"}), work(ours, {"k": "ours"})
    finish(slow, theirs)
    archive(world.table(), slow.instant)

    with pytest.raises(CommitConflict, match="changed the same file groups"):
        finish(ours, mine)
    ours.abort()


def test_an_archived_write_that_touched_other_groups_is_no_conflict(world: World) -> None:
    seed = world.upsert({"k": "1"})
    slow, beside = begin_beside(world), begin_beside(world)
    ours = begin_beside(world)
    mine = work(ours, {"k": "ours"})
    done = other_partition(world, slow)
    finish(beside, work(beside, {"y": "1"}, partition="y"))
    archive(world.table(), seed.instant, done.instant)

    finish(ours, mine)

    assert world.rows() == {"k": "ours", "z": "1", "y": "1"}


def test_a_write_that_began_and_was_archived_since_a_statement_was_evaluated_is_judged(
    world: World,
) -> None:
    """A statement's rows are judged from the load that they were computed from."""
    seed = world.upsert({"k": "1"})
    evaluated = world.table().timeline()
    theirs = world.upsert({"k": "2"})
    other_partition(world)
    archive(world.table(), seed.instant, theirs.instant)
    now = world.table().timeline()

    with pytest.raises(CommitConflict, match="changed the same file groups") as lost:
        check_conflicts(world.table(), evaluated, now, LATE, touching_everything(world))
    assert lost.value.facts["theirs"] == theirs.instant


def test_the_key_check_sees_archived_writes_as_well(world: World) -> None:
    seed = world.upsert({"k": "1"})
    evaluated = world.table().timeline()
    theirs = other_partition(world)
    cleaned = InstantTime(f"{int(theirs.instant) + 1}")
    put_completed(world, Action.CLEAN, cleaned)
    last = other_partition(world)
    archive(world.table(), seed.instant, theirs.instant, cleaned)
    seen: list[tuple[InstantTime, CommitMetadata]] = []

    def look(instant: Instant, metadata: CommitMetadata) -> None:
        seen.append((instant.time, metadata))

    now = world.table().timeline()
    check_conflicts(world.table(), evaluated, now, LATE, Footprint("X"), check_theirs=look)

    assert [time for time, _ in seen] == [last.instant, theirs.instant]
    assert [s.path for s in seen[1][1].stats] == [s.path for s in theirs.metadata.stats]


def test_what_the_load_showed_or_was_archived_before_it_is_judged_by_nobody(world: World) -> None:
    old = world.upsert({"k": "1"})
    seed, more = world.upsert({"k": "2"}), world.upsert({"k": "3"})
    archive(world.table(), old.instant)
    last = other_partition(world)
    loaded = world.table().timeline()
    archive(world.table(), seed.instant, more.instant)
    now = world.table().timeline()
    assert now.first_time == last.instant

    check_conflicts(world.table(), loaded, now, LATE, touching_everything(world))


def test_what_was_archived_past_a_savepoint_before_the_load_is_judged_by_nobody(
    world: World,
) -> None:
    """The saved commit stays on the timeline, older than what the archive has by then."""
    saved, old = world.upsert({"k": "1"}), world.upsert({"k": "2"})
    put_completed(world, Action.SAVEPOINT, saved.instant)
    seed = world.upsert({"k": "3"})
    other_partition(world)
    archive(world.table(), old.instant)
    loaded = world.table().timeline()
    archive(world.table(), seed.instant)
    now = world.table().timeline()

    check_conflicts(world.table(), loaded, now, LATE, touching_everything(world))


def test_all_that_was_archived_since_a_statement_read_an_empty_table_is_judged(
    world: World,
) -> None:
    evaluated = world.table().timeline()
    theirs = world.upsert({"k": "1"})
    other_partition(world)
    archive(world.table(), theirs.instant)
    now = world.table().timeline()
    ours = Footprint("insert_overwrite X", replaced_partitions=frozenset({"a"}))

    with pytest.raises(CommitConflict, match="replaced as a whole: a"):
        check_conflicts(world.table(), evaluated, now, LATE, ours)


def test_a_write_that_is_archived_before_older_ones_is_judged(world: World) -> None:
    world.upsert({"k": "1"})
    slow, ours = begin_beside(world), begin_beside(world)
    theirs, mine = work(slow, {"k": "theirs"}), work(ours, {"k": "ours"})
    finish(slow, theirs)
    archive(world.table(), slow.instant)

    with pytest.raises(CommitConflict, match="changed the same file groups"):
        finish(ours, mine)
    ours.abort()


def test_a_commit_that_is_archived_while_it_is_judged_is_a_conflict(world: World) -> None:
    world.upsert({"k": "1"})
    loaded = world.table().timeline()
    theirs = other_partition(world)
    now = world.table().timeline()
    archive(world.table(), theirs.instant)

    with pytest.raises(CommitConflict, match="has left the timeline"):
        check_conflicts(world.table(), loaded, now, LATE, touching_everything(world))


def test_older_entries_of_the_archive_are_not_decoded(world: World) -> None:
    """Files that are compacted, or appended to, hold much that is old."""
    oldest, old, seed = (world.upsert({"k": str(n)}) for n in range(3))
    other_partition(world)
    storage, folder = world.memory, world.table().config.history_folder
    archive(world.table(), oldest.instant)
    (first,) = [f for f in storage.list(folder) if f.name.endswith((".parquet", "-1"))]
    archive(world.table(), old.instant)
    archive(world.table(), seed.instant)
    if world.version == 6:  # one file, whose first block holds no entries
        data = storage.read(first.path).replace(b'"actionType"', b'"actionTypo"')
        data += b"".join(storage.read(f"{folder}/.commits_.archive.{n}_1-0-1") for n in (2, 3))
        storage.replace(first.path, data)
        storage.delete([f"{folder}/.commits_.archive.{n}_1-0-1" for n in (2, 3)])
    else:
        storage.replace(first.path, b"torn")

    found = archived_since(storage, world.table().config, 0, seed.instant)

    assert [entry.instant.time for entry in found] == [seed.instant]
    with pytest.raises(TableCorrupt):
        archived_since(storage, world.table().config, 0, oldest.instant)


def test_the_archive_is_looked_at_only_where_something_has_left_the_timeline(
    world: World,
) -> None:
    seed = world.upsert({"k": "1"})
    loaded = world.table().timeline()
    last = other_partition(world)
    watched = FaultyStorage(world.memory)
    table = world.table(watched)

    def archive_calls() -> list[str]:
        return [str(c) for c in watched.calls if table.config.history_folder in c.paths[0]]

    check_conflicts(table, loaded, world.table().timeline(), LATE, Footprint("X"))
    assert archive_calls() == []

    archive(world.table(), seed.instant)
    check_conflicts(table, loaded, world.table().timeline(), LATE, Footprint("X"))
    assert archive_calls() != []
    assert last.instant == world.table().timeline().first_time


def test_an_archived_clean_is_neither_an_undone_commit_nor_a_reason_to_read_the_archive(
    world: World,
) -> None:
    world.upsert({"k": "1"})
    cleaned = InstantTime(f"{int(world.upsert({'k': '2'}).instant) + 1}")
    put_completed(world, Action.CLEAN, cleaned)
    loaded = world.table().timeline()
    assert cleaned in {i.time for i in loaded.completed}
    archive(world.table(), cleaned)
    watched = FaultyStorage(world.memory)
    now = world.table().timeline()
    check_conflicts(world.table(watched), loaded, now, LATE, touching_everything(world))
    folder = world.table().config.history_folder
    assert [str(call) for call in watched.calls if folder in call.paths[0]] == []


def test_a_commit_that_is_torn_is_no_race() -> None:
    with pytest.raises(TableCorrupt), conflict_if_gone():
        raise TableCorrupt("No JSON.", path="p", rule="r") from ValueError("no JSON")


def test_files_of_the_archive_that_are_older_than_the_load_are_not_read(world: World) -> None:
    first, second = world.upsert({"k": "1"}), world.upsert({"k": "2"})
    archive(world.table(), first.instant)
    (old,) = [
        f.path
        for f in world.memory.list(world.table().config.history_folder)
        if f.name.endswith((".parquet", "-1"))
    ]
    world.clock.advance(3_600)
    third = world.upsert({"k": "3"})
    loaded = world.table().timeline()
    world.upsert({"k": "4"})
    archive(world.table(), second.instant, third.instant)
    watched = FaultyStorage(world.memory)

    check_conflicts(world.table(watched), loaded, world.table().timeline(), LATE, Footprint("X"))

    read = [c.paths[0] for c in watched.calls if c.method == "read"]
    assert any(world.table().config.history_folder in path for path in read)
    assert old not in read


def test_an_archive_that_cannot_be_read_is_a_conflict_that_a_retry_heals(world: World) -> None:
    seed = world.upsert({"k": "1"})
    loaded = world.table().timeline()
    other_partition(world)
    archive(world.table(), seed.instant)
    folder = world.table().config.history_folder
    for file in world.memory.list(folder):
        if file.name.endswith((".parquet", "_1-0-1")):
            world.memory.replace(file.path, b"torn")
    now = world.table().timeline()

    # A log of version 6 only loses its torn blocks: the archive then lacks the commit.
    why = "rolled back meanwhile" if world.version == 6 else "has left the timeline"
    with pytest.raises(CommitConflict, match=why):
        check_conflicts(world.table(), loaded, now, LATE, Footprint("X"))
    check_conflicts(world.table(), now, now, LATE, Footprint("X"))


def test_a_program_without_locks_whose_commit_is_archived_by_now_is_found(world: World) -> None:
    seed = world.upsert({"k": "1"})
    loaded = world.table().timeline()
    theirs = world.upsert({"k": "2"})
    other_partition(world)
    archive(world.table(), seed.instant, theirs.instant)
    now = world.table().timeline()

    with pytest.raises(WriteFailed, match="written without such locks") as failed:
        check_unlocked(world.table(), loaded, now, touching_everything(world))
    assert failed.value.facts["theirs"] == theirs.instant


def test_a_schema_whose_commit_is_archived_by_now_is_a_conflict_that_a_retry_heals(
    world: World,
) -> None:
    """It was read when the write began, and may have left the cache since."""
    seed = world.upsert({"k": "1"})
    ours = begin_beside(world)
    mine = work(ours, {"y": "1"}, partition="y")
    archive(world.table(), seed.instant)
    COMMITS.__init__()  # type: ignore[misc]

    with pytest.raises(CommitConflict, match="has left the timeline"):
        finish(ours, mine)
    ours.abort()
