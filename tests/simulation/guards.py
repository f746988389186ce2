"""Guards switched off one at a time, by replacing the product's code from outside.

The product has no such switches. ``off(name)`` lasts while its block runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from pyhudi.config import FailedWrites
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.table_config import TableConfig
from pyhudi.reads.pins import Pinned, PinnedQueries
from pyhudi.reads.scan import Query, open_query
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.view import FileSystemView, ViewCache, advance, list_view
from pyhudi.transactions.markers.marker_log import Batching, MarkerLog
from pyhudi.transactions.markers.marker_service import MarkerService, OpenMarkers
from pyhudi.transactions.markers.markers import delete_files, delete_markers, marked_files
from pyhudi.transactions.phases import Phase
from pyhudi.transactions.transaction import Transaction
from tests.simulation.explore import Bound, Explored, Finding, Weather, explore, search_seeds
from tests.simulation.hudi_services import HudiRollback, Target
from tests.simulation.programs import Clean, Cluster, Read, Upsert
from tests.simulation.scheduler import FaultKind
from tests.simulation.statements import Update
from tests.simulation.world import OTHER_TABLE, Scenario

#: guard -> what is replaced, by what
Guards = dict[str, dict[str, Any]]

TRANSACTION = "pyhudi.transactions.transaction"
ACTIVE = "pyhudi.timeline.active"
PUBLISH = "pyhudi.transactions.publish.FinalPut"


def nothing(*_: Any, **__: Any) -> None:
    """The guard looks away."""


def _for_ever(*_: Any, **__: Any) -> float:
    """The lock always counts as ours."""
    return float("inf")


def _count_as_failed(transaction: Transaction) -> None:
    """What many do with a put that got no answer: take it for failed, and clean up."""
    storage, instant = transaction.table.storage, transaction.instant
    transaction._move(Phase.UNKNOWN)
    delete_files(storage, marked_files(storage, instant) or ())
    delete_markers(storage, instant)
    transaction._heartbeat.stop()


def _opened_again(pins: PinnedQueries, asked: Pinned) -> Query:
    """The table as it is now, for the state that the rows were read in."""
    return open_query(pins.runtime, asked.root, asked.options, asked.session, asked.instant)


def _one_table(root: str) -> str:
    """The two tables of an application have one key, but the observer's own have not."""
    return root if root.startswith("sim:/truth") else root.removesuffix(OTHER_TABLE)


def _by_file_alone(storage: Storage, timeline: Timeline, instant: Instant) -> tuple[str, str]:
    modified_ms = timeline.modified_ms.get(instant_key(instant), 0)
    return _one_table(storage.root), f"{timeline.file_of(instant)}@{modified_ms}"


def _any_view(
    self: ViewCache, storage: Storage, config: TableConfig, timeline: Timeline
) -> FileSystemView:
    """The last view of either table, where it can be moved on."""
    known = self._views.get((_one_table(storage.root), 0, 0))
    view = advance(known, timeline) if known is not None else None
    view = view or list_view(storage, timeline)
    self._views.put((_one_table(storage.root), 0, 0), view)
    return view


def _by_instant_alone(
    self: MarkerService, storage: Storage, instant: InstantTime, batching: Batching
) -> OpenMarkers:
    self._logs[instant] = MarkerLog(storage, instant, self._clock, batching)
    return OpenMarkers(self, instant)


#: finds some of what other guards are there for, once it is too late to prevent it
LOOK_BACK = {f"{PUBLISH}._look_back": nothing}

#: what is replaced by what; nothing where the scenario is without the guard already
GUARDS: Guards = {
    "conflict check": {f"{TRANSACTION}.check_conflicts": nothing},
    "merge target newer than own instant": {
        f"{TRANSACTION}.Transaction.check_targets": nothing,
        # Most such instants are not even requested.
        "pyhudi.transactions.instants.overtaken": nothing,
    },
    "put-if-absent": {},
    "primary-key conflict check": {},
    "holder check before commit": {
        "pyhudi.locks.filesystem.FilesystemLock.check": _for_ever,
        **LOOK_BACK,
    },
    "lease before each try of the final put": {f"{PUBLISH}._look_again": nothing, **LOOK_BACK},
    "look back after the final put": LOOK_BACK,
    "heartbeat check before commit": {
        f"{TRANSACTION}.Transaction._check_fences": nothing,
        **LOOK_BACK,
    },
    "scheduling under the lock": {},
    "commits of two tables": {f"{ACTIVE}.CommitCache._key": staticmethod(_by_file_alone)},
    "listed files of two tables": {"pyhudi.timeline.view.ViewCache.load": _any_view},
    "markers of two tables": {
        "pyhudi.transactions.markers.marker_service.MarkerService.open": _by_instant_alone
    },
    "the state of a pin that is gone": {
        "pyhudi.reads.pins.PinnedQueries.state": _opened_again,
    },
    "outcome unknown is not a failure": {
        f"{TRANSACTION}.Transaction._leave_unknown": _count_as_failed
    },
}


