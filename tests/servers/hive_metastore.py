"""A real Hive Metastore with locks, from the jars that come with Spark, on an embedded Derby."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from tests.servers.process import SMALL_JVM, SPARK_JARS, free_port, running
from tests.servers.quick import starts_a_server

#: the columns that Apache Hudi registers in front of a table's own
META = [
    f"_hoodie_{name}"
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
]


@dataclass(frozen=True)
class HiveMetastore:
    """A running metastore at ``uri``."""

    uri: str
    port: int

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client that knows nothing of pyhudi."""
        transport = TBufferedTransport(TSocket("127.0.0.1", self.port))
        transport.open()
        try:
            yield ThriftHiveMetastore.Client(TBinaryProtocol(transport))
        finally:
            transport.close()

    def end_lock(self, number: int) -> None:
        """End a lock as the metastore does when no heartbeat has come."""
        with self.client() as client:
            client.unlock(ttypes.UnlockRequest(lockid=number))


@contextmanager
def hive_metastore(folder: Path, timeout_s: float = 60) -> Iterator[HiveMetastore]:
    """Run a metastore whose data goes to ``folder``; locks end after ``timeout_s`` of silence."""
    starts_a_server()
    port = free_port()
    properties = {
        "datanucleus.schema.autoCreateAll": "true",
        "derby.stream.error.file": str(folder / "derby.log"),
        "hive.async.log.enabled": "false",
        "hive.metastore.schema.verification": "false",
        "hive.txn.timeout": f"{int(timeout_s * 1_000)}ms",
    }
    command = [
        *SMALL_JVM,
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-cp",
        f"{SPARK_JARS}/*",
        str(Path(__file__).with_name("Metastore.java")),
        str(port),
        str(folder / "database"),
    ]
    with running(command, port, folder / "metastore.log"):
        yield HiveMetastore(f"thrift://127.0.0.1:{port}", port)
