"""A JVM with Hadoop's client and pyhudi's shim in it, and nothing else: no Spark session.

Its file system ``raw:`` is Hadoop's plain local one under a scheme that is not ``file``, so that
everything behind a table's path must go the way of HDFS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from pyhudi.clock import Clock
from pyhudi.spark.hadoop_files import Py4JHadoopFiles, hadoop_files
from pyhudi.spark.jars import jar_for
from pyhudi.storage.hadoop import HadoopStorage
from pyhudi.storage.open import open_storage

RAW = "org.apache.hadoop.fs.RawLocalFileSystem"
JARS = Path(pyspark.__file__).parent / "jars"


@dataclass(frozen=True)
class HadoopJvm:
    """The running JVM and a configuration in it."""

    jvm: Any
    conf: Any

    def files(self, root: str) -> Py4JHadoopFiles:
        """The folder ``root``."""
        return hadoop_files(self.jvm, self.conf, root)

    def storage(self, root: str, clock: Clock | None = None) -> HadoopStorage:
        """The storage of the table at ``root``, opened as Spark's users do."""
        found = open_storage(root, {}, clock, self.files)
        assert isinstance(found, HadoopStorage)
        return found

    def local(self) -> Any:
        """Hadoop's local file system as Hudi uses it, with checksums beside the files."""
        return self.jvm.org.apache.hadoop.fs.FileSystem.getLocal(self.conf)

    def path(self, path: str) -> Any:
        """Hadoop's ``Path``."""
        return self.jvm.org.apache.hadoop.fs.Path(path)


@contextmanager
def hadoop_jvm(*more_jars: Path, heap_mb: int = 256) -> Iterator[HadoopJvm]:
    """Run a JVM until the end of the block."""
    shim = str(jar_for(pyspark.__version__))
    (py4j_jar,) = JARS.glob("py4j-*.jar")
    port, token = launch_gateway(  # type: ignore[no-untyped-call]
        jarpath=str(py4j_jar),
        classpath=os.pathsep.join([shim, *map(str, more_jars), f"{JARS}/*"]),
        javaopts=[f"-Xmx{heap_mb}m", "-Dhadoop.root.logger=OFF"],
        die_on_exit=True,
        enable_auth=True,
        redirect_stdout=None,
        redirect_stderr=None,
    )
    gateway = JavaGateway(  # type: ignore[no-untyped-call]
        gateway_parameters=GatewayParameters(  # type: ignore[no-untyped-call]
            port=port, auth_token=token
        )
    )
    try:
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        conf.set("fs.raw.impl", RAW)
        yield HadoopJvm(gateway.jvm, conf)
    finally:
        gateway.shutdown()  # type: ignore[no-untyped-call]