@dataclass(frozen=True, slots=True)
class Case:
    """Where a guard's anomaly shows: a scenario, how far to look, and which invariant breaks.

    ``stops`` says what the guard stops, and ``mutant`` names the edit that takes it away.
    """

    guard: str
    scenario: Scenario
    bound: Bound
    broken: str
    #: how many seeds to try instead, where a bound that finds it is too far
    seeds: int = 0
    stops: str = ""
    mutant: str = ""
    #: a seed that has found it, which tests try before all others
    known_seed: int | None = None

    def search(self) -> Explored:
        """Look for the anomaly, the guard being off already; ends where it is found."""
        if self.seeds:
            return self._search(range(self.seeds))
        return explore(self.scenario, self.bound, self.is_it)

    def search_again(self) -> Explored:
        """The same, and first where it was found before: a change may have moved it."""
        if self.known_seed is not None:
            explored = self._search((self.known_seed,))
            if any(map(self.is_it, explored.findings)):
                return explored
        return self.search()

    def _search(self, seeds: Iterable[int]) -> Explored:
        weather = Weather(self.bound.kinds, self.bound.faults, self.bound.residuals)
        return search_seeds(self.scenario, seeds, weather, self.is_it)

    def is_it(self, finding: Finding) -> bool:
        return self.broken in finding.broken


LOST = "nothing committed is lost"
HOME = "a key has one home"
SETTLES = "every instant settles"
LIVE = "nothing live is deleted"

ONE_KEY = {"w1": Upsert(("k1",)), "w2": Upsert(("k1",))}
ONE_ROW = (("k1",),)
FOUR = ("k1", "k2", "k3", "k4")
STOP = Bound(preemptions=0, faults=1, kinds=(FaultKind.PAUSE,))

#: Apache Hudi's EAGER policy, which asks for no lock
UNDONE_AMID = Scenario(
    {"w1": Upsert(("k1",)), "hudi": HudiRollback(target=Target.PENDING, locked=False)}, ONE_ROW
)

CASES = (
    Case("conflict check", Scenario(ONE_KEY, ONE_ROW), Bound(preemptions=1), LOST),
    Case(
        "merge target newer than own instant",
        Scenario(ONE_KEY, ONE_ROW, skews={"w2": 5.0}),
        Bound(preemptions=1),
        LOST,
    ),
    Case(
        "put-if-absent",
        Scenario(ONE_KEY, ONE_ROW, lock="service", put_if_absent=False),
        Bound(),
        LIVE,
        seeds=2_000,
    ),
    Case(
        "primary-key conflict check",
        Scenario(
            {w: Upsert(("new",), checks_keys=False) for w in ("w1", "w2")},
            ONE_ROW,
        ),
        Bound(preemptions=1),
        HOME,
    ),
    Case("holder check before commit", Scenario(ONE_KEY, ONE_ROW), STOP, LOST),
    Case(
        "lease before each try of the final put",
        # Hardly longer than one put may take.
        Scenario(ONE_KEY, ONE_ROW, lock="service", lease_s=0.15),
        Bound(preemptions=0, faults=2, kinds=(FaultKind.LOSE_REQUEST,)),
        LOST,
    ),
    Case("look back after the final put", UNDONE_AMID, Bound(preemptions=1), LOST),
    Case(
        "heartbeat check before commit",
        Scenario(
            {"w1": Upsert(("k1",)), "cleaner": Clean()},
            ONE_ROW,
            failed_writes=FailedWrites.EAGER,
        ),
        STOP,
        LIVE,
    ),
    Case(
        "scheduling under the lock",
        Scenario({"w1": Upsert(("k1",)), "clustering": Cluster(locked=False)}, ONE_ROW),
        Bound(preemptions=1),
        LOST,
    ),
    Case(
        "the state of a pin that is gone",
        Scenario({"w1": Update(("k1",)), "w2": Upsert(("k1",))}, ONE_ROW),
        Bound(preemptions=1),
        LOST,
    ),
    Case(
        "commits of two tables",
        Scenario({"w1": Upsert(("k1",)), "reader": Read()}, ONE_ROW, twin=True),
        Bound(preemptions=1),
        LIVE,
    ),
    Case(
        "listed files of two tables",
        Scenario({"w1": Upsert(("k1",)), "reader": Read()}, ONE_ROW, twin=True),
        Bound(preemptions=1),
        LIVE,
    ),
    Case(
        "markers of two tables",
        Scenario({"w1": Upsert(FOUR)}, tuple((key,) for key in FOUR), twin=True),
        Bound(faults=1, kinds=(FaultKind.CRASH,)),
        SETTLES,
        seeds=2_000,
    ),
    Case(
        "outcome unknown is not a failure",
        Scenario({"w1": Upsert(("k1",))}, ONE_ROW),
        Bound(preemptions=0, faults=1, kinds=(FaultKind.CUT_OFF_AFTER,)),
        LIVE,
    ),
)


@contextmanager
def off(name: str, guards: Guards = GUARDS) -> Iterator[None]:
    """Without this guard."""
    with ExitStack() as stack:
        for place, instead in guards[name].items():
            stack.enter_context(patch(place, instead))
        yield
