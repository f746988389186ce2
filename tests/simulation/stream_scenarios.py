"""Worlds in which streams write to a table beside writers and services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pyhudi.config import FailedWrites
from tests.simulation.explore import LOST, Weather
from tests.simulation.own_clustering import OwnCluster
from tests.simulation.own_services import OwnArchive
from tests.simulation.programs import Program, Upsert
from tests.simulation.rows import Row
from tests.simulation.scheduler import FaultKind
from tests.simulation.streams import Stream
from tests.simulation.world import Scenario

INSERTS: Final = Stream("a", "a")
CHANGES: Final = Stream("b", "b", upserts=("k1",))
#: each stream has a driver more, which starts while the old one may still run
RESTARTED: Final[Mapping[str, Program]] = {
    "a": INSERTS,
    "a-2": replace(INSERTS, late_s=0.7),
    "b": CHANGES,
    "b-2": replace(CHANGES, late_s=0.4),
}
BATCH: Final[Mapping[str, Program]] = {"w1": Upsert(("k1", "k2"))}
GROUPS: Final = (("k1",), ("k2",))


def _row(name: str, *services: Program, weather: Weather | None = None, **facts: object) -> Row:
    programs = {**RESTARTED, **BATCH}
    programs |= {f"own-{number}": service for number, service in enumerate(services, 1)}
    scenario = Scenario(programs, GROUPS, **facts)  # type: ignore[arg-type]
    return Row(name, scenario, weather or Weather())


ARCHIVE: Final = OwnArchive(times=3, pause_s=0.3)
BOTH: Final = (OwnCluster(), ARCHIVE)
#: a writer that stops until its instant is rolled back and archived past is not what is shown here
NO_STOPS: Final = Weather((FaultKind.CRASH, *LOST))
TWICE: Final = replace(INSERTS, writes=2)
FUNCTION: Final = replace(CHANGES, writes=2, batches=1)
STREAM_ROWS: Final = (
    _row("two streams, each started again, and a batch writer (the same in the rows below)"),
    _row("two streams, table version 6", version=6),
    _row("two streams, table version 8", version=8),
    _row("two streams, failed writes policy EAGER", failed_writes=FailedWrites.EAGER),
    _row("two streams, a lock service", lock="service"),
    _row("two streams, pessimistic writers", pessimistic=True),
    _row("two streams, wall clocks seconds apart", skews={"a": 3.0, "a-2": -3.0, "b-2": 5.0}),
    _row(
        "two streams, monotonic clocks that stand still while a machine is suspended",
        standing=frozenset({*RESTARTED, *BATCH}),
    ),
    _row(
        "two streams, a store whose answers come later than the lease, drivers that crash",
        weather=Weather((FaultKind.SLOW, FaultKind.SLOW, FaultKind.CRASH), faults=4),
    ),
    _row("two streams, our archive, no stops", ARCHIVE, weather=NO_STOPS),
    _row(
        "two streams, our archive, no stops, table version 6", ARCHIVE, weather=NO_STOPS, version=6
    ),
    _row("two streams, our clustering and archive, no stops", *BOTH, weather=NO_STOPS),
    Row(
        "streams whose functions write twice to the table in each batch",
        Scenario(
            {
                "a": TWICE,
                "a-2": replace(TWICE, late_s=0.7),
                "b": FUNCTION,
                "b-2": replace(FUNCTION, late_s=0.4),
            },
            GROUPS,
        ),
    ),
    Row(
        "two queries under one name, of which one is refused",
        Scenario(
            {"a": INSERTS, "b": Stream("a", "b"), "a-2": replace(INSERTS, late_s=0.7)}, GROUPS
        ),
    ),
)
