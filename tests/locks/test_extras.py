"""Packages that only some locks need: clear errors without them, and nobody else loads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyhudi

ENVIRONMENT = {"PYTHONPATH": str(Path(pyhudi.__file__).parents[1])}
OPEN = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.errors import SetupError
from pyhudi.locks.open import LockOpener
from pyhudi.storage.memory import MemoryStorage
options = {{"hoodie.write.lock." + k: v for k, v in {said!r}.items()}}
opener = LockOpener(SystemClock(), MemoryStorage)
opener.open(resolve_write({{}}).lock, "t", MemoryStorage())
try:
    opener.open(resolve_write(options).lock, "t", MemoryStorage())
except SetupError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("said", "package", "extra"),
    [
        (
            {"provider": "zookeeper", "zookeeper.url": "zk:1", "zookeeper.base_path": "/a"},
            "kazoo",
            "zookeeper",
        ),
        (
            {
                "provider": "hive_metastore",
                "hivemetastore.database": "d",
                "hivemetastore.table": "t",
                "hivemetastore.uris": "thrift://a:1",
            },
            "pymetastore",
            "hive",
        ),
        ({"provider": "dynamodb", "dynamodb.table": "t"}, "boto3", "dynamodb"),
    ],
)
def test_without_its_package_a_lock_says_what_to_install(
    said: dict[str, str], package: str, extra: str
) -> None:
    script = OPEN.format(missing=[package], said=said)

    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )

    assert "[SETUP_ERROR]" in found.stdout
    assert f"the package {package}" in found.stdout
    assert f"pip install 'pyhudi[{extra}]'" in found.stdout


OPEN_COUNTER = """
import sys
sys.modules[{package!r}] = None
from pyhudi.choices import TimeSourceType
from pyhudi.clock import SystemClock
from pyhudi.errors import SetupError
from pyhudi.lock_options import LockOptions
from pyhudi.transactions.times.time_sources import open_times
said = LockOptions(
    zookeeper_url="zk:1", zookeeper_base_path="/a", dynamodb_table="t", dynamodb_region="eu-west-1"
)
try:
    open_times(TimeSourceType({kind!r}), said, "t", "s3a://bucket/t", SystemClock())
except SetupError as error:
    print(error)
"""


@pytest.mark.parametrize(("kind", "package"), [("zookeeper", "kazoo"), ("dynamodb", "boto3")])
def test_without_its_package_a_counter_says_what_to_install(kind: str, package: str) -> None:
    script = OPEN_COUNTER.format(kind=kind, package=package)

    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )

    assert "[SETUP_ERROR] A counter of instant times" in found.stdout
    assert f"pip install 'pyhudi[{kind}]'" in found.stdout
