"""Worlds in which pyhudi's own services run beside its writers and readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.own_clustering import REVERSED, OwnCluster
from tests.simulation.own_services import RETENTION, OwnArchive, OwnClean
from tests.simulation.programs import Program, Upsert
from tests.simulation.rows import Row
from tests.simulation.scenarios import GROUPS, THREE, UPDATES
from tests.simulation.service_scenarios import READER
from tests.simulation.world import Scenario

#: it spares nothing: readers here have no lease, and are told by name when they come too late
SOON: Final = OwnClean(times=2, retention=replace(RETENTION, spared_ms=0))

TWO_ROWS: Final = (("k1",), ("k2",))
FOUR_ROWS: Final = (("k1",), ("k2",), ("k3",), ("k4",))
#: one has several groups in its plan, the other one
TWO: Final = (OwnCluster(times=2, pairs=True), OwnCluster())


def _beside(
    name: str,
    *services: Program,
    version: int = 9,
    writers: Mapping[str, Program] = THREE,
    skews: Mapping[str, float] | None = None,
    groups: tuple[tuple[str, ...], ...] = GROUPS,
) -> Row:
    programs = dict(writers) | dict(READER)
    programs |= {f"own-{number}": service for number, service in enumerate(services, 1)}
    return Row(name, Scenario(programs, groups, version, skews=skews or {}))


def _reversed(name: str, version: int = 9) -> Row:
    programs = {**REVERSED, "w2": Upsert(("k2", "new")), **READER}
    return Row(name, Scenario(programs, TWO_ROWS, version))


OWN_ROWS: Final = (
    _beside("our archive", OwnArchive(times=3)),
    _beside("our archive, table version 6", OwnArchive(times=3), version=6),
    _beside("two archives", OwnArchive(times=2), OwnArchive(times=2)),
    _beside("our clean and archive", SOON, OwnArchive(times=3)),
    _beside("our clean and archive, table version 6", SOON, OwnArchive(times=3), version=6),
    _beside(
        "our clean and archive, UPDATEs whose pins are gone, wall clocks seconds apart",
        SOON,
        OwnArchive(times=3),
        writers=UPDATES,
        skews={"w1": -3.0, "w3": 2.0, "own-2": -5.0},
    ),
    _beside("our clustering", OwnCluster(times=2)),
    _beside("two clusterings", *TWO, groups=FOUR_ROWS),
    _beside("two clusterings, table version 6", *TWO, groups=FOUR_ROWS, version=6),
    _beside("our clustering, clean and archive", OwnCluster(), SOON, OwnArchive(times=2)),
    _reversed("a write that takes a clustering back"),
    _reversed("a write that takes a clustering back, table version 6", version=6),
)
