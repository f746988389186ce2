"""Which Spark lines pyhudi knows, and which jar fits which Spark.

``docs/spark_lines.md`` has the same table for readers; a test compares them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyhudi.errors import SetupError

log = logging.getLogger(__name__)

FOLDER = Path(__file__).resolve().parent.parent / "jars"
OLDEST_JAVA: Final = 17  # the shim's byte code


@dataclass(frozen=True, slots=True)
class SparkLine:
    """A Spark line that pyhudi has a jar for.

    ``tested`` is the version that the tests run on; ``newest_java`` is the newest Java on which
    Spark itself runs.
    """

    name: str
    scala: str
    tested: str
    newest_java: int

    @property
    def jar(self) -> str:
        """The name of its jar in the wheel."""
        return f"pyhudi-spark-{self.name}_{self.scala}.jar"


#: from the oldest to the newest
LINES: Final[Mapping[str, SparkLine]] = MappingProxyType(
    {
        line.name: line
        for line in (
            SparkLine("3.5", "2.12", "3.5.9", 21),
            SparkLine("4.0", "2.13", "4.0.5", 21),
            SparkLine("4.1", "2.13", "4.1.4", 21),
            SparkLine("4.2", "2.13", "4.2.1", 25),
            SparkLine("4.3", "2.13", "4.3.0", 25),
        )
    }
)
NEWEST: Final = list(LINES.values())[-1]


def spark_line(spark_version: str) -> str:
    """``3.5`` of ``3.5.6``: the versions that share a jar."""
    return ".".join(spark_version.split(".")[:2])


def line_of(spark_version: str) -> SparkLine:
    """The line that serves a version such as ``3.5.6``: for one newer than all it is the newest.

    ``SetupError`` for any other that is not in ``LINES``.
    """
    name = spark_line(spark_version)
    if name in LINES:
        return LINES[name]
    if not _is_newer(name):
        raise SetupError(
            f"pyhudi has no jar for Spark {spark_version}; it supports {', '.join(LINES)}. "
            "Install a pyspark of one of these lines."
        )
    _say_untried(spark_version)
    return NEWEST


def jar_for(spark_version: str) -> Path:
    """The jar for a version such as ``3.5.6``; ``SetupError`` if there is none."""
    name = line_of(spark_version).jar
    jar = FOLDER / name
    if not jar.is_file():
        raise SetupError(
            f"The jar {name} is missing from the installation at {FOLDER}. Install pyhudi from a "
            "wheel, or run `make jars` in a checkout."
        )
    return jar


def _is_newer(name: str) -> bool:
    parts = name.split(".")
    if not all(part.isdecimal() for part in parts):
        return False
    return [int(part) for part in parts] > [int(part) for part in NEWEST.name.split(".")]


@cache
def _say_untried(spark_version: str) -> None:
    """Once per process: the version is looked up at each step of the set-up."""
    tested = ", ".join(line.tested for line in LINES.values())
    log.warning(
        "pyhudi is not tested on Spark %s, but on %s. It uses the jar of Spark %s. If a statement "
        "fails with NoSuchMethodError or a similar error, install pyspark %s.",
        spark_version, tested, NEWEST.name, NEWEST.tested,
    )  # fmt: skip
