"""Which Spark line each case runs on where a run on several lines shall show it once.

`make test` starts the suites of the oldest and of the newest line with ``--one-line``: a case that
needs Spark then runs on one of them, chosen by a stable hash of its name. Cases with the mark
``every_line`` run on each: the bridge, the types, the SQL suite, the set-up, and what has code of
its own per line. They are all that runs on the lines between (`make test-spark41`). Without the
option every case runs, on the line that is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from pyhudi.spark import jars

ALL: Final = tuple(jars.LINES)
LINES: Final = (ALL[0], ALL[-1])  # the oldest and the newest that pyhudi supports
MIDDLE: Final = ALL[1:-1]
NEWEST: Final = LINES[-1]
SPARK, EVERY_LINE = "spark", "every_line"
#: the marks of what runs as Spark does by default: it compiles plans, and reads batches of columns
COMPILED: Final = ("compiled", EVERY_LINE)


def home_line(case: str) -> str:
    """The line that runs the case of this pytest id, the same in every run and on every machine."""
    return LINES[hashlib.sha256(case.encode()).digest()[0] % len(LINES)]


def runs_on(line: str, case: str, marks: Sequence[str]) -> bool:
    """Whether the suite of ``line`` runs a case with these marks where each runs once."""
    return SPARK not in marks or EVERY_LINE in marks or home_line(case) == line


def environment_of(line: str) -> Path:
    """The folder of the environment that the Makefile makes for a line."""
    of_old = {"3.5": ".venv", "4.0": ".venv-spark4"}
    name = of_old.get(line, f".venv-spark{line.replace('.', '')}")
    return Path(__file__).resolve().parents[1] / name


def python(line: str) -> Path:
    """Its interpreter."""
    return environment_of(line) / "bin" / "python"


def by_line(but: str = "") -> list[object]:
    """A parameter for each line but one: `make test` takes the newest, `make test-all` each."""
    return [
        pytest.param(line, marks=() if line == NEWEST else pytest.mark.matrix)
        for line in ALL
        if line != but
    ]
