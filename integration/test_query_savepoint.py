"""The savepoint of a running query, before the cleaner of Apache Hudi, which heeds no lease.

A read asks for it with hoodie.datasource.read.savepoint.enable (tests/spark/test_leases.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.peers import HudiRs, SparkPeer
from integration.test_clean import by_hudi, data_files, options, rows, seen
from pyhudi.services.opened import open_writer
from pyhudi.services.query_savepoints import end_query_savepoints, save_for_query
from pyhudi.timeline.read_states import ReadState, completed
from pyhudi.transactions.leases import lease

ONE_VERSION = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
}


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.matrix), 6])
def test_apache_hudis_cleaner_spares_what_a_query_reads_until_it_ends(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    pyhudi.write(path, rows({"a": 1, "b": 1}), options(version), "overwrite")
    writer, _ = open_writer(str(path), {}, None)
    timeline = writer.table.timeline()
    newest = timeline.commits[-1]
    state = ReadState(newest.time, timeline.layout, completed(timeline, newest))
    reads = data_files(path)
    query = lease(writer.table.storage, writer.clock, state, writer.policy.heartbeat, saves=True)
    query.start()
    save_for_query(writer, state)
    for value in (2, 3):
        pyhudi.write(path, rows({"a": value, "b": value}), options(version))

    by_hudi(hudi, path, version, ONE_VERSION)
    assert reads <= data_files(path)
    assert len(data_files(path)) == 2 * len(reads), "those between are gone"

    query.stop()
    assert end_query_savepoints(writer) == [newest.time]
    pyhudi.write(path, rows({"a": 4, "b": 4}), options(version))
    by_hudi(hudi, path, version, ONE_VERSION)
    assert not reads & data_files(path)
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == {"a": 4, "b": 4}
