"""Clusterings of merge-on-read tables: a slice goes with its logs, and later logs are spared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.choices import CleanPolicy
from pyhudi.errors import UnsupportedTable
from pyhudi.format.filenames import parse_data_file_name
from pyhudi.format.instants import State
from pyhudi.format.plans import (
    ClusteringSlice,
    parse_requested_replace,
    render_requested_replace,
)
from pyhudi.services import clustering_run
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.clustering import ClusteredFile, ClusteringFate
from pyhudi.services.compaction import CompactionStep
from pyhudi.services.failed_writes import Outcome, settle_and_tell
from pyhudi.timeline.active import COMMITS
from pyhudi.transactions.instants import take_time
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.services.logged_table import LoggedTable, logged
from tests.services.test_clustering import Beside, as_apache_hudi_plans, die_while_it_runs

MERGED = [t for t in golden_tables.ALL if t.merge_on_read and t.expected() is not None]
TABLES = [t for t in MERGED if "bucket" not in t.table]
#: tables whose last commit added logs to some slices, in layout 2 and in layout 1
LOGGED = ["h120_v9-mor_meta", "h120_v6-mor_meta"]
ALL = {"class": "ALL", "sort_columns": "id"}


@pytest.fixture(params=LOGGED)
def table(tmp_path: Path, request: pytest.FixtureRequest) -> LoggedTable:
    return logged(golden_tables.BY_NAME[request.param], tmp_path)


def fates(found: Sequence[ClusteredFile]) -> set[str]:
    return {each.fate.value for each in found}


def hidden(table: LoggedTable) -> tuple[set[tuple[str, str]], Callable[[], object]]:
    """The groups of the last commit, which has not completed any more, and what completes it."""
    timeline = table.table().timeline()
    last = timeline.commits[-1]
    stats = COMMITS.get(table.storage, timeline, last).stats
    completed = table.root / timeline.file_of(last)
    held = completed.read_bytes()
    completed.unlink()
    groups = {(stat.partition_path, stat.file_id) for stat in stats}
    return groups, lambda: completed.write_bytes(held)


def left(found: Sequence[ClusteredFile]) -> set[tuple[str, str]]:
    """The groups that a clustering left to others."""
    rows = (each for each in found if each.fate is ClusteringFate.LEFT)
    named = ((each.partition, parse_data_file_name(each.file)) for each in rows)
    return {(partition, name.file_id) for partition, name in named if name is not None}


def planned(table: LoggedTable) -> list[ClusteringSlice]:
    """The slices in the plan of the pending clustering."""
    timeline = table.table().timeline()
    (pending,) = timeline.pending
    path = timeline.file_of(replace(pending, state=State.REQUESTED))
    plan = parse_requested_replace(table.storage.read(path), path).clustering_plan
    assert plan is not None
    return [each for group in plan.input_groups for each in group.slices]


@pytest.mark.parametrize("golden", TABLES, ids=lambda t: t.name)
def test_a_golden_table_has_the_same_rows_after_its_clustering(
    golden: GoldenTable, tmp_path: Path
) -> None:
    table = logged(golden, tmp_path)
    commits = [str(i.time) for i in table.table().timeline().commits]
    before, then = table.rows(), table.rows(commits[-1])
    assert fates(table.cluster(**ALL)) <= {"clustered"}
    assert table.rows() == before
    assert table.rows(commits[-1]) == then
    view = table.table().view(table.table().timeline())
    assert not any(each.logs for each in view.slices())


def test_the_plan_names_the_logs_as_apache_hudi_does(table: LoggedTable) -> None:
    view = table.table().view(table.table().timeline())
    expected = {
        (
            f"{table.root}/{each.base.path}" if each.base else "",
            tuple(f"{table.root}/{log.path}" for log in each.logs),
        )
        for each in view.slices()
    }
    seen: list[ClusteringSlice] = []
    found = table.cluster(Beside(lambda: seen.extend(planned(table))), **ALL)
    assert {(each.data_file_path, each.delta_file_paths) for each in seen} == expected
    assert sum(each.logs for each in found) == sum(len(logs) for _, logs in expected) > 0


def test_a_group_to_which_a_log_came_meanwhile_is_left_out_and_taken_by_the_next_run(
    table: LoggedTable,
) -> None:
    before = table.rows()
    groups, complete = hidden(table)
    found = table.cluster(Beside(complete), **ALL)
    assert left(found) == groups
    assert all("changed it meanwhile" in f.why for f in found if f.fate is ClusteringFate.LEFT)
    assert table.rows() == before
    assert fates(table.cluster(**ALL)) == {"clustered"}
    assert table.rows() == before


def test_a_log_that_came_between_the_plan_and_its_request_leaves_its_group_out(
    table: LoggedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer takes no lock."""
    before = table.rows()
    groups, complete = hidden(table)

    def first(*given: Any, **more: Any) -> Any:
        complete()
        return take_time(*given, **more)

    monkeypatch.setattr(clustering_run, "take_time", first)
    assert left(table.cluster(**ALL)) == groups
    assert table.rows() == before


