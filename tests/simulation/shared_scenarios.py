"""Worlds of writers without coordination: alone, beside compactions, and beside other writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.services.compaction import CompactionStep
from tests.simulation.explore import Weather
from tests.simulation.hudi_compact import HudiCompact
from tests.simulation.log_scenarios import LATE, MERGE
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.own_scenarios import SOON
from tests.simulation.own_services import OwnArchive
from tests.simulation.programs import Clean, Program, Read
from tests.simulation.rows import STORM, Row
from tests.simulation.scenarios import APART
from tests.simulation.service_scenarios import READER
from tests.simulation.shared_buckets import Compute, Drop, Share, Sweep
from tests.simulation.world import Scenario

#: two buckets, of which the second has no group at the beginning
ROWS: Final = (("k1", "k3"),)
#: the ordering values do not follow the names
EVENTS: Final[Mapping[str, Program]] = {
    "w1": Share(("k1", "k3"), retries=0, at=2),
    "w2": Share(("k1", "k2"), retries=0, at=3),
    "w3": Share(("k2", "k3", "k4"), retries=0, at=1),
}
#: the order of logs decides
LOGS: Final[Mapping[str, Program]] = {
    "w1": Share(("k1", "k3")),
    "w2": Share(("k1", "k2")),
    "w3": Share(("k2", "k3", "k4")),
}
GONE: Final[Mapping[str, Program]] = {**LOGS, "w1": Drop(("k1", "k2"))}
OPTIMIST: Final[Mapping[str, Program]] = {"w4": Share(("k1", "k2"), at=4, optimist=True)}
UPDATE: Final[Mapping[str, Program]] = {"w4": Compute(("k1", "k3"))}
SWEEP: Final[Mapping[str, Program]] = {"w4": Sweep()}
TWO: Final[Mapping[str, Program]] = {"own-1": OwnCompact(times=2), "own-2": OwnCompact()}
ONE: Final[Mapping[str, Program]] = {"own-1": OwnCompact(times=2)}
HUDI: Final[Mapping[str, Program]] = {"hudi-1": HudiCompact(times=2)}
WITHDRAWN: Final[Mapping[str, Program]] = {
    "own-1": OwnCompact(step=CompactionStep.SCHEDULE),
    "own-2": OwnCompact(step=CompactionStep.UNSCHEDULE, times=2),
}
MERGED: Final[Mapping[str, Program]] = {"own-1": MERGE, "own-2": OwnCompact(pause_s=1.5)}
WITHOUT: Final = "writers without coordination"


def _row(
    name: str,
    *programs: Mapping[str, Program],
    version: int = 9,
    weather: Weather = STORM,
    **facts: object,
) -> Row:
    """By event time, if the writers are those of ``EVENTS``."""
    given = {name: program for some in programs for name, program in some.items()}
    services = any(some in (TWO, ONE, HUDI, WITHDRAWN, MERGED) for some in programs)
    given |= dict(READER) if services else {"cleaner": Clean(2), "reader": Read(3)}
    by_event = programs[0] is EVENTS
    scenario = Scenario(
        given, ROWS, version, merge_on_read=True, shared=True, by_event=by_event, **facts,  # type: ignore[arg-type]
    )  # fmt: skip
    order = "by event time" if by_event else "by the order of logs"
    return Row(f"{WITHOUT} {order}{name}", scenario, weather)


SHARED_ROWS: Final = (
    _row("", EVENTS),
    _row(", table version 8", EVENTS, version=8),
    _row("", LOGS),
    _row(", wall clocks seconds apart", LOGS, skews=APART),
    _row(", our compaction, twice at the same time", EVENTS, TWO),
    _row(", our compaction, twice at the same time", LOGS, TWO),
    _row(", our compaction, twice at the same time, table version 8", LOGS, TWO, version=8),
    _row(
        ", our compaction, a store whose answers come later than the lease",
        EVENTS,
        ONE,
        weather=LATE,
    ),
    _row(", Apache Hudi's compaction", EVENTS, HUDI),
    _row(", Apache Hudi's compaction", LOGS, HUDI),
    _row(", plans that are withdrawn", LOGS, WITHDRAWN),
    _row(", deletes, our compaction", GONE, ONE),
    _row(
        ", our compaction, clean and archive",
        EVENTS,
        ONE,
        {"own-2": SOON, "own-3": OwnArchive(times=3)},
    ),
    _row(", a writer with coordination, our compaction", EVENTS, OPTIMIST, ONE),
    _row(", an UPDATE, our compaction", LOGS, UPDATE, ONE),
    _row(", a deletion of the partition, our compaction", EVENTS, SWEEP, ONE),
    _row(", a deletion of the partition, our compaction", LOGS, SWEEP, ONE),
    _row(", our log compaction and our compaction", EVENTS, MERGED),
    _row(", our log compaction and our compaction", LOGS, MERGED),
    _row(", our log compaction and our compaction, table version 8", LOGS, MERGED, version=8),
    _row(", deletes, our log compaction and our compaction", GONE, MERGED),
    _row(", an UPDATE, our log compaction and our compaction", LOGS, UPDATE, MERGED),
    _row(
        ", a deletion of the partition, our log compaction and our compaction",
        EVENTS,
        SWEEP,
        MERGED,
    ),
)
