"""Late files of failed writes are no rows, though the timeline has moved past their instants."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyhudi.errors import HistoryExpired, HudiError, TableCorrupt
from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import InstantInfo, RollbackMetadata, render_rollback_metadata
from pyhudi.rows.log_spec import CountedInstants
from pyhudi.services.slice_merging import counted_instants
from pyhudi.slices.files import base_files
from pyhudi.storage.faults import FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.strays import Archive, Rollbacks, _first_completed_ms
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.time_travel import check_history
from pyhudi.timeline.view import list_view
from tests.archiver import archive
from tests.fakes import FakeClock
from tests.golden_tables import BY_NAME, COPY_ON_WRITE, GoldenTable
from tests.transactions.world import World, put_instant
from tests.undoing import Undoing

ARCHIVED = ["h0150_v6-cow_clean_archive", "h120_v6-cow_clean_archive", "h120_v9-cow_clean_archive"]
HOUR = 3_600_000


class Past:
    """A golden table whose first commits are archived, and files that come to it late or early."""

    def __init__(self, table: GoldenTable) -> None:
        self.clock = FakeClock()
        self.storage = MemoryStorage(f"memory:/strays-{table.name}", self.clock)
        files = dict(table.files())
        # As in time: what was written first is the oldest.
        for path in sorted(files, key=lambda p: (p.startswith(".hoodie"), p)):
            self.storage.replace(path, files[path])
        self.table: Table = open_table(self.storage)
        self.commits = [
            e.instant.time
            for e in archived_instants(self.storage, self.table.config)
            if e.instant.action is Action.COMMIT
        ]

    def put(self, instant: str, late: bool, group: str = "stray-0", partition: str = "") -> str:
        """A data file that no commit names; early ones are there before any commit."""
        name = BaseFileName(FileId(group), "9-9-9", InstantTime(instant)).render()
        path = f"{partition}/{name}".lstrip("/")
        self.clock.advance((HOUR if late else -HOUR) / 1000)
        self.storage.replace(path, b"x")
        return path

    def seen(self) -> set[str]:
        archive = Archive(self.storage, self.table.config)
        view = list_view(self.storage, self.table.timeline(), archive)
        return {file.path for file in view.latest()}


def between(one: str, other: str) -> str:
    return str((int(one) + int(other)) // 2)


@pytest.fixture(params=ARCHIVED)
def past(request: pytest.FixtureRequest) -> Past:
    return Past(BY_NAME[request.param])


def test_a_file_that_came_late_and_that_no_archived_commit_names_is_left_out(past: Past) -> None:
    before = past.seen()
    failed = between(past.commits[0], past.commits[1])
    stray = past.put(failed, late=True)
    assert failed not in past.commits
    assert stray not in past.seen()
    assert past.seen() == before


def test_a_file_of_an_archived_commit_that_names_others_is_left_out(past: Past) -> None:
    before = past.seen()
    past.put(past.commits[1], late=True)
    assert past.seen() == before


def test_a_log_that_came_late_and_that_no_archived_commit_names_is_left_out() -> None:
    """In layout 2: there the name of a log says which write it is of."""
    past = Past(BY_NAME["h120_v9-mor_clean_archive"])

    def logs() -> set[str]:
        archive = Archive(past.storage, past.table.config)
        groups = list_view(past.storage, past.table.timeline(), archive).logs.values()
        return {log.path for ids in groups for held in ids.values() for log in held}

    before = logs()
    instants = sorted(Archive(past.storage, past.table.config).commits())
    file_id = next(iter(before)).rsplit("/", 1)[-1].removeprefix(".").partition("_")[0]

    def put(instant: str) -> None:
        name = LogFileName(FileId(file_id), InstantTime(instant), 1, "9-9-9").render()
        past.storage.replace(name, b"x")

    put(between(instants[0], instants[1]))
    assert len(logs()) == len(before) + 1, "nothing speaks against it"
    past.clock.advance(HOUR / 1000)
    put(between(instants[0], instants[1]))
    put(instants[1])
    assert logs() == before


class Silent(Archive):
    """An archive that kept the instants without what their commits said."""

    def commits(self) -> Mapping[InstantTime, ArchivedInstant]:
        found = super().commits()
        return {t: ArchivedInstant(e.instant, None, None, e.path) for t, e in found.items()}


def test_an_archived_commit_of_which_nothing_is_known_disowns_no_file(past: Past) -> None:
    late = past.put(past.commits[1], late=True)
    assert late not in past.seen()
    silent = Silent(past.storage, past.table.config)
    view = list_view(past.storage, past.table.timeline(), silent)
    assert late in {file.path for file in view.latest()}


def test_a_file_that_an_archived_commit_names_is_data_however_late_it_came(past: Past) -> None:
    """As in a copy of the table."""
    commit = next(
        entry.commit()
        for entry in archived_instants(past.storage, past.table.config)
        if entry.instant.time == past.commits[1] and entry.instant.action is Action.COMMIT
    )
    path = next(stat.path for stat in commit.stats if stat.path)
    past.clock.advance(HOUR / 1000)
    past.storage.replace(path, b"x")
    archive = Archive(past.storage, past.table.config)
    groups = list_view(past.storage, past.table.timeline(), archive).groups.values()
    slices = [each for by_id in groups for held in by_id.values() for each in held]
    assert path in {file.path for file in base_files(slices)}


def test_a_file_that_is_older_than_all_that_the_archive_knows_is_data(past: Past) -> None:
    """An archive may have been cut off by hand: its silence means nothing there."""
    old = past.put("20000101000000000", late=True)
    assert old in past.seen()


def test_a_file_of_an_instant_that_a_rollback_names_is_left_out(past: Past) -> None:
    before = past.seen()
    failed = between(past.commits[0], past.commits[1])
    stray = past.put(failed, late=False)
    assert stray in past.seen(), "nothing speaks against it, as in Apache Hudi"

    time = past.table.timeline().greatest_time()
    completion = InstantTime(str(int(time) + 1)) if past.table.config.layout == 2 else None
    done = Instant(time, Action.ROLLBACK, State.COMPLETED, completion)
    target = InstantInfo(InstantTime(failed), "commit")
    said = RollbackMetadata(time, 1, 0, (failed,), {}, (target,))
    name = instant_file_name(done, past.table.config.layout)
    past.storage.replace(
        f"{past.table.config.timeline_folder}/{name}", render_rollback_metadata(said)
    )
    assert past.seen() == before


def test_a_file_of_a_commit_that_archived_ones_have_followed_is_not_missed(past: Past) -> None:
    """Its savepoint kept the commit there; who replaced the file only the archive may know."""
    before, layout = past.seen(), past.table.config.layout
    time = InstantTime("20000101000000000")
    stat = WriteStat(FileId("g-0"), f"g-0_0-0-0_{time}.parquet", "", file_size_bytes=1)
    contents = {
        Action.COMMIT: render_commit(CommitMetadata("UPSERT", (stat,)), layout),
        Action.SAVEPOINT: b"",
    }
    for action, data in contents.items():
        done = Instant(time, action, State.COMPLETED, time if layout == 2 else None)
        name = instant_file_name(done, layout)
        past.storage.replace(f"{past.table.config.timeline_folder}/{name}", data)

    with pytest.raises(TableCorrupt):
        list_view(past.storage, past.table.timeline()).latest()
    assert past.seen() == before


def test_the_archive_is_not_read_where_no_file_came_late(past: Past) -> None:
    class Unread(Archive):
        def commits(self) -> Mapping[InstantTime, ArchivedInstant]:
            raise AssertionError("nothing asked for it")

    view = list_view(past.storage, past.table.timeline(), Unread(past.storage, past.table.config))
    assert view.whole


def test_an_archive_that_cannot_be_read_speaks_against_no_file(past: Past) -> None:
    config = past.table.config
    stray = past.put(between(past.commits[0], past.commits[1]), late=True)
    for file in past.storage.list(config.history_folder):
        torn = past.storage.read(file.path).replace(b'"fields"', b'"FIELDS"')
        past.storage.replace(file.path, torn if config.layout == 1 else b"torn")
    with pytest.raises(HudiError):
        archived_instants(past.storage, config)
    assert stray in past.seen()


def test_a_rollback_that_a_crash_left_torn_names_no_instant(past: Past) -> None:
    before = past.seen()
    early = past.put(between(past.commits[0], past.commits[1]), late=False)
    time = InstantTime(str(int(past.table.timeline().greatest_time()) + 1))
    layout = past.table.config.layout
    done = Instant(time, Action.ROLLBACK, State.COMPLETED, time if layout == 2 else None)
    name = instant_file_name(done, layout)
    past.storage.replace(f"{past.table.config.timeline_folder}/{name}", b"")
    assert past.seen() == before | {early}


@pytest.mark.parametrize(
    "table", [t for t in COPY_ON_WRITE if t.moment != "midfail"], ids=lambda table: table.name
)
def test_a_copied_table_shows_all_that_it_showed(table: GoldenTable) -> None:
    """Its data files are later than all commits: the archive is asked, and names them."""
    clock = FakeClock()
    storage = MemoryStorage(f"memory:/copied-{table.name}", clock)
    for path, data in sorted(table.files().items()):
        clock.advance(1)
        storage.replace(path, data)
    opened = open_table(storage)
    timeline = opened.timeline()
    archive = Archive(storage, opened.config)
    shown = list_view(storage, timeline, archive).latest()
    assert shown == list_view(storage, timeline).latest()


# -- where every active commit was rolled back


@pytest.mark.parametrize("version", [6, 8, 9])
def test_archived_rows_stay_where_every_active_commit_was_rolled_back(version: int) -> None:
    """Apache Hudi shows none until its next commit, and may write their keys once more."""
    world = World(version)
    try:
        old, newer = world.upsert({"k": "1"}), world.upsert({"j": "1"})
        last = world.upsert({"i": "undone"})
        table = world.table()
        archive(table, old.instant, newer.instant)
        for step in Undoing(table).rollback(last.instant):
            step()
        assert table.timeline().commits == ()
        found = table_schema(table, table.timeline(), None)
        assert found is not None
        assert found.names == ("key", "value")
        for late in (between(old.instant, newer.instant), newer.instant, last.instant):
            name = BaseFileName(FileId("stray-0"), "9-9-9", InstantTime(late)).render()
            world.memory.put_if_absent(f"a/{name}", b"{}")

        assert world.rows() == {"k": "1", "j": "1"}
        assert [f.instant for f in world.view().latest(old.instant)] == [old.instant]
        world.upsert({"k": "2"})
        assert world.rows() == {"k": "2", "j": "1"}, "its key was found"
    finally:
        world.close()


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_late_state_of_a_failed_write_hides_no_archived_commit(
    version: int, state: State
) -> None:
    """Found by the explorer: a writer that stood still until the archive had passed its rollback
    puts its state then, and hid the commits above it until it had undone itself."""
    world = World(version)
    try:
        old = world.upsert({"k": "1"})
        world.clock.advance(1)
        newer = world.upsert({"j": "1"})
        world.upsert({"i": "1"})
        table = world.table()
        archive(table, old.instant, newer.instant)
        late = Instant(InstantTime(between(old.instant, newer.instant)), Action.COMMIT, state)
        put_instant(world, late)
        name = BaseFileName(FileId("stray-0"), "9-9-9", late.time).render()
        world.memory.put_if_absent(f"a/{name}", b"{}")

        assert table.timeline().first_time == late.time
        assert world.rows() == {"k": "1", "j": "1", "i": "1"}
        seen = {file.instant for file in world.view().latest(newer.instant)}
        assert seen == {old.instant, newer.instant}
        counted = counted_instants(world.view(), None)
        assert (newer.instant in counted, late.time in counted) == (True, False)
    finally:
        world.close()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_older_state_than_the_last_archived_is_refused_there_as_well(version: int) -> None:
    world = World(version)
    try:
        old, newer = world.upsert({"k": "1"}), world.upsert({"j": "1"})
        table = world.table()
        archive(table, old.instant, newer.instant)
        with pytest.raises(HistoryExpired) as refused:
            check_history(table, table.timeline(), old.instant)
        assert refused.value.facts["earliest"] == newer.instant
        check_history(table, table.timeline(), newer.instant)
    finally:
        world.close()


def test_files_are_late_from_the_first_commit_on_that_has_no_gap_behind_it() -> None:
    """A savepoint keeps its commit on the timeline, and those after it may be archived."""
    times = {n: InstantTime(f"{n:017d}") for n in (1, 5, 6)}
    commits = [Instant(t, Action.COMMIT, State.COMPLETED, t) for t in times.values()]
    saved = Instant(times[1], Action.SAVEPOINT, State.COMPLETED, times[6])
    stamps = {instant_key(i): int(i.time) for i in commits}
    found = Timeline(2, ".hoodie/timeline", (commits[0], saved, *commits[1:]), stamps)
    assert _first_completed_ms(found) == 5
    assert _first_completed_ms(found.only((commits[0], saved))) == 1


def test_what_a_rollback_undid_is_read_once_for_each_table_and_only_once_it_can_be() -> None:
    def said(data: bytes, path: str) -> list[str]:
        if data == b"torn":
            raise TableCorrupt("Half a file.", path=path, rule="r")
        return [data.decode()]

    known, path = Rollbacks(), "1.rollback"
    one, other = (FaultyStorage(MemoryStorage(f"memory:/rollbacks{n}")) for n in (1, 2))
    assert known.targets(one, path, said) == frozenset(), "archived since the listing"
    for storage in (one, other):
        storage.replace(path, b"torn")
        assert known.targets(storage, path, said) == frozenset()
        storage.replace(path, storage.root.encode())
        assert known.targets(storage, path, said) == {storage.root}
    reads = len(one.calls)
    assert known.targets(one, path, said) == {one.root}
    assert len(one.calls) == reads


@pytest.mark.parametrize("name", ["h0150_v6-mor_commit_time", "h0150_v6-mor_compacted"])
def test_a_late_state_hides_no_block_of_a_log_whose_name_does_not_tell(name: str) -> None:
    """In layout 1 the name of a log has the instant of its slice, which the late state is above."""
    past = Past(BY_NAME[name])
    first, second = (i.time for i in past.table.timeline().commits[:2])
    archive(past.table, first, second)

    def counted() -> CountedInstants:
        known = Archive(past.storage, past.table.config)
        return counted_instants(list_view(past.storage, past.table.timeline(), known), None)

    assert second in counted()
    late = Instant(InstantTime(between(first, second)), Action.DELTACOMMIT, State.REQUESTED)
    past.storage.replace(past.table.timeline().file_of(late), b"")
    assert second in counted()
    assert late.time not in counted()
