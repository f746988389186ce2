"""A real ZooKeeper, from the jars that come with Spark."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.servers.process import SMALL_JVM, SPARK_JARS, free_port, running
from tests.servers.quick import starts_a_server

_TICK_MS = 200  # a session may be as short as two ticks and as long as twenty


@dataclass(frozen=True)
class Zookeeper:
    """A running server; ``address`` is host and port."""

    address: str
    process: subprocess.Popen[bytes]

    def end_session(self, session: tuple[int, bytes]) -> None:
        """End a client's session as the server does when it has heard nothing from it."""
        heir = KazooClient(hosts=self.address, client_id=session)
        heir.start(timeout=60)
        heir.stop()
        heir.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A time in which the server answers nobody."""
        self.process.send_signal(signal.SIGSTOP)
        # On a busy machine its threads run on for a while.
        os.waitpid(self.process.pid, os.WUNTRACED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextmanager
def zookeeper_server(folder: Path) -> Iterator[Zookeeper]:
    """Run a server whose data goes to ``folder``."""
    starts_a_server()
    port = free_port()
    settings = folder / "zookeeper.properties"
    settings.write_text(
        f"dataDir={folder / 'data'}\ntickTime={_TICK_MS}\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
        # Tests keep locks for as long as they like.
        "maxSessionTimeout=60000\n"
    )
    command = [
        *SMALL_JVM,
        "-cp",
        f"{SPARK_JARS}/*",
        "org.apache.zookeeper.server.ZooKeeperServerMain",
        str(settings),
    ]
    with running(command, port, folder / "zookeeper.log") as process:
        _wait_for_a_session(f"127.0.0.1:{port}")
        yield Zookeeper(f"127.0.0.1:{port}", process)


def _wait_for_a_session(address: str) -> None:
    """The port is open before the server answers, and who asks then may never hear of it."""
    for _ in range(60):
        client = KazooClient(hosts=address, timeout=2)
        try:
            client.start(timeout=2)
            return
        except KazooTimeoutError:
            continue
        finally:
            client.stop()
            client.close()
    raise RuntimeError(f"ZooKeeper at {address} grants no session")
