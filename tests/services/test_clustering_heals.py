"""A clustering and a write of the same rows at once: neither fails for the other's sake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services import reversal
from pyhudi.services.clustering import Clustering, TasksHere
from pyhudi.services.reversal import REVERSES, put_back
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.conflicts.comparison import Footprint, footprint
from pyhudi.transactions.instants import put_instant
from pyhudi.transactions.times.times import time_before
from pyhudi.transactions.transaction import Transaction
from tests.services.folder_table import FolderTable
from tests.services.test_clustering import ROWS, Beside, four_files
from tests.transactions.world import NEVER, VERSIONS


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FolderTable]:
    made = FolderTable(tmp_path / "t", request.param)
    yield made
    made.close()


@dataclass
class Write:
    """A write that has looked its keys up; the clustering has landed before it merges them."""

    table: FolderTable
    transaction: Transaction
    files: list[BaseFile]
    #: another write, which began a little earlier
    other: Transaction | None = None

    def merged(self, *values: dict[str, int]) -> tuple[CommitMetadata, Footprint]:
        """Merge the values of each file, and seal."""
        table, transaction = self.table, self.transaction
        transaction.inflight(None)
        merges = zip(values, self.files, strict=True)
        stats = [s for each, file in merges for s in table.written(transaction, each, file)]
        return table.sealed(transaction, stats)

    def finish(self, *values: dict[str, int], prefers: bool = True) -> None:
        """Commit as ``writes/operations.py`` does."""
        with self.transaction as transaction:
            metadata, ours = self.merged(*values)
            try:
                transaction.commit(metadata, ours)
            except CommitConflict as lost:
                healed = put_back(self.run, transaction, metadata, ours, lost) if prefers else None
                if healed is None:
                    raise
                transaction.commit(healed, footprint("upsert", healed, frozenset(), False))

    @property
    def run(self) -> Clustering:
        table = self.table
        options = resolve_write({}, table.table().config.raw, {})
        place = FileSystemSpec(), str(table.root)
        return Clustering(self.transaction.writer, options, place, TasksHere())


def overtaken(table: FolderTable, *keys: str, beside: bool = False, **options: str) -> Write:
    """A write that began while a clustering ran, which has landed before the write merges.

    With ``beside`` there is another write that began right before.
    """
    found: list[Write] = []

    def begins() -> None:
        table.clock.advance(0.01)  # no two instants of one millisecond
        other = table.begin(NEVER) if beside else None
        table.clock.advance(0.01)
        files = [table.file_of([key]) for key in keys]
        found.append(Write(table, table.begin(NEVER), files, other))

    table.cluster(Beside(begins), **options)
    return found[0]


def change(table: FolderTable, values: dict[str, int]) -> None:
    """A write that leaves the others alone that run."""
    table.update(values, table.begin(NEVER))


def clustering(table: FolderTable) -> InstantTime:
    """The last completed clustering."""
    timeline = table.table().timeline()
    return [i.time for i in timeline.commits if i.action is Action.REPLACECOMMIT][-1]


def named(table: FolderTable) -> set[str]:
    timeline = table.table().timeline()
    commits = [COMMITS.get(table.storage, timeline, each) for each in timeline.commits]
    return {stat.path for each in commits for stat in each.stats}


def newest(table: FolderTable) -> list[CommitMetadata]:
    """The last two commits, by their times."""
    timeline = table.table().timeline()
    return [COMMITS.get(table.storage, timeline, each) for each in timeline.commits[-2:]]


# --- the write was first --------------------------------------------------------------------------


def test_the_clustering_leaves_out_what_a_write_changed_since_its_plan(table: FolderTable) -> None:
    four_files(table)

    found = table.cluster(Beside(lambda: table.update({"a1": 9})))

    assert {(f.partition, f.fate.value) for f in found} == {("a", "left"), ("b", "clustered")}
    assert table.rows() == ROWS | {"a1": 9}


def times(table: FolderTable, *values: dict[str, int]) -> Callable[[], None]:
    """Changes ``values``, the first ones at the first call and so on, then nothing more."""
    left = list(values)

    def event() -> None:
        if left:
            table.clock.advance(0.01)
            change(table, left.pop(0))

    return event


def test_what_a_write_changed_is_clustered_again_from_its_new_files(table: FolderTable) -> None:
    four_files(table)

    found = table.cluster(Beside(times(table, {"a1": 9})), again=1)

    assert [f.fate.value for f in found] == ["clustered"] * 4
    assert table.rows() == ROWS | {"a1": 9}
    assert len(table.files()) == 2
    first, second = sorted({f.clustering for f in found if f.clustering})
    assert {f.partition for f in found if f.clustering == second} == {"a"}
    assert table.on_disk() == named(table)
    # The write has the later time, so whoever travels to the first clustering must not see it.
    timeline = table.table().timeline()
    then = table.table().view(timeline).latest(as_of=first)
    seen = {row["id"]: row["v"] for file in then for row in table.content(file)}
    assert seen == ROWS


def test_what_writes_change_again_and_again_is_left_after_one_more_run(table: FolderTable) -> None:
    four_files(table)

    found = table.cluster(Beside(times(table, {"a1": 9}, {"a3": 8}, {"a1": 7})), again=1)

    assert {(f.partition, f.fate.value) for f in found} == {("a", "left"), ("b", "clustered")}
    assert all("changed it meanwhile" in f.why for f in found if f.partition == "a")
    assert table.rows() == ROWS | {"a1": 9, "a3": 8}
    assert table.pending() == []
    assert table.on_disk() == named(table)


def test_what_a_running_write_changes_is_not_waited_for(table: FolderTable) -> None:
    four_files(table)
    write = table.begin(NEVER)
    stats = table.merged(write, {"b2": 9})
    found = table.cluster(again=1)
    assert {(f.partition, f.fate.value) for f in found} == {("a", "clustered"), ("b", "left")}
    assert all(f.clustering is None for f in found if f.partition == "b")
    if table.version > 6:
        table.finish(write, stats)
        assert table.rows() == ROWS | {"b2": 9}


# --- the clustering was first ---------------------------------------------------------------------


def test_by_default_the_write_loses_the_race_and_runs_again_on_the_new_files(
    table: FolderTable,
) -> None:
    four_files(table)
    write = overtaken(table, "a1")
    with pytest.raises(CommitConflict, match="both changed the same file groups"):
        write.finish({"a1": 9}, prefers=False)
    assert table.rows() == ROWS
    table.update({"a1": 9})
    assert table.rows() == ROWS | {"a1": 9}
    assert len(table.files()) == 2


def test_a_preferred_write_takes_the_clustering_of_its_partition_back(table: FolderTable) -> None:
    four_files(table)
    before = {f.partition_path + key for f in table.files() for key in table.keys(f)}
    times = {r["id"]: r["_hoodie_commit_time"] for f in table.files() for r in table.content(f)}
    write = overtaken(table, "a1")
    assert len(table.files()) == 2

    write.finish({"a1": 9})

    assert table.rows() == ROWS | {"a1": 9}
    assert before == {f.partition_path + key for f in table.files() for key in table.keys(f)}
    assert [f.partition_path for f in table.files()] == ["a", "a", "b"]
    assert table.pending() == []
    taken_back, own = newest(table)
    assert (taken_back.operation, own.operation) == ("CLUSTER", "UPSERT")
    assert REVERSES in taken_back.extra
    assert list(taken_back.replaced or {}) == ["a"]
    after = {r["id"]: r["_hoodie_commit_time"] for f in table.files() for r in table.content(f)}
    assert after == times | {"a1": write.transaction.instant}
    assert table.on_disk() == named(table)
    table.update({"a1": 10})
    table.cluster()
    assert table.rows() == ROWS | {"a1": 10}
    assert len(table.files()) == 2


def test_whoever_reads_between_the_two_commits_sees_the_rows_of_before(table: FolderTable) -> None:
    four_files(table)
    write = overtaken(table, "a1")
    seen: list[dict[str, int]] = []
    metadata, ours = write.merged({"a1": 9})
    with pytest.raises(CommitConflict) as lost:
        write.transaction.commit(metadata, ours)
    healed = put_back(write.run, write.transaction, metadata, ours, lost.value)
    seen.append(table.rows())
    assert healed is not None
    write.transaction.commit(healed, footprint("upsert", healed, frozenset(), False))
    assert seen == [ROWS]
    assert table.rows() == ROWS | {"a1": 9}


def test_a_write_to_two_partitions_takes_both_back(table: FolderTable) -> None:
    four_files(table)
    write = overtaken(table, "a1", "b2")
    write.finish({"a1": 9}, {"b2": 8})
    assert table.rows() == ROWS | {"a1": 9, "b2": 8}
    assert len(table.files()) == 4
    assert table.on_disk() == named(table)


# --- where the clustering stays -------------------------------------------------------------------


def test_it_stays_if_another_write_has_changed_its_files(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    write = overtaken(table, "a1", beside=True)
    table.update({"a2": 7}, write.other)
    caplog.set_level("INFO", "pyhudi")
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "was changed since" in caplog.text
    assert_unchanged(table, {"a2": 7})


def assert_unchanged(table: FolderTable, changed: dict[str, int]) -> None:
    """The rows are those of before, with what others have ``changed``; nothing is left over."""
    assert table.rows() == ROWS | changed
    assert table.pending() == []
    assert table.on_disk() == named(table)


def test_it_stays_if_another_write_changes_its_files_during_the_reversal(
    table: FolderTable, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    write, written = overtaken(table, "a1", beside=True), reversal._written
    others = [write.other]

    def beside(*asked: Any) -> Any:
        if others:
            table.update({"a2": 7}, others.pop())
        return written(*asked)

    monkeypatch.setattr(reversal, "_written", beside)
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "its reversal failed" in caplog.text
    assert_unchanged(table, {"a2": 7})


def test_it_stays_if_a_later_commit_has_completed(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer of Apache Hudi that began after that commit would not see the reversal."""
    four_files(table)
    write = overtaken(table, "a1")
    change(table, {"b2": 7})
    caplog.set_level("INFO", "pyhudi")
    metadata, ours = write.merged({"a1": 9})
    lost = CommitConflict("", ours=None, theirs=clustering(table), overlap=())
    assert put_back(write.run, write.transaction, metadata, ours, lost) is None
    assert "a later commit has completed" in caplog.text
    write.transaction.abort()
    assert_unchanged(table, {"b2": 7})