def test_a_group_is_in_the_plan_of_a_compaction_or_of_a_clustering(table: LoggedTable) -> None:
    before = table.rows()
    compactions = table.compact(CompactionStep.SCHEDULE)
    time = compactions[0].compaction
    found = table.cluster(**ALL, dry_run=True)
    why = {each.why for each in found if each.logs}
    assert why == {f"the pending compaction {time} has it"}
    table.compact(CompactionStep.UNSCHEDULE)

    told: list[str] = []
    table.cluster(
        Beside(lambda: told.extend(f.why for f in table.compact(CompactionStep.SCHEDULE))), **ALL
    )
    assert told
    assert all("is to rewrite it" in why or "version 6" in why for why in told)
    assert table.rows() == before


def test_a_group_that_a_compaction_took_up_meanwhile_is_left_to_it(
    table: LoggedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that does not know the plan of the clustering schedules it."""
    before = table.rows()

    def schedule() -> None:
        with monkeypatch.context() as patch:
            blind = "pyhudi.services.compaction_schedule"
            patch.setattr(f"{blind}.planned_clusterings", lambda *_: ())
            patch.setattr(f"{blind}.older_writes", lambda now: [])
            assert {f.fate.value for f in table.compact(CompactionStep.SCHEDULE)} == {"planned"}

    found = table.cluster(Beside(schedule), **ALL)
    assert all("has it" in each.why for each in found if each.logs)
    assert table.rows() == before
    table.compact(CompactionStep.RUN)
    assert table.rows() == before


def test_a_plan_of_apache_hudi_with_logs_is_carried_out(
    table: LoggedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.rows()
    dead = as_apache_hudi_plans(table, monkeypatch, **ALL)
    done = [each for each in table.cluster(**ALL) if each.clustering == dead]
    assert done
    assert fates(done) == {"clustered"}
    assert table.rows() == before


def test_a_slice_with_a_log_that_the_plan_of_apache_hudi_lacks_is_left(
    table: LoggedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.rows()
    dead = as_apache_hudi_plans(table, monkeypatch, **ALL)
    timeline = table.table().timeline()
    path = timeline.file_of(replace(timeline.pending[0], state=State.REQUESTED))
    requested = parse_requested_replace(table.storage.read(path), path)
    plan = requested.clustering_plan
    assert plan is not None
    groups = [
        replace(g, slices=tuple(replace(s, delta_file_paths=()) for s in g.slices))
        for g in plan.input_groups
    ]
    without = replace(requested, clustering_plan=replace(plan, input_groups=tuple(groups)))
    table.storage.replace(path, render_requested_replace(without))
    slices = table.table().view(timeline).slices()

    found = [each for each in table.cluster(**ALL) if dead in each.why]

    assert left(found) == {(each.partition_path, each.file_id) for each in slices if each.logs}
    assert table.rows() == before


def test_the_logs_of_a_replaced_slice_go_with_a_clean(table: LoggedTable) -> None:
    before, old = table.rows(), table.on_disk()
    table.cluster(**ALL)
    clean_table(table.writer(), Retention(CleanPolicy.VERSIONS, versions=1))
    assert not old & table.on_disk()
    assert table.rows() == before


@pytest.mark.parametrize("golden", [t for t in MERGED if t not in TABLES], ids=lambda t: t.name)
def test_tables_with_buckets_are_refused_though_no_option_says_so(
    golden: GoldenTable, tmp_path: Path
) -> None:
    table = logged(golden, tmp_path)
    before = table.on_disk()
    with pytest.raises(UnsupportedTable, match="the bucket index"):
        table.cluster(**ALL)
    assert table.on_disk() == before


def test_a_restore_brings_the_slices_with_logs_back(table: LoggedTable) -> None:
    before, old = table.rows(), table.on_disk()
    last = table.table().timeline().commits[-1]
    table.cluster(**ALL)
    pyhudi.restore(str(table.root), str(last.time))
    assert table.on_disk() == old
    assert table.rows() == before


def test_a_clustering_that_died_is_taken_back_and_the_logs_stay(
    table: LoggedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, old = table.rows(), table.on_disk()
    dead = die_while_it_runs(table, monkeypatch, **ALL)
    assert table.on_disk() > old
    monkeypatch.setattr("pyhudi.services.dead_clusterings.has_passed", lambda *_: True)
    (found,) = settle_and_tell(table.writer())
    assert (found.instant, found.outcome) == (dead, Outcome.ROLLED_BACK)
    assert table.on_disk() == old
    assert table.rows() == before
