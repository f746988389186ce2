"""Every file of an instant goes through one function, and by the table of states."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyhudi.choices import CleanPolicy
from pyhudi.format.instants import Action, Instant, InstantTime, State, parse_instant
from pyhudi.format.plans import (
    ClusteringPlan,
    CompactionPlan,
    RequestedReplace,
    render_compaction_plan,
)
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.clustering_run import Rewritten, RunningClustering
from pyhudi.services.compaction_run import RunningCompaction
from pyhudi.services.log_compaction_run import RunningLogCompaction
from pyhudi.services.restore import restored
from pyhudi.services.savepoints import make_savepoint
from pyhudi.storage.base import Storage
from pyhudi.storage.faults import FaultyStorage
from pyhudi.timeline.states import COMPLETES_AS, LEGAL_STATES
from pyhudi.transactions.instants import path_of, put_instant, take_time
from pyhudi.transactions.recovery.rollback import roll_back
from tests.test_tidy import sources
from tests.transactions.world import World, dead_writer, finish, schema, work

NewWorld = Callable[..., World]
Step = tuple[Action, State]

T = InstantTime("20240101000000000")


def writes(world: World, storage: Storage) -> None:
    world.upsert({"k": "1"}, storage)


def writes_logs(world: World, storage: Storage) -> None:
    world.upsert({"k": "1"}, storage, action=Action.DELTACOMMIT)


def replaces(world: World, storage: Storage) -> None:
    transaction = world.begin(storage, Action.REPLACECOMMIT)
    finish(transaction, work(transaction, {"k": "2"}, overwrite=True))


def rolls_back(world: World, storage: Storage) -> None:
    roll_back(world.writer(storage), dead_writer(world).instant)


def cleans(world: World, storage: Storage) -> None:
    for value in ("1", "2"):
        world.upsert({"k": value})
    assert clean_table(world.writer(storage), Retention(CleanPolicy.VERSIONS, versions=1))


def saves(world: World, storage: Storage) -> None:
    world.upsert({"k": "1"})
    make_savepoint(world.writer(storage), None, "")


def restores(world: World, storage: Storage) -> None:
    first = world.upsert({"k": "1"}).instant
    world.upsert({"k": "2"})
    restored(world.writer(storage), first)


def clusters(world: World, storage: Storage) -> None:
    world.upsert({"k": "1"})
    plan = RequestedReplace("CLUSTER", ClusteringPlan(()))
    running = RunningClustering.planned(world.writer(storage), lambda now: plan)
    assert running is not None
    with running:
        running.put_inflight(b"")
        running.seal(lambda timeout_s: True, [])
        gone = frozenset({("a", file.file_id) for file in world.view().latest()})
        named = SparkSchema.of_avro(json.loads(schema("key", "value")))
        running.complete([Rewritten(gone, ())], named)


def compacts(world: World, storage: Storage) -> None:
    _compacts(world, storage, RunningCompaction)


def compacts_logs(world: World, storage: Storage) -> None:
    _compacts(world, storage, RunningLogCompaction)


def _compacts(world: World, storage: Storage, kind: type[RunningCompaction]) -> None:
    world.upsert({"k": "1"})
    writer = world.writer(storage)
    time, _ = take_time(writer, kind.ACTION, render_compaction_plan(CompactionPlan(())))
    running, _ = kind.claimed(writer, time, False)
    assert running is not None
    with running:
        running.seal(lambda timeout_s: True, [])
        running.complete([], SparkSchema.of_avro(json.loads(schema("key", "value"))))


RUNS: dict[Action, Callable[[World, Storage], None]] = {
    Action.COMMIT: writes,
    Action.DELTACOMMIT: writes_logs,
    Action.REPLACECOMMIT: replaces,
    Action.ROLLBACK: rolls_back,
    Action.RESTORE: restores,
    Action.CLEAN: cleans,
    Action.SAVEPOINT: saves,
    Action.CLUSTERING: clusters,
    Action.COMPACTION: compacts,
    Action.LOGCOMPACTION: compacts_logs,
}


def steps_of(world: World, storage: FaultyStorage) -> list[Step]:
    """The states that were put, in order."""
    puts = [call.paths[0] for call in storage.writes if call.method == "put_if_absent"]
    folder, layout = world.table().config.timeline_folder, world.table().config.layout
    names = (path.removeprefix(f"{folder}/") for path in puts)
    found = (parse_instant(name, layout) for name in names)
    return [(i.action, i.state) for i in found if i is not None]


@pytest.mark.parametrize("action", LEGAL_STATES)
def test_each_row_of_the_table_is_taken_as_it_stands(new_world: NewWorld, action: Action) -> None:
    world = new_world(9)
    storage = FaultyStorage(world.memory)
    RUNS[action](world, storage)

    steps = steps_of(world, storage)
    if action is Action.RESTORE:  # between its states it puts a rollback for each commit
        steps = [step for step in steps if step[0] is not Action.ROLLBACK]
    if action in COMPLETES_AS:  # its completed file has the name of another action
        steps = [*steps[:-1], (action, steps[-1][1])]
    assert steps == [(action, state) for state in LEGAL_STATES[action]]


@pytest.mark.parametrize("action", LEGAL_STATES)
def test_a_step_that_the_table_lacks_is_not_put(
    new_world: NewWorld, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    states = LEGAL_STATES[action]
    for kept in range(len(states)):
        world = new_world(9)
        storage = FaultyStorage(world.memory)
        with monkeypatch.context() as patch:
            patch.setitem(LEGAL_STATES, action, states[:kept])
            if action is Action.ROLLBACK:
                dead = dead_writer(world)
                with pytest.raises(RuntimeError, match="has no such step"):
                    roll_back(world.writer(storage), dead.instant)
            else:
                with pytest.raises(RuntimeError, match="has no such step"):
                    RUNS[action](world, storage)
            ours = [state for name, state in steps_of(world, storage) if name is action]
            assert ours == list(states[:kept])


def test_an_illegal_put_asks_nothing_of_the_storage(new_world: NewWorld) -> None:
    world = new_world(9)
    storage = FaultyStorage(world.memory)
    table = world.table(storage)
    storage.calls.clear()

    with pytest.raises(RuntimeError, match="inflight cannot follow nothing"):
        put_instant(table, None, Instant(T, Action.COMMIT, State.INFLIGHT), b"")

    assert storage.calls == []


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_file_is_put_where_the_timeline_looks_for_it(new_world: NewWorld, version: int) -> None:
    world = new_world(version)
    table, instant = world.table(), Instant(T, Action.COMMIT, State.REQUESTED)
    put_instant(table, None, instant, b"")

    assert table.timeline().instants == (instant,)
    assert path_of(table, instant) == table.timeline().file_of(instant)


def test_nothing_else_makes_the_path_of_a_file_to_put() -> None:
    """The format knows the names, and a timeline the paths of what it lists."""
    using = {path for path, text in sources(".py").items() if "instant_file_name" in text}
    assert using == {
        f"python/pyhudi/{module}.py"
        for module in ("format/instants", "timeline/active", "transactions/instants")
    }
