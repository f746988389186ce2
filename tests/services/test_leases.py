"""A clean spares what running queries read, and what queries may have begun to read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyhudi.choices import CleanPolicy
from pyhudi.errors import ConfigError, HistoryExpired, WriterFenced
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.reads import lease_keeper
from pyhudi.reads.lease_keeper import LONG_S, LeaseKeeper
from pyhudi.services.archive_plan import ArchivePolicy
from pyhudi.services.archiver import ArchiveRules, archive_table
from pyhudi.services.budget import Budget
from pyhudi.services.clean import (
    CleanedFile,
    Fate,
    clean_table,
    finish_clean,
    last_clean,
    pending_cleans,
)
from pyhudi.services.clean_plan import Retention
from pyhudi.services.savepoints import drop_savepoint, make_savepoint
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy
from pyhudi.transactions.leases import FOLDER, MAX_BYTES, lease, living_leases
from pyhudi.transactions.processes import Process
from tests.application.test_after_commit import runtime
from tests.transactions.world import NEVER, VERSIONS, World, finish, work

NEWEST_ONLY = Retention(CleanPolicy.VERSIONS, versions=1)
POLICY = HeartbeatPolicy()
by_both = pytest.mark.parametrize(
    "retention", [Retention(commits=1), NEWEST_ONLY], ids=["commits", "versions"]
)
US = Process("etl-3", "boot", "pids", "times", 7, 1)


class Machine:
    """A machine on which ``US`` runs until ``ended``."""

    ended = False

    def this(self) -> Process:
        return US

    def has_ended(self, process: Process) -> bool:
        return self.ended and process == US


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def now(world: World) -> ReadState:
    """The newest state of the table."""
    timeline = world.table().timeline()
    newest = timeline.latest_commit
    assert newest is not None
    last = max(completed(timeline, i) for i in timeline.commits)
    return ReadState(newest.time, timeline.layout, last)


def held(world: World, state: ReadState, policy: HeartbeatPolicy = POLICY) -> Heartbeat:
    made = lease(world.memory, world.clock, state, policy)
    made.beat()
    return made


def cleaned(world: World, retention: Retention = NEWEST_ONLY) -> list[CleanedFile]:
    return clean_table(world.writer(), retention)


def kept(found: list[CleanedFile]) -> list[str]:
    return [f.why for f in found if f.fate.value == "kept"]


def test_a_clean_spares_what_a_query_reads_until_its_lease_ends(world: World) -> None:
    first = world.upsert({"k": "1"}).instant
    reads = held(world, now(world), HeartbeatPolicy(processes=Machine()))
    for value in ("2", "3"):
        world.upsert({"k": value})

    found = cleaned(world)

    assert kept(found) == [f"a query of process 7 on etl-3 reads the table as of {first}"]
    assert len(world.data_files()) == 2, "the version between is gone"
    reads.stop()
    assert kept(cleaned(world)) == []
    assert len(world.data_files()) == 1


def replaced(world: World, rows: dict[str, str]) -> InstantTime:
    """Overwrite all rows."""
    with world.begin(action=Action.REPLACECOMMIT) as transaction:
        return finish(transaction, work(transaction, rows, overwrite=True)).instant


def states(world: World) -> dict[InstantTime, list[str] | None]:
    """The files of each active commit's state, None if it can no longer be read."""
    table, found = world.table(), dict[InstantTime, list[str] | None]()
    view = table.view(table.timeline())
    for commit in view.timeline.commits:
        try:
            found[commit.time] = [file.path for file in view.latest(as_of=commit.time)]
        except HistoryExpired:
            found[commit.time] = None
    return found


def check_states(
    world: World, before: dict[InstantTime, list[str] | None], retention: Retention
) -> None:
    """The states from the commit on that the last clean names have the files that they had; by
    versions some cannot be read."""
    named, by_versions = earliest(world), retention.policy is CleanPolicy.VERSIONS
    for anew in (False, True):
        if anew:
            VIEWS.forget_all()
        for time, files in states(world).items():
            if time >= named:  # a query of an earlier one is refused (timeline/time_travel.py)
                assert files == before[time] or (files is None and by_versions)


