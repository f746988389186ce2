"""A DynamoDB on this machine: DynamoDB Local where `make dynamodb` has been run, else moto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.moto import moto_server
from tests.servers.process import SMALL_JVM, free_port, running
from tests.servers.quick import starts_a_server

CLASSPATH = Path(__file__).parents[2] / ".tools" / "dynamodb.classpath"
#: the environment in which clients of it find credentials, of which any will do
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@dataclass(frozen=True)
class DynamoDb:
    """A running server; ``kind`` is ``DynamoDB Local`` or ``moto``."""

    kind: str
    endpoint: str


@contextmanager
def dynamodb_server(folder: Path) -> Iterator[DynamoDb]:
    """Run a server that forgets everything at its end; its log goes to ``folder``."""
    starts_a_server()
    if not CLASSPATH.exists():
        with moto_server() as endpoint:
            yield DynamoDb("moto", endpoint)
        return
    classpath = CLASSPATH.read_text().strip()
    native = next(jar for jar in classpath.split(":") if jar.endswith(".so") and "amd64" in jar)
    port = free_port()
    command = [
        *SMALL_JVM,
        f"-Dsqlite4java.library.path={Path(native).parent}",
        "-cp",
        classpath,
        str(Path(__file__).with_name("Dynamo.java")),
        str(port),
    ]
    with running(command, port, folder / "dynamodb.log"):
        yield DynamoDb("DynamoDB Local", f"http://127.0.0.1:{port}")
