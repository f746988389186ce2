"""Restores beside Apache Hudi: each reads and writes on where the other has restored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.sample import versions
from integration.test_clean import DS, data_files, options, rows, seen
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import open_table

SETTINGS = ("hoodie.write.table.version", "hoodie.write.auto.upgrade", "hoodie.metadata.enable")
#: the rows after the second of the commits of ``written``, and after the last
SECOND = {"a": 2, "b": 1, "c": 1}
LAST = {"a": 4, "b": 7, "c": 2}
names = (f"restored_beside_{number}" for number in itertools.count())


def written(writer: SparkPeer, path: Path, version: int) -> InstantTime:
    """A table of five commits, one of which replaces a group; the second commit."""
    given = options(version)
    writer.write(path, rows({"a": 1, "b": 1, "c": 1}), given, "overwrite")
    writer.write(path, rows({"a": 2}), given)
    writer.write(path, rows({"a": 3, "c": 2}), given)
    writer.write(path, rows({"b": 7}), {**given, DS + "operation": "insert_overwrite"})
    writer.write(path, rows({"a": 4}), given)
    assert seen(writer, path) == LAST
    return timeline_of(path).commits[1].time


def timeline_of(path: Path) -> Timeline:
    return open_table(LocalStorage(str(path))).timeline()


def restored_by_hudi(hudi: SparkPeer, path: Path, version: int, instant: str) -> None:
    given = options(version)
    for key in SETTINGS:
        hudi.sql(f"set {key}={given[key]}")
    hudi.sql(f"call rollback_to_savepoint(path => '{path}', instant_time => '{instant}')")


def check(peers: Callable[[str], SparkPeer], path: Path, version: int, commits: int) -> None:
    """All read the rows of the second commit, and what each of the writers adds."""
    hudi, pyhudi = peers("hudi-1.2.0"), peers("pyhudi")
    readers = (hudi, pyhudi, HudiRs())
    assert [seen(reader, path) for reader in readers] == [SECOND] * 3
    assert len(timeline_of(path).commits) == commits
    given = options(version)
    hudi.write(path, rows({"a": 8, "b": 8}), given)
    assert [seen(reader, path) for reader in readers] == [{"a": 8, "b": 8, "c": 1}] * 3
    pyhudi.write(path, rows({"b": 9, "d": 9}), given)
    assert [seen(reader, path) for reader in readers] == [{"a": 8, "b": 9, "c": 1, "d": 9}] * 3
    assert not timeline_of(path).pending


@pytest.mark.parametrize("version", versions(6))
def test_apache_hudi_reads_and_writes_what_pyhudi_has_restored(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, path, theirs = peers("hudi-1.2.0"), tmp_path / "ours", tmp_path / "theirs"
    second = written(hudi, path, version)
    package.savepoint(str(path), second)
    copytree(path, theirs)
    before = data_files(path)

    undone = package.restore(str(path), second)
    restored_by_hudi(hudi, theirs, version, second)

    # The same files are gone as by Apache Hudi, and it reads our metadata of the restore.
    assert {f"{f.partition}/{f.file}" for f in undone} == before - data_files(path)
    assert data_files(path) == data_files(theirs)
    left = [[(i.time, i.action) for i in timeline_of(p).commits] for p in (path, theirs)]
    assert left[0] == left[1]
    check(peers, path, version, 2)
    check(peers, theirs, version, 2)


@pytest.mark.parametrize("version", versions(9))
def test_pyhudi_finishes_a_restore_of_apache_hudi(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, path, whole = peers("hudi-1.2.0"), tmp_path / "died", tmp_path / "whole"
    second = written(hudi, path, version)
    package.savepoint(str(path), second)
    copytree(path, whole)
    restored_by_hudi(hudi, path, version, second)
    # As if it had died before its last step but two: the oldest commit is not undone yet.
    before = timeline_of(whole)
    (done,) = (i for i in timeline_of(path).completed if i.action is Action.RESTORE)
    (path / timeline_of(path).file_of(done)).unlink()
    third = before.commits[2]
    folder = before.folder
    for file in (whole / folder).iterdir():
        if file.name.startswith(third.time):
            (path / folder / file.name).write_bytes(file.read_bytes())
    for name in data_files(whole) - data_files(path):
        if third.time in name:
            (path / name).write_bytes((whole / name).read_bytes())
    (pending,) = (i for i in timeline_of(path).pending)
    assert pending == Instant(done.time, Action.RESTORE, State.INFLIGHT)

    undone = package.restore(str(path), second)

    assert {each.commit for each in undone} == {i.time for i in before.commits[2:]}
    check(peers, path, version, 2)


@pytest.mark.parametrize("version", versions(6))
def test_apache_hudi_restores_to_a_savepoint_of_a_table_of_pyhudi(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, path = peers("hudi-1.2.0"), tmp_path / "pyhudi"
    second = written(peers("pyhudi"), path, version)
    package.savepoint(str(path), second)

    restored_by_hudi(hudi, path, version, second)

    assert package.restore(str(path), second) == []
    check(peers, path, version, 2)
