"""Jars of the peers, taken from the local Maven repository and fetched into it when missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HUDI = {
    version: f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}"
    for version in ("1.2.0", "0.15.0")
}
DELTA = ("io.delta:delta-spark_2.12:3.3.2", "io.delta:delta-storage:3.3.2")
#: what a Spark 3.5 session needs to open ``s3a://``
S3A = ("org.apache.hadoop:hadoop-aws:3.3.4", "com.amazonaws:aws-java-sdk-bundle:1.12.262")
#: the server of Spark Connect for Spark 3.5, which PySpark brings since 4.0
CONNECT = "org.apache.spark:spark-connect_2.12:3.5.7"
ICEBERG = ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1",)


def repository() -> Path:
    """``$MAVEN_REPO``, or where Maven keeps its jars by itself."""
    return Path(os.environ.get("MAVEN_REPO") or Path.home() / ".m2" / "repository")


def jar(coordinate: str) -> Path:
    """The jar of ``group:artifact:version``; Maven fetches it if it is not there yet."""
    group, artifact, version = coordinate.split(":")
    folder = repository() / group.replace(".", "/") / artifact / version
    path = folder / f"{artifact}-{version}.jar"
    if not path.exists():
        fetch = [
            "mvn",
            "-q",
            "dependency:get",
            f"-Dartifact={coordinate}",
            "-Dtransitive=false",
        ]
        subprocess.run([*fetch, f"-Dmaven.repo.local={repository()}"], check=True)
    return path


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*HUDI.values(), *DELTA, *ICEBERG]:
        print(jar(wanted))
