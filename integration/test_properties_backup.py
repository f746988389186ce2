"""``hoodie.properties`` that Apache Hudi and pyhudi change, one after the other's death.

Apache Hudi's own class does it here, in a JVM without a Spark session.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from integration.peers import maven
from integration.sample import versions
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table, open_table
from pyhudi.transactions.properties import rewrite_properties
from tests.fakes import FakeClock
from tests.hadoop_jvm import HadoopJvm, hadoop_jvm

pytestmark = pytest.mark.usefixtures("plain_py4j")

VERSIONS = versions(9)
MARK = "hoodie.table.changed.by"


class HudiConfig:
    """Apache Hudi's table configuration of the table at ``path``."""

    def __init__(self, running: HadoopJvm, path: Path) -> None:
        self.jvm = running.jvm
        hudi: Any = self.jvm.org.apache.hudi
        self._config = hudi.common.table.HoodieTableConfig
        self._folder = hudi.storage.StoragePath(f"file:{path}/.hoodie")
        self._storage = hudi.storage.hadoop.HoodieHadoopStorage(f"file:{path}", running.conf)

    def read(self) -> dict[str, str]:
        """All properties, by its reader."""
        return dict(self._config(self._storage, self._folder).getProps())

    def change(self, value: str) -> None:
        """Rewrite the properties with one that is new."""
        given = self.jvm.java.util.Properties()
        given.setProperty(MARK, value)
        self._config.update(self._storage, self._folder, given)

    @property
    def process(self) -> int:
        return int(self.jvm.java.lang.ProcessHandle.current().pid())


def start() -> AbstractContextManager[HadoopJvm]:
    return hadoop_jvm(maven.jar(maven.HUDI["1.2.0"]))


@pytest.fixture(scope="module")
def running() -> Iterator[HadoopJvm]:
    with start() as found:
        yield found


@pytest.fixture
def hudi(running: HadoopJvm, table: Table) -> HudiConfig:
    return HudiConfig(running, Path(table.storage.root))


@pytest.fixture
def table(tmp_path: Path, version: int) -> Table:
    properties = new_table_properties(
        name="t",
        version=version,
        record_key_fields=["key"],
        partition_fields=["p"],
        ordering_fields=[],
        merge_mode=MergeMode.COMMIT_TIME_ORDERING,
        key_generator=KeyGenerator.SIMPLE,
        extra={},
    )
    storage = LocalStorage(str(tmp_path))
    storage.put_if_absent(PROPERTIES, render_properties(properties))
    return open_table(storage)


def change(table: Table, value: str) -> None:
    """pyhudi's change of properties."""
    lock = InProcessLock(InProcessLocks(), "t", FakeClock())
    lock.acquire(0, LockOwner.this_process("t"))
    rewrite_properties(table, {**table.config.raw, MARK: value}, lock)


@pytest.mark.parametrize("version", VERSIONS)
def test_with_the_backup_alone_both_read_the_same_and_either_heals_the_table(
    table: Table, hudi: HudiConfig, version: int
) -> None:
    storage = table.storage
    healers: dict[str, Callable[[str], None]] = {
        "hudi": hudi.change,
        "pyhudi": lambda value: change(open_table(storage), value),
    }
    for value, heal in healers.items():
        hudi.change("before")
        root = Path(storage.root)
        (root / PROPERTIES).rename(root / BACKUP)
        (root / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
        assert open_table(storage).config.raw == hudi.read()

        heal(value)
        assert storage.exists(PROPERTIES)
        assert not storage.exists(BACKUP)
        found = open_table(storage).config
        assert found.raw == hudi.read()
        assert (found.raw[MARK], found.version) == (value, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("effect", "at"),
    [
        (Effect.CRASH_HALFWAY, 1),
        (Effect.CRASH_BEFORE, 2),
        (Effect.CRASH_HALFWAY, 2),
        (Effect.CRASH_BEFORE, 3),
    ],
)
def test_a_change_of_ours_that_died_is_read_and_gone_over_by_apache_hudi(
    table: Table, hudi: HudiConfig, version: int, effect: Effect, at: int
) -> None:
    """It dies amid its backup, before or amid the new properties, or before the backup goes."""
    hudi.change("before")
    storage = FaultyStorage(table.storage, Fault(effect, at))
    with pytest.raises(SimulatedCrash):
        change(Table(storage, open_table(table.storage).config), "ours")

    found = hudi.read()
    assert found[MARK] == ("ours" if at == 3 else "before")
    assert open_table(table.storage).config.raw == found
    hudi.change("theirs")
    assert not table.storage.exists(BACKUP)
    assert open_table(table.storage).config.raw == hudi.read()
    assert hudi.read()[MARK] == "theirs"


def killed_amid_a_change(path: Path) -> None:
    """Have a process of Apache Hudi's change the properties again and again, and kill it amid."""
    with start() as doomed:
        config = HudiConfig(doomed, path)
        backup, stop = path / BACKUP, threading.Event()

        def work() -> None:
            value = 0
            while not stop.is_set():
                try:
                    config.change(str(value := value + 1))
                except (Py4JError, OSError):
                    return

        process, thread = config.process, threading.Thread(target=work)
        thread.start()
        while not backup.exists():
            pass
        os.kill(process, signal.SIGKILL)
        stop.set()
        thread.join()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_killed_apache_hudi_leaves_is_read_as_it_reads_it(
    table: Table, hudi: HudiConfig, version: int
) -> None:
    path = Path(table.storage.root)
    hudi.change("0")
    for _ in range(5):
        killed_amid_a_change(path)
        if table.storage.exists(BACKUP):
            break
    assert table.storage.exists(BACKUP), "it died amid a change"

    assert open_table(table.storage).config.raw == hudi.read()
    change(open_table(table.storage), "ours")
    assert not table.storage.exists(BACKUP)
    assert hudi.read() == open_table(table.storage).config.raw
    assert hudi.read()[MARK] == "ours"
