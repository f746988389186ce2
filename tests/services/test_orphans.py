"""Orphans: which files go, which stay, and that the bin brings each of them back."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyhudi.errors import CommitConflict, ConfigError
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.services.bin import FOLDER, Return, bins_of, returned
from pyhudi.services.budget import Budget
from pyhudi.services.orphans import OrphanFate, removed_orphans
from pyhudi.services.savepoints import make_savepoint
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.read_states import ReadState
from pyhudi.transactions.leases import lease
from tests.archiver import archive
from tests.transactions.world import POLICY, VERSIONS, World, begin_beside, die, put_instant, work
from tests.undoing import Undoing

DAY_S = 86_400
HOURS = 72.0


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def put_orphan(world: World, instant: str, group: str = "f") -> str:
    """A data file of an instant, put now; its path."""
    name = BaseFileName(FileId(f"{group}-0"), "0-7-0", InstantTime(instant)).render()
    world.memory.put_if_absent(f"a/{name}", json.dumps({instant: "orphan"}).encode())
    return f"a/{name}"


def later(instant: InstantTime, by: int = 1) -> str:
    return str(int(instant) + by)


def grown(world: World, commits: int = 4) -> list[InstantTime]:
    """A table of some commits with a day between them."""
    found = []
    for number in range(commits):
        found.append(world.upsert({"a": str(number), f"b{number}": "1"}).instant)
        world.clock.advance(DAY_S)
    return found


def run(world: World, hours: float = HOURS, dry_run: bool = False) -> dict[str, tuple[str, str]]:
    """What became of each file, and why."""
    found = removed_orphans(world.writer(), hours, dry_run)
    return {f"{each.partition}/{each.file}": (each.fate.value, each.why) for each in found}


def files(world: World) -> dict[str, bytes]:
    """Every file of the table except what a bin has."""
    found = (f.path for f in world.memory.walk("") if not f.path.startswith(f"{FOLDER}/"))
    return {path: world.memory.read(path) for path in found}


def test_a_file_of_an_instant_that_never_was_goes_and_comes_back(world: World) -> None:
    first, second, *_ = grown(world)
    orphan = put_orphan(world, later(second))
    world.clock.advance(4 * DAY_S)
    before, rows = files(world), world.rows()

    told = run(world, dry_run=True)
    assert files(world) == before
    assert bins_of(world.memory) == []
    assert [path for path, (fate, _) in told.items() if fate == "would be moved"] == [orphan]
    assert told[orphan][1] == (
        f"instant {later(second)} is not on the timeline, which begins at {first}"
    )

    done = removed_orphans(world.writer(), HOURS, dry_run=False)
    assert [(f"{each.partition}/{each.file}", each.fate) for each in done] == [
        (orphan, OrphanFate.MOVED)
    ]
    assert orphan not in files(world)
    assert world.rows() == rows

    (kept,) = bins_of(world.memory)
    assert (kept.name, kept.by, kept.files) == (done[0].bin, "orphans", 1)
    assert [(f.path, f.outcome) for f in returned(world.writer(), kept.name)] == [
        (orphan, Return.BACK)
    ]
    assert files(world) == before
    assert bins_of(world.memory) == []


@pytest.mark.parametrize("budget", [Budget(max_files=1), Budget(max_bytes=1)])
def test_a_budget_leaves_the_other_files_to_the_next_removal(world: World, budget: Budget) -> None:
    second = grown(world)[1]
    orphans = [put_orphan(world, later(second, by)) for by in (1, 2, 3)]
    world.clock.advance(4 * DAY_S)
    for left in (["moved", *["left for later"] * 2], ["moved", "left for later"], ["moved"]):
        found = removed_orphans(world.writer(), HOURS, False, budget)
        assert [each.fate.value for each in found] == left
    assert found[0].file == orphans[-1].rpartition("/")[2]


def test_files_of_commits_stay_however_old_they_are(world: World) -> None:
    grown(world)
    world.clock.advance(400 * DAY_S)
    assert run(world, hours=0) == {}


def test_a_second_file_of_a_commit_is_told_and_stays(world: World) -> None:
    second = grown(world)[1]
    path = put_orphan(world, second)
    assert run(world, hours=0) == {
        path: ("kept", f"instant {second} completed, though it does not name the file")
    }


def test_a_file_of_a_pending_instant_stays_also_if_its_writer_is_dead(world: World) -> None:
    grown(world)
    transaction = begin_beside(world)
    work(transaction, {"z": "pending"})
    die(transaction)
    world.clock.advance(40 * DAY_S)
    assert {fate for fate, _ in run(world).values()} == {"kept"}
    assert {why for _, why in run(world).values()} == {f"commit {transaction.instant} is pending"}


def test_a_young_file_stays(world: World) -> None:
    second = grown(world)[1]
    path = put_orphan(world, later(second))
    world.clock.advance(3 * DAY_S - 60)
    assert run(world)[path] == ("kept", "it is younger than 72 h")
    world.clock.advance(60)
    assert run(world)[path][0] == "moved"


def test_the_age_is_by_the_clock_of_the_storage(world: World) -> None:
    second = grown(world)[1]
    path = put_orphan(world, later(second))
    # Our own clock is a year ahead.
    writer = world.writer(clock=type(world.clock)(world.clock.now_ms() + 365 * DAY_S * 1_000))
    found = removed_orphans(writer, HOURS, dry_run=False)
    assert [each.fate for each in found] == [OrphanFate.KEPT]
    assert path in files(world)


def test_a_file_whose_writer_beats_stays(world: World) -> None:
    second = grown(world)[1]
    path = put_orphan(world, later(second))
    world.clock.advance(30 * DAY_S)
    world.memory.replace(f".hoodie/.heartbeat/{later(second)}", b"")
    assert run(world)[path] == ("kept", f"the writer of instant {later(second)} is alive")
    world.clock.advance(DAY_S)
    assert run(world)[path][0] == "moved"


def test_archived_commits_are_asked_of_the_archive(world: World) -> None:
    first, second, third, fourth, *_ = grown(world, 6)
    gap, below = put_orphan(world, later(second), "gap"), put_orphan(world, "20200101000000000")
    between = put_orphan(world, later(third), "between")
    archive(world.table(), first, second, third)
    world.clock.advance(30 * DAY_S)
    rows = {key: value for key, value in world.rows().items() if not key.startswith("2020")}

    found = {each.instant: each for each in removed_orphans(world.writer(), HOURS, False)}
    # Nothing is known of an instant after the archive's last commit, or before its first.
    assert {path: found[InstantTime(time)].fate.value for path, time in (
        (gap, later(second)), (between, later(third)), (below, "20200101000000000"),
    )} == {gap: "moved", between: "kept", below: "kept"}  # fmt: skip
    assert found[InstantTime(later(second))].why == (
        f"instant {later(second)} is not in the archive, which has commits around it"
    )
    assert all(each.seen for each in found.values())
    assert len(found) == 3, "a file of an archived commit is no orphan"
    assert rows.items() <= world.rows().items()
    assert fourth in {i.time for i in world.table().timeline().commits}


def test_an_archive_that_cannot_be_read_keeps_every_file_below_the_timeline(world: World) -> None:
    first, second, third, *_ = grown(world, 6)
    path, above = put_orphan(world, later(first)), put_orphan(world, later(third, 5), "above")
    archive(world.table(), first, second)
    world.clock.advance(30 * DAY_S)
    for file in world.memory.list(world.table().config.history_folder):
        if file.name.endswith((".parquet", "1-0-1")):
            world.memory.replace(file.path, b"torn" * 30)
    told = run(world)
    assert told[path][0] == "kept"
    if world.version > 6:  # a log of layout 1 is read as far as it goes
        assert {told[p][1] for p in (path, above)} == {
            "the archive cannot be read, so its instant may have completed"
        }


def test_a_late_state_makes_no_orphan_of_what_a_shortened_archive_no_longer_tells(
    world: World,
) -> None:
    """Above a pending instant that came late, a file without a commit may be archived data."""
    first, second, third, *_ = grown(world, 6)
    archive(world.table(), first, second, third)
    for file in world.memory.list(world.table().config.history_folder):
        world.memory.delete([file.path])
    rows = world.rows()
    late = Instant(InstantTime(later(first)), Action.COMMIT, State.REQUESTED)
    put_instant(world, late)
    world.clock.advance(30 * DAY_S)

    told = run(world)
    assert {fate for fate, _ in told.values()} == {"kept"}
    world.memory.delete([world.table().timeline().file_of(late)])
    assert world.rows() == rows


def test_a_file_that_a_savepoint_keeps_stays(world: World) -> None:
    first, second, third, fourth, *_ = grown(world, 6)
    (path,) = (f.path for f in world.view().latest(as_of=third) if f.instant == second)
    make_savepoint(world.writer(), third, "")
    archive(world.table(), first, fourth)
    # As after a timeline that was shortened by hand: the savepoint alone knows of the file.
    folder = world.table().config.timeline_folder
    world.memory.delete([f.path for f in world.memory.list(folder) if f.name.startswith(second)])
    world.clock.advance(30 * DAY_S)
    assert run(world)[path] == ("kept", f"the savepoint of {third} keeps it")


def test_a_file_that_readers_take_for_data_stays_while_a_query_runs(world: World) -> None:
    first, second, third, *_ = grown(world, 6)
    path = put_orphan(world, later(first))
    archive(world.table(), first, second)
    world.clock.advance(30 * DAY_S)
    state = ReadState(third, world.table().config.layout, third)
    beat = lease(world.memory, world.clock, state, POLICY.heartbeat)
    beat.beat()
    assert run(world)[path] == ("kept", "a query runs, and may read it as archived data")
    beat.stop()
    assert run(world)[path][0] == "moved"


def test_nothing_moves_while_a_restore_is_pending(world: World) -> None:
    *_, third, fourth = grown(world)
    make_savepoint(world.writer(), third, "")
    path = put_orphan(world, later(third))
    next(steps := Undoing(world.table()).restore(third, [fourth]))()
    next(steps)()
    world.clock.advance(30 * DAY_S)
    with pytest.raises(CommitConflict, match="removal of orphans and restore"):
        run(world)
    assert path in files(world)


def test_a_file_of_an_instant_that_was_rolled_back_goes(world: World) -> None:
    grown(world, 1)
    last = grown(world, 2)[-1]
    for step in Undoing(world.table(), InstantTime("20240101000000000")).rollback(last):
        step()
    path = put_orphan(world, last)
    world.clock.advance(30 * DAY_S)
    assert run(world)[path] == ("moved", f"instant {last} was rolled back")


class _Begins:
    """A storage on which a writer begins, and writes, right before the timeline is listed."""

    def __init__(self, world: World) -> None:
        self.world, self.instant = world, InstantTime("")

    def __getattr__(self, name: str) -> object:
        return getattr(self.world.memory, name)

    def list(self, folder: str, *more: object) -> object:
        if folder == "" and not self.instant:
            transaction = begin_beside(self.world)
            work(transaction, {"new": "1"})
            self.instant = transaction.instant
            die(transaction)
            # As a writer of Apache Hudi, which seldom beats.
            self.world.memory.delete([f".hoodie/.heartbeat/{self.instant}"])
        return self.world.memory.list(folder, *more)  # type: ignore[arg-type]


def test_a_writer_that_begins_meanwhile_loses_nothing(world: World) -> None:
    grown(world)
    storage = _Begins(world)
    writer = world.writer(storage)  # type: ignore[arg-type]
    found = removed_orphans(writer, 0, dry_run=False)
    assert [(each.instant, each.fate) for each in found] == [(storage.instant, OrphanFate.KEPT)]


@pytest.mark.parametrize("hours", [-1.0])
def test_an_age_below_zero_is_refused(world: World, hours: float) -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        run(world, hours)


def test_a_log_goes_if_its_name_says_its_instant(world: World) -> None:
    second = grown(world)[1]
    log = LogFileName(FileId("f-0"), InstantTime(later(second)), 1, "0-7-0")
    world.memory.put_if_absent(f"a/{log.render()}", b"#HUDI#")
    named = LogFileName(FileId("f-0"), second, 1, "0-7-0")
    world.memory.put_if_absent(f"a/{named.render()}", b"#HUDI#")

    found = run(world, hours=0)

    of_logs = {path: fate for path, (fate, _) in found.items() if path.startswith("a/.")}
    if world.version == 6:
        assert of_logs == {}, "it says the slice, and its blocks are of other instants"
    else:
        kept = "kept"  # its commit does not name it
        assert of_logs == {f"a/{log.render()}": "moved", f"a/{named.render()}": kept}


def test_a_bin_that_is_not_there_is_told(world: World) -> None:
    with pytest.raises(ConfigError, match="has no bin 'x'. Its bins are: none"):
        returned(world.writer(), "x")


def test_a_file_that_came_back_in_another_way_is_left_alone(world: World) -> None:
    second = grown(world)[1]
    path = put_orphan(world, later(second))
    other = put_orphan(world, later(second, 2))
    run(world, hours=0)
    world.memory.put_if_absent(path, b"another")
    (held,) = bins_of(world.memory)
    outcomes = {f.path: f.outcome for f in returned(world.writer(), held.name)}
    assert outcomes == {path: Return.CHANGED, other: Return.BACK}
    assert world.memory.read(path) == b"another"
    assert [each.name for each in bins_of(world.memory)] == [held.name], "its copy is still there"


@pytest.mark.parametrize("effect", [Effect.CRASH_BEFORE, Effect.CRASH_AFTER])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_crash_at_any_call_loses_no_file(
    new_world: Callable[..., World], version: int, effect: Effect
) -> None:
    for at in range(1, 200):
        world = new_world(version)
        second = grown(world, 2)[1]
        orphans = [put_orphan(world, later(second, n)) for n in (1, 2)]
        before, rows = files(world), world.rows()
        broken = FaultyStorage(world.memory, Fault(effect, at))
        try:
            removed_orphans(world.writer(broken), 0, dry_run=False)
        except SimulatedCrash:
            pass
        else:
            assert at > 7
            break
        world.clock.advance(DAY_S)
        assert world.rows() == rows
        for each in bins_of(world.memory):
            returned(world.writer(), each.name)
        assert {path: files(world).get(path) for path in before} == before
        run(world, hours=0)
        assert not set(orphans) & files(world).keys()
        world.close()
    else:
        pytest.fail("the removal never ended")


@pytest.mark.parametrize("effect", [Effect.CRASH_BEFORE, Effect.CRASH_AFTER])
def test_a_return_that_died_is_ended_by_the_next(
    new_world: Callable[..., World], effect: Effect
) -> None:
    for at in range(1, 100):
        world = new_world(9)
        second = grown(world, 2)[1]
        for n in (1, 2):
            put_orphan(world, later(second, n))
        before = files(world)
        run(world, hours=0)
        (held,) = bins_of(world.memory)
        broken = FaultyStorage(world.memory, Fault(effect, at))
        try:
            returned(world.writer(broken), held.name)
        except SimulatedCrash:
            world.clock.advance(DAY_S)
            for each in bins_of(world.memory):
                returned(world.writer(), each.name)
            assert files(world) == before
            world.close()
        else:
            assert at > 3
            break
    else:
        pytest.fail("the return never ended")


def test_the_actions_of_a_table_stay_as_they_are(world: World) -> None:
    put_orphan(world, later(grown(world)[1]))
    run(world, hours=0)
    assert {i.action for i in world.table().timeline().instants} == {Action.COMMIT}
