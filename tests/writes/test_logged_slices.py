"""Which slices a write has to look into, since their logs have deletes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import CompactionOperation, CompactionPlan, render_compaction_plan
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.rows.spec import FileSystemSpec, GroupPlan
from pyhudi.transactions.conflicts.comparison import footprint
from pyhudi.writes.placement.logged_slices import logged_deletes
from tests.fakes import FakeClock
from tests.transactions.world import NEVER, World, put_instant

GROUP = FileId("00000003-7b0e-4fc7-8e5b-4b8ad2a3c6f1-0")
EVENT_TIME = {
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.ordering.fields": "ts",
}
SCHEMA = SparkSchema((Column("id", "string"), Column("ts", "long")))


def logged(world: World, deletes: int) -> str:
    """Commit a log of the group, which has no base file; its path."""
    running = world.begin(policy=NEVER, action=Action.DELTACOMMIT)
    path = f"a/{LogFileName(GROUP, running.instant, 1, '0-1-1').render()}"
    world.memory.put_if_absent(path, b"a log")
    stat = WriteStat(
        GROUP, path, "a", prev_commit=running.instant, num_deletes=deletes, log_version=1,
        file_size_bytes=5,
    )  # fmt: skip
    metadata = CommitMetadata("DELETE", (stat,), {SCHEMA_KEY: SCHEMA.declaration("t")})
    running.inflight(None)
    running.seal(lambda timeout_s: True, [path])
    running.commit(metadata, footprint(running.who, metadata, frozenset(), True))
    return path


def plan(world: World, log: str) -> InstantTime:
    """Plan a compaction of one log of the group."""
    time = world.writer().next_time(world.table().timeline())
    of = CompactionOperation(time, (log.rpartition("/")[2],), None, GROUP, "a")
    data = render_compaction_plan(CompactionPlan((of,)))
    put_instant(world, Instant(time, Action.COMPACTION, State.REQUESTED), data)
    return time


@pytest.mark.parametrize("planned", [False, True])
def test_a_group_of_logs_is_looked_into_where_a_compaction_is_to_merge_some(
    new_world: Callable[..., World], planned: bool
) -> None:
    world = new_world(9, {"hoodie.table.type": "MERGE_ON_READ", **EVENT_TIME})
    first = logged(world, 0)
    time = plan(world, first) if planned else None
    second = logged(world, 1)
    table, files = world.table(), FileSystemSpec("local")
    timeline = table.timeline()
    runtime = Runtime(FakeClock(), lambda at: world.memory, lambda at: (files, "/none"), None, None)  # type: ignore[arg-type]
    write: Any = SimpleNamespace(
        runtime=runtime, table=table, config=table.config, view=table.view(timeline),
        transaction=SimpleNamespace(timeline=timeline), operation=Operation.UPSERT,
        ordering_fields=("ts",), kept=SimpleNamespace(),
    )  # fmt: skip
    found = logged_deletes(write, {7: GroupPlan(7, GROUP, "a", None, time, log_version=1)})
    assert write.kept.logged == {("a", GROUP)}
    if not planned:
        assert found is None
        return
    assert found is not None
    assert found.planned == {7: (time, frozenset({first}))}
    assert found.slices[7].logs == (first, second)
    assert write.kept.deleting == {("a", GROUP)}
