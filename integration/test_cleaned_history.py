"""Time travel in a table that Apache Hudi cleans by file versions: whole, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from integration.peers.process import PeerError
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

DS = "hoodie.datasource.write."
CLEANING = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.cleaner.fileversions.retained": "1",
}


def rows(partitions: str, value: int) -> pa.Table:
    """One row in each partition."""
    return pa.table({"id": list(partitions), "v": [value] * len(partitions), "p": list(partitions)})


@pytest.mark.parametrize("version", [6, 9])
def test_time_travel_behind_a_clean_by_file_versions_is_refused(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "cleaned"
    options = {
        "hoodie.table.name": "cleaned",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        DS + "recordkey.field": "id",
        DS + "partitionpath.field": "p",
        DS + "precombine.field": "v",
        "hoodie.metadata.enable": "false",
        **CLEANING,
    }
    hudi.write(path, rows("abc", 1), options, "overwrite")
    for value in (2, 3):
        hudi.write(path, rows("a", value), options)
    times = [i.time for i in open_table(LocalStorage(str(path))).timeline().commits]

    assert len(pyhudi.read(path).rows) == 3
    assert len(pyhudi.read(path, as_of=times[-1]).rows) == 3
    # Apache Hudi answers with the partitions that have kept their file.
    assert len(hudi.read(path, as_of=times[0]).rows) == 2
    with pytest.raises(PeerError, match="HISTORY_EXPIRED"):
        pyhudi.read(path, as_of=times[0])
