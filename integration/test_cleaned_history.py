"""Time travel in a table that Apache Hudi cleans by file versions: whole, or refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from integration.peers.process import PeerError
from integration.sample import versions
from integration.test_clean import options
from pyhudi.format.instants import Action
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

#: options that Hudi's procedures take from the session
SETTINGS = ("hoodie.write.table.version", "hoodie.write.auto.upgrade", "hoodie.metadata.enable")


def rows(partitions: str, value: int) -> pa.Table:
    """One row in each partition."""
    return pa.table({"id": list(partitions), "v": [value] * len(partitions), "p": list(partitions)})


def values(peer: SparkPeer, path: Path, as_of: str) -> dict[str, int]:
    return {row["id"]: row["v"] for row in peer.read(path, as_of=as_of).rows}


def count(pyhudi: SparkPeer, path: Path, as_of: str) -> int:
    statement = f"select count(*) as n from pyhudi.`{path}` version as of '{as_of}'"
    (row,) = pyhudi.sql(statement).rows
    return int(row["n"])


@pytest.mark.parametrize("version", versions(9))
def test_time_travel_behind_a_clean_by_file_versions_is_whole_or_refused(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "cleaned"
    given, name = options(version), f"cleaned{version}"
    hudi.write(path, rows("abc", 1), given, "overwrite")
    for number, partitions in enumerate(("a", "b", "a", "c", "a", "d"), 2):
        writer = hudi if number % 2 else pyhudi
        writer.write(path, rows(partitions, number), given)
    times = [i.time for i in open_table(LocalStorage(str(path))).timeline().commits]
    before = {time: values(hudi, path, time) for time in times}
    assert before == {time: values(pyhudi, path, time) for time in times}

    for key in SETTINGS:
        hudi.sql(f"set {key} = {given[key]}")
    hudi.sql(f"create table {name} using hudi location '{path}'")
    hudi.sql(
        f"call run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', "
        "file_versions_retained => 1)"
    )
    table = open_table(LocalStorage(str(path)))
    assert table.config.version == version
    assert [i for i in table.timeline().completed if i.action is Action.CLEAN]

    # The last commit made a new file, so the one before has all of its files as well.
    for time in times[-2:]:
        assert values(pyhudi, path, time) == before[time]
        assert count(pyhudi, path, time) == len(before[time])
    for time in times[:-2]:
        # Apache Hudi answers with the partitions that have kept a file so old.
        assert len(values(hudi, path, time)) < len(before[time])
        for ask in (values, count):
            with pytest.raises(PeerError, match="HISTORY_EXPIRED.* as of a later time"):
                ask(pyhudi, path, time)
    for key in SETTINGS:
        hudi.sql(f"reset {key}")