def earliest(world: World) -> str:
    """The commit that the last clean names; Apache Hudi archives what was replaced before it."""
    told = last_clean(world.table(), world.table().timeline())
    assert told is not None
    return told.earliest_commit_to_retain


@by_both
def test_a_clean_names_the_replace_commit_of_which_a_query_reads_files(
    world: World, retention: Retention
) -> None:
    world.upsert({"k": "0"})
    replaced(world, {"k": "1"})
    reads = held(world, now(world))
    whole = replaced(world, {"k": "2"})
    for value in ("3", "4"):
        world.upsert({"k": value})
    before = states(world)

    cleaned(world, retention)

    assert earliest(world) == whole
    check_states(world, before, retention)
    reads.stop()
    cleaned(world, retention)
    assert earliest(world) != whole, "the files have gone"


@by_both
def test_a_clean_of_some_partitions_names_a_replace_commit_of_others(
    world: World, retention: Retention
) -> None:
    world.upsert({"k": "1"})
    for value in ("1", "2", "3"):
        written_in_b(world, value)
    whole = replaced(world, {"k": "2"})
    for value in ("4", "5", "6"):
        written_in_b(world, value)
    before = states(world)

    assert cleaned(world, replace(retention, partitions=frozenset({"b"})))

    assert earliest(world) == whole
    check_states(world, before, retention)


def test_a_clean_names_nothing_before_what_the_last_one_named(world: World) -> None:
    """A savepoint kept the replaced file meanwhile; states after it have lost others."""
    first = world.upsert({"k": "1"}).instant
    make_savepoint(world.writer(), first, "")
    replaced(world, {"k": "2"})
    for value in ("1", "2", "3"):
        written_in_b(world, value)
    for value in ("3", "4", "5"):
        newest = world.upsert({"k": value}).instant
    in_a, in_b = (Retention(commits=1, partitions=frozenset({each})) for each in "ab")
    cleaned(world, in_a)
    assert earliest(world) == newest
    drop_savepoint(world.writer(), first)
    written_in_b(world, "4")
    before = states(world)

    found = [file.fate for file in cleaned(world, in_b)]

    assert found.count(Fate.DELETED) == 2, "versions before the one that the state named reads"
    assert earliest(world) == newest
    check_states(world, before, in_b)


def written_in_b(world: World, value: str) -> None:
    """Write a row of partition b, whose file group is there already."""
    with world.begin() as transaction:
        finish(transaction, work(transaction, {"j": value}, "b"))


def test_a_clean_with_a_bound_takes_replaced_files_first_and_names_what_it_leaves(
    world: World,
) -> None:
    world.upsert({"k": "1"})
    for value in ("2", "3"):
        last = replaced(world, {"k": value})
    for value in ("4", "5", "6"):
        newest = world.upsert({"k": value}).instant

    named = []
    for _ in range(3):
        clean_table(world.writer(), Retention(commits=1), budget=Budget(max_files=1))
        named.append(earliest(world))

    assert named == [last, newest, newest]


