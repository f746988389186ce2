"""The guards around pyhudi's clusterings and their reversal, each with its anomaly.

The same as ``guards.py``, for worlds in which clusterings of pyhudi run beside writers, and beside
other clusterings.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyhudi.services import clustering_schedule
from pyhudi.services.clustering_plan import ClusteringProposal, ClusteringRules, Group
from pyhudi.services.column_ranges import ColumnRanges
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.transactions.writer import Writer
from tests.simulation.explore import Bound
from tests.simulation.guards import LIVE, LOST, SETTLES, Case, Guards, nothing
from tests.simulation.hudi_cluster import HudiCluster
from tests.simulation.own_clustering import REVERSED, OwnCluster, Preferred
from tests.simulation.own_services import OwnSettle
from tests.simulation.programs import Upsert
from tests.simulation.scheduler import FaultKind
from tests.simulation.service_guards import TWO_ROWS
from tests.simulation.world import Scenario

CLUSTERING: Final = "pyhudi.services.clustering"
RUN: Final = "pyhudi.services.clustering_run"
REVERSAL: Final = "pyhudi.services.reversal._Reversal"
DEAD: Final = "pyhudi.services.dead_clusterings"

_proposal = clustering_schedule.proposal_of
_PROPOSALS: WeakKeyDictionary[Storage, ClusteringProposal] = WeakKeyDictionary()


def _proposed_beforehand(
    writer: Writer,
    timeline: Timeline,
    rules: ClusteringRules,
    ranges: ColumnRanges,
    only: Collection[Group] | None = None,
) -> ClusteringProposal:
    """The groups that were chosen before the lock was asked for."""
    storage = writer.table.storage
    if not writer.lock.held():
        _PROPOSALS[storage] = _proposal(writer, timeline, rules, ranges, only)
    return _PROPOSALS[storage]


def _nobody(*_: Any) -> dict[Any, Any]:
    return {}


def _yes(*_: Any) -> bool:
    return True


def _no(*_: Any) -> bool:
    return False


PUBLISH: Final = "pyhudi.transactions.publish.FinalPut"
_UNFENCED: Final = {
    f"{RUN}.was_rolled_back": _no,
    f"{RUN}.RunningClustering._check_fences": nothing,
    f"{PUBLISH}._look_again": nothing,
    f"{PUBLISH}._look_back": nothing,
}

CLUSTERING_GUARDS: Final[Guards] = {
    "a clustering is planned under the lock": {f"{CLUSTERING}.proposal_of": _proposed_beforehand},
    "a clustering leaves out what changed": {f"{RUN}.RunningClustering._changed": _nobody},
    "a write leaves the plans of clusterings": {
        "pyhudi.transactions.transaction.leave_plans": nothing
    },
    "a dead clustering is taken back": {f"{DEAD}.lost_its_owner": _no},
    # What it would break is noticed at the end, too.
    "only a dead clustering is taken back": {f"{DEAD}.lost_its_owner": _yes, **_UNFENCED},
    "fences of a clustering": _UNFENCED,
    "commits during a reversal are judged": {f"{REVERSAL}._check_conflicts": nothing},
}
CRASH: Final = Bound(0, 1, (FaultKind.CRASH,), struck=frozenset({"cluster"}))
STOP: Final = Bound(0, 1, (FaultKind.PAUSE,), struck=frozenset({"cluster"}))
BESIDE: Final = Scenario({"w1": Upsert(("k1",)), "cluster": OwnCluster()}, TWO_ROWS)
TWICE: Final = Scenario({"cluster": OwnCluster(), "cluster-2": OwnCluster()}, TWO_ROWS)

CLUSTERING_CASES: Final = (
    Case(
        "a clustering is planned under the lock",
        BESIDE,
        Bound(preemptions=1),
        LOST,
        stops="a clustering replaces rows of a commit that came between its plan and its request",
        mutant="a clustering carries out what it saw before it had the lock",
    ),
    Case(
        "a clustering leaves out what changed",
        BESIDE,
        Bound(preemptions=2),
        LOST,
        stops="a clustering replaces rows of a commit that came since its plan",
        mutant="commits since the plan are not looked at",
    ),
    Case(
        "a write leaves the plans of clusterings",
        Scenario(
            {"cluster": OwnCluster(), "w1": Upsert(("k1",)), "hudi": HudiCluster(pause_s=60.0)},
            TWO_ROWS,
        ),
        CRASH,
        LOST,
        stops="Apache Hudi finishes the plan of a clustering that died, and replaces the rows of a "
        "commit that came since",
        mutant="a write leaves its groups in the plan",
    ),
    Case(
        "a dead clustering is taken back",
        TWICE,
        CRASH,
        SETTLES,
        stops="the plan and the files of a clustering that died stay for ever",
        mutant="a clustering whose owner is dead stays",
    ),
    Case(
        "only a dead clustering is taken back",
        Scenario({"cluster": OwnCluster(), "settle": OwnSettle()}, TWO_ROWS),
        Bound(preemptions=1),
        LIVE,
        stops="a clustering deletes the files of another that is about to commit",
        mutant="a clustering whose owner lives is taken back",
    ),
    Case(
        "fences of a clustering",
        Scenario({"cluster": OwnCluster(), "settle": OwnSettle(pause_s=1.5)}, TWO_ROWS),
        STOP,
        LIVE,
        stops="a clustering that stood still completes after another took it back",
        mutant="a run that another program took back is committed too",
    ),
    Case(
        "commits during a reversal are judged",
        Scenario({**REVERSED, "w2": Preferred(("k2",), begins_s=0.1)}, TWO_ROWS),
        Bound(),
        LOST,
        seeds=2_000,
        stops="a write that takes a clustering back replaces the rows of a commit that came since",
        mutant="commits during the reversal are not looked at",
    ),
)
