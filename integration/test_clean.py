"""Cleaning beside Apache Hudi: the same files go, and each carries out the other's plans."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.sample import cells, versions
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.format.instants import Action, State
from pyhudi.locks.open import LockOpener
from pyhudi.services import clean as clean_module
from pyhudi.services.clean import cleaned
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from pyhudi.transactions.writer import Writer, WriterPolicy

DS = "hoodie.datasource.write."
POLICIES = {
    "commits": {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "3"},
    "versions": {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "2",
    },
}
CLEANS = [(version, policy) for version in (9, 8, 6) for policy in POLICIES]
#: one upsert a line: partition -> values
WRITES: list[dict[str, int]] = [
    {"a": 1, "b": 1, "c": 1}, {"a": 2}, {"b": 2}, {"a": 3}, {"a": 4, "b": 3}, {"c": 2}, {"a": 5},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may go as soon as it is old: no query has just begun."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def options(version: int) -> dict[str, str]:
    return {
        "hoodie.table.name": "cleaned",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        DS + "recordkey.field": "id",
        DS + "partitionpath.field": "p",
        DS + "precombine.field": "v",
        "hoodie.metadata.enable": "false",
        "hoodie.clean.automatic": "false",
    }


def rows(values: Mapping[str, int]) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values()), "p": list(values)})


def written(writer: SparkPeer, path: Path, version: int) -> None:
    """A table with several versions of each group, a replaced group, and a partition without."""
    given = options(version)
    for number, values in enumerate(WRITES):
        writer.write(path, rows(values), given, "append" if number else "overwrite")
    overwritten = {**given, DS + "operation": "insert_overwrite"}
    writer.write(path, rows({"b": 7}), overwritten)
    for values in ({"a": 6}, {"c": 3}, {"a": 7}, {"a": 8}):
        writer.write(path, rows(values), given)


EXPECTED = {"a": 8, "b": 7, "c": 3}


def data_files(path: Path) -> set[str]:
    return {str(f.relative_to(path)) for f in path.rglob("*.parquet") if ".hoodie" not in f.parts}


SETTINGS = ("hoodie.write.table.version", "hoodie.write.auto.upgrade", "hoodie.metadata.enable")
names = (f"cleaned_beside_{number}" for number in itertools.count())


def by_hudi(hudi: SparkPeer, path: Path, version: int, policy: Mapping[str, str]) -> None:
    """Have Apache Hudi run a clean, by its procedure."""
    name = registered(hudi, path, version)
    given = ", ".join(f"{k}={v}" for k, v in policy.items())
    hudi.sql(f"call run_clean(table => '{name}', options => '{given}')")


def seen(peer: SparkPeer, path: Path) -> dict[str, int]:
    return {row["id"]: row["v"] for row in peer.read(path).rows}


def cleans(path: Path) -> list[tuple[State, Any]]:
    timeline = open_table(LocalStorage(str(path))).timeline()
    return [(i.state, i.time) for i in timeline.instants if i.action is Action.CLEAN]


@pytest.mark.parametrize(("version", "policy"), cells(CLEANS, [(9, "versions"), (6, "commits")]))
def test_apache_hudi_and_pyhudi_clean_the_same_files(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int, policy: str
) -> None:
    given = POLICIES[policy]
    hudi, pyhudi = peers("hudi-1.2.0"), peers("pyhudi")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    written(hudi, theirs, version)
    copytree(theirs, ours)
    before = data_files(ours)

    by_hudi(hudi, theirs, version, given)
    found = package.clean(str(ours), options=given)

    gone = {f"{f.partition}/{f.file}" for f in found if f.fate.value == "deleted"}
    assert gone == before - data_files(ours)
    assert gone
    assert data_files(ours) == data_files(theirs)
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, ours) == EXPECTED
    # Apache Hudi writes on, cleans on, and finds nothing to repair.
    hudi.write(ours, rows({"a": 9, "c": 9}), {**options(version), "hoodie.clean.automatic": "true"})
    assert seen(pyhudi, ours) == seen(hudi, ours) == {"a": 9, "b": 7, "c": 9}
    assert seen(HudiRs(), ours) == {"a": 9, "b": 7, "c": 9}


@pytest.mark.parametrize("version", versions(6))
def test_each_finishes_what_the_other_left_pending(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi = peers("hudi-1.2.0"), peers("pyhudi")
    policy = POLICIES["commits"]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    written(pyhudi, ours, version)
    copytree(ours, theirs)

    fault = Fault(Effect.CRASH_BEFORE, path="*.parquet", methods=frozenset({"delete"}))
    died = FaultyStorage(LocalStorage(str(ours)), fault)
    with pytest.raises(SimulatedCrash):
        clean_on(died, policy)
    assert [state for state, _ in cleans(ours)] == [State.INFLIGHT]
    by_hudi(hudi, theirs, version, policy)
    their_end(theirs, ours)
    assert [state for state, _ in cleans(theirs)] == [State.INFLIGHT]

    hudi.write(ours, rows({"c": 3}), {**options(version), "hoodie.clean.automatic": "true"})
    found = package.clean(str(theirs), options={"hoodie.clean.commits.retained": "30"})

    assert {state for state, _ in cleans(ours) + cleans(theirs)} == {State.COMPLETED}
    goes = {f"{f.partition}/{f.file}" for f in found if f.fate.value == "deleted"}
    assert goes
    for path in (ours, theirs):
        assert not data_files(path) & goes
        for reader in (hudi, pyhudi, HudiRs()):
            assert seen(reader, path) == EXPECTED


def clean_on(storage: FaultyStorage, policy: Mapping[str, str]) -> None:
    """A clean whose process dies by a fault of the storage."""
    table, clock = open_table(storage), SystemClock()
    resolved = resolve_write(policy, table.config.raw, {})
    lock = LockOpener(clock, LocalStorage).open(resolved.lock, table.config.name, storage)
    cleaned(Writer(table, lock, clock, WriterPolicy()), resolved, dry_run=False)


def their_end(path: Path, whole: Path) -> None:
    """Take back the end of Apache Hudi's clean: its completed file, and the deleted files."""
    timeline = open_table(LocalStorage(str(path))).timeline()
    (done,) = (i for i in timeline.completed if i.action is Action.CLEAN)
    file = path / timeline.file_of(done)
    file.unlink()
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    for name in data_files(whole) - data_files(path):
        copyfile(whole / name, path / name)