@pytest.mark.parametrize("version", [8, 9])  # in version 6 no older instant completes late
def test_a_commit_that_completed_later_is_not_part_of_what_the_query_reads(
    new_world: Callable[..., World], version: int
) -> None:
    world = new_world(version)
    world.upsert({"k": "1"})
    slow = world.begin()
    world.upsert({"j": "1"}, policy=NEVER)
    held(world, now(world))
    finish(slow, work(slow, {"k": "2"}))
    world.upsert({"k": "3", "j": "2"})

    cleaned(world)

    left = [json.loads(world.memory.read(path)) for path in world.data_files()]
    assert sorted(rows["k"] for rows in left if "k" in rows) == ["1", "3"], "the query reads 1"


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("replaces", [False, True], ids=["updated", "replaced"])
def test_a_clean_goes_on_beside_a_query_that_does_not_see_an_older_instant_that_is_cleaned(
    new_world: Callable[..., World], version: int, replaces: bool
) -> None:
    world = new_world(version)
    world.upsert({"k": "1"})
    slow = world.begin()
    world.upsert({"j": "1"}, policy=NEVER)
    held(world, now(world))
    finish(slow, work(slow, {"k": "2", "new": "1"}))
    if replaces:
        whole = world.begin(action=Action.REPLACECOMMIT)
        finish(whole, work(whole, {"k": "3"}, overwrite=True))
    else:
        world.upsert({"k": "3", "new": "2"})
    cleaned(world)
    rules = ArchiveRules(ArchivePolicy(3, 3), NEWEST_ONLY)
    assert [i.fate.value for i in archive_table(world.writer(), rules)].count("archived") == 1
    VIEWS.forget_all()

    world.upsert({"k": "4"})
    cleaned(world)

    files = [path for path in world.data_files() if path.startswith("a/")]
    left = [json.loads(world.memory.read(path)) for path in files]
    assert sorted(rows["k"] for rows in left if "k" in rows) == ["1", "4"], "the query reads 1"


def test_the_lease_of_an_ended_process_or_a_stale_one_holds_nothing(world: World) -> None:
    machine = Machine()
    world.upsert({"k": "1"})
    policy = HeartbeatPolicy(processes=machine)
    held(world, now(world), policy)
    assert len(living_leases(world.memory, world.clock, policy)) == 1
    machine.ended = True
    assert living_leases(world.memory, world.clock, policy) == []

    held(world, now(world))
    world.clock.advance(POLICY.lapse_ms / 1000 - 1)
    assert len(living_leases(world.memory, world.clock, POLICY)) == 1
    world.clock.advance(1)
    assert living_leases(world.memory, world.clock, POLICY) == []
    assert world.memory.list(FOLDER) == []


@pytest.mark.parametrize("words", [b"", b"no json", b"[]", b'{"instant": 1}', b" " * MAX_BYTES])
def test_a_file_that_is_no_lease_holds_nothing_and_goes_when_it_is_old(
    world: World, words: bytes
) -> None:
    world.memory.replace(f"{FOLDER}/x", words + b" ")
    assert living_leases(world.memory, world.clock, POLICY) == []
    assert len(world.memory.list(FOLDER)) == 1
    world.clock.advance(POLICY.lapse_ms / 1000)
    assert living_leases(world.memory, world.clock, POLICY) == []
    assert world.memory.list(FOLDER) == []


def test_a_pending_plan_spares_what_a_query_reads_by_now(world: World) -> None:
    world.upsert({"k": "1"})
    before = now(world)
    world.upsert({"k": "2"})
    dies = FaultyStorage(world.memory, Fault(Effect.CRASH_BEFORE, path="*.clean.inflight"))
    with pytest.raises(SimulatedCrash):
        clean_table(world.writer(dies), NEWEST_ONLY)
    held(world, before)

    (pending,) = pending_cleans(world.table().timeline())
    assert pending.state is State.REQUESTED
    (file,) = finish_clean(world.writer(), pending)

    assert "reads the table as of" in file.why
    assert len(world.data_files()) == 2


def test_a_plan_stays_pending_for_what_a_query_reads(world: World) -> None:
    """Whoever began to carry it out may wake up and delete it, so no savepoint may hold it."""
    first = world.upsert({"k": "1"}).instant
    before = now(world)
    world.upsert({"k": "2"})
    (old,) = [path for path in world.data_files() if first in path]
    reads: list[Heartbeat] = []

    def stand_still(call: Call) -> None:
        if call.method == "delete" and call.paths[:1] == (old,) and not reads:
            reads.append(held(world, before))
            world.clock.advance(POLICY.lapse_ms / 1000 - 1)
            reads[0].beat()
            cleaned(world)
            assert len(world.data_files()) == 2
            with pytest.raises(ConfigError, match="the pending clean .* deletes some of its files"):
                make_savepoint(world.writer(), first, "")

    with pytest.raises(WriterFenced):
        clean_table(world.writer(FaultyStorage(world.memory, before=stand_still)), NEWEST_ONLY)
    reads[0].stop()
    cleaned(world)

    assert len(world.data_files()) == 1
    assert world.table().timeline().pending == ()


