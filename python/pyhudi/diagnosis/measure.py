"""One line of a table's health: what was measured, how it is judged, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

#: commands by which lines are mended
FAILED_WRITES: Final = "pyhudi clean --failed-writes PATH"
CLEAN: Final = "pyhudi clean PATH"
ARCHIVE: Final = "pyhudi archive PATH"
COMPACT: Final = "pyhudi compact --op run PATH"
LOG_COMPACT: Final = "pyhudi compact --op logCompact PATH"
SORTING: Final = (
    "pyhudi cluster PATH --conf hoodie.clustering.plan.strategy.class=OVERLAP "
    "--conf hoodie.clustering.plan.strategy.sort.columns=KEY,COLUMNS"
)
CLUSTERING: Final = "pyhudi cluster PATH"
RESTORE: Final = "pyhudi restore PATH INSTANT, to the commit that the restore was to"


class Level(str, Enum):
    #: as it should be, or too small to matter
    OK = "ok"
    #: it costs time or space, and can be mended
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Measure:
    """A fact about a table.

    ``value`` is None if it cannot be known, or is no number; ``unit`` is that of the value.
    ``mend`` is the command, or the step, that makes it better; empty if there is nothing to do.
    Commands of Apache Hudi's are named as such.
    """

    measure: str
    value: float | None
    unit: str
    level: Level
    detail: str
    mend: str = ""


def judged(
    measure: str, value: float | None, unit: str, warn: bool, detail: str, mend: str
) -> Measure:
    """A line whose ``mend`` is told only if it warns."""
    level = Level.WARN if warn else Level.OK
    rounded = None if value is None else round(float(value), 2)
    return Measure(measure, rounded, unit, level, detail, mend if warn else "")


def by_hudi(command: str) -> str:
    """A command that Apache Hudi runs, since pyhudi has not got it."""
    return f"Apache Hudi: {command}"
