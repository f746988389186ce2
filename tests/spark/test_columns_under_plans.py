"""A table gets column ids between the plan of a rewrite and its end: rows stay with their column.

A plan's files have its instant in their names, so readers tell their columns by the names from
before the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import CommitConflict
from pyhudi.format.instants import InstantTime
from pyhudi.services import clustering
from pyhudi.services.clustering_run import RunningClustering
from pyhudi.services.compaction_run import RunningCompaction
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.transaction import Transaction
from tests.spark.tables import KEY, ORDERING, PARTITION, TYPE, VERSION, HudiTable

pytestmark = pytest.mark.spark

OPTIONS = {KEY: "id", PARTITION: "dt", ORDERING: "ts", TYPE: "MERGE_ON_READ"}
BESIDE = {
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.log.most.changed.percent": "100",
    "hoodie.parquet.small.file.limit": "0",
}
SORTED = {
    "hoodie.clustering.plan.strategy.class": "ALL",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
}
DDL = "id long, name string, n int, ts long, dt string"
BEFORE = [(0, "a", 7, 1, "a"), (1, "b", 8, 2, "a"), (2, "a", 7, 1, "a")]
AFTER = [(0, "a", 7, 1, "a"), (1, "b", 8, 2, "a"), (2, "c", 9, 3, "a")]
#: what the columns become, and the rows after that
CHANGES: dict[str, tuple[Sequence[str], Callable[[tuple[Any, ...]], tuple[Any, ...]]]] = {
    "rename": (("rename column name to title",), lambda row: row),
    "replace": (
        ("drop column name", "add columns (name string after id)"),
        lambda row: (row[0], None, *row[2:]),
    ),
    "add and rename": (
        ("add columns (more string)", "rename column name to title"),
        lambda row: (*row[:4], None, row[4]),
    ),
    "cast": (("alter column n type string",), lambda row: (*row[:2], str(row[2]), *row[3:])),
}


class Plan:
    """A table with a plan of a service that is pending, and how it is run."""

    def __init__(self, spark: SparkSession, path: str, version: str) -> None:
        self.spark = spark
        self.table = HudiTable(spark, path, {**OPTIONS, **BESIDE, VERSION: version}, DDL)
        self.table.write([(i, "a", 7, 1, "a") for i in range(3)], "bulk_insert")
        self.table.write([(1, "b", 8, 2, "a")])

    @property
    def path(self) -> str:
        return self.table.path

    def change(self, name: str) -> None:
        for statement in CHANGES[name][0]:
            self.spark.sql(f"alter table pyhudi.`{self.path}` {statement}")

    def rows(self, as_of: str | None = None) -> list[tuple[Any, ...]]:
        """What a program reads that has seen nothing before."""
        VIEWS.forget_all()
        reader = self.spark.read.format("pyhudi")
        reader = reader if as_of is None else reader.option("as.of.instant", as_of)
        return sorted(map(tuple, reader.load(self.path).collect()))

    def commits(self) -> list[str]:
        return [str(each.instant) for each in pyhudi.Table(self.path).commits()]

    def check(self, name: str, planned: str) -> None:
        """The rows are right now, at the change, and before it at the plan's time and after."""
        then = CHANGES[name][1]
        assert self.rows() == [then(row) for row in AFTER]
        later = [time for time in self.commits() if time > planned]
        count = len(CHANGES[name][0])
        assert self.rows(later[0]) == AFTER
        assert self.rows(later[count]) == [then(row) for row in AFTER]
        if name != "add and rename":
            assert self.rows(planned) == BEFORE


