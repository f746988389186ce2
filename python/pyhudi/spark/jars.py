"""Which jar fits which Spark."""

from __future__ import annotations

from pathlib import Path

from pyhudi.errors import SetupError

FOLDER = Path(__file__).resolve().parent.parent / "jars"
#: Spark line -> name of the jar in the wheel
JARS: dict[str, str] = {
    "3.5": "pyhudi-spark-3.5_2.12.jar",
    "4.0": "pyhudi-spark-4.0_2.13.jar",
}


def spark_line(spark_version: str) -> str:
    """``3.5`` of ``3.5.6``: the versions that share a jar."""
    return ".".join(spark_version.split(".")[:2])


def jar_for(spark_version: str) -> Path:
    """The jar for a version such as ``3.5.6``; ``SetupError`` if there is none."""
    name = JARS.get(spark_line(spark_version))
    if name is None:
        raise SetupError(
            f"pyhudi has no jar for Spark {spark_version}; it supports {', '.join(JARS)}. "
            "Install a pyspark of one of these lines."
        )
    jar = FOLDER / name
    if not jar.is_file():
        raise SetupError(
            f"The jar {name} is missing from the installation at {FOLDER}. Install pyhudi from a "
            "wheel, or run `make jars` in a checkout."
        )
    return jar
