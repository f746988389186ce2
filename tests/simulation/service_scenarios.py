"""Worlds in which Apache Hudi's services run beside pyhudi's writers and readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pyhudi.format.instants import State
from tests.simulation.explore import LOST, Weather
from tests.simulation.hudi_archive import HudiArchive
from tests.simulation.hudi_compact import HudiCompact
from tests.simulation.hudi_services import (
    HudiClean,
    HudiRestore,
    HudiRollback,
    Keep,
    Target,
)
from tests.simulation.hudi_upgrade import HudiUpgrade
from tests.simulation.programs import Cluster, Program, Read
from tests.simulation.rows import STORM, Row
from tests.simulation.scenarios import GROUPS, THREE, UPDATES
from tests.simulation.scheduler import FaultKind
from tests.simulation.world import Scenario

#: readers whose files a cleaner may delete under their hands
READER: Final[Mapping[str, Program]] = {"reader": Read(3, cleaned=True)}
VERSIONS: Final = HudiClean(times=2, keep=Keep.FILE_VERSIONS)
_UNLOCKED: Final = replace(VERSIONS, locked=False)
CALM: Final = Weather(faults=0)
#: what an undone writer that lives and stops, or is cut off, leaves: see the last row
CRASHES: Final = Weather((FaultKind.CRASH,))
CUTS: Final = Weather((FaultKind.CRASH, *LOST))


def _beside(
    name: str,
    *services: Program,
    version: int = 9,
    weather: Weather = STORM,
    broken: frozenset[str] = frozenset(),
    because: str = "",
    saved: bool = False,
) -> Row:
    programs = dict(THREE) | dict(READER)
    programs |= {f"hudi-{number}": service for number, service in enumerate(services, 1)}
    scenario = Scenario(programs, GROUPS, version, saved=saved)
    return Row(name, scenario, weather, broken, because)


def _compacted(name: str, version: int = 9) -> Row:
    """pyhudi only reads there: it refuses to write such a table."""
    programs: dict[str, Program] = {
        "reader": Read(4, cleaned=True),
        "reader-2": Read(3, cleaned=True),
        "hudi-compact": HudiCompact(),
        "hudi-clean": VERSIONS,
        "hudi-archive": HudiArchive(times=2),
    }
    return Row(name, Scenario(programs, GROUPS, version, merge_on_read=True))


def _clustered(
    name: str, service: Program, broken: frozenset[str] = frozenset(), because: str = ""
) -> Row:
    programs: dict[str, Program] = {name: THREE[name] for name in ("w1", "w2")}
    programs |= {"hudi-1": service, "hudi-2": HudiArchive(), "clustering": Cluster()}
    programs |= {} if broken else READER
    return Row(name, Scenario(programs, GROUPS), CALM, broken, because)


SERVICE_ROWS: Final = (
    _beside("Apache Hudi's archiver", HudiArchive(times=2)),
    _beside("Apache Hudi's archiver, table version 6", HudiArchive(times=2), version=6),
    _beside("Apache Hudi's cleaner, by commits", HudiClean(times=2)),
    _beside("Apache Hudi's cleaner, by file versions", VERSIONS),
    _beside("the cleaner by file versions, version 6, no lock", _UNLOCKED, version=6),
    _beside("cleaner and archiver", VERSIONS, HudiArchive(times=2)),
    _beside("rollback to the newest instant", HudiRollback(), weather=CRASHES),
    _beside("rollback, table version 6", HudiRollback(), version=6, weather=CRASHES),
    _beside(
        "rollback without a lock",
        HudiRollback(locked=False),
        weather=CALM,
        broken=frozenset({"what was undone stays undone", "every read is serial"}),
        because="a commit may come between Hudi's look for the newest one and its request, and is "
        "then built on what is undone",
    ),
    _beside("restore to a savepoint", HudiRestore(), weather=CALM, saved=True),
    _beside("restore, table version 6", HudiRestore(), version=6, weather=CALM, saved=True),
    _beside(
        "cleaner, archiver and restore",
        VERSIONS,
        HudiArchive(),
        HudiRestore(),
        weather=CALM,
        saved=True,
    ),
    _beside(
        "rollbacks by Apache Hudi's EAGER policy, under the lock",
        HudiRollback(target=Target.PENDING),
        weather=CALM,
    ),
    _beside(
        "the same, and writers that crash or are cut off",
        HudiRollback(target=Target.PENDING),
        weather=CUTS,
        broken=frozenset({"every instant settles"}),
        because="such a rollback, or a restore, takes the markers of a writer that lives; "
        "what that writes before it notices stays if it then dies or does not reach the storage",
    ),
    _beside(
        "a compaction that was planned, cleaner and archiver",
        HudiCompact(dies_after=State.REQUESTED),
        VERSIONS,
        HudiArchive(),
    ),
    _beside("a compaction that died", HudiCompact(dies_after=State.INFLIGHT)),
    _beside(
        "a compaction that died, table version 6",
        HudiCompact(dies_after=State.INFLIGHT),
        version=6,
    ),
    _compacted("compaction of a merge-on-read table, cleaner and archiver"),
    _compacted("compaction of a merge-on-read table, version 6", version=6),
    _clustered("clustering, cleaner by commits, archiver", HudiClean(times=2)),
    _clustered(
        "clustering, cleaner by file versions, archiver",
        HudiClean(keep=Keep.FILE_VERSIONS),
        broken=frozenset({"a key has one home", "every read is serial"}),
        because="Apache Hudi archives a clustering that completed while its cleaner ran, though "
        "that has not cleaned what was replaced (HUDI-6352), and then the replaced files count "
        "once more, for Hudi's readers as for ours",
    ),
    Row(
        "UPDATEs whose pins are gone, cleaner and archiver",
        Scenario({**UPDATES, **READER, "hudi-1": VERSIONS, "hudi-2": HudiArchive(times=2)}, GROUPS),
    ),
    Row(
        "UPDATEs whose pins are gone, rollback to the newest instant",
        Scenario({**UPDATES, **READER, "hudi-1": HudiRollback()}, GROUPS),
        CRASHES,
    ),
    _beside(
        "an upgrade from table version 6 to 9",
        HudiUpgrade(),
        version=6,
        weather=CALM,
        broken=frozenset({"every instant settles"}),
        because="what a write had put in the old layout before it noticed, its markers too, is no "
        "longer looked for",
    ),
)