def test_a_file_that_has_just_become_old_stays_a_moment(world: World) -> None:
    world.upsert({"k": "1"})
    world.upsert({"k": "2"})
    spares = replace(NEWEST_ONLY, spared_ms=60_000)
    assert "a moment ago" in kept(cleaned(world, spares))[0]
    assert len(world.data_files()) == 2

    world.clock.advance(61)
    cleaned(world, spares)
    assert len(world.data_files()) == 1


def test_a_table_whose_files_all_count_is_not_asked_for_leases(world: World) -> None:
    world.upsert({"k": "1"})
    storage = FaultyStorage(world.memory)
    clean_table(world.writer(storage), NEWEST_ONLY)
    assert not [call for call in storage.calls if FOLDER in call.paths]


# ---- the keeper


class Queries:
    """The jobs of an application, of which the keeper asks only what is read."""

    def __init__(self) -> None:
        self.pins: list[str] = []
        self.asked = threading.Event()

    def reading(self, seconds: float) -> list[str]:
        assert seconds == LONG_S
        self.asked.set()
        return self.pins


@pytest.fixture
def queries() -> Queries:
    return Queries()


@pytest.fixture
def keeper(world: World, queries: Queries) -> LeaseKeeper:
    return LeaseKeeper(replace(runtime(world), jobs=queries))  # type: ignore[arg-type]


def query(world: World, storage: Any = None) -> Any:
    table = world.table(storage)
    return SimpleNamespace(table=table, timeline=table.timeline(), instant=now(world).instant)


def test_a_query_has_a_lease_while_it_runs_and_no_longer(
    world: World, keeper: LeaseKeeper, queries: Queries
) -> None:
    first = world.upsert({"k": "1"}).instant
    pin = f"digest-{world.table().config.layout}-{now(world).last}"
    keeper.note(pin, query(world))
    keeper.look()
    assert world.memory.list(FOLDER) == [], "the query is over, or short"

    queries.pins = [pin, "unknown-2-0"]
    for _ in range(2):
        keeper.look()
        (found,) = living_leases(world.memory, world.clock, POLICY)
        assert found.state == now(world)
        assert found.state.instant == InstantTime(first)

    queries.pins = []
    keeper.look()
    assert world.memory.list(FOLDER) == []


@pytest.mark.parametrize("how", ["forgotten", "closed"])
def test_looking_ends_with_the_application_and_ends_its_leases(
    world: World, queries: Queries, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(lease_keeper, "PAUSE_S", 0.01)
    world.upsert({"k": "1"})
    found = LeaseKeeper(replace(runtime(world), jobs=queries))  # type: ignore[arg-type]
    queries.pins = ["pin"]
    found.note("pin", query(world))
    thread = found._thread
    assert thread is not None
    while not world.memory.list(FOLDER):
        assert thread.is_alive()
    if how == "closed":
        found.close()  # though what runs is not known: the JVM may have died
    else:
        del found
    thread.join(60)
    assert not thread.is_alive()
    assert world.memory.list(FOLDER) == []


def test_a_reader_that_may_not_write_reads_without_a_lease(
    world: World, keeper: LeaseKeeper, queries: Queries
) -> None:
    world.upsert({"k": "1"})
    storage = FaultyStorage(world.memory, Fault(Effect.FAIL_BEFORE, path=f"{FOLDER}/*", times=99))
    keeper.note("pin", query(world, storage))
    queries.pins = ["pin"]
    keeper.look()
    keeper.look()
    assert len([call for call in storage.writes if FOLDER in call.paths[0]]) == 1, "tried once"
    queries.pins = []
    keeper.look()
