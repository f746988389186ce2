"""Files that a killed writer had not given their names yet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.services.failed_writes import settle_and_tell
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES, Table, open_table
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.recovery.temporaries import OLD_MS
from pyhudi.transactions.writer import Writer
from tests.fakes import FakeClock
from tests.hadoop_jvm import HadoopJvm, hadoop_jvm
from tests.transactions.world import NEVER, POLICY, VERSIONS

pytestmark = pytest.mark.usefixtures("plain_py4j")

NAME = ".pyhudi-tmp-0f6cbd6c"
#: by each write that settles, and by the command alone
SHALLOW = (".hoodie", ".hoodie/.heartbeat")
DEEP = (".hoodie/.schema", ".hoodie/.temp/spool")


@pytest.fixture(scope="module")
def hadoop() -> Iterator[HadoopJvm]:
    with hadoop_jvm() as jvm:
        yield jvm


@pytest.fixture(params=["local", pytest.param("hadoop", marks=pytest.mark.spark)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return LocalStorage(str(tmp_path))
    hadoop: HadoopJvm = request.getfixturevalue("hadoop")
    return hadoop.storage(f"raw://{tmp_path}")


def table_of(storage: Storage, version: int) -> Table:
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
    storage.put_if_absent(PROPERTIES, render_properties(properties))
    return open_table(storage)


def left_in(root: Path, age_ms: int, *folders: str) -> list[Path]:
    """Half files of a writer that was killed so long ago."""
    found = []
    for folder in folders:
        file = root / folder / NAME
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"half of a fi")
        at_s = file.stat().st_mtime - age_ms / 1000
        os.utime(file, (at_s, at_s))
        found.append(file)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_half_files_of_killed_writers_are_deleted_once_they_are_old(
    storage: Storage, tmp_path: Path, version: int
) -> None:
    table = table_of(storage, version)
    folders = (*SHALLOW, table.config.timeline_folder)
    lock = InProcessLock(InProcessLocks(), "t", FakeClock())
    clock = storage._clock  # type: ignore[attr-defined]

    young = left_in(tmp_path, OLD_MS - 60_000, *folders, *DEEP)
    settle_failed_writes(Writer(table, lock, clock, POLICY))
    assert all(file.exists() for file in young), "somebody may still be writing them"

    old = left_in(tmp_path, OLD_MS + 60_000, *folders, *DEEP)
    settle_failed_writes(Writer(table, lock, clock, NEVER))
    assert all(file.exists() for file in old)
    settle_failed_writes(Writer(table, lock, clock, POLICY))
    assert not any((tmp_path / folder / NAME).exists() for folder in folders)
    settle_and_tell(Writer(table, lock, clock, POLICY))
    assert not any(file.exists() for file in old)
    assert storage.exists(PROPERTIES)


def test_a_young_half_file_stays_beside_an_old_one(tmp_path: Path) -> None:
    """Its writer may live; an old one leads to a look at all."""
    storage = LocalStorage(str(tmp_path))
    table = table_of(storage, 9)
    [old] = left_in(tmp_path, OLD_MS + 60_000, ".hoodie")
    [young] = left_in(tmp_path, OLD_MS - 60_000, ".hoodie/.heartbeat")
    lock = InProcessLock(InProcessLocks(), "t", FakeClock())

    settle_failed_writes(Writer(table, lock, storage._clock, POLICY))  # type: ignore[attr-defined]
    assert (old.exists(), young.exists()) == (False, True)


class Counting(LocalStorage):
    """Counts what is put beside a table's own files."""

    puts = 0

    def replace(self, path: str, data: bytes) -> None:
        self.puts += 1
        super().replace(path, data)


def test_half_files_beside_the_properties_are_found_though_the_timeline_lies_elsewhere(
    tmp_path: Path,
) -> None:
    """Where the timeline is empty a writer lists that folder anyhow."""
    storage = Counting(str(tmp_path))
    table = table_of(storage, 9)
    storage.put_if_absent(
        f"{table.config.timeline_folder}/20240101000000000_20240101000000001.clean", b""
    )
    lock, clock = InProcessLock(InProcessLocks(), "t", FakeClock()), storage._clock
    [young] = left_in(tmp_path, OLD_MS - 60_000, ".hoodie")
    settle_failed_writes(Writer(table, lock, clock, POLICY))
    assert (young.exists(), storage.puts) == (True, 0), "nothing is old: no time is asked for"

    [old] = left_in(tmp_path, OLD_MS + 60_000, ".hoodie")
    settle_failed_writes(Writer(table, lock, clock, POLICY))
    assert (old.exists(), storage.puts) == (False, 1)
