"""Clustering beside Apache Hudi: it reads the result, writes on, cleans, and runs our plans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.test_clean import options as without_services
from pyhudi.clock import SystemClock
from tests.services.folder_table import FolderTable, Values
from tests.services.test_clustering import die_while_it_runs
from tests.services.test_clustering_heals import overtaken

SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "v"}
VERSIONS = [9, pytest.param(8, marks=pytest.mark.matrix), 6]


def options(version: int) -> dict[str, str]:
    small = {"hoodie.table.name": "clustered", "hoodie.parquet.small.file.limit": "0"}
    return {**without_services(version), **small}


def rows(*numbers: int, add: int = 0) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "v": [n * 7 % 10 + add for n in numbers],
            "p": ["a" if n % 2 else "b" for n in numbers],
        }
    )


EXPECTED = {f"k{n}": n * 7 % 10 for n in range(8)}


def seen(peer: SparkPeer, path: Path) -> dict[str, int]:
    return {row["id"]: row["v"] for row in peer.read(path).rows}


def written(writer: SparkPeer, path: Path, version: int) -> None:
    """Two small files in each of two partitions."""
    writer.write(path, rows(0, 1, 2, 3), options(version), "overwrite")
    writer.write(path, rows(4, 5, 6, 7), options(version))


@pytest.mark.parametrize("version", VERSIONS)
def test_apache_hudi_goes_on_after_a_clustering_of_pyhudi(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    written(hudi, path, version)

    found = package.cluster(str(path), options=SORTED)

    assert [f.fate.value for f in found] == ["clustered"] * 4
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == EXPECTED
    cleaning = {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }
    hudi.write(path, rows(1, 8, add=20), {**options(version), **cleaning})
    after = EXPECTED | {"k1": 27, "k8": 26}
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == after
    left = {f.name for f in path.rglob("*.parquet") if ".hoodie" not in f.parts}
    assert left.isdisjoint(f.file for f in found)
    pyhudi.write(path, rows(2, add=40), options(version))
    assert seen(hudi, path) == after | {"k2": 44}


class AdoptedTable(FolderTable):
    """A table that Apache Hudi made, with its partition column ``p``."""

    def incoming(self, values: Values, **more: Any) -> pa.Table:
        rows = super().incoming(values, **more)
        partitions = ["a" if int(key[1:]) % 2 else "b" for key in values]
        return rows.add_column(2, "p", pa.array(partitions))


@pytest.mark.parametrize("version", VERSIONS)
def test_apache_hudi_reads_a_clustering_that_a_preferred_write_took_back(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    written(hudi, path, version)
    table = AdoptedTable(path, version, rows(0).schema)
    # Apache Hudi has the machine's clock, so its next write has the later time.
    table.clock.advance((SystemClock().now_ms() - table.clock.now_ms()) / 1000)
    write = overtaken(table, "k1")
    write.finish({"k1": 41})
    table.close()

    after = EXPECTED | {"k1": 41}
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == after
    assert len(table.files()) == 3
    hudi.write(path, rows(1, 3, 9, add=50), options(version))
    after |= {"k1": 57, "k3": 51, "k9": 53}
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == after


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("changed", [False, True], ids=["as_planned", "changed"])
def test_apache_hudi_finishes_a_plan_of_pyhudi_whose_program_died(
    peers: Callable[[str], SparkPeer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    changed: bool,
) -> None:
    """Also after a write of pyhudi, which takes what it changes out of the plan."""
    hudi, pyhudi, path = peers("hudi-1.2.0"), peers("pyhudi"), tmp_path / "t"
    written(hudi, path, version)
    table = AdoptedTable(path, version, rows(0).schema)
    table.clock.advance((SystemClock().now_ms() - table.clock.now_ms()) / 1000)
    dead = die_while_it_runs(table, monkeypatch)
    if changed:
        pyhudi.write(path, rows(1, add=40), options(version))
    expected = EXPECTED | ({"k1": 47} if changed else {})

    settings = "hoodie.metadata.enable=false,hoodie.clean.automatic=false"
    hudi.sql(f"call run_clustering(path => '{path}', op => 'execute', options => '{settings}')")

    assert table.pending() == []
    done = {each.instant: each for each in package.history(str(path))}[dead]
    assert (done.operation, done.replaced_groups) == ("cluster", 2 if changed else 4)
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == expected
    found = package.cluster(str(path), options=SORTED)
    assert {f.fate.value for f in found if f.partition == "a"} == (
        {"clustered"} if changed else {"left"}
    )
    for reader in (hudi, pyhudi, HudiRs()):
        assert seen(reader, path) == expected
