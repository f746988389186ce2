"""Log compaction beside Apache Hudi: the rows stay, and each runs the plan of the other.

Apache Hudi gives the rows that it merges the time of the log compaction; pyhudi keeps theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi as package
from integration.peers import Answer, HudiRs, SparkPeer, difference
from integration.test_compaction import kept
from integration.test_log_reads import (
    AVRO_LOGS,
    BUCKETS,
    COMMIT_TIME,
    COMPACTS_LOGS,
    EVENT_TIME,
    GONE,
    LATER,
    MIXED,
    PARQUET_LOGS,
    SOFT,
    Story,
    Write,
    beside,
)
from integration.test_log_reads import FIRST as START
from pyhudi.format.instants import Action, InstantTime
from pyhudi.services.compaction import CompactionStep
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
from tests import golden_tables
from tests.services.logged_table import LoggedTable
from tests.services.test_compaction import Beside

HUDI, PYHUDI = "hudi-1.2.0", "pyhudi"
Peers = Callable[[str], SparkPeer]
EVERY = [START, MIXED, SOFT, GONE]
TWO = {"hoodie.log.compaction.blocks.threshold": "2"}
#: pending plans are run, and no new one is made
ONLY_RUNS = {**COMPACTS_LOGS, "hoodie.log.compaction.blocks.threshold": "100"}
#: updates of merged rows, of a key that logs added, and one of a key that they deleted
MORE = Write("upsert", [(20, 30, "z20"), (5, 30, "z5"), (40, 30, "z40")], columns=LATER.columns)


def written(
    peers: Peers, path: Path, of: Story, writes: Sequence[Write] = EVERY, writer: str = HUDI
) -> None:
    for number, write in enumerate(writes):
        mode = "append" if number or path.exists() else "overwrite"
        peers(writer).write(path, write.table(), of.given(write), mode)


def agreed(peers: Peers, path: Path) -> Answer:
    """What Apache Hudi reads; the others must read the same."""
    truth = peers(HUDI).read(path)
    assert not difference(peers(PYHUDI).read(path), truth)
    assert HudiRs().read(path).without_meta().rows == truth.without_meta().rows
    return truth


def states(peers: Peers, path: Path) -> dict[str, Answer]:
    """Each state of the table, in which both agree."""
    found = {}
    for commit in open_table(LocalStorage(str(path))).timeline().commits:
        found[commit.time] = peers(HUDI).read(path, as_of=str(commit.time))
        assert not difference(peers(PYHUDI).read(path, as_of=str(commit.time)), found[commit.time])
    return found


def log_compactions(path: Path) -> list[InstantTime]:
    """The completed ones."""
    storage = LocalStorage(str(path))
    timeline = open_table(storage).timeline()
    found = [(i, COMMITS.get(storage, timeline, i)) for i in timeline.commits]
    return [i.time for i, metadata in found if metadata.operation == "LOG_COMPACT"]


def pending(path: Path) -> list[InstantTime]:
    timeline = open_table(LocalStorage(str(path))).timeline()
    return [i.time for i in timeline.pending if i.action is Action.LOGCOMPACTION]


def story(version: int, options: Mapping[str, str]) -> Story:
    return Story("merged", HUDI, version, options, set(), EVERY)


def changes(peers: Peers, path: Path, since: Mapping[str, str]) -> list[dict[str, object]]:
    """What pyhudi tells of each change."""
    asked = {**since, "hoodie.datasource.query.incremental.format": "cdc_columns"}
    return list(peers(PYHUDI).read(path, asked).rows)


def end_of(path: Path, time: str) -> str:
    """When a commit completed."""
    timeline = open_table(LocalStorage(str(path))).timeline()
    return next(str(i.completion_time) for i in timeline.commits if i.time == time)


def forget(path: Path, time: InstantTime) -> None:
    """Take the run of a log compaction back; its plan is pending again."""
    timeline = open_table(LocalStorage(str(path))).timeline()
    (done,) = (i for i in timeline.commits if i.time == time)
    (path / timeline.file_of(done)).unlink()
    (path / timeline.folder / f"{time}.logcompaction.inflight").unlink()
    logs = [log for log in path.rglob(f".*_{time}.log.*") if ".hoodie" not in log.parts]
    assert logs
    for log in logs:
        log.unlink()


@pytest.mark.parametrize(
    ("version", "writer"),
    [
        (9, PYHUDI),
        pytest.param(8, PYHUDI, marks=pytest.mark.matrix),
        pytest.param(6, PYHUDI, marks=pytest.mark.matrix),
        pytest.param(6, HUDI, marks=pytest.mark.matrix),
    ],
)
def test_apache_hudi_compacts_the_logs_of_a_table_and_both_go_on(
    version: int, writer: str, peers: Peers, tmp_path: Path
) -> None:
    of, path = story(version, EVENT_TIME | AVRO_LOGS | BUCKETS), tmp_path / "merged"
    written(peers, path, of, [START, MIXED, GONE], writer)
    written(peers, path, of, [beside(SOFT, COMPACTS_LOGS)])
    assert len(log_compactions(path)) == 1
    agreed(peers, path)
    states(peers, path)
    written(peers, path, of, [LATER], PYHUDI)
    written(peers, path, of, [MORE])
    rows = {row["id"]: row["v"] for row in agreed(peers, path).rows}
    assert (rows[0], rows[5], rows[20], rows[40]) == ("x0", "z5", "z20", "z40")
    assert {each.fate.value for each in package.compact(str(path))} == {"compacted"}
    assert {row["id"]: row["v"] for row in agreed(peers, path).rows} == rows


STORIES = [
    pytest.param(9, EVENT_TIME | AVRO_LOGS, id="v9-event-time"),
    pytest.param(9, COMMIT_TIME | PARQUET_LOGS | BUCKETS, id="v9-commit-time-parquet-bucket"),
    pytest.param(8, EVENT_TIME | AVRO_LOGS | BUCKETS, id="v8-bucket", marks=pytest.mark.matrix),
]


@pytest.mark.parametrize(("version", "options"), STORIES)
def test_all_read_the_same_rows_after_a_log_compaction_and_hudi_writes_on(
    version: int, options: Mapping[str, str], peers: Peers, tmp_path: Path
) -> None:
    of, path = story(version, options), tmp_path / "merged"
    written(peers, path, of)
    before, then = agreed(peers, path), states(peers, path)
    last = max(then)

    found = package.compact(str(path), op="scheduleAndLogCompact", options=TWO)

    assert "compacted" in {each.fate.value for each in found}
    (time,) = log_compactions(path)
    assert agreed(peers, path).rows == before.rows
    after = states(peers, path)
    assert {each: after[each].rows for each in then} == {each: then[each].rows for each in then}
    # Nobody takes a row for changed.
    since = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": end_of(path, last),
    }
    assert not peers(HUDI).read(path, since).rows
    assert not peers(PYHUDI).read(path, since).rows
    assert not changes(peers, path, since)
    earlier = {**since, "hoodie.datasource.read.begin.instanttime": end_of(path, sorted(then)[1])}
    assert changes(peers, path, earlier)
    # Both go on, and merge again what was merged once.
    written(peers, path, of, [LATER])
    written(peers, path, of, [MORE], PYHUDI)
    rows = {row["id"]: row["v"] for row in agreed(peers, path).rows}
    assert (rows[0], rows[5], rows[20], rows[40]) == ("x0", "z5", "z20", "z40")
    call = f"call pyhudi.system.run_compaction(table => '{path}', op => 'scheduleLogCompaction')"
    told = peers(PYHUDI).sql(call).rows
    assert {row["fate"] for row in told} <= {"planned", "left"}
    found = package.compact(str(path), op="scheduleAndLogCompact", options=TWO)
    assert "compacted" in {each.fate.value for each in found}
    assert len(log_compactions(path)) == 2
    assert time < log_compactions(path)[1]
    before = agreed(peers, path)
    # Apache Hudi compacts what pyhudi has merged.
    compacts = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    again = Write("upsert", [(0, 40, "y0")], columns={"_hoodie_is_deleted": pa.array([False])})
    written(peers, path, of, [beside(again, compacts)])
    rows["0"] = "y0"
    assert {row["id"] for row in agreed(peers, path).rows} == {row["id"] for row in before.rows}
    assert package.compact(str(path), dry_run=True) == []


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.matrix)])
def test_each_runs_the_plan_of_the_other(version: int, peers: Peers, tmp_path: Path) -> None:
    of, path = story(version, EVENT_TIME | AVRO_LOGS | BUCKETS), tmp_path / "merged"
    written(peers, path, of)
    found = package.compact(str(path), op="scheduleLogCompaction", options=TWO)
    (planned,) = {each.compaction for each in found if each.fate.value == "planned"}
    assert pending(path) == [planned]
    before = agreed(peers, path)
    # After a write Apache Hudi first runs the log compactions that are pending.
    written(peers, path, of, [beside(LATER, ONLY_RUNS)])
    assert not pending(path)
    assert log_compactions(path) == [planned]
    rows = {row["id"]: row["v"] for row in agreed(peers, path).rows}
    assert set(rows) == {row["id"] for row in before.rows} | {6}
    # And a plan of Apache Hudi's whose run is forgotten.
    written(peers, path, of, [beside(MORE, COMPACTS_LOGS)])
    theirs = log_compactions(path)[-1]
    assert theirs != planned
    before = peers(HUDI).read(path)
    forget(path, theirs)
    assert pending(path) == [theirs]
    found = package.compact(str(path), op="logCompact")
    assert {(each.fate.value, each.compaction) for each in found} == {("compacted", theirs)}
    assert agreed(peers, path).without_meta().rows == before.without_meta().rows


def test_apache_hudi_writes_while_a_log_compaction_runs(peers: Peers, tmp_path: Path) -> None:
    of, path = story(9, COMMIT_TIME | AVRO_LOGS | BUCKETS), tmp_path / "merged"
    written(peers, path, of)
    seen: list[Answer] = []

    def write() -> None:
        written(peers, path, of, [LATER])
        seen.append(agreed(peers, path))

    table = LoggedTable(golden_tables.ALL[0], path)
    step = CompactionStep.SCHEDULE_AND_RUN_LOGS
    table.compact(step, tasks=Beside(write), hoodie_log_compaction_blocks_threshold="2")

    assert not pending(path)
    assert len(log_compactions(path)) == 1
    assert kept(agreed(peers, path)) == kept(seen[0])
    package.compact(str(path))
    assert kept(agreed(peers, path)) == kept(seen[0])
