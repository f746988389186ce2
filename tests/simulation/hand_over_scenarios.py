"""Worlds in which Apache Hudi's sink, restores and failing functions meet streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.explore import LOST, Weather
from tests.simulation.hudi_sink import HudiSink
from tests.simulation.own_services import OwnUndo
from tests.simulation.programs import Program
from tests.simulation.rows import STORM, Row
from tests.simulation.scheduler import FaultKind
from tests.simulation.stream_scenarios import (
    BATCH,
    CHANGES,
    FUNCTION,
    GROUPS,
    INSERTS,
    STREAM_ROWS,
    TWICE,
)
from tests.simulation.streams import Stream
from tests.simulation.world import Scenario

#: Hudi's sink begins a stream, we continue it, and it goes back
FROM_HUDI: Final[Mapping[str, Program]] = {
    "h-1": HudiSink("a", "a"),
    "a-1": Stream("a", "a", batches=3, after=("h-1",)),
    "a-2": Stream("a", "a", batches=4, after=("h-1",), late_s=0.7),
    "h-2": HudiSink("a", "a", batches=5, after=("a-1", "a-2")),
}
#: we begin
FROM_US: Final[Mapping[str, Program]] = {
    "a-1": Stream("a", "a", upserts=("k1",)),
    "h-1": HudiSink("a", "a", batches=4, upserts=("k1",), after=("a-1",)),
    "a-2": Stream("a", "a", batches=5, upserts=("k1",), after=("h-1",)),
}
#: another query
BESIDE: Final[Mapping[str, Program]] = {
    "h-1": HudiSink("h", "h", upserts=("k2",)),
    "h-2": HudiSink("h", "h", batches=3, upserts=("k2",), after=("h-1",)),
    "a-1": INSERTS,
    "a-2": replace(INSERTS, late_s=0.7),
}
#: the batches of ours change what a batch writer changes
BUSY: Final[Mapping[str, Program]] = {**BESIDE, "b": CHANGES, **BATCH}
UNDO: Final[Mapping[str, Program]] = {"undo": OwnUndo(nth=1, pause_s=0.4)}
UNDO_MORE: Final[Mapping[str, Program]] = {"undo": OwnUndo(nth=3, pause_s=0.8)}
FENCE: Final[Mapping[str, Program]] = {"undo": OwnUndo(nth=2, times=2, pause_s=0.3, fence=True)}
#: one driver of a query at a time
LONG: Final = replace(INSERTS, batches=3, every_s=0.3)
LONG_CHANGES: Final = replace(CHANGES, batches=3, every_s=0.2)
ALONE: Final[Mapping[str, Program]] = {
    "a": LONG,
    "a-2": replace(LONG, batches=4, after=("a",)),
    "b": LONG_CHANGES,
    "b-2": replace(LONG_CHANGES, batches=4, after=("b",)),
}
ALONE_TWICE: Final[Mapping[str, Program]] = {
    name: replace(stream, writes=2) for name, stream in ALONE.items() if isinstance(stream, Stream)
}
FUNCTIONS: Final[Mapping[str, Program]] = {
    "a": replace(TWICE, tries=4),
    "a-2": replace(TWICE, tries=4, late_s=0.7),
    "b": replace(FUNCTION, tries=4),
    "b-2": replace(FUNCTION, tries=4, late_s=0.4),
}
LOOKING: Final[Mapping[str, Program]] = {
    "a": replace(TWICE, looks=True),
    "a-2": replace(TWICE, looks=True, late_s=0.7),
    "b": CHANGES,
}
#: what a function meets that tries again
FAILING: Final = Weather((FaultKind.CRASH, *LOST), faults=5)


def _row(
    name: str, *programs: Mapping[str, Program], weather: Weather = STORM, **facts: object
) -> Row:
    given = {name: program for some in programs for name, program in some.items()}
    return Row(name, Scenario(given, GROUPS, **facts), weather)  # type: ignore[arg-type]


BACK: Final = "Apache Hudi's sink begins a stream, we continue it, and it goes back"
OTHER: Final = "Apache Hudi's sink of another query"
RESTORES: Final = "two streams, one driver of each at a time"
HAND_OVER_ROWS: Final = (
    _row(BACK, FROM_HUDI),
    _row(f"{BACK}, table version 6", FROM_HUDI, version=6),
    _row(
        "we begin a stream, Apache Hudi's sink continues it, and it goes back, beside a batch "
        "writer",
        FROM_US,
        BATCH,
    ),
    _row(f"{OTHER} beside our stream", BESIDE),
    _row(f"{OTHER} beside two streams and a batch writer", BUSY),
    _row(f"{OTHER} beside two streams and a batch writer, table version 6", BUSY, version=6),
    _row(f"{RESTORES}, a restore of the last commit", ALONE, UNDO),
    _row(f"{RESTORES}, a batch writer, a restore of three commits", ALONE, BATCH, UNDO_MORE),
    _row(f"{RESTORES}, two restores that fence writers", ALONE, FENCE),
    _row(f"{RESTORES}, two restores that fence writers, table version 6", ALONE, FENCE, version=6),
    _row(f"{RESTORES}, two writes in each batch, a restore", ALONE_TWICE, UNDO),
    _row(f"{RESTORES}, two writes in each batch, two restores that fence", ALONE_TWICE, FENCE),
    _row("streams whose functions make a statement again that failed", FUNCTIONS, weather=FAILING),
    _row("streams whose functions leave a statement out if its row is there", LOOKING),
)
ALL_STREAM_ROWS: Final = (*STREAM_ROWS, *HAND_OVER_ROWS)