def test_it_stays_if_a_later_commit_completes_during_the_reversal(
    table: FolderTable, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    write, written, others = overtaken(table, "a1"), reversal._written, [{"b2": 7}]

    def beside(*asked: Any) -> Any:
        if others:
            change(table, others.pop())
        return written(*asked)

    monkeypatch.setattr(reversal, "_written", beside)
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "is older than commit" in caplog.text
    assert_unchanged(table, {"b2": 7})


def test_it_stays_if_the_files_of_before_are_cleaned(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    old = table.file_of(["a2"]).path
    write = overtaken(table, "a1")
    table.storage.delete([old])
    VIEWS.forget(table.storage)
    caplog.set_level("INFO", "pyhudi")
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "was cleaned" in caplog.text
    assert table.rows() == ROWS


def test_it_stays_if_it_was_planned_after_the_write_began(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    caplog.set_level("INFO", "pyhudi")
    write = Write(table, table.begin(NEVER), [table.file_of(["a1"])])
    table.cluster()
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "was planned after the write began" in caplog.text
    assert table.rows() == ROWS
    assert table.pending() == []


def test_it_stays_if_the_write_would_lose_against_another_commit_as_well(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    write = overtaken(table, "a1", "b2", beside=True, partition_selected="a")
    table.update({"b2": 7}, write.other)
    caplog.set_level("INFO", "pyhudi")
    metadata, ours = write.merged({"a1": 9}, {"b2": 8})
    lost = CommitConflict("", ours=None, theirs=clustering(table), overlap=())
    assert put_back(write.run, write.transaction, metadata, ours, lost) is None
    assert "is in conflict with the write as well" in caplog.text
    write.transaction.abort()
    assert_unchanged(table, {"b2": 7})


def test_it_stays_if_a_commit_comes_between_its_plan_and_its_request(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    write, before = overtaken(table, "a1", beside=True), reversal._Reversal.before

    def late(*asked: Any) -> Any:
        table.update({"a2": 7}, write.other)
        return before(*asked)

    monkeypatch.setattr(reversal._Reversal, "before", late)
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert table.rows() == ROWS | {"a2": 7}
    assert table.pending() == []
    assert table.on_disk() == named(table)


def test_it_stays_if_the_write_left_a_file_without_rows(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    write = overtaken(table, "a1")
    caplog.set_level("INFO", "pyhudi")
    metadata, ours = write.merged({"a1": 9})
    with pytest.raises(CommitConflict) as lost:
        write.transaction.commit(metadata, ours)
    (stat,) = metadata.stats
    empty = replace(metadata, stats=(replace(stat, num_writes=0),))
    assert put_back(write.run, write.transaction, empty, ours, lost.value) is None
    assert "the write left no rows in" in caplog.text
    assert table.rows() == ROWS


def test_it_stays_if_the_time_before_the_write_may_have_been_undone(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    write = overtaken(table, "a1")
    caplog.set_level("INFO", "pyhudi")
    table.begin(NEVER).abort()
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "the time right before the write is taken" in caplog.text
    assert table.rows() == ROWS
    assert table.pending() == []


def test_it_stays_if_another_instant_has_the_time_right_before_the_write(
    table: FolderTable, caplog: pytest.LogCaptureFixture
) -> None:
    four_files(table)
    write = overtaken(table, "a1")
    caplog.set_level("INFO", "pyhudi")
    taken = Instant(time_before(write.transaction.instant), Action.CLEAN, State.REQUESTED)
    put_instant(table.table(), None, taken, b"")
    with pytest.raises(CommitConflict):
        write.finish({"a1": 9})
    assert "the time right before the write is taken" in caplog.text
    assert table.rows() == ROWS
    assert table.pending() == ["clean"]


def test_a_reversal_that_dies_is_rolled_back_and_the_clustering_stays(
    table: FolderTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    four_files(table)
    write = overtaken(table, "a1")

    class Gone(BaseException):
        pass

    def dies(*asked: Any) -> Any:
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr("pyhudi.transactions.running.RunningInstant.abort", lambda self: None)
        patch.setattr(reversal, "_moved", dies)
        with pytest.raises(Gone):
            write.finish({"a1": 9})
    assert table.pending() == ["replacecommit", "commit"]
    assert table.rows() == ROWS
    table.close()
    table.clock.advance(3_600)
    table.update({"a2": 7})
    assert table.rows() == ROWS | {"a2": 7}
    assert table.pending() == []
    assert table.on_disk() == named(table)


def test_a_write_that_dies_after_the_reversal_is_rolled_back_and_loses_no_row(
    table: FolderTable,
) -> None:
    four_files(table)
    write = overtaken(table, "a1")
    metadata, ours = write.merged({"a1": 9})
    with pytest.raises(CommitConflict) as lost:
        write.transaction.commit(metadata, ours)
    assert put_back(write.run, write.transaction, metadata, ours, lost.value) is not None
    table.close()
    table.clock.advance(3_600)
    table.update({"a2": 7})
    assert_unchanged(table, {"a2": 7})
    assert len(table.files()) == 3
