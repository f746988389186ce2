"""Which Spark line each case runs on where a run on several lines shall show it once.

`make test` starts the suites of the oldest and of the newest line with ``--one-line``: a case that
needs Spark then runs on one of them, chosen by a stable hash of its name. Cases with the mark
``every_line`` run on each: the bridge, the types, the SQL suite, the set-up, and what has code of
its own per line. Without the option every case runs, on the line that is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

LINES: Final = ("3.5", "4.0")  # the oldest and the newest that pyhudi supports
SPARK, EVERY_LINE = "spark", "every_line"


def home_line(case: str) -> str:
    """The line that runs the case of this pytest id, the same in every run and on every machine."""
    return LINES[hashlib.sha256(case.encode()).digest()[0] % len(LINES)]


def runs_on(line: str, case: str, marks: Sequence[str]) -> bool:
    """Whether the suite of ``line`` runs a case with these marks where each runs once."""
    return SPARK not in marks or EVERY_LINE in marks or home_line(case) == line
