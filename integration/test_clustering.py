"""Clustering beside Apache Hudi: it reads the result, writes on, cleans, and runs our plans."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.sample import cells, versions
from integration.test_clean import options as without_services
from integration.test_compaction import agreed, kept
from integration.test_compaction import written as written_logs
from integration.test_log_reads import (
    AVRO_LOGS,
    EVENT_TIME,
    GONE,
    LATER,
    MIXED,
    SOFT,
    Story,
    Write,
    beside,
    soft,
)
from integration.test_log_reads import FIRST as START
from pyhudi.clock import SystemClock
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.pending import pending_clusterings, planned_clusterings
from pyhudi.timeline.table import open_table
from pyhudi.transactions.conflicts.clustering_plans import groups_of
from tests import golden_tables
from tests.services.folder_table import FolderTable, Values
from tests.services.logged_table import LoggedTable
from tests.services.test_clustering import Beside, die_while_it_runs
from tests.services.test_clustering_heals import overtaken

SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "v"}


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


@pytest.mark.parametrize("version", versions(9, 6))
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


@pytest.mark.parametrize("version", versions(6))
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


@pytest.mark.parametrize(
    ("version", "changed"), cells(list(product((9, 8, 6), (False, True))), [(9, True), (6, False)])
)
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


# --- merge-on-read --------------------------------------------------------------------------------

WHOLE = {
    "hoodie.clustering.plan.strategy.class": "ALL",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
}
CHANGES = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.read.begin.instanttime": "earliest",
    "hoodie.datasource.query.incremental.format": "cdc",
}
PLANS_CLUSTERING = {
    "hoodie.clustering.schedule.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.async.max.commits": "1",
    "hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
}
WITH_LOGS = [START, MIXED, SOFT]


def with_logs(version: int) -> Story:
    return Story("clustered", "hudi-1.2.0", version, EVENT_TIME | AVRO_LOGS, set(), WITH_LOGS)


def by_hudi(peers: Callable[[str], SparkPeer], path: Path, version: int, op: str) -> None:
    """Let Apache Hudi plan or run clusterings; without the options it would upgrade the table."""
    settings = (
        f"hoodie.write.table.version={version},hoodie.write.auto.upgrade=false,"
        "hoodie.metadata.enable=false,hoodie.clean.automatic=false,"
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled=true"
    )
    call = f"call run_clustering(path => '{path}', op => '{op}', options => '{settings}')"
    peers("hudi-1.2.0").sql(call)
    assert open_table(LocalStorage(str(path))).config.version == version


def changes(peers: Callable[[str], SparkPeer], path: Path) -> list[Any]:
    """What each commit did to each row."""
    found = peers("pyhudi").read(path, CHANGES).without_meta().rows
    return sorted(found, key=repr)


@pytest.mark.parametrize("version", versions(9, 6))
def test_all_read_the_same_rows_after_logs_are_clustered_and_write_on(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    of, path = with_logs(version), tmp_path / "clustered"
    written_logs(peers, path, of, WITH_LOGS)
    peers("pyhudi").write(path, GONE.table(), of.given(GONE))
    before, told = agreed(peers, path), changes(peers, path)

    found = package.cluster(str(path), options=WHOLE)

    assert {f.fate.value for f in found} == {"clustered"}
    assert sum(f.logs for f in found) > 0
    assert kept(agreed(peers, path)) == kept(before)
    if version == 6:
        old = peers("hudi-0.15.0").read(path).without_meta().rows
        assert old == before.without_meta().rows
    assert changes(peers, path) == told
    last = {**CHANGES, "hoodie.datasource.query.incremental.format": "latest_state"}
    last["hoodie.datasource.read.begin.instanttime"] = sorted(
        each.instant for each in package.history(str(path))
    )[-2]
    assert not peers("pyhudi").read(path, last).rows
    for writer in ("hudi-1.2.0", "pyhudi"):
        peers(writer).write(path, LATER.table(), of.given(LATER))
        rows = {row["id"]: row["v"] for row in agreed(peers, path).rows}
        assert (rows[0], rows[1], rows[6]) == ("x0", "x1", "x6")


@pytest.mark.parametrize("version", versions(6, every=(9, 6)))
def test_a_write_of_logs_takes_its_group_out_of_the_clustering(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    of, path = with_logs(version), tmp_path / "clustered"
    written_logs(peers, path, of, WITH_LOGS)
    table = LoggedTable(golden_tables.ALL[0], path)
    table.clock.advance((SystemClock().now_ms() - table.clock.now_ms()) / 1000)
    write = Write("upsert", [(0, 30, "w0")], columns=soft(False))
    seen: list[Any] = []

    def changes_p0() -> None:
        peers("pyhudi").write(path, write.table(), of.given(write))
        now = table.table().timeline()
        ((_, plan),) = planned_clusterings(table.table(), now)
        seen.extend([agreed(peers, path), {partition for partition, _ in groups_of(plan)}])

    found = table.cluster(Beside(changes_p0), **{"class": "ALL", "sort_columns": "v"})

    before, planned = seen
    assert planned == {"p1"}
    assert {(f.partition, f.fate.value) for f in found} == {("p0", "left"), ("p1", "clustered")}
    assert kept(agreed(peers, path)) == kept(before)


@pytest.mark.parametrize("version", versions(9, every=(9, 6)))
def test_pyhudi_runs_a_clustering_of_logs_that_apache_hudi_planned(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    of, path = with_logs(version), tmp_path / "clustered"
    written_logs(peers, path, of, [START, MIXED, beside(SOFT, PLANS_CLUSTERING)])
    before = agreed(peers, path)
    table = LoggedTable(golden_tables.ALL[0], path)
    (planned,) = pending_clusterings(table.table(), table.table().timeline())

    found = package.cluster(str(path))

    assert {(f.fate.value, f.clustering) for f in found if f.group is not None} == {
        ("clustered", planned)
    }
    assert kept(agreed(peers, path)) == kept(before)


@pytest.mark.parametrize("version", versions(6, every=(9, 6)))
def test_apache_hudi_clusters_logs_of_pyhudi_and_runs_its_plans(
    peers: Callable[[str], SparkPeer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    of, path = with_logs(version), tmp_path / "clustered"
    for number, write in enumerate([*WITH_LOGS, GONE]):
        mode = "append" if number else "overwrite"
        peers("pyhudi").write(path, write.table(), of.given(write), mode)
    before = agreed(peers, path)
    by_hudi(peers, path, version, "scheduleAndExecute")
    assert kept(agreed(peers, path)) == kept(before)

    peers("pyhudi").write(path, LATER.table(), of.given(LATER))
    before = agreed(peers, path)
    table = LoggedTable(golden_tables.ALL[0], path)
    table.clock.advance((SystemClock().now_ms() - table.clock.now_ms()) / 1000)
    dead = die_while_it_runs(table, monkeypatch, **{"class": "ALL", "sort_columns": "v"})
    by_hudi(peers, path, version, "execute")
    assert dead in {each.instant for each in package.history(str(path))}
    assert not table.table().timeline().pending
    assert kept(agreed(peers, path)) == kept(before)
