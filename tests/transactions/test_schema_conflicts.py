"""Schema changes at the same time: RFC-82's eight cases, on tables in memory.

A line of the table below reads: the table's schema when the write begins, what another writer
commits meanwhile (nothing where it is the same), the write's own, and the schema that the table
has in the end, or the column on which the write fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.choices import ConflictRule, SchemaConflicts
from pyhudi.errors import CommitConflict, SchemaConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.timeline.schema import table_schema
from pyhudi.transactions.conflicts.comparison import footprint
from pyhudi.transactions.conflicts.schema_conflicts import settled
from pyhudi.transactions.transaction import Transaction
from tests.transactions.test_non_blocking import log, passing
from tests.transactions.world import NEVER, World, finish, put_instant, work

NewWorld = Callable[..., World]

S1 = "key, value"
WITH_A, WITH_B = "key, value, a", "key, value, b"
NONE = ""

CASES = [
    # case, at start, meanwhile, ours, outcome by the simple rule, outcome by reconcile
    (1, NONE, NONE, S1, S1, S1),
    (2, NONE, S1, S1, S1, S1),
    (3, NONE, WITH_A, WITH_B, "conflict on b", "key, value, a, b"),
    (4, S1, NONE, S1, S1, S1),
    (5, S1, NONE, WITH_A, WITH_A, WITH_A),
    (6, S1, WITH_A, S1, WITH_A, WITH_A),
    (7, S1, WITH_A, WITH_A, WITH_A, WITH_A),
    (8, S1, WITH_A, WITH_B, "conflict on b", "key, value, a, b"),
]


def avro(columns: str, **types: str) -> str:
    names = columns.split(", ")
    fields = [{"name": n, "type": ["null", types.get(n, "string")], "default": None} for n in names]
    return json.dumps(
        {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}
    )


def begin(world: World, rule: SchemaConflicts) -> Transaction:
    return world.begin(policy=replace(NEVER, schemas=rule))


def insert(world: World, transaction: Transaction, key: str, columns: str, **types: str) -> None:
    """Commit one new row in a file group of its own."""
    written = work(transaction, {key: "1"}, partition=key)
    finish(transaction, written, avro(columns, **types))


def columns_of(world: World) -> str:
    table = world.table()
    found = table_schema(table, table.timeline(), None)
    assert found is not None
    return ", ".join(found.names)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("rule", SchemaConflicts)
@pytest.mark.parametrize(
    ("case", "start", "meanwhile", "ours", "simple", "reconciled"),
    CASES,
    ids=[f"case {case[0]}" for case in CASES],
)
def test_the_eight_cases_of_rfc_82(
    new_world: NewWorld, version: int, rule: SchemaConflicts, case: int,
    start: str, meanwhile: str, ours: str, simple: str, reconciled: str,
) -> None:  # fmt: skip
    world = new_world(version)
    if start:
        insert(world, world.begin(), "s", start)
    theirs = begin(world, rule)
    mine = begin(world, rule)
    if meanwhile:
        insert(world, theirs, "t", meanwhile)
    outcome = simple if rule is SchemaConflicts.SIMPLE else reconciled

    if outcome.startswith("conflict on "):
        with pytest.raises(SchemaConflict) as failed:
            insert(world, mine, "m", ours)
        assert failed.value.facts["column"] == outcome.removeprefix("conflict on ")
        mine.abort()
        assert columns_of(world) == meanwhile
    else:
        insert(world, mine, "m", ours)
        assert columns_of(world) == outcome
    expected = {"s": "1"} if start else {}
    expected |= {"t": "1"} if meanwhile else {}
    expected |= {} if outcome.startswith("conflict on ") else {"m": "1"}
    assert world.rows() == expected


def test_columns_that_both_widen_get_the_wider_type(new_world: NewWorld) -> None:
    world = new_world(9)
    insert(world, world.begin(), "s", S1, value="int")
    theirs, mine = (begin(world, SchemaConflicts.RECONCILE) for _ in range(2))
    insert(world, theirs, "t", S1, value="long")

    insert(world, mine, "m", S1, value="double")

    found = table_schema(world.table(), world.table().timeline(), None)
    assert found is not None
    assert list(found.types.values()) == ["string", "double"]


def test_types_that_do_not_go_together_name_column_both_types_and_rule(
    new_world: NewWorld,
) -> None:
    world = new_world(9)
    insert(world, world.begin(), "s", S1)
    theirs, mine = (begin(world, SchemaConflicts.RECONCILE) for _ in range(2))
    insert(world, theirs, "t", WITH_A, a="long")

    with pytest.raises(SchemaConflict) as failed:
        insert(world, mine, "m", WITH_A, a="string")

    facts = failed.value.facts
    assert (facts["column"], facts["ours"], facts["theirs"]) == ("a", "string", "long")
    assert "rule" in facts


def test_a_column_that_one_side_dropped_is_not_reconciled() -> None:
    def struct(*names: str) -> SparkSchema:
        return SparkSchema(tuple(Column(name, "string") for name in names))

    start = struct("key", "old")
    for now, ours in (
        (struct("key"), struct("key", "old", "new")),
        (struct("key", "old", "new"), struct("key")),
    ):
        with pytest.raises(SchemaConflict) as failed:
            settled(SchemaConflicts.RECONCILE, start, now, ours)
        assert failed.value.facts["column"] == "old"


def test_fields_are_reconciled_unless_one_side_dropped_them() -> None:
    def trip(*names: str) -> SparkSchema:
        fields = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in names]
        return SparkSchema((Column("trip", {"type": "struct", "fields": fields}),))

    start, both = (
        trip("a"),
        settled(SchemaConflicts.RECONCILE, trip("a"), trip("a", "b"), trip("a", "c")),
    )
    assert both == trip("a", "b", "c")
    for now, ours in ((trip("b"), trip("a", "c")), (trip("a", "c"), trip("b"))):
        with pytest.raises(SchemaConflict) as failed:
            settled(SchemaConflicts.RECONCILE, start, now, ours)
        assert failed.value.facts["column"] in ("trip.a", "trip.b")


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("rule", SchemaConflicts)
def test_a_schema_that_a_later_instant_would_hide_is_written_again(
    new_world: NewWorld, version: int, rule: SchemaConflicts
) -> None:
    """The table's schema is that of the greatest instant, whichever completed last."""
    world = new_world(version)
    insert(world, world.begin(), "s", S1)
    mine = begin(world, rule)
    insert(world, begin(world, rule), "t", S1)

    with pytest.raises(CommitConflict, match="readers follow the later instant"):
        insert(world, mine, "m", WITH_A)
    mine.abort()
    insert(world, begin(world, rule), "m", WITH_A)

    assert columns_of(world) == WITH_A


