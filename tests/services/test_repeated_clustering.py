"""Clustering that is repeated: after commits, and in the rounds of a job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.application.after_commit import after_commit
from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.errors import ConfigError
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.instants import Action
from pyhudi.locks.base import TableLock
from pyhudi.rows.log_spec import ClusterTask
from pyhudi.rows.spec import WriteSpec
from pyhudi.services.budget import Allowance, Budget
from pyhudi.services.clustering import TasksHere
from pyhudi.services.file_systems import filesystems
from pyhudi.services.rounds import RoundBudget, Service, ServiceTurn, round_of
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import Table
from pyhudi.transactions.transaction import Committed
from tests.services.folder_table import FolderTable
from tests.transactions.world import VERSIONS

OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
INLINE = {**OFF, "hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
CLASS = "hoodie.clustering.plan.strategy.class"
COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FolderTable]:
    made = FolderTable(tmp_path / "t", request.param)
    yield made
    made.close()


def options(table: FolderTable, given: Mapping[str, str]) -> WriteOptions:
    return resolve_write(given, table.table().config.raw, {})


def committed(
    table: FolderTable,
    key: str,
    given: Mapping[str, str] = INLINE,
    tasks: TasksHere | None = None,
) -> None:
    """One commit with a new file, and what comes after it."""
    table.insert({key: 1})

    def lock(of: Table, options: WriteOptions) -> TableLock:
        return table.writer().lock

    runtime = Runtime(table.clock, lambda root: table.storage, filesystems({}), lock, None)  # type: ignore[arg-type]
    timeline = table.table().timeline()
    newest = timeline.commits[-1]
    metadata = COMMITS.get(table.storage, timeline, newest)
    assert newest.completion_time is not None or table.version == 6
    done = Committed(newest.time, newest.completion_time or newest.time, metadata)
    after_commit(
        runtime, table.table(), options(table, given), Action.COMMIT, done, tasks or TasksHere()
    )


def operations(table: FolderTable) -> list[str]:
    timeline = table.table().timeline()
    found: list[CommitMetadata] = [
        COMMITS.get(table.storage, timeline, each) for each in timeline.commits
    ]
    return [each.operation for each in found]


# --- after commits --------------------------------------------------------------------------------


def test_it_is_off_by_default(table: FolderTable) -> None:
    assert options(table, {}).cluster_inline is False
    for number in range(5):
        committed(table, f"k{number}", OFF)
    assert operations(table) == ["UPSERT"] * 5


def test_every_so_many_commits_the_small_files_become_one(table: FolderTable) -> None:
    for number in range(5):
        committed(table, f"k{number}")
    assert operations(table) == ["UPSERT"] * 3 + ["CLUSTER"] + ["UPSERT"] * 2
    assert len(table.files()) == 3
    committed(table, "k5")
    assert operations(table)[-2:] == ["UPSERT", "CLUSTER"]
    assert len(table.files()) == 1
    assert table.rows() == {f"k{n}": 1 for n in range(6)}


def test_an_older_word_of_hudis_for_it_means_the_same(table: FolderTable) -> None:
    assert options(table, {"hoodie.datasource.clustering.inline.enable": "true"}).cluster_inline


def test_a_job_of_its_own_keeps_the_writers_from_clustering(table: FolderTable) -> None:
    for number in range(4):
        committed(table, f"k{number}", {**INLINE, "hoodie.table.services.enabled": "false"})
    assert "CLUSTER" not in operations(table)


def test_a_table_that_cannot_be_clustered_is_named_and_the_commit_stands(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            committed(table, f"k{number}", {**INLINE, "hoodie.index.type": "BUCKET"})
    assert "is committed, but not all table services ran" in caplog.text
    assert "cannot cluster a table with the bucket index" in caplog.text
    assert table.rows() == {"k0": 1, "k1": 1, "k2": 1}


def test_a_failed_clustering_leaves_the_commit_and_nothing_pending(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(TasksHere):
        def run(self, *_: object) -> list[WriteStat]:
            raise OSError("disk full")

    for number in range(3):
        committed(table, f"k{number}", tasks=Broken())
    assert "disk full" in caplog.text
    assert table.pending() == []
    assert table.rows() == {"k0": 1, "k1": 1, "k2": 1}
    committed(table, "k3")
    assert len(table.files()) == 1


def test_a_number_of_commits_that_the_archive_never_leaves_is_named(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    many = {**INLINE, "hoodie.clustering.inline.max.commits": "21"}
    committed(table, "k0", many)
    assert caplog.text == ""
    committed(table, "k1", {**many, "hoodie.archive.automatic": "true"})
    assert "an archive leaves only 20 commits" in caplog.text


# --- rounds ---------------------------------------------------------------------------------------


def turn(
    table: FolderTable,
    given: Mapping[str, str],
    budget_s: float | None = None,
    dry_run: bool = False,
) -> ServiceTurn:
    services = [Service.CLUSTER]
    resolved = options(table, given)
    (found,) = round_of(
        table.writer(), resolved, services, RoundBudget(budget_s), dry_run, filesystems({})
    )
    assert found.error == ""
    return found


def counts(of: ServiceTurn) -> tuple[int, int]:
    return of.done, of.left


def two_partitions(table: FolderTable) -> None:
    for number in range(2):
        for partition in "ab":
            table.insert({f"{partition}{number}": 1}, partition)


def test_a_round_clusters_if_it_is_asked_to(table: FolderTable) -> None:
    two_partitions(table)
    assert counts(turn(table, OFF, dry_run=True)) == (0, 4)
    assert len(table.files()) == 4
    assert counts(turn(table, OFF)) == (4, 0)
    assert counts(turn(table, OFF)) == (0, 0)
    assert table.rows() == {"a0": 1, "a1": 1, "b0": 1, "b1": 1}


def test_a_round_clusters_at_most_so_many_groups(table: FolderTable) -> None:
    two_partitions(table)
    one = {**OFF, "hoodie.clustering.plan.strategy.max.num.groups": "1"}
    assert counts(turn(table, one)) == (2, 2)
    assert counts(turn(table, one)) == (2, 0)


def test_after_its_budget_a_round_begins_no_new_group(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_partitions(table)
    run: Callable[..., list[WriteStat]] = TasksHere.run

    def slow(
        self: TasksHere,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        table.clock.advance(30)
        return run(self, spec, tasks, columns, layout)

    monkeypatch.setattr(TasksHere, "run", slow)
    assert counts(turn(table, OFF, budget_s=20)) == (2, 2)
    assert len(table.files()) == 3
    assert table.rows() == {"a0": 1, "a1": 1, "b0": 1, "b1": 1}
    assert counts(turn(table, OFF, budget_s=20)) == (2, 0)
    assert table.pending() == []


def test_after_its_cpu_minutes_a_round_begins_no_new_group(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The CPU time of workers elsewhere counts, as of Spark's."""
    two_partitions(table)
    monkeypatch.setattr(Allowance.__init__, "__defaults__", (None, None, lambda: 0.0))
    resolved, services = options(table, OFF), [Service.CLUSTER]
    most = RoundBudget(max_cpu_minutes=1)
    used = iter([0.0, *[60.0] * 9])
    monkeypatch.setattr(TasksHere, "elsewhere_cpu_s", lambda self: next(used))
    (found,) = round_of(table.writer(), resolved, services, most, False, filesystems({}))
    assert counts(found) == (2, 2)


def test_a_round_clusters_no_further_group_after_so_many_bytes(table: FolderTable) -> None:
    two_partitions(table)
    resolved, services = options(table, OFF), [Service.CLUSTER]
    most = RoundBudget(files=Budget(max_bytes=1))
    for left in ((2, 2), (2, 0)):
        (found,) = round_of(table.writer(), resolved, services, most, False, filesystems({}))
        assert counts(found) == left


def test_what_would_rewrite_the_whole_table_each_time_is_refused(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    two_partitions(table)
    everything = {**INLINE, CLASS: "ALL", COLUMNS: "v"}
    with pytest.raises(ConfigError, match="each clustering would rewrite the whole table"):
        turn(table, everything)
    committed(table, "k", everything)
    assert "each clustering would rewrite the whole table" in caplog.text
    assert "CLUSTER" not in operations(table)
    packed = replace(options(table, everything), cluster_columns=())
    found = round_of(
        table.writer(), packed, [Service.CLUSTER], RoundBudget(), False, filesystems({})
    )
    assert [each.done for each in found] == [4]
