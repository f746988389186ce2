"""Worlds of merge-on-read tables: writers of logs, compactions of both, and what befalls them.

Writers that share their file groups without coordination are in ``shared_scenarios.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.config import FailedWrites
from pyhudi.format.instants import State
from pyhudi.services.compaction import CompactionStep
from tests.simulation.appends import Append, Remove
from tests.simulation.explore import LOST, Weather
from tests.simulation.hudi_compact import HudiCompact, HudiDelta
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.own_scenarios import SOON
from tests.simulation.own_services import OwnArchive
from tests.simulation.programs import Clean, Program, Read
from tests.simulation.rows import STORM, Row
from tests.simulation.scenarios import APART, GROUPS
from tests.simulation.scheduler import FaultKind
from tests.simulation.service_scenarios import READER
from tests.simulation.world import Scenario

WRITERS: Final[Mapping[str, Program]] = {
    "w1": Append(("k1",)),
    "w2": Append(("k1", "k3")),
    "w3": Append(("k2", "k3", "new")),
}
#: keys go and come back
RETURNS: Final[Mapping[str, Program]] = {
    "w1": Remove(("k1",)),
    "w2": Append(("k1", "k3")),
    "w3": Append(("k1", "k2")),
}
BESIDE: Final[Mapping[str, Program]] = {"cleaner": Clean(2), "reader": Read(3)}
#: a writer of Apache Hudi's that asks nobody
ALONE: Final[Mapping[str, Program]] = {"hudi": HudiDelta(keys=("k1", "k3"))}
TWO: Final = (OwnCompact(times=2), OwnCompact())
UNSCHEDULE: Final = OwnCompact(step=CompactionStep.UNSCHEDULE, times=2)
#: they look for logs again and again, since they wait until no write runs
MERGE: Final = OwnCompact(step=CompactionStep.SCHEDULE_AND_RUN_LOGS, times=8, pause_s=0.05)
PLAN_LOGS: Final = OwnCompact(step=CompactionStep.SCHEDULE_LOGS, times=6, pause_s=0.05)
RUN_LOGS: Final = OwnCompact(step=CompactionStep.RUN_LOGS, times=6, pause_s=0.1)
UNPLAN_LOGS: Final = OwnCompact(step=CompactionStep.UNSCHEDULE_LOGS, times=6, pause_s=0.1)
LATER: Final = OwnCompact(times=3, pause_s=0.3)
#: answers come later than the lease
LATE: Final = Weather((FaultKind.SLOW, FaultKind.SLOW, FaultKind.CRASH), faults=4)
#: Hudi's services look at no lease before they write
CRASHES: Final = Weather((FaultKind.CRASH, *LOST))


def _beside(
    name: str,
    *services: Program,
    version: int = 9,
    writers: Mapping[str, Program] = WRITERS,
    weather: Weather = STORM,
    **facts: object,
) -> Row:
    """Writers and readers beside services; the first letter of a service says whose it is."""
    programs = dict(writers) | dict(READER)
    for number, service in enumerate(services, 1):
        ours = not isinstance(service, HudiCompact)
        programs[f"{'own' if ours else 'hudi'}-{number}"] = service
    scenario = Scenario(programs, GROUPS, version, merge_on_read=True, **facts)  # type: ignore[arg-type]
    return Row(name, scenario, weather)


def _writers(name: str, version: int = 9, **facts: object) -> Row:
    programs = {**WRITERS, **BESIDE}
    scenario = Scenario(programs, GROUPS, version, merge_on_read=True, **facts)  # type: ignore[arg-type]
    return Row(name, scenario)


LOG_ROWS: Final = (
    _writers("three writers of logs"),
    _writers("three writers of logs, table version 8", 8),
    _writers("three writers of logs, table version 6", 6),
    _writers(
        "three writers of logs, table version 6, failed writes policy EAGER",
        6,
        failed_writes=FailedWrites.EAGER,
    ),
    _writers("three writers of logs, wall clocks seconds apart", skews=APART),
    _beside("our compaction, twice at the same time", *TWO),
    _beside("our compaction, twice at the same time, table version 8", *TWO, version=8),
    _beside("our compaction, twice at the same time, table version 6", *TWO, version=6),
    _beside(
        "our compaction, a store whose answers come later than the lease, programs that crash",
        *TWO,
        weather=LATE,
    ),
    _beside("Apache Hudi's compaction", HudiCompact(times=2)),
    _beside("Apache Hudi's compaction, table version 6", HudiCompact(times=2), version=6),
    _beside("Apache Hudi's compaction and ours", HudiCompact(times=2), OwnCompact()),
    _beside(
        "Apache Hudi's compaction and ours, table version 6",
        HudiCompact(times=2),
        OwnCompact(),
        version=6,
    ),
    _beside(
        "a plan of Apache Hudi that we run",
        HudiCompact(dies_after=State.REQUESTED),
        OwnCompact(step=CompactionStep.RUN, times=3),
        OwnCompact(step=CompactionStep.RUN, times=3),
    ),
    _beside(
        "a plan of Apache Hudi that we run, table version 6",
        HudiCompact(dies_after=State.REQUESTED),
        OwnCompact(step=CompactionStep.RUN, times=3),
        version=6,
    ),
    _beside(
        "a compaction of Apache Hudi that died, and ours",
        HudiCompact(dies_after=State.INFLIGHT),
        OwnCompact(pause_s=1.0, times=2),
    ),
    _beside(
        "a compaction of Apache Hudi that died, and ours, table version 6",
        HudiCompact(dies_after=State.INFLIGHT),
        OwnCompact(pause_s=1.0, times=2),
        version=6,
    ),
    _beside("keys that go and come back, our compaction", OwnCompact(times=2), writers=RETURNS),
    _beside(
        "keys that go and come back, our compaction, table version 6",
        OwnCompact(times=2),
        writers=RETURNS,
        version=6,
    ),
    _beside("our compaction, clean and archive", OwnCompact(times=2), SOON, OwnArchive(times=3)),
    _beside(
        "our compaction, clean and archive, table version 6",
        OwnCompact(times=2),
        SOON,
        OwnArchive(times=3),
        version=6,
    ),
    _beside("plans that are withdrawn", OwnCompact(step=CompactionStep.SCHEDULE), UNSCHEDULE),
    _beside(
        "plans that are withdrawn, table version 6",
        OwnCompact(step=CompactionStep.SCHEDULE),
        UNSCHEDULE,
        version=6,
    ),
    _beside("a writer of Apache Hudi alone, our compaction", *TWO, writers=ALONE, weather=CRASHES),
    _beside(
        "a writer of Apache Hudi alone, our compaction, table version 6",
        *TWO,
        writers=ALONE,
        weather=CRASHES,
        version=6,
    ),
    _beside(
        "a writer of Apache Hudi that appends to logs and dies, table version 6",
        writers={
            **WRITERS,
            "hudi": HudiDelta(keys=("k1", "k3"), appends=True, dies_after=State.INFLIGHT),
        },
        weather=CRASHES,
        version=6,
    ),
    _beside("our log compaction, twice at the same time", MERGE, MERGE),
    _beside("our log compaction, twice at the same time, table version 8", MERGE, MERGE, version=8),
    _beside(
        "our log compaction, a store whose answers come later than the lease, programs that crash",
        MERGE,
        MERGE,
        weather=LATE,
    ),
    _beside("a plan of our log compaction that two programs run", PLAN_LOGS, RUN_LOGS, RUN_LOGS),
    _beside("plans of log compactions that are withdrawn", PLAN_LOGS, UNPLAN_LOGS),
    _beside(
        "our log compaction and our compaction, clean and archive",
        MERGE,
        LATER,
        SOON,
        OwnArchive(times=3),
    ),
    _beside(
        "our log compaction and our compaction, clean and archive, table version 8",
        MERGE,
        LATER,
        SOON,
        OwnArchive(times=3),
        version=8,
    ),
    _beside(
        "keys that go and come back, our log compaction and our compaction",
        MERGE,
        OwnCompact(pause_s=1.5),
        writers=RETURNS,
    ),
)
