"""Archiving beside Apache Hudi: each reads the other's archive, and goes on with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.sample import cells
from integration.test_clean import DS, data_files, options, registered, rows, seen, seen_at
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.format.archive import (
    archive_log_number,
    history_file_level,
    read_archive_log,
    read_history_file,
)
from pyhudi.format.instants import State
from pyhudi.locks.open import LockOpener
from pyhudi.services import archive_history
from pyhudi.services import clean as clean_module
from pyhudi.services.archiver import archived as moved
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.archived import history_version
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.writer import Writer, WriterPolicy

KEEP = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
}
PEERS = [
    ("hudi-1.2.0", 9),
    ("hudi-1.2.0", 6),
    pytest.param("hudi-0.15.0", 6, marks=pytest.mark.matrix),
    pytest.param("hudi-1.2.0", 8, marks=pytest.mark.matrix),
]


def written(writer: SparkPeer, path: Path, version: int, begin: int, end: int) -> None:
    for value in range(begin, end):
        mode = "append" if value else "overwrite"
        writer.write(path, rows({"a": value, f"{value % 3}": value}), options(version), mode)


def active(path: Path) -> list[str]:
    return [i.time for i in open_table(LocalStorage(str(path))).timeline().commits]


def archived(path: Path) -> list[str]:
    """The commits in the archive, with doubles."""
    table = open_table(LocalStorage(str(path)))
    read, folder = table.storage.read, table.config.history_folder
    if table.config.layout == 1:
        logs = [f.path for f in table.storage.list(folder) if archive_log_number(f.name)]
        entries = [entry for log in logs for entry in read_archive_log(read(log), log)]
    else:
        files = [f"{folder}/{name}" for name in history_version(table.storage, folder)[1]]
        entries = [entry for file in files for entry in read_history_file(read(file), file)]
    return sorted(
        e.instant.time
        for e in entries
        if e.instant.action in COMMIT_ACTIONS and e.instant.state is State.COMPLETED
    )


def archived_as_hudi_says(hudi: SparkPeer, path: Path, version: int) -> list[str]:
    name = registered(hudi, path, version)
    span = "start_ts => '20200101000000', end_ts => '99990101000000'"
    found = hudi.sql(f"call show_archived_commits(table => '{name}', limit => 999, {span})").rows
    return sorted(row["commit_time"] for row in found)


def by_hudi(hudi: SparkPeer, path: Path) -> None:
    hudi.sql(
        f"call archive_commits(path => '{path}', min_commits => 2, max_commits => 3, "
        "retain_commits => 1, enable_metadata => false)"
    )


def test_hudi_reads_what_levels_were_merged_into_and_goes_on(
    peers: Callable[[str], SparkPeer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_history, "BATCH", 2)
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    every: list[str] = []
    for begin in range(0, 12, 4):
        written(pyhudi, path, 9, begin, begin + 4)
        every += [time for time in active(path) if time not in every]
        package.archive(str(path), options=KEEP)
    table = open_table(LocalStorage(str(path)))
    files = history_version(table.storage, table.config.history_folder)[1]
    assert max(history_file_level(name) or 0 for name in files) == 1

    assert archived_as_hudi_says(hudi, path, 9) == archived(path)
    written(hudi, path, 9, 12, 15)
    every += [time for time in active(path) if time not in every]
    by_hudi(hudi, path)
    assert archived(path) + active(path) == every
    assert archived_as_hudi_says(hudi, path, 9) == archived(path)
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == {"a": 14, "0": 12, "1": 13, "2": 14}


@pytest.mark.parametrize(
    "version", [9, 6, pytest.param(8, marks=pytest.mark.matrix)], ids=lambda version: f"v{version}"
)
def test_an_archived_state_is_read_as_it_was_and_as_hudi_reads_it(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    told: dict[str, dict[str, int]] = {}
    for value in range(8):
        written(hudi if value == 5 else pyhudi, path, version, value, value + 1)
        told[active(path)[-1]] = seen(pyhudi, path)
        if value == 4:
            package.archive(str(path), options=KEEP)
    by_ours = len(archived(path))
    by_hudi(hudi, path)
    assert 0 < by_ours < len(archived(path))

    for instant, then in told.items():
        for reader in (hudi, pyhudi):
            assert seen_at(reader, path, instant) == then, f"{reader.name} as of {instant}"


@pytest.mark.parametrize(("peer", "version"), PEERS)
def test_each_goes_on_with_the_archive_of_the_other(
    peers: Callable[[str], SparkPeer], tmp_path: Path, peer: str, version: int
) -> None:
    hudi, pyhudi, path = peers(peer), peers("pyhudi"), tmp_path / "t"
    written(pyhudi, path, version, 0, 9)
    every, before = active(path), seen(pyhudi, path)

    found = package.archive(str(path), options=KEEP)

    gone = [each.instant for each in found if each.fate.value == "archived"]
    assert (gone, active(path)) == (every[:6], every[6:])
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == before
    assert archived_as_hudi_says(hudi, path, version) == gone

    written(hudi, path, version, 9, 12)
    every += [time for time in active(path) if time not in every]
    by_hudi(hudi, path)
    assert len(active(path)) <= 3
    assert archived(path) + active(path) == every
    assert archived_as_hudi_says(hudi, path, version) == archived(path)

    written(pyhudi, path, version, 12, 16)
    package.archive(str(path), options=KEEP)
    assert len(active(path)) == 3
    assert archived(path) == sorted(set(archived(path)))
    assert len(archived(path)) == 13
    assert archived_as_hudi_says(hudi, path, version) == archived(path)
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == {"a": 15, "0": 15, "1": 13, "2": 14}


#: cleans that leave files which the replace commit replaced
LEAVING: dict[str, dict[str, Any]] = {
    "max_files": {"max_files": 1},
    "partitions": {"options": {"hoodie.clean.partition.filter.regex": "a"}},
}


@pytest.mark.parametrize(
    ("version", "left"),
    cells(
        [(v, left) for v in (9, 8, 6) for left in LEAVING], [(9, "max_files"), (6, "partitions")]
    ),
)
def test_replaced_rows_stay_away_after_a_clean_that_left_their_files(
    peers: Callable[[str], SparkPeer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    left: str,
) -> None:
    """Apache Hudi archives the replace commits before the commit that the last clean names."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)
    hudi, path, given = peers("hudi-1.2.0"), tmp_path / "t", options(version)
    for value in range(9):
        mode = "append" if value else "overwrite"
        hudi.write(path, rows({"a": value, "b": value}), given, mode)
        if value == 1:
            hudi.write(path, rows({"b": 7}), {**given, DS + "operation": "insert_overwrite"})
    before = data_files(path)
    asked = LEAVING[left]
    commits = {"hoodie.clean.commits.retained": "2"}
    package.clean(str(path), **{**asked, "options": commits | asked.get("options", {})})
    assert data_files(path) < before

    by_hudi(hudi, path)
    assert archived(path)
    for reader in (hudi, peers("pyhudi"), HudiRs()):
        found = sorted((row["id"], row["v"]) for row in reader.read(path).rows)
        assert found == [("a", 8), ("b", 8)], reader.name