@pytest.mark.parametrize("version", versions(9))
def test_savepoints_of_each_keep_files_from_the_cleaner_of_the_other(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi = peers("hudi-1.2.0"), peers("pyhudi")
    policy = {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    written(hudi, ours, version)
    copytree(ours, theirs)
    first = package.history(str(ours))[0].instant
    before = seen_at(pyhudi, ours, first)

    name = registered(hudi, theirs, version)
    hudi.sql(f"call create_savepoint(table => '{name}', commit_time => '{first}')")
    kept = package.savepoint(str(ours), first, comment="beside Hudi")
    package.clean(str(theirs), options=policy)
    by_hudi(hudi, ours, version, policy)

    assert kept.files == len(before)
    for path in (ours, theirs):
        assert seen_at(pyhudi, path, first) == seen_at(hudi, path, first) == before
        assert seen(hudi, path) == seen(pyhudi, path) == EXPECTED
    assert data_files(ours) == data_files(theirs)

    package.delete_savepoint(str(theirs), first)
    own = registered(hudi, ours, version)
    assert hudi.sql(f"call show_savepoints(table => '{own}')").rows[0]["savepoint_time"] == first
    hudi.sql(f"call delete_savepoint(table => '{own}', instant_time => '{first}')")
    package.clean(str(ours), options=policy)
    hudi.write(theirs, rows({"a": 8}), options(version))  # its cleaner wants a new commit
    by_hudi(hudi, theirs, version, policy)
    assert len(data_files(ours)) == len(data_files(theirs)) == len(EXPECTED)


def seen_at(peer: SparkPeer, path: Path, instant: str) -> dict[str, int]:
    return {row["id"]: row["v"] for row in peer.read(path, as_of=instant).rows}


def registered(hudi: SparkPeer, path: Path, version: int) -> str:
    """A name of the table in Apache Hudi's session, which writes it as this version."""
    name = next(names)
    for key in SETTINGS:
        hudi.sql(f"set {key} = {options(version)[key]}")
    hudi.sql(f"create table {name} using hudi location '{path}'")
    return name
