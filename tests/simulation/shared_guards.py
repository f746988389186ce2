"""The guards around writers without coordination, each with the anomaly that it is there for.

The same as ``guards.py``, for worlds whose writers share buckets.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Final

from pyhudi.format.filenames import FileId, bucket_file_id, shared_bucket_file_id
from pyhudi.rows.spec import GroupPlan
from pyhudi.services.compaction import CompactionStep
from pyhudi.transactions.conflicts.comparison import Footprint
from tests.simulation.explore import Bound
from tests.simulation.guards import HOME, TRANSACTION, Case, Guards, nothing
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.programs import Program
from tests.simulation.shared_buckets import Compute, Share, Sweep
from tests.simulation.world import Scenario

SAME: Final = "every order gives the same rows"
RACE: Final = "no race is lost"
COMPARISON: Final = "pyhudi.transactions.conflicts.comparison"
INDEXES: Final = "pyhudi.writes.placement.indexes"
_NUMBERS: Final = itertools.count(1)


def _as_it_is(ours: Footprint, theirs: Footprint) -> Footprint:
    return ours


def _nothing_left(ours: Footprint, theirs: Footprint) -> Footprint:
    return Footprint(ours.who)


def _one_of_its_own(bucket: int, number: int = 0) -> FileId:
    return bucket_file_id(bucket, f"00000000-0000-0000-0000-{next(_NUMBERS):012d}")


def _always_the_first(write: Any, ordinal: int, partition: str, bucket: int) -> GroupPlan:
    return GroupPlan(ordinal, shared_bucket_file_id(bucket), partition, log_version=1)


def _no_buckets(*_: Any) -> frozenset[Any]:
    return frozenset()


SHARED_GUARDS: Final[Guards] = {
    "logs of one bucket pass by each other": {f"{COMPARISON}.let_logs_pass": _as_it_is},
    "all begin a bucket under one id": {f"{INDEXES}.shared_bucket_file_id": _one_of_its_own},
    "the id of a replaced group is not used again": {f"{INDEXES}._new_bucket": _always_the_first},
    "another id of a bucket is a conflict": {f"{COMPARISON}.buckets_of": _no_buckets},
    "a replaced partition is a conflict": {f"{COMPARISON}.let_logs_pass": _nothing_left},
    "a later log in a pending compaction is a conflict": {f"{TRANSACTION}.check_order": nothing},
    # Without it a statement is judged as the other writes of its session are.
    "rows computed from the table are judged": {},
}


def world(
    programs: dict[str, Program],
    by_event: bool = True,
    rows: tuple[tuple[str, ...], ...] = (("k1",),),
) -> Scenario:
    """A table of one bucket that has a group."""
    return Scenario(programs, rows, merge_on_read=True, shared=True, by_event=by_event)


#: the bucket of k2 has no group yet
FRESH: Final[dict[str, Program]] = {
    "w1": Share(("k2",), retries=0, at=1),
    "w2": Share(("k2",), retries=0, at=2),
}
BOTH: Final[dict[str, Program]] = {
    "w1": Share(("k1",), retries=0, at=2),
    "w2": Share(("k1",), retries=0, at=1),
}
BEGINS: Final[dict[str, Program]] = {
    "w1": Share(("k2",), at=1),
    "w2": replace(Share(("k2",), at=2), optimist=True),
}
SWEPT: Final[dict[str, Program]] = {"sweep": Sweep(), "w1": Share(("k1",), at=1)}
PLANNED: Final[dict[str, Program]] = {
    "w1": Share(("k1",)),
    "w2": Share(("k1",)),
    "compact": OwnCompact(step=CompactionStep.SCHEDULE),
}

SHARED_CASES: Final = (
    Case(
        "logs of one bucket pass by each other",
        world(BOTH),
        Bound(preemptions=1),
        RACE,
        stops="one of two writers without coordination fails, or begins anew",
    ),
    Case(
        "all begin a bucket under one id",
        world(FRESH),
        Bound(preemptions=1),
        RACE,
        stops="the same, in a bucket that has no file group yet",
        mutant="each writer draws an id for a new bucket",
    ),
    Case(
        "the id of a replaced group is not used again",
        world(SWEPT),
        Bound(preemptions=0),
        SAME,
        stops="rows that were acknowledged are in a group that nobody reads",
        mutant="a bucket is begun again under the id of a replaced group",
    ),
    Case(
        "another id of a bucket is a conflict",
        world(BEGINS),
        Bound(preemptions=1),
        HOME,
        stops="a writer with coordination begins the bucket once more",
    ),
    Case(
        "a replaced partition is a conflict",
        world(SWEPT),
        Bound(preemptions=1),
        SAME,
        stops="a log is added to a group that was replaced meanwhile, and nobody reads it",
    ),
    Case(
        "a later log in a pending compaction is a conflict",
        world(PLANNED, by_event=False),
        Bound(),
        SAME,
        seeds=2_000,
        stops="rows change when a compaction ends, and no commit has changed them",
        mutant="a pending compaction of a later log is no conflict",
    ),
    Case(
        "rows computed from the table are judged",
        world({"w1": Share(("k1",)), "w2": Compute(("k1",), judged=False)}, by_event=False),
        Bound(preemptions=1),
        SAME,
        stops="an UPDATE puts a row that was computed from an old one over a newer one",
        mutant="a statement passes by logs that came since",
    ),
)