def archive_on(storage: FaultyStorage) -> None:
    """An archive whose process dies by a fault of the storage."""
    table, clock = open_table(storage), SystemClock()
    resolved = resolve_write(KEEP, table.config.raw, {})
    lock = LockOpener(clock, LocalStorage).open(resolved.lock, table.config.name, storage)
    moved(Writer(table, lock, clock, WriterPolicy()), resolved, dry_run=False)


@pytest.mark.parametrize("at", cells([1, 3], [3]))
def test_hudi_goes_on_where_an_archive_of_ours_died(
    peers: Callable[[str], SparkPeer], tmp_path: Path, at: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    written(pyhudi, path, 9, 0, 6)
    every, before = active(path), seen(pyhudi, path)
    deletes = Fault(Effect.CRASH_BEFORE, at, path="*/timeline/2*", methods=frozenset({"delete"}))
    with pytest.raises(SimulatedCrash):
        archive_on(FaultyStorage(LocalStorage(str(path)), deletes))
    VIEWS.forget(LocalStorage(str(path)))
    assert set(archived(path)) & set(active(path))

    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == before
    written(hudi, path, 9, 6, 8)
    by_hudi(hudi, path)
    assert set(every) <= {*archived(path), *active(path)}
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == {"a": 7, "0": 6, "1": 7, "2": 5}
    package.archive(str(path), options=KEEP)
    assert seen(hudi, path) == seen(pyhudi, path) == {"a": 7, "0": 6, "1": 7, "2": 5}
