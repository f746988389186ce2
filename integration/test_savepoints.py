"""Tables on whose timeline only savepointed commits are left, as after a restore to the oldest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from pyhudi.format.instants import Action
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

DS = "hoodie.datasource.write."
WRITES = 8


def rows(write: int) -> pa.Table:
    """Five rows in a partition of their own."""
    keys = range(5 * write, 5 * write + 5)
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "v": pa.array([1] * 5, pa.int64()),
            "p": pa.array([f"p{write}"] * 5, pa.string()),
        }
    )


def options(version: int) -> dict[str, str]:
    return {
        "hoodie.table.name": "saved",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        DS + "recordkey.field": "id",
        DS + "partitionpath.field": "p",
        DS + "precombine.field": "v",
        DS + "operation": "upsert",
        "hoodie.metadata.enable": "false",
    }


ARCHIVING = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.commits.archival.batch": "1",
}


@pytest.mark.parametrize("version", [9, pytest.param(6, marks=pytest.mark.matrix)])
def test_rows_of_archived_commits_stay_where_only_a_savepoint_is_left(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, path = peers("hudi-1.2.0"), tmp_path / "saved"
    for write in range(WRITES):
        mode = "overwrite" if write == 0 else "append"
        hudi.write(path, rows(write), {**options(version), **ARCHIVING}, mode)
    for key, value in options(version).items():
        if key.startswith(("hoodie.write.", "hoodie.metadata.")):
            hudi.sql(f"set {key}={value}")
    table = open_table(LocalStorage(str(path)))
    first = table.timeline().commits[0].time
    hudi.sql(f"call create_savepoint(path => '{path}', commit_time => '{first}')")
    hudi.sql(f"call rollback_to_savepoint(path => '{path}', instant_time => '{first}')")

    table = open_table(LocalStorage(str(path)))
    assert table.config.version == version
    timeline = table.timeline()
    assert [i.time for i in timeline.commits] == [first]
    assert [i.time for i in timeline.completed if i.action is Action.SAVEPOINT] == [first]
    kept = hudi.read(path).rows
    assert 5 < len(kept) < 5 * WRITES
    pyhudi = peers("pyhudi")
    assert len(pyhudi.read(path).rows) == len(kept)

    # A key of an archived commit is found: it is changed, not doubled.
    pyhudi.write(path, rows(0), options(version))
    assert len(pyhudi.read(path).rows) == len(kept)
    assert len(hudi.read(path).rows) == len(kept)
