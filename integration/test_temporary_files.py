"""Temporary files of killed writers of ours, beside Apache Hudi and hudi-rs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.open_writes import numbers, options_of, rows
from integration.peers import HudiRs, SparkPeer
from pyhudi.format.instants import Action
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.names import TEMPORARY_PREFIX
from pyhudi.timeline.table import Table, open_table

more = pytest.mark.matrix
KEEP_LITTLE = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}


def leave_temporaries(table: Table, path: Path) -> list[Path]:
    """Half a data file, and half a file of each folder that instants go to and leave for."""
    config = table.config
    whole = next(path.glob("*/*.parquet")).read_bytes()
    left = []
    for folder in ("", "a", "b", ".hoodie", config.timeline_folder, config.history_folder):
        file = path / folder / f"{TEMPORARY_PREFIX}0f6cbd6c"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(whole[: len(whole) // 2])
        left.append(file)
    return left


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=more), pytest.param(6, marks=more)])
def test_temporary_files_stop_no_service_and_no_reader(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path, version: int
) -> None:
    hudi, path = peers("hudi-1.2.0"), tmp_path / "open"
    for number in range(2):
        hudi.write(path, rows("kl", number, "a"), {**options_of(version), **KEEP_LITTLE})
    hudi.write(path, rows("m", 2, "b"), {**options_of(version), **KEEP_LITTLE})
    table = open_table(LocalStorage(str(path)))
    left = leave_temporaries(table, path)
    for number in range(3, 7):
        hudi.write(path, rows("k", number, "a"), {**options_of(version), **KEEP_LITTLE})

    now = table.timeline().instants
    assert [i for i in now if i.action is Action.CLEAN], "Apache Hudi has cleaned"
    assert len([i for i in now if i.action is Action.COMMIT]) < 7, "and archived"
    expected = {"k": 6, "l": 1, "m": 2}
    for reader in (hudi, hudi_rs, peers("pyhudi")):
        assert numbers(reader.read(path).rows) == expected, reader.name
    assert all(file.exists() for file in set(left)), "they belong to nobody that it knows"
