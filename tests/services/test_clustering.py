"""Clustering: what it rewrites, what it leaves to writes, and who goes on after a death."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.choices import ConflictRule
from pyhudi.errors import CommitConflict, ConfigError, UnsupportedTable, WriteFailed, WriterFenced
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.plans import (
    ClusteringPlan,
    InstantInfo,
    RequestedReplace,
    RollbackMetadata,
    RollbackPlan,
    parse_requested_replace,
    render_requested_replace,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock
from pyhudi.rows.log_spec import ClusterTask
from pyhudi.rows.spec import WriteSpec
from pyhudi.services.clustering import ClusteredFile, TasksHere
from pyhudi.services.failed_writes import Outcome, settle_and_tell
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.pending import pending_clusterings
from pyhudi.transactions.conflicts.clustering_plans import YIELDS
from pyhudi.transactions.conflicts.comparison import STRATEGIES
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.instants import put_instant, take_time
from pyhudi.transactions.transaction import Transaction
from tests.services.folder_table import FolderTable
from tests.services.logged_table import LoggedTable
from tests.transactions.world import NEVER, VERSIONS

PREFERS_WRITES = STRATEGIES[ConflictRule.PREFER_WRITER]


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FolderTable]:
    made = FolderTable(tmp_path / "t", request.param)
    yield made
    made.close()


class Beside(TasksHere):
    """The tasks of this process; ``event`` comes after the files are written."""

    def __init__(self, event: Callable[[], object]) -> None:
        self._event = event

    def run(
        self,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        stats = super().run(spec, tasks, columns, layout)
        self._event()
        return stats


def fates(found: Sequence[ClusteredFile]) -> list[tuple[str, str]]:
    return sorted((f.partition, f.fate.value) for f in found)


def last_commit(table: FolderTable) -> CommitMetadata:
    timeline = table.table().timeline()
    return COMMITS.get(table.storage, timeline, timeline.commits[-1])


def four_files(table: FolderTable) -> None:
    """Two small files in each of the partitions ``a`` and ``b``."""
    for partition in ("a", "b"):
        table.insert({f"{partition}1": 4, f"{partition}3": 2}, partition)
        table.insert({f"{partition}2": 3, f"{partition}4": 1}, partition)


ROWS = {f"{p}{n}": 5 - n if n in (1, 4) else {2: 3, 3: 2}[n] for p in "ab" for n in (1, 2, 3, 4)}


def test_small_files_of_a_partition_become_one_sorted_file(table: FolderTable) -> None:
    four_files(table)
    times = {r["id"]: r["_hoodie_commit_time"] for f in table.files() for r in table.content(f)}
    old = {(f.partition_path, f.file_id) for f in table.files()}

    found = table.cluster(sort_columns="v")

    assert fates(found) == [("a", "clustered")] * 2 + [("b", "clustered")] * 2
    assert [(f.partition_path, table.keys(f)) for f in table.files()] == [
        ("a", ["a4", "a3", "a2", "a1"]),
        ("b", ["b4", "b3", "b2", "b1"]),
    ]
    assert table.rows() == ROWS
    after = {r["id"]: r["_hoodie_commit_time"] for f in table.files() for r in table.content(f)}
    assert after == times
    metadata = last_commit(table)
    assert metadata.operation == "CLUSTER"
    assert {(p, g) for p, ids in (metadata.replaced or {}).items() for g in ids} == old
    assert all(
        s.prev_commit is None and s.num_writes == s.num_inserts == 2 * 2 for s in metadata.stats
    )
    assert table.pending() == []
    assert not list((table.root / ".hoodie" / ".temp").rglob("*.*"))
    # The next run has nothing to do, and a write goes on with the new groups.
    assert {f.fate.value for f in table.cluster(sort_columns="v")} == {"left"}
    table.update({"a1": 9})
    assert table.rows() == ROWS | {"a1": 9}


@pytest.mark.parametrize(
    ("layout", "order"),
    [("linear", ["k3", "k1", "k4", "k2"]), ("z-order", ["k1", "k3", "k2", "k4"])],
)
def test_rows_lie_along_the_curve_that_the_layout_names(
    table: FolderTable, layout: str, order: list[str]
) -> None:
    table.insert({"k3": 0, "k2": 3})
    table.insert({"k1": 1, "k4": 2})
    columns = "hoodie.clustering.plan.strategy.sort.columns"
    table.cluster_with({columns: "v,id", "hoodie.layout.optimize.strategy": layout})
    (file,) = table.files()
    assert table.keys(file) == order


def test_the_plan_on_the_timeline_is_that_of_apache_hudi(table: FolderTable) -> None:
    four_files(table)
    seen: list[tuple[Instant, RequestedReplace]] = []

    def look() -> None:
        timeline = table.table().timeline()
        (pending,) = timeline.pending
        path = timeline.file_of(replace(pending, state=State.REQUESTED))
        seen.append((pending, parse_requested_replace(table.storage.read(path), path)))

    table.cluster(Beside(look), sort_columns="v")

    ((instant, requested),) = seen
    assert instant.action is (Action.REPLACECOMMIT if table.version == 6 else Action.CLUSTERING)
    assert instant.state is State.INFLIGHT
    assert requested.operation_type == "CLUSTER"
    plan = requested.clustering_plan
    assert plan is not None
    assert [len(g.slices) for g in plan.input_groups] == [2, 2]
    assert all(s.data_file_path.startswith(f"{table.root}/a/") for s in plan.input_groups[0].slices)
    assert plan.strategy is not None
    params = plan.strategy.strategy_params
    assert params["hoodie.clustering.plan.strategy.sort.columns"] == "v"


def test_a_dry_run_tells_the_groups_and_changes_nothing(table: FolderTable) -> None:
    four_files(table)
    before = {p: p.stat().st_mtime_ns for p in table.root.rglob("*") if p.is_file()}
    found = table.cluster(dry_run=True, max_num_groups="1")
    assert fates(found) == [("a", "would be clustered")] * 2 + [("b", "left")] * 2
    assert [f.group for f in found] == [0, 0, None, None]
    assert "the budget of 1 groups is used up" in found[2].why
    assert {p: p.stat().st_mtime_ns for p in table.root.rglob("*") if p.is_file()} == before


def test_a_run_stops_at_its_budget_and_the_next_one_goes_on(table: FolderTable) -> None:
    four_files(table)
    assert (
        fates(table.cluster(max_num_groups="1")) == [("a", "clustered")] * 2 + [("b", "left")] * 2
    )
    assert fates(table.cluster(max_num_groups="1")) == [("a", "left")] + [("b", "clustered")] * 2
    assert table.rows() == ROWS


def test_options_bound_the_bytes_of_a_group_and_of_a_file(table: FolderTable) -> None:
    for number in range(4):
        table.insert({f"k{number}": number})
    size = max(f.size_bytes for f in table.files())
    found = table.cluster(max_bytes_per_group=str(size - 1), dry_run=True)
    assert f"it is larger than a group may be, {size - 1} bytes" in {f.why for f in found}
    found = table.cluster(max_bytes_per_group=str(2 * size), dry_run=True)
    assert [f.group for f in found] == [0, 0, 1, 1]
    found = table.cluster(target_file_max_bytes=str(2 * size), dry_run=True)
    assert {f.group for f in found} == {0}
    assert "become 2 files" in found[0].why
    table.cluster(target_file_max_bytes=str(2 * size))
    assert [len(table.keys(f)) for f in table.files()] == [2, 2]


# --- beside writes --------------------------------------------------------------------------------


def test_a_group_that_a_write_changed_meanwhile_is_left_out(table: FolderTable) -> None:
    four_files(table)

    found = table.cluster(Beside(lambda: table.update({"a1": 9})))

    assert fates(found) == [("a", "left")] * 2 + [("b", "clustered")] * 2
    assert all("changed it meanwhile" in f.why for f in found if f.partition == "a")
    assert table.rows() == ROWS | {"a1": 9}
    assert len(table.files()) == 3
    named = {
        s.path
        for i in table.table().timeline().commits
        for s in COMMITS.get(table.storage, table.table().timeline(), i).stats
    }
    assert table.on_disk() == named
    assert fates(table.cluster()) == [("a", "clustered")] * 2 + [("b", "left")]
    assert table.rows() == ROWS | {"a1": 9}


def test_a_group_that_a_running_write_changes_is_left_to_it(table: FolderTable) -> None:
    four_files(table)
    write = table.begin()
    stats = table.merged(write, {"b2": 9})

    beside = table.cluster()
    assert fates(beside) == [("a", "clustered")] * 2 + [("b", "left")] * 2
    if table.version == 6:
        # There readers follow instant times, so an older write may not complete later at all.
        with pytest.raises(CommitConflict, match="is older than commit"), write:
            table.finish(write, stats)
        return
    table.finish(write, stats)
    assert table.rows() == ROWS | {"b2": 9}


def test_a_write_that_began_after_the_plan_and_has_not_committed_is_spared(
    table: FolderTable,
) -> None:
    four_files(table)
    left = []

    def begins() -> None:
        write = table.begin(NEVER)
        left.append((write, table.merged(write, {"b2": 9})))

    found = table.cluster(Beside(begins))

    assert fates(found) == [("a", "clustered")] * 2 + [("b", "left")] * 2
    ((write, stats),) = left
    table.finish(write, stats)
    assert table.rows() == ROWS | {"b2": 9}


def test_if_nothing_is_left_nothing_is_committed(table: FolderTable) -> None:
    table.insert({"a1": 1}, "a")
    table.insert({"a2": 2}, "a")
    found = table.cluster(Beside(lambda: table.update({"a1": 9})))
    assert fates(found) == [("a", "left")] * 2
    assert table.pending() == []
    assert table.rows() == {"a1": 9, "a2": 2}
    operations = {
        COMMITS.get(table.storage, table.table().timeline(), i).operation
        for i in table.table().timeline().commits
    }
    assert operations == {"UPSERT"}


def test_what_commits_while_the_lock_is_awaited_is_part_of_the_plan(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    waits = InProcessLock.acquire
    events = [lambda: table.update({"a1": 9})]

    def acquire(lock: InProcessLock, timeout_s: float, owner: LockOwner) -> None:
        if events:
            events.pop()()
        waits(lock, timeout_s, owner)

    monkeypatch.setattr(InProcessLock, "acquire", acquire)
    found = table.cluster()

    assert not events
    assert fates(found) == [("a", "clustered")] * 2 + [("b", "clustered")] * 2
    assert table.rows() == ROWS | {"a1": 9}


def test_a_write_takes_its_group_out_of_the_plan_before_it_commits(table: FolderTable) -> None:
    four_files(table)
    plans = []

    def changes() -> None:
        table.update({"a1": 9})
        timeline = table.table().timeline()
        (pending,) = timeline.pending
        path = timeline.file_of(replace(pending, state=State.REQUESTED))
        requested = parse_requested_replace(table.storage.read(path), path)
        assert requested.clustering_plan is not None
        plans.extend(
            s.partition_path for g in requested.clustering_plan.input_groups for s in g.slices
        )

    table.cluster(Beside(changes))
    assert plans == ["b", "b"]


def test_a_write_that_lost_its_lock_leaves_the_plan_as_it_is(table: FolderTable) -> None:
    """Late, its put would bring groups back that the next writer took out."""
    four_files(table)
    fenced, stood = list[bool](), list[Call]()

    def changes() -> None:
        (pending,) = table.table().timeline().pending
        path = table.table().timeline().file_of(replace(pending, state=State.REQUESTED))
        before = table.storage.read(path)

        def stand_still(call: Call) -> None:
            if call.method == "read" and call.paths == (path,) and table.locks.leases:
                table.clock.advance(0 if stood else 70)  # the lock's lease lasts 60
                stood.append(call)

        slow = FaultyStorage(table.storage, before=stand_still)
        write = Transaction.begin(table.writer(slow), Action.COMMIT, "upsert")
        table.running.append(write)
        with pytest.raises(WriterFenced):
            table.update({"a1": 9}, write)
        fenced.append(table.storage.read(path) == before)

    table.cluster(Beside(changes))
    assert fenced == [True]


def test_a_clustering_that_apache_hudi_took_over_is_not_committed_twice(
    table: FolderTable,
) -> None:
    four_files(table)
    taken: list[InstantTime] = []

    def takes_over() -> None:
        """Rolls the run back, and begins its plan again, as Apache Hudi does."""
        timeline = table.table().timeline()
        (running,) = timeline.pending
        target = InstantInfo(running.time, running.action.value)
        done = RollbackMetadata(running.time, 1, 0, (running.time,), {}, (target,))
        writer = table.writer()
        time, now = take_time(writer, Action.ROLLBACK, render_rollback_plan(RollbackPlan(target)))
        end = Instant(time, Action.ROLLBACK, State.COMPLETED, writer.next_time(now))
        inflight = replace(end, state=State.INFLIGHT, completion_time=None)
        put_instant(writer.table, replace(inflight, state=State.REQUESTED), inflight, b"")
        put_instant(writer.table, inflight, end, render_rollback_metadata(done))
        taken.append(running.time)

    with pytest.raises(WriterFenced, match="which may run its plan again"):
        table.cluster(Beside(takes_over))

    assert [i.time for i in table.table().timeline().pending] == taken
    assert table.rows() == ROWS


# --- after a death --------------------------------------------------------------------------------


def die_while_it_runs(
    table: FolderTable | LoggedTable, monkeypatch: pytest.MonkeyPatch, **options: str
) -> InstantTime:
    """A clustering whose process is gone after it wrote its files; its instant."""

    class Gone(BaseException):
        pass

    def dies() -> None:
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr("pyhudi.services.clustering_run.RunningClustering.abort", lambda self: None)
        patch.setattr(Heartbeat, "go_on", lambda self: None)
        with pytest.raises(Gone):
            table.cluster(Beside(dies), **options)
    (pending,) = pending_clusterings(table.table(), table.table().timeline())
    return pending


def test_a_plan_of_a_dead_owner_is_rolled_back_and_made_again(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    dead = die_while_it_runs(table, monkeypatch)
    monkeypatch.setattr(
        "pyhudi.services.dead_clusterings.ended_process", lambda words, policy: None
    )
    assert fates(table.cluster()) == [("a", "left")] * 2 + [("b", "left")] * 2
    assert all(f.why == f"clustering {dead} is to rewrite it" for f in table.cluster())
    # A write does not wait for it.
    table.update({"a1": 9})

    monkeypatch.setattr("pyhudi.services.dead_clusterings.has_passed", lambda *_: True)
    found = table.cluster()

    assert fates(found) == [("a", "clustered")] * 2 + [("b", "clustered")] * 2
    assert table.rows() == ROWS | {"a1": 9}
    assert table.pending() == []
    assert not any(dead in path for path in table.on_disk())


def test_cleaning_failed_writes_takes_a_dead_clustering_back_and_leaves_a_living_one(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    dead = die_while_it_runs(table, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("pyhudi.services.dead_clusterings.ended_process", lambda words, policy: None)
        (found,) = settle_and_tell(table.writer())
        assert (found.instant, found.outcome) == (dead, Outcome.ALIVE)

        patch.setattr("pyhudi.services.dead_clusterings.has_passed", lambda *_: True)
        (found,) = settle_and_tell(table.writer())

    assert (found.instant, found.outcome) == (dead, Outcome.ROLLED_BACK)
    assert table.pending() == []
    assert not any(dead in path for path in table.on_disk())
    assert not list((table.root / ".hoodie" / ".temp").rglob("*.*"))
    assert table.rows() == ROWS


def test_an_inflight_file_that_landed_after_the_rollback_is_rolled_back_too(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    failed: list[Instant] = []

    def fails() -> None:
        failed.extend(table.table().timeline().pending)
        raise WriteFailed("The tasks failed.")

    with pytest.raises(WriteFailed):
        table.cluster(Beside(fails))
    (late,) = failed
    put_instant(table.table(), replace(late, state=State.REQUESTED), late, b"")
    monkeypatch.setattr("pyhudi.transactions.recovery.settle.has_passed", lambda *_: True)

    (found,) = settle_and_tell(table.writer())

    assert (found.instant, found.outcome) == (late.time, Outcome.ROLLED_BACK)
    assert table.pending() == []
    assert table.rows() == ROWS


def test_a_request_that_landed_at_the_time_of_a_commit_goes_without_the_commits_files(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    timeline = table.table().timeline()
    last = timeline.commits[-1]
    (stat,) = COMMITS.get(table.storage, timeline, last).stats
    # The commit's program died before it deleted its markers.
    table.storage.put_if_absent(marker_path(last.time, stat.path, MarkerKind.CREATE), b"")
    layout = table.table().config.layout
    action = Action.REPLACECOMMIT if layout == 1 else Action.CLUSTERING
    plan = ClusteringPlan((), None, {YIELDS: "true"})
    late = Instant(last.time, action, State.REQUESTED)
    content = render_requested_replace(RequestedReplace("CLUSTER", plan, {}, 1))
    put_instant(table.table(), None, late, content)

    settle_and_tell(table.writer())

    assert table.pending() == []
    assert all(i.action is not Action.ROLLBACK for i in table.table().timeline().instants)
    assert table.rows() == ROWS


def as_apache_hudi_plans(
    table: FolderTable | LoggedTable, monkeypatch: pytest.MonkeyPatch, **options: str
) -> InstantTime:
    """A clustering that another program has requested, without a mark and a heartbeat."""
    monkeypatch.setattr("pyhudi.services.clustering_schedule.YIELDS", "other")
    dead = die_while_it_runs(table, monkeypatch, **options)
    monkeypatch.undo()
    timeline = table.table().timeline()
    (pending,) = timeline.pending
    table.storage.delete([timeline.file_of(pending), f".hoodie/.heartbeat/{dead}"])
    for path in [p for p in table.on_disk() if dead in p]:
        table.storage.delete([path])
    return dead


def test_a_plan_that_apache_hudi_left_is_carried_out(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    dead = as_apache_hudi_plans(table, monkeypatch)

    found = table.cluster()

    done = [f for f in found if f.clustering == dead]
    assert fates(done) == [("a", "clustered")] * 2 + [("b", "clustered")] * 2
    assert table.pending() == []
    assert table.rows() == ROWS
    assert len(table.files()) == 2


def test_a_group_of_a_found_plan_that_is_not_as_planned_is_left(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    dead = as_apache_hudi_plans(table, monkeypatch)
    table.update({"a1": 9}, table.begin(replace(NEVER, conflicts=PREFERS_WRITES)))

    found = [f for f in table.cluster() if f.group is not None or "not as the" in f.why]

    assert table.rows() == ROWS | {"a1": 9}
    assert {f.clustering for f in found if f.partition == "b"} == {dead}


# --- refusals -------------------------------------------------------------------------------------


def test_wrong_columns_patterns_and_tables_are_refused(table: FolderTable) -> None:
    four_files(table)
    with pytest.raises(ConfigError, match="'w' is not a column of t"):
        table.cluster(sort_columns="w")
    with pytest.raises(ConfigError, match="no regular expression"):
        table.cluster(partition_regex_pattern="(")
    with pytest.raises(ConfigError, match="no column is named"):
        table.cluster(**{"class": "OVERLAP"})
    assert table.pending() == []
    with pytest.raises(UnsupportedTable, match="bucket index"):
        table.cluster_with({"hoodie.index.type": "BUCKET"})


def test_only_chosen_partitions_are_clustered(table: FolderTable) -> None:
    four_files(table)
    found = table.cluster(partition_selected="b")
    assert fates(found) == [("a", "left")] * 2 + [("b", "clustered")] * 2
    assert found[0].why == "its partition is not chosen"
