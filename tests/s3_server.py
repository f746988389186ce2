"""A real S3 endpoint on this machine: MinIO where there is a binary, else moto's server."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from pyarrow import fs

from tests.servers.moto import moto_server
from tests.servers.quick import starts_a_server

BUCKET = "tables"
ACCESS_KEY = "pyhudi-test"
SECRET_KEY = "pyhudi-test-secret"

_numbers = itertools.count()


@dataclass(frozen=True)
class S3Server:
    """A running server; ``kind`` is ``MinIO`` or ``moto``."""

    kind: str
    endpoint: str

    @property
    def hadoop_options(self) -> dict[str, str]:
        """What a Spark user would set to reach this server."""
        return {
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.path.style.access": "true",
        }

    def filesystem(self) -> fs.S3FileSystem:
        """A client of this server that knows nothing of pyhudi."""
        return fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=self.endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
        )

    def new_table(self, name: str = "t") -> str:
        """The URI of a table that nobody else uses; nothing is there yet."""
        return f"s3a://{BUCKET}/{next(_numbers)}/{name}"

    def client(self) -> Any:
        """boto3 itself, set up by hand."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )

    def make_bucket(self, name: str = BUCKET) -> None:
        client = self.client()
        client.create_bucket(Bucket=name)
        client.close()


def minio_binary() -> str | None:
    """The MinIO binary of ``PYHUDI_MINIO``, of ``GOBIN`` or of ``make minio``."""
    named = os.environ.get("PYHUDI_MINIO")
    if named:
        return named
    own = Path(__file__).parents[1] / ".tools" / "bin"
    folders = [os.environ.get("GOBIN", ""), str(own)]
    return shutil.which("minio", path=os.pathsep.join(filter(None, folders)))


@contextmanager
def s3_server(folder: Path, audit: str = "") -> Iterator[S3Server]:
    """Run a server whose data, if it keeps any on disk, goes to ``folder``.

    ``audit`` is the URL of a web hook to which MinIO posts its audit log.
    """
    starts_a_server()
    binary = minio_binary()
    for server in _moto() if binary is None else _minio(binary, folder, audit):
        server.make_bucket()
        yield server


def _moto() -> Iterator[S3Server]:
    with moto_server() as endpoint:
        yield S3Server("moto", endpoint)


def _minio(binary: str, folder: Path, audit: str) -> Iterator[S3Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "MINIO_ROOT_USER": ACCESS_KEY,
        "MINIO_ROOT_PASSWORD": SECRET_KEY,
        "MINIO_BROWSER": "off",
    }
    if audit:
        hook = "MINIO_AUDIT_WEBHOOK_"
        environment |= {f"{hook}ENABLE_TESTS": "on", f"{hook}ENDPOINT_TESTS": audit}
    log = folder / "minio.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [binary, "server", "--quiet", "--address", f"127.0.0.1:{port}", str(folder / "data")],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_until_live(process, f"{endpoint}/minio/health/live", log)
        yield S3Server("MinIO", endpoint)
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_live(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise RuntimeError(f"MinIO did not start:\n{log.read_text()}")
