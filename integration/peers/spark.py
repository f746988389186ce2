"""Spark sessions as peers: Apache Hudi, Iceberg or pyhudi, each in a process of its own."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from integration.peers import maven
from integration.peers.canonical import Answer
from integration.peers.process import LineProcess
from integration.peers.tables import Place, table_facts, writer_options
from tests.s3_server import S3Server
from tests.servers.process import BRIEF_TASKS, brief_driver

REPO = Path(__file__).resolve().parents[2]

SPARK_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
HUDI_CONF = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    # Spark 3.5 reads times before 1900 only of files that tell their calendar, or by this.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}

ICEBERG_CONF = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.defaultCatalog": "ice",
}


class SparkPeer:
    """A Spark session in its own process that reads and writes one format."""

    def __init__(
        self,
        name: str,
        format_name: str,
        conf: Mapping[str, str],
        python: str = sys.executable,
        module: str = "integration.peers.worker",
    ) -> None:
        """``module`` is the child's program: the worker, or one that does more and then it."""
        self.name = name
        self.format = format_name
        self._folder = tempfile.TemporaryDirectory(prefix=f"peer-{name}-")
        self._inputs = 0
        scratch = Path(self._folder.name)
        settings = {
            **SPARK_CONF,
            **BRIEF_TASKS,
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            **conf,
        }
        if format_name == "iceberg":
            settings["spark.sql.catalog.ice.warehouse"] = str(scratch / "iceberg")
        command = [
            python,
            "-m",
            module,
            format_name,
            json.dumps(settings),
        ]
        env = child_environment(python)
        self._process = LineProcess(name, command, env, scratch / "log")

    @property
    def log(self) -> Path:
        """What its process has said."""
        return self._process.log

    def read(
        self,
        path: Place,
        options: Mapping[str, str] | None = None,
        as_of: str | None = None,
    ) -> Answer:
        """The snapshot of the table at ``path``, or its state as of an instant."""
        given = dict(options or {})
        if as_of is not None:
            given["as.of.instant"] = as_of
        return _answer(self._process.call("read", path=str(path), options=given))

    def write(
        self,
        path: Place,
        rows: pa.Table,
        options: Mapping[str, str],
        mode: str = "append",
    ) -> None:
        """Write ``rows`` by ``df.write.format(...).options(...).mode(...).save(path)``."""
        self._inputs += 1
        file = Path(self._folder.name) / f"input-{self._inputs}.parquet"
        pq.write_table(rows, file)
        self._process.call(
            "write", path=str(path), parquet=str(file), options=dict(options), mode=mode
        )
        file.unlink()

    def write_into(
        self, path: Place, rows: pa.Table, operation: str = "upsert", **more: str
    ) -> None:
        """Write into an existing table with the settings that it was made with, in its version.

        ``more`` are options with ``__`` in place of dots.
        """
        extra = {key.replace("__", "."): value for key, value in more.items()}
        self.write(path, rows, {**writer_options(path, operation), **extra})
        assert table_facts(path).version > 0

    def sql(self, statement: str) -> Answer:
        """Run one SQL statement and take its rows."""
        return _answer(self._process.call("sql", statement=statement))

    def texts(self, statement: str) -> list[list[str]]:
        """Run one SQL statement; its rows in order, as Spark's own command line prints them."""
        found: list[list[str]] = self._process.call("texts", statement=statement)
        return found

    def call(self, method: str, **params: Any) -> Any:
        """Any other method of ``integration.peers.worker``."""
        return self._process.call(method, **params)

    def close(self) -> None:
        """End the process and drop its scratch folder."""
        self._process.close()
        self._folder.cleanup()


def child_environment(python: str) -> dict[str, str]:
    """The environment of a child on ``python``: this repository importable, the zone UTC."""
    # SPARK_HOME would put another Spark before the one that belongs to `python`.
    env = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    folders = os.pathsep.join([str(REPO), str(REPO / "python")])
    driver = " ".join(brief_driver(Path(python).parents[1]))
    return {
        **env,
        "PYTHONPATH": folders,
        "TZ": "UTC",
        "PYSPARK_PYTHON": python,
        "SPARK_SUBMIT_OPTS": driver,
    }


def _answer(raw: dict[str, Any]) -> Answer:
    schema: Sequence[Sequence[str]] = raw["schema"]
    return Answer(tuple((name, kind) for name, kind in schema), tuple(raw["rows"]))


def apache_hudi(
    version: str, s3: S3Server | None = None, conf: Mapping[str, str] | None = None
) -> SparkPeer:
    """Apache Hudi ``version`` ("1.2.0" or "0.15.0"); its bundle comes from Maven's repository.

    With ``s3`` it opens ``s3a://`` tables of that server; ``conf`` is added to the session's.
    """
    jars = [maven.HUDI[version], *(maven.S3A if s3 else ())]
    settings = {**HUDI_CONF, **_jars(jars), **_s3a(s3), **(conf or {})}
    return SparkPeer(f"hudi-{version}", "hudi", settings)


def pyhudi_on_spark(
    name: str = "pyhudi",
    python: str = sys.executable,
    s3: S3Server | None = None,
    conf: Mapping[str, str] | None = None,
    module: str = "integration.peers.worker",
) -> SparkPeer:
    """pyhudi itself, on the Spark that belongs to ``python``; the rest as for Apache Hudi."""
    jars = _jars(maven.S3A) if s3 else {}
    return SparkPeer(name, "pyhudi", {**jars, **_s3a(s3), **(conf or {})}, python, module)


def iceberg() -> SparkPeer:
    """Apache Iceberg, whose catalog is the default: SQL on tables of its own."""
    return SparkPeer("iceberg", "iceberg", {**ICEBERG_CONF, **_jars(maven.ICEBERG)})


def _jars(coordinates: Sequence[str]) -> dict[str, str]:
    return {"spark.jars": ",".join(str(maven.jar(one)) for one in coordinates)}


def _s3a(s3: S3Server | None) -> dict[str, str]:
    options = s3.hadoop_options if s3 else {}
    return {f"spark.hadoop.{key}": value for key, value in options.items()}
