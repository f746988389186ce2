"""Compaction beside Apache Hudi: the same rows before and after, and each runs the other's plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import pyhudi as package
from integration.peers import Answer, HudiRs, SparkPeer, difference
from integration.sample import cells, versions
from integration.test_log_reads import (
    AVRO_LOGS,
    BUCKETS,
    COMMIT_TIME,
    EVENT_TIME,
    GONE,
    LATER,
    MIXED,
    PARQUET_LOGS,
    PLANS_COMPACTION,
    SOFT,
    Story,
    Write,
    beside,
    soft,
)
from integration.test_log_reads import FIRST as START
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests import golden_tables
from tests.services.logged_table import LoggedTable
from tests.services.test_compaction import Beside, die_while_it_runs

HUDI, PYHUDI = "hudi-1.2.0", "pyhudi"
Peers = Callable[[str], SparkPeer]
EVERY = [START, MIXED, SOFT, GONE]


def story(version: int, options: Mapping[str, str]) -> Story:
    return Story("compacted", HUDI, version, options, set(), EVERY)


STORIES = [
    pytest.param(9, EVENT_TIME | AVRO_LOGS, id="v9-event-time"),
    pytest.param(9, COMMIT_TIME | PARQUET_LOGS | BUCKETS, id="v9-commit-time-parquet-bucket"),
    pytest.param(8, COMMIT_TIME | AVRO_LOGS, id="v8-commit-time", marks=pytest.mark.matrix),
    pytest.param(6, EVENT_TIME | AVRO_LOGS, id="v6-event-time"),
]


def written(peers: Peers, path: Path, of: Story, writes: Sequence[Write] = EVERY) -> None:
    for number, write in enumerate(writes):
        mode = "append" if number else "overwrite"
        peers(HUDI).write(path, write.table(), of.given(write), mode)


def agreed(peers: Peers, path: Path) -> Answer:
    """What Apache Hudi reads; the others must read the same."""
    truth = peers(HUDI).read(path)
    assert not difference(peers(PYHUDI).read(path), truth)
    if open_table(LocalStorage(str(path))).config.layout == 1 and plans(path):
        return truth  # hudi-rs passes logs over that name a compaction which is only planned
    assert HudiRs().read(path).without_meta().rows == truth.without_meta().rows
    return truth


def kept(answer: Answer) -> list[dict[str, Any]]:
    """All that a compaction keeps: commit times and sequence numbers, too, but no file names."""
    rows = [{n: v for n, v in row.items() if n != "_hoodie_file_name"} for row in answer.rows]
    return sorted(rows, key=repr)


def optimized(peer: SparkPeer, path: Path) -> list[dict[str, Any]]:
    """The base files alone."""
    found = peer.read(path, {"hoodie.datasource.query.type": "read_optimized"})
    return list(found.without_meta().rows)


def called(peers: Peers, path: Path, procedure: str, more: str = "") -> list[dict[str, Any]]:
    """What a procedure of pyhudi answers."""
    arguments = f"table => '{path}'" + (f", {more}" if more else "")
    return list(peers(PYHUDI).sql(f"call pyhudi.system.{procedure}({arguments})").rows)


def plans(path: Path) -> set[str]:
    timeline = open_table(LocalStorage(str(path))).timeline()
    return {str(i.time) for i in timeline.pending if i.action.value == "compaction"}


@pytest.mark.parametrize(("version", "options"), STORIES)
def test_all_read_the_same_rows_after_a_compaction_and_hudi_writes_on(
    version: int, options: Mapping[str, str], peers: Peers, tmp_path: Path
) -> None:
    of, path = story(version, options), tmp_path / "compacted"
    written(peers, path, of)
    before = agreed(peers, path)

    found = package.compact(str(path))

    assert {each.fate.value for each in found} == {"compacted"}
    after = agreed(peers, path)
    assert kept(after) == kept(before)
    for reader in (peers(HUDI), peers(PYHUDI)):
        assert optimized(reader, path) == list(before.without_meta().rows)
    # Updates of compacted rows, a key that the logs added, and one that they deleted.
    peers(HUDI).write(path, LATER.table(), of.given(LATER))
    agreed(peers, path)
    more = Write("upsert", [(20, 30, "z20"), (5, 30, "z5"), (40, 30, "z40")], columns=LATER.columns)
    peers(HUDI).write(path, more.table(), of.given(more))
    rows = {row["id"]: row["v"] for row in agreed(peers, path).rows}
    assert (rows[0], rows[5], rows[20], rows[40]) == ("x0", "z5", "z20", "z40")
    # As tasks of Spark, by Apache Hudi's words.
    told = called(peers, path, "run_compaction", "op => 'schedule'")
    assert {row["fate"] for row in told} == {"planned"}
    (shown,) = [r for r in called(peers, path, "show_compaction") if r["state"] != "completed"]
    assert (shown["timestamp"], shown["operation_size"]) == (told[0]["compaction"], len(told))
    assert shown["runner"] == "nobody has begun it"
    told = called(
        peers, path, "run_compaction", "op => 'run', instants => " + repr(shown["timestamp"])
    )
    assert {row["fate"] for row in told} == {"compacted"}
    assert {row["id"]: row["v"] for row in agreed(peers, path).rows} == rows
    assert {r["state"] for r in called(peers, path, "show_compaction")} == {"completed"}


@pytest.mark.parametrize("version", versions(9, every=(9, 6)))
def test_pyhudi_runs_a_plan_of_apache_hudi_beside_which_hudi_wrote_on(
    version: int, peers: Peers, tmp_path: Path
) -> None:
    of, path = story(version, EVENT_TIME | AVRO_LOGS), tmp_path / "compacted"
    written(peers, path, of, [START, MIXED, beside(SOFT, PLANS_COMPACTION), GONE])
    before = agreed(peers, path)
    (planned,) = plans(path)

    found = package.compact(str(path), op="run")

    assert {(each.fate.value, each.compaction) for each in found} == {("compacted", planned)}
    assert kept(agreed(peers, path)) == kept(before)
    peers(HUDI).write(path, LATER.table(), of.given(LATER))
    assert len(agreed(peers, path).rows) == len(before.rows) + 1


@pytest.mark.parametrize("version", versions(6, every=(9, 6)))
def test_a_group_that_was_replaced_after_the_plan_stays_replaced(
    version: int, peers: Peers, tmp_path: Path
) -> None:
    of, path = story(version, EVENT_TIME | AVRO_LOGS), tmp_path / "compacted"
    first, second = (
        Write("upsert", [(0, ts, "x"), (1, ts, "y")], columns=soft(False, False)) for ts in (20, 21)
    )
    written(peers, path, of, [START, first])
    planned = package.compact(str(path), op="schedule")
    assert [(each.partition, each.fate.value) for each in planned] == [
        ("p0", "planned"), ("p1", "planned"),
    ]  # fmt: skip
    peers(PYHUDI).write(path, second.table(), of.given(second), "append")
    last = str(open_table(LocalStorage(str(path))).timeline().commits[-1].time)
    then = peers(HUDI).read(path, as_of=last)
    anew = Write("insert_overwrite", [(30, 40, "n")], columns=soft(False))
    peers(PYHUDI).write(path, anew.table(), of.given(anew), "append")
    before = agreed(peers, path)

    found = package.compact(str(path), op="run")

    assert sorted(each.fate.value for each in found) == (
        ["compacted", "compacted"] if version == 6 else ["compacted", "left"]
    )
    assert kept(agreed(peers, path)) == kept(before)
    for reader in (peers(HUDI), peers(PYHUDI)):
        assert kept(reader.read(path, as_of=last)) == kept(then)


@pytest.mark.parametrize("version", versions(9, every=(9, 6)))
def test_apache_hudi_writes_while_a_compaction_runs(
    version: int, peers: Peers, tmp_path: Path
) -> None:
    of, path = story(version, EVENT_TIME | AVRO_LOGS), tmp_path / "compacted"
    written(peers, path, of)
    seen: list[Answer] = []

    def write() -> None:
        peers(HUDI).write(path, LATER.table(), of.given(LATER))
        seen.append(agreed(peers, path))

    table = LoggedTable(golden_tables.ALL[0], path)
    table.compact(tasks=Beside(write))

    assert not plans(path)
    assert kept(agreed(peers, path)) == kept(seen[0])
    package.compact(str(path))
    assert kept(agreed(peers, path)) == kept(seen[0])


@pytest.mark.parametrize(
    ("version", "died"), cells(list(product((9, 6), (False, True))), [(9, True), (6, False)])
)
def test_apache_hudi_runs_a_plan_of_pyhudi_beside_which_it_wrote_on(
    version: int, peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died: bool
) -> None:
    of, path = story(version, EVENT_TIME | AVRO_LOGS), tmp_path / "compacted"
    written(peers, path, of, [START, MIXED, SOFT])
    found = package.compact(str(path), op="schedule")
    assert {each.fate.value for each in found} == {"planned"}
    peers(HUDI).write(path, GONE.table(), of.given(GONE))
    if died:
        die_while_it_runs(LoggedTable(golden_tables.ALL[0], path), monkeypatch)
        assert list(path.rglob(f"*_{found[0].compaction}.parquet"))
    before = agreed(peers, path)

    # Without these options the call would first bring the table to version 9.
    kept_as_it_is = (
        f"hoodie.write.table.version={version},hoodie.write.auto.upgrade=false,"
        "hoodie.metadata.enable=false"
    )
    call = f"call run_compaction(op => 'run', path => '{path}', options => '{kept_as_it_is}')"
    peers(HUDI).sql(call)

    assert open_table(LocalStorage(str(path))).config.version == version
    assert not plans(path)
    assert kept(agreed(peers, path)) == kept(before)
    assert not list(package.compact(str(path), op="run"))
