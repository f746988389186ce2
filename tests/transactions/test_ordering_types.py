"""Ordering columns do not widen under logs that would mean something else in the wider type."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.choices import ConflictRule
from pyhudi.errors import CommitConflict, SchemaConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.table_config import MergeMode
from pyhudi.transactions.conflicts.comparison import footprint
from pyhudi.transactions.conflicts.ordering_types import check_ordering_types
from pyhudi.transactions.transaction import Transaction
from tests.archiver import archive
from tests.transactions.test_non_blocking import GROUP, base, log, passing
from tests.transactions.test_schema_conflicts import avro, columns_of
from tests.transactions.world import NEVER, World, put_instant

NewWorld = Callable[..., World]
COLUMNS, WIDER = "key, ts", "key, ts, more"


def ordered(new_world: NewWorld, version: int = 9, **more: str) -> World:
    raw = {
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.precombine.field": "ts",
        "hoodie.record.merge.mode": MergeMode.EVENT_TIME_ORDERING.value,
        **more,
    }
    return new_world(version, raw)


def begin(world: World) -> Transaction:
    policy = replace(NEVER, conflicts=passing(ConflictRule.SIMPLE))
    return world.begin(policy=policy, action=Action.DELTACOMMIT)


def commit(
    running: Transaction, kind: str, deletes: int = 0, operation: str = "UPSERT",
    columns: str = COLUMNS, stat: WriteStat | None = None,
) -> None:  # fmt: skip
    """A log, or ``stat``, of a write whose ordering column is of the type ``kind``."""
    found = stat or replace(log(time=running.instant), num_deletes=deletes)
    running.table.storage.put_if_absent(found.path, b"x")
    extra = {SCHEMA_KEY: avro(columns, ts=kind)}
    metadata = CommitMetadata(operation, (found,), extra)
    running.inflight(None)
    running.seal(lambda timeout_s: True, [found.path])
    running.commit(metadata, footprint(running.who, metadata, frozenset(), True))


@pytest.mark.parametrize("version", [8, 9])
def test_an_ordering_column_does_not_widen_while_a_log_has_deletes(
    new_world: NewWorld, version: int
) -> None:
    world = ordered(new_world, version)
    commit(begin(world), "int", deletes=1)
    commit(begin(world), "int", columns=WIDER)
    mine = begin(world)
    with pytest.raises(
        SchemaConflict, match=r"bigint while logs have deletes.*pyhudi\.compact"
    ) as failed:
        commit(mine, "long", columns=WIDER)
    assert (failed.value.facts["column"], failed.value.facts["ours"]) == ("ts", "long")
    mine.abort()
    assert world.leftovers() == []
    assert columns_of(world) == WIDER


@pytest.mark.parametrize("version", [8, 9])
def test_deletes_of_an_archived_log_count_beside_a_late_state(
    new_world: NewWorld, version: int
) -> None:
    """It is above the late state of a failed write, so it is not below the timeline's first."""
    world = ordered(new_world, version)
    begun = begin(world)
    commit(begun, "int", stat=base(GROUP, begun.instant, begun.instant))
    world.clock.advance(1)
    commit(begin(world), "int", deletes=1)
    commit(begin(world), "int")
    first, second, _ = (i.time for i in world.table().timeline().commits)
    archive(world.table(), first, second)
    mine = begin(world)
    time = InstantTime(str((int(first) + int(second)) // 2))
    put_instant(world, Instant(time, Action.DELTACOMMIT, State.REQUESTED))
    with pytest.raises(SchemaConflict, match=second):
        commit(mine, "long")
    mine.abort()


@pytest.mark.parametrize(
    ("kind", "wider", "deletes", "operation", "more"),
    [
        ("float", "double", 0, "UPSERT", {}),
        ("int", "long", 1, "DELETE", {}),
        ("int", "long", 1, "UPSERT", {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    ],
    ids=["rows in the same order", "deletes that always win", "by commit time"],
)
def test_it_widens_where_no_log_would_mean_something_else(
    new_world: NewWorld, kind: str, wider: str, deletes: int, operation: str, more: dict[str, str]
) -> None:
    world = ordered(new_world, **more)
    commit(begin(world), kind, deletes, operation)
    commit(begin(world), wider, deletes=1)
    assert columns_of(world) == COLUMNS


@pytest.mark.parametrize(
    ("kind", "wider", "why"),
    [
        ("int", "long", "null is 0 among ints"),
        ("int", "double", "null is 0 among ints"),
        ("int", "float", "equal once they are float"),
        ("long", "double", "equal once they are double"),
    ],
)
def test_it_does_not_widen_over_rows_of_logs_that_it_orders_otherwise(
    new_world: NewWorld, kind: str, wider: str, why: str
) -> None:
    world = ordered(new_world)
    commit(begin(world), kind)
    mine = begin(world)
    with pytest.raises(SchemaConflict, match=f"while logs have rows.*{why}"):
        commit(mine, wider)
    mine.abort()
    assert world.leftovers() == []


def test_ints_that_are_never_null_widen_over_rows_of_logs(
    new_world: NewWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    nullable = avro

    def required(columns: str, **types: str) -> str:
        record = json.loads(nullable(columns, **types))
        for field in record["fields"]:
            field["type"] = field["type"][1]
            del field["default"]
        return json.dumps(record)

    monkeypatch.setitem(globals(), "avro", required)
    world = ordered(new_world)
    commit(begin(world), "int")
    commit(begin(world), "long")
    assert columns_of(world) == COLUMNS


def test_it_widens_with_a_write_that_replaces_the_groups_with_deletes(new_world: NewWorld) -> None:
    world = ordered(new_world)
    commit(begin(world), "int", deletes=1)
    mine = world.begin(
        policy=replace(NEVER, conflicts=passing(ConflictRule.SIMPLE)), action=Action.REPLACECOMMIT
    )
    ours = CommitMetadata("INSERT_OVERWRITE", (), replaced={"a": (GROUP,)})
    check_ordering_types(
        mine.table, mine.timeline, mine.instant,
        replace(ours, extra={SCHEMA_KEY: avro(COLUMNS, ts="long")}), avro(COLUMNS, ts="long"),
    )  # fmt: skip
    with pytest.raises(SchemaConflict):
        check_ordering_types(
            mine.table, mine.timeline, mine.instant,
            replace(ours, extra={SCHEMA_KEY: avro(COLUMNS, ts="long")}, replaced={}),
            avro(COLUMNS, ts="long"),
        )  # fmt: skip
    mine.abort()


def test_it_widens_once_the_deletes_are_compacted(new_world: NewWorld) -> None:
    world = ordered(new_world)
    commit(begin(world), "int", deletes=1)
    later = world.begin(action=Action.DELTACOMMIT)
    commit(later, "int", stat=base(GROUP, later.instant, later.instant))
    commit(begin(world), "long")
    assert columns_of(world) == COLUMNS


def test_a_write_whose_deletes_are_of_an_older_type_is_written_again(new_world: NewWorld) -> None:
    """RFC-82's case 6: the other writer has widened the ordering column meanwhile."""
    world = ordered(new_world)
    commit(begin(world), "float")
    late, rows_alone = begin(world), begin(world)
    commit(begin(world), "double")
    with pytest.raises(CommitConflict, match="has deletes with float values"):
        commit(late, "float", deletes=1)
    late.abort()
    commit(rows_alone, "float")
    commit(begin(world), "double", deletes=1)