def test_files_of_a_failed_schema_change_are_gone(new_world: NewWorld) -> None:
    world = new_world(9)
    insert(world, world.begin(), "s", S1)
    theirs, mine = (begin(world, SchemaConflicts.SIMPLE) for _ in range(2))
    insert(world, theirs, "t", WITH_A)
    before = world.data_files()
    with pytest.raises(SchemaConflict):
        insert(world, mine, "m", WITH_B)

    mine.abort()

    assert world.data_files() == before
    assert world.leftovers() == []


# ---- merge-on-read: all writers append to one bucket, and only their schemas can conflict


LOGS = {"hoodie.table.type": "MERGE_ON_READ"}


def begin_log(world: World, rule: SchemaConflicts = SchemaConflicts.SIMPLE) -> Transaction:
    """A writer without coordination."""
    policy = replace(NEVER, schemas=rule, conflicts=passing(ConflictRule.SIMPLE))
    return world.begin(policy=policy, action=Action.DELTACOMMIT)


def append(transaction: Transaction, columns: str, **types: str) -> None:
    """Commit a log of the bucket that all writers share."""
    extra = {SCHEMA_KEY: avro(columns, **types)}
    metadata = CommitMetadata("UPSERT", (log(time=transaction.instant),), extra)
    transaction.inflight(None)
    transaction.seal(lambda timeout_s: True, [])
    transaction.commit(metadata, footprint(transaction.who, metadata, frozenset(), True))


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("rule", SchemaConflicts)
@pytest.mark.parametrize(
    ("case", "start", "meanwhile", "ours", "simple", "reconciled"),
    CASES,
    ids=[f"case {case[0]}" for case in CASES],
)
def test_the_eight_cases_between_writers_without_coordination(
    new_world: NewWorld, version: int, rule: SchemaConflicts, case: int,
    start: str, meanwhile: str, ours: str, simple: str, reconciled: str,
) -> None:  # fmt: skip
    world = new_world(version, LOGS)
    if start:
        append(begin_log(world), start)
    theirs, mine = begin_log(world, rule), begin_log(world, rule)
    if meanwhile:
        append(theirs, meanwhile)
    outcome = simple if rule is SchemaConflicts.SIMPLE else reconciled

    if outcome.startswith("conflict on "):
        with pytest.raises(SchemaConflict) as failed:
            append(mine, ours)
        assert failed.value.facts["column"] == outcome.removeprefix("conflict on ")
        mine.abort()
        assert columns_of(world) == meanwhile
        return
    append(mine, ours)
    assert columns_of(world) == outcome


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("rule", SchemaConflicts)
def test_a_new_schema_is_written_again_if_a_compaction_with_a_later_instant_was_first(
    new_world: NewWorld, version: int, rule: SchemaConflicts
) -> None:
    """Apache Hudi, too, takes the table's schema from the commit of a compaction."""
    world = new_world(version, LOGS)
    append(begin_log(world), S1)
    mine = begin_log(world, rule)
    compact(world, S1)
    with pytest.raises(CommitConflict, match="readers follow the later instant"):
        append(mine, WITH_A)
    mine.abort()
    append(begin_log(world, rule), WITH_A)
    assert columns_of(world) == WITH_A


@pytest.mark.parametrize("version", [8, 9])
def test_a_writer_of_the_old_schema_commits_beside_a_compaction_of_the_new_one(
    new_world: NewWorld, version: int
) -> None:
    world = new_world(version, LOGS)
    append(begin_log(world), S1)
    mine = begin_log(world)
    append(begin_log(world), WITH_A)
    compact(world, WITH_A)
    append(mine, S1)
    assert columns_of(world) == WITH_A


def compact(world: World, columns: str) -> None:
    """The commit of a compaction with the next instant, by another program."""
    writer = world.writer()
    time = InstantTime(writer.next_time(world.table().timeline()))
    metadata = CommitMetadata("COMPACT", (), {SCHEMA_KEY: avro(columns)}, None, compacted=True)
    layout = world.table().config.layout
    for state in (State.REQUESTED, State.INFLIGHT):
        put_instant(world, Instant(time, Action.COMPACTION, state))
    done = Instant(time, Action.COMMIT, State.COMPLETED, time if layout == 2 else None)
    put_instant(world, done, render_commit(metadata, layout))