@pytest.fixture(params=["6", "9"])
def plan(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Plan:
    return Plan(spark, str(tmp_path / "t"), request.param)


def planned_compaction(plan: Plan) -> str:
    (found,) = pyhudi.compact(plan.path, spark=plan.spark, op="schedule", options=BESIDE)
    plan.table.write([(2, "c", 9, 3, "a")])
    return str(found.compaction)


def run_compaction(plan: Plan) -> set[str]:
    found = pyhudi.compact(plan.path, spark=plan.spark, op="run", options=BESIDE)
    return {each.fate.value for each in found}


class Planned(BaseException):
    """The program of a clustering has gone after it made its plan."""


def planned_clustering(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> InstantTime:
    """A clustering that another program has requested, and that nobody has begun."""
    seen: list[InstantTime] = []

    def gone(run: object, running: RunningClustering, *more: object) -> None:
        seen.append(running.instant)
        running.leave()
        raise Planned

    plan.table.write([(2, "c", 9, 3, "a")])
    with monkeypatch.context() as patch:
        patch.setattr("pyhudi.services.clustering_schedule.YIELDS", "other")
        patch.setattr(clustering, "_carried_out", gone)
        with pytest.raises(Planned):
            pyhudi.cluster(plan.path, spark=plan.spark, options=OPTIONS | SORTED)
    return seen[0]


def run_clustering(plan: Plan) -> dict[str, set[str]]:
    """The fates of the groups by the clustering that has them."""
    found: dict[str, set[str]] = {}
    for each in pyhudi.cluster(plan.path, spark=plan.spark, options=OPTIONS | SORTED):
        found.setdefault(str(each.clustering), set()).add(each.fate.value)
    return found


@contextmanager
def changes_at_seal(
    run: type[Transaction], plan: Plan, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The columns change when a run of this class has written its files."""
    seal = run.seal

    def sealed(self: Transaction, *given: Any) -> None:
        seal(self, *given)
        plan.change(name)

    with monkeypatch.context() as patch:
        patch.setattr(run, "seal", sealed)
        yield


@pytest.mark.parametrize("name", CHANGES)
def test_a_compaction_that_was_planned_before_a_change_of_columns_keeps_the_rows(
    plan: Plan, name: str
) -> None:
    planned = planned_compaction(plan)
    plan.change(name)
    assert run_compaction(plan) == {"compacted"}
    plan.check(name, planned)


@pytest.mark.parametrize("name", ["rename", "replace", "cast"])
def test_a_compaction_during_which_the_columns_change_runs_again(
    plan: Plan, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_compaction(plan)
    refused = pytest.raises(CommitConflict, match="the columns of the table changed")
    with changes_at_seal(RunningCompaction, plan, name, monkeypatch), refused:
        run_compaction(plan)
    assert plan.rows() == [CHANGES[name][1](row) for row in AFTER]
    assert run_compaction(plan) == {"compacted"}
    plan.check(name, planned)


@pytest.mark.parametrize("name", CHANGES)
def test_a_log_compaction_that_was_planned_before_a_change_of_columns_keeps_the_rows(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """The names in its log are those of its instant, as in the logs that it copies."""
    plan, few = Plan(spark, str(tmp_path / "t"), "9"), "hoodie.log.compaction.blocks.threshold"
    plan.table.write([(2, "c", 9, 3, "a")])
    compacted = partial(pyhudi.compact, plan.path, spark=spark, options={**BESIDE, few: "2"})
    (planned,) = compacted(op="scheduleLogCompaction")
    plan.change(name)
    (merged,) = compacted(op="logCompact")
    assert (merged.fate.value, merged.compaction) == ("compacted", planned.compaction)
    then = CHANGES[name][1]
    assert plan.rows(str(planned.compaction)) == AFTER
    assert plan.rows() == [then(row) for row in AFTER]
    (left,) = compacted(op="scheduleAndLogCompact")
    assert (left.fate.value, plan.rows()) == ("left", [then(row) for row in AFTER])
    (merged,) = compacted(op="scheduleAndRun")
    assert (merged.fate.value, plan.rows()) == ("compacted", [then(row) for row in AFTER])


@pytest.mark.parametrize("name", CHANGES)
def test_a_clustering_that_was_planned_before_a_change_of_columns_keeps_the_rows(
    plan: Plan, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = planned_clustering(plan, monkeypatch)
    plan.change(name)
    assert run_clustering(plan)[planned] == {"clustered"}
    then = CHANGES[name][1]
    assert plan.rows() == [then(row) for row in AFTER]
    assert plan.rows(planned) == AFTER


@pytest.mark.parametrize("name", ["rename", "replace"])
def test_a_clustering_during_which_the_columns_change_is_refused(
    plan: Plan, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan.table.write([(2, "c", 9, 3, "a")])
    refused = pytest.raises(CommitConflict, match="columns of the table changed")
    with changes_at_seal(RunningClustering, plan, name, monkeypatch), refused:
        run_clustering(plan)
    then = CHANGES[name][1]
    assert plan.rows() == [then(row) for row in AFTER]
    assert "clustered" in set.union(*run_clustering(plan).values())
    assert plan.rows() == [then(row) for row in AFTER]
