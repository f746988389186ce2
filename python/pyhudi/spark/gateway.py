"""``python -m pyhudi.spark.gateway``: the planner of a JVM that started without Python.

The shim runs it if no Python program drives the JVM: spark-sql, a Thrift or Connect server, a Scala
application. One line of JSON on stdin names the port and the token of the JVM's gateway. When stdin
ends, this process ends, whatever it is doing. Questions and answers are the same as in a session
that Python attached.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pyhudi.application.handed_files import FILES
from pyhudi.errors import HudiError, SetupError
from pyhudi.spark.installation import check_version
from pyhudi.spark.session import serve
from pyhudi.spark.sessions import ServedSessions

GREETING_BYTES: Final = 4096
#: environment variables that tell PySpark of a running JVM, or make it a client of Connect
_PORT: Final = "PYSPARK_GATEWAY_PORT"
_SECRET: Final = "PYSPARK_GATEWAY_SECRET"
_REMOTE: Final = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


@dataclass(frozen=True, slots=True)
class Greeting:
    """The JVM's port on the loopback interface, and the token that begins each connection."""

    port: int
    token: str

    @classmethod
    def parse(cls, line: bytes) -> Greeting:
        """The greeting in the shim's line; ``SetupError`` if the line is something else."""
        try:
            told = json.loads(line)
            return cls(int(told["port"]), str(told["token"]))
        except (ValueError, LookupError, TypeError) as e:
            raise SetupError(
                "No greeting came on stdin. The jar starts pyhudi.spark.gateway and sends one; "
                "do not start it yourself."
            ) from e


def connect(greeting: Greeting) -> Any:
    """PySpark's gateway to the JVM of the greeting; calls from the JVM also need the token."""
    os.environ["PYSPARK_PIN_THREAD"] = "true"
    os.environ[_PORT], os.environ[_SECRET] = str(greeting.port), greeting.token
    try:
        gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ[_PORT], os.environ[_SECRET]
    gateway.callback_server_parameters.auth_token = greeting.token
    return gateway


def register(gateway: Any) -> None:
    """Answer the questions of the JVM's application; ``SetupError`` if it does not fit."""
    entry = gateway.entry_point
    java_context = entry.context()
    check_version(java_context.version())
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java_context.getConf())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=conf)
    session = SparkSession(context, entry.session())
    serve(session, ServedSessions(context, entry), entry)


def main() -> None:
    """Serve until stdin ends; the exit code is 1 if it could not start."""
    for name in _REMOTE:
        os.environ.pop(name, None)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        register(connect(Greeting.parse(sys.stdin.buffer.readline(GREETING_BYTES))))
    except HudiError as e:
        sys.exit(str(e))
    # An interrupt in the terminal of spark-sql cancels a statement; the planner goes on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while sys.stdin.buffer.read(GREETING_BYTES):
        pass
    FILES.close()
    # Threads that still answer the dead JVM would keep this process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
