"""Writers without coordination: logs of one group pass, and what stays a conflict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from pyhudi.choices import ConflictRule
from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName, shared_bucket_file_id
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.plans import CompactionOperation, CompactionPlan, render_compaction_plan
from pyhudi.transactions.conflicts.compactions import check_order
from pyhudi.transactions.conflicts.comparison import (
    STRATEGIES,
    Footprint,
    Strategy,
    footprint,
    footprint_of,
)
from pyhudi.transactions.conflicts.deletes import FORCED_KEY
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import WriterPolicy
from tests.transactions.world import NEVER, World, put_instant

T1, T2, T3, T4 = (InstantTime(f"2024010{n}000000000") for n in (1, 2, 3, 4))
GROUP, OTHER = shared_bucket_file_id(3), FileId("00000003-7b0e-4fc7-8e5b-4b8ad2a3c6f1-0")
RULES = [rule for rule in ConflictRule if rule is not ConflictRule.PARTITION]


def log(file_id: FileId = GROUP, time: InstantTime = T2) -> WriteStat:
    name = LogFileName(file_id, time, 1, "0-1-1").render()
    return WriteStat(file_id, f"a/{name}", "a", prev_commit=time, log_version=1)


def base(file_id: FileId = GROUP, previous: str | None = T1, time: InstantTime = T2) -> WriteStat:
    name = BaseFileName(file_id, "0-1-1", time).render()
    return WriteStat(file_id, f"a/{name}", "a", prev_commit=previous)


def ours(*stats: WriteStat) -> Footprint:
    return footprint("upsert X", CommitMetadata("UPSERT", stats), frozenset(), True)


def theirs(*stats: WriteStat, **more: object) -> Footprint:
    metadata = CommitMetadata("UPSERT", stats, **more)  # type: ignore[arg-type]
    return footprint_of(Instant(T2, Action.DELTACOMMIT, State.COMPLETED), metadata, bucketed=True)


def passing(rule: ConflictRule) -> Strategy:
    return replace(STRATEGIES[rule], logs_pass=True)


@pytest.mark.parametrize("rule", RULES)
def test_logs_of_one_group_pass_and_all_else_of_it_conflicts(rule: ConflictRule) -> None:
    compare = passing(rule).compare
    assert not compare(ours(log()), theirs(log())).conflict
    assert compare(ours(log(), log(OTHER)), theirs(log(), base(OTHER))).conflict
    for other in (base(), base(previous=None), base(OTHER, previous=None), log(OTHER)):
        assert compare(ours(log()), theirs(other)).conflict, other.path
    assert compare(ours(log()), theirs(log(), base())).conflict
    assert compare(ours(base()), theirs(log())).conflict
    assert compare(ours(log()), theirs(replaced={"a": (GROUP,)})).conflict
    assert STRATEGIES[rule].compare(ours(log()), theirs(log())).conflict, "an optimistic writer"


def test_a_partition_that_was_replaced_conflicts_whatever_logs_came_with_it() -> None:
    swept = replace(theirs(log()), replaced_partitions=frozenset({"a"}))
    assert passing(ConflictRule.SIMPLE).compare(ours(log()), swept).conflict


def test_a_compaction_beside_a_log_is_none() -> None:
    done = theirs(base(), compacted=True)
    assert not passing(ConflictRule.SIMPLE).compare(ours(log()), done).conflict


@pytest.mark.parametrize("passes", [True, False], ids=["non-blocking", "optimistic"])
@pytest.mark.parametrize("kind", [MarkerKind.APPEND, MarkerKind.CREATE])
def test_early_detection_looks_for_base_files_of_running_writes(
    new_world: Callable[..., World], passes: bool, kind: MarkerKind
) -> None:
    world = new_world(9, {"hoodie.table.type": "MERGE_ON_READ"})
    running = world.begin(policy=NEVER, action=Action.DELTACOMMIT)
    path = (log if kind is MarkerKind.APPEND else base)(time=running.instant).path
    world.memory.put_if_absent(marker_path(running.instant, path, kind), b"")
    rule = replace(STRATEGIES[ConflictRule.SIMPLE], logs_pass=passes)
    mine = world.begin(policy=replace(NEVER, early=True, conflicts=rule))
    groups = [("a", GROUP)]
    if passes and kind is MarkerKind.APPEND:
        mine.check_updates(groups)
    else:
        with pytest.raises(CommitConflict, match=f"running write {running.instant}"):
            mine.check_updates(groups)


def committed(
    world: World,
    running: Transaction,
    *stats: WriteStat,
    bucketed: bool = True,
    operation: str = "UPSERT",
    extra: Mapping[str, str] | None = None,
) -> None:
    metadata = CommitMetadata(operation, stats, extra or {})
    running.inflight(None)
    running.seal(lambda timeout_s: True, [])
    running.commit(metadata, footprint(running.who, metadata, frozenset(), bucketed))


def logged_world(new_world: Callable[..., World]) -> World:
    return new_world(9, {"hoodie.table.type": "MERGE_ON_READ"})


def test_two_writers_that_begin_one_bucket_both_commit_and_an_optimistic_one_loses(
    new_world: Callable[..., World],
) -> None:
    world = logged_world(new_world)
    policy = replace(NEVER, conflicts=passing(ConflictRule.SIMPLE))
    first, second = (world.begin(policy=policy, action=Action.DELTACOMMIT) for _ in range(2))
    optimist = world.begin(policy=NEVER, action=Action.DELTACOMMIT)
    committed(world, second, log(time=second.instant))
    committed(world, first, log(time=first.instant))
    with pytest.raises(CommitConflict, match="both wrote the same buckets: a bucket 3"):
        committed(world, optimist, base(OTHER, None))
    done = [commit.time for commit in world.table().timeline().commits]
    assert done == [first.instant, second.instant]


def plan(world: World, time: InstantTime, *logs: InstantTime, group: FileId = GROUP) -> None:
    names = tuple(LogFileName(group, each, 1, "0-1-1").render() for each in logs)
    data = render_compaction_plan(
        CompactionPlan((CompactionOperation(T1, names, None, group, "a"),))
    )
    put_instant(world, Instant(time, Action.COMPACTION, State.REQUESTED), data)


def test_a_pending_compaction_of_a_later_log_is_a_conflict_where_the_order_decides(
    new_world: Callable[..., World],
) -> None:
    world = logged_world(new_world)
    plan(world, T4, T1, T3)
    now = world.table().timeline()
    with pytest.raises(CommitConflict, match=f"compaction {T4} merges the later log of {T3}"):
        check_order(world.table(), now, T2, CommitMetadata("UPSERT", (log(),)))
    check_order(world.table(), now, T4, CommitMetadata("UPSERT", (log(time=T4),)))
    check_order(world.table(), now, T2, CommitMetadata("UPSERT", (log(OTHER),)))


@pytest.mark.parametrize(
    ("ordered", "deletes"),
    [(True, None), (False, None), (False, "true"), (False, "false")],
    ids=["commit time", "event time", "deletes that always win", "deletes with ordering values"],
)
def test_the_commit_looks_at_the_order_only_where_it_decides(
    new_world: Callable[..., World], ordered: bool, deletes: str | None
) -> None:
    """A delete may have no ordering value, and then it always wins."""
    world = logged_world(new_world)
    policy = replace(NEVER, conflicts=passing(ConflictRule.SIMPLE))
    slow = world.begin(policy=policy, action=Action.DELTACOMMIT)
    fast = world.begin(policy=policy, action=Action.DELTACOMMIT)
    committed(world, fast, log(time=fast.instant))
    slow.ordered = ordered
    plan(world, world.writer().next_time(world.table().timeline()), fast.instant)
    stat = replace(log(time=slow.instant), num_deletes=int(deletes is not None))
    extra = {} if deletes is None else {FORCED_KEY: deletes}
    if not ordered and deletes != "true":
        committed(world, slow, stat, extra=extra)
        return
    with pytest.raises(CommitConflict, match="which rows win would change"):
        committed(world, slow, stat, extra=extra)
    late = world.begin(policy=policy, action=Action.DELTACOMMIT)
    committed(world, late, log(time=late.instant))


def based_world(new_world: Callable[..., World], order: str) -> tuple[World, WriterPolicy]:
    """A bucket with a base file, and the policy of writers without coordination."""
    how = {"hoodie.record.merge.mode": order, "hoodie.table.ordering.fields": "ts"}
    world = new_world(9, {"hoodie.table.type": "MERGE_ON_READ", **how})
    first = world.begin(policy=NEVER, action=Action.DELTACOMMIT)
    stored(world, first, base(previous=None, time=first.instant))
    return world, replace(NEVER, conflicts=passing(ConflictRule.SIMPLE))


def stored(
    world: World,
    running: Transaction,
    stat: WriteStat,
    operation: str = "UPSERT",
    forced: str | None = None,
) -> None:
    """Commit ``stat`` with a file at its path, and whether its deletes are ``forced``."""
    world.memory.put_if_absent(stat.path, b"a file")
    extra = {} if forced is None else {FORCED_KEY: forced}
    committed(world, running, stat, operation=operation, extra=extra)


EVENT_TIME = "EVENT_TIME_ORDERING"


@pytest.mark.parametrize("deletes_last", [False, True], ids=["row last", "delete last"])
@pytest.mark.parametrize("order", [EVENT_TIME, "COMMIT_TIME_ORDERING"])
@pytest.mark.parametrize(
    ("operation", "forced"),
    [("DELETE", None), ("UPSERT", "true"), ("UPSERT", None), ("UPSERT", "false")],
    ids=["a delete", "a statement with deletes", "Apache Hudi's", "deletes with ordering values"],
)
def test_a_row_above_a_delete_that_it_has_not_seen_is_a_conflict(
    new_world: Callable[..., World],
    order: str,
    deletes_last: bool,
    operation: str,
    forced: str | None,
) -> None:
    """The deleted row of the base file could be back."""
    world, policy = based_world(new_world, order)
    delete, row = (world.begin(policy=policy, action=Action.DELTACOMMIT) for _ in range(2))
    deletes = replace(log(time=delete.instant), num_deletes=1)
    writes: list[Callable[[], None]] = [
        lambda: stored(world, delete, deletes, operation, forced),
        lambda: stored(world, row, log(time=row.instant)),
    ]
    fast, slow = writes[::-1] if deletes_last else writes
    fast()
    if order == EVENT_TIME and forced != "false":
        with pytest.raises(CommitConflict, match="may bring the deleted row back: a/00000003"):
            slow()
    else:
        slow()


@pytest.mark.parametrize("deletes_last", [False, True], ids=["row last", "delete last"])
@pytest.mark.parametrize("what", ["a row below a delete", "no base file", "another bucket"])
def test_other_deletes_pass_by_rows(
    new_world: Callable[..., World], what: str, deletes_last: bool
) -> None:
    world, policy = based_world(new_world, EVENT_TIME)
    first, second = (world.begin(policy=policy, action=Action.DELTACOMMIT) for _ in range(2))
    row, delete = (first, second) if what == "a row below a delete" else (second, first)
    group = shared_bucket_file_id(4) if what == "no base file" else GROUP
    other = shared_bucket_file_id(5) if what == "another bucket" else group
    writes = [(row, group, "UPSERT"), (delete, other, "DELETE")]
    for running, of, operation in writes if deletes_last else writes[::-1]:
        stored(world, running, log(of, running.instant), operation)


@pytest.mark.parametrize("deletes_last", [False, True], ids=["row last", "delete last"])
@pytest.mark.parametrize("planned", [shared_bucket_file_id(4), GROUP], ids=["planned", "not"])
def test_a_row_above_a_delete_is_a_conflict_where_a_compaction_makes_the_base_file(
    new_world: Callable[..., World], planned: FileId, deletes_last: bool
) -> None:
    """The compaction merges older logs alone, so the delete and the row stay above its file."""
    world, policy = based_world(new_world, EVENT_TIME)
    group = shared_bucket_file_id(4)
    older = world.begin(policy=policy, action=Action.DELTACOMMIT)
    stored(world, older, log(group, older.instant))
    plan(world, world.writer().next_time(world.table().timeline()), older.instant, group=planned)
    delete, row = (world.begin(policy=policy, action=Action.DELTACOMMIT) for _ in range(2))
    writes = [(row, "UPSERT"), (delete, "DELETE")]
    fast, slow = writes if deletes_last else writes[::-1]
    stored(world, fast[0], log(group, fast[0].instant), fast[1])
    if planned == group:
        with pytest.raises(CommitConflict, match="may bring the deleted row back: a/00000004"):
            stored(world, slow[0], log(group, slow[0].instant), slow[1])
    else:
        stored(world, slow[0], log(group, slow[0].instant), slow[1])
