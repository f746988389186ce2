"""Time travel to slices that a clean has taken is refused, never answered in part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, State
from pyhudi.timeline.view import FileSystemView, list_view
from tests.timeline.bare import Bare, after, t
from tests.timeline.histories import archive_of


def test_time_travel_to_a_slice_that_was_cleaned_is_refused_instead_of_answered_in_part(
    bare: Bare,
) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old, bare.file("g2", 10))
    bare.commit(20, after(bare.file("g1", 20), 10))
    bare.storage.delete([old.path])
    view = bare.view()

    with pytest.raises(HistoryExpired, match="cleaned"):
        view.latest(t(15))
    assert [f.instant for f in view.latest(t(20))] == [t(20), t(10)]
    assert [f.instant for f in view.latest()] == [t(20), t(10)]


def test_time_travel_misses_the_cleaned_slice_of_an_archived_commit(bare: Bare) -> None:
    """The commit that followed it tells that it was there."""
    bare.commit(10, bare.file("g2", 10))
    bare.commit(20, after(bare.file("g1", 20), 5))

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))
    assert [f.instant for f in bare.view().latest()] == [t(20), t(10)]


def test_time_travel_misses_the_cleaned_slice_of_a_commit_archived_beyond_a_savepoint(
    bare: Bare,
) -> None:
    """Apache Hudi archives beyond savepoints if it is told to."""
    bare.commit(10, bare.file("g1", 10))
    bare.put(Action.SAVEPOINT, State.COMPLETED, 10)
    bare.commit(30, bare.file("g2", 30))
    bare.commit(40, after(bare.file("g1", 40), 20))

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(30))
    assert [f.instant for f in bare.view().latest(t(10))] == [t(10)]
    assert [f.instant for f in bare.view().latest()] == [t(40), t(30)]


def test_time_travel_misses_no_slice_that_log_files_may_have_made(bare: Bare) -> None:
    bare.commit(10, bare.file("g2", 10))
    bare.commit(20, after(bare.file("g1", 20), 5))
    bare.storage.put_if_absent(f"p/.g1_{t(5)}.log.1_0-0-0", b"")

    assert [f.instant for f in bare.view().latest(t(10))] == [t(10)]


def compacted(stat: WriteStat, previous: str) -> WriteStat:
    """The same file as the successor of a base file, as a compaction names it."""
    return replace(stat, prev_commit=t(5), prev_base_file=previous)


def added(bare: Bare, time: int, *stats: WriteStat) -> None:
    """A delta commit."""
    bare.put(Action.DELTACOMMIT, State.COMPLETED, time, stats=stats)


def test_time_travel_misses_the_cleaned_base_file_of_a_slice_that_had_logs(bare: Bare) -> None:
    """A clean by versions names no earliest commit, so the commit of the compaction has to tell."""
    before = bare.file("g1", 5)
    bare.storage.delete([before.path])
    added(bare, 10, bare.file("g2", 10))
    bare.commit(20, compacted(bare.file("g1", 20), before.path.rpartition("/")[2]))
    bare.log("g2", 10)

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().slices(t(10))
    assert [f.instant for f in bare.view().latest(t(20))] == [t(20), t(10)]
    assert [f.instant for f in bare.view().latest()] == [t(20), t(10)]


@pytest.mark.parametrize("begun", [True, False])
def test_time_travel_misses_the_cleaned_logs_of_a_slice_that_had_nothing_else(
    bare: Bare, begun: bool
) -> None:
    """An active commit that only inserted rows may have begun the group."""
    added(bare, 10, bare.file("g2", 10))
    log = bare.log("g1", 15)
    inserted = WriteStat(FileId("g1"), f"p/{log}", "p", num_inserts=2, file_size_bytes=5)
    added(bare, 15, *[inserted] * begun)
    made = bare.file("g1", 20)
    bare.put(Action.COMMIT, State.COMPLETED, 20, stats=(made,), compacted=True)
    assert [f.instant for f in bare.view().latest(t(10))] == [t(10)]

    bare.storage.delete([f"p/{log}"])
    if begun:
        assert [f.instant for f in bare.view().latest(t(10))] == [t(10)]
    else:
        with pytest.raises(HistoryExpired, match="cleaned"):
            bare.view().latest(t(10))
    assert [f.instant for f in bare.view().latest(t(20))] == [t(20), t(10)]
    assert [f.instant for f in bare.view().latest()] == [t(20), t(10)]


def test_time_travel_misses_such_logs_also_where_the_compacted_group_was_replaced(
    bare: Bare,
) -> None:
    added(bare, 10, bare.file("g2", 10))
    made = bare.file("g1", 20)
    bare.put(Action.COMMIT, State.COMPLETED, 20, stats=(made,), compacted=True)
    bare.replace(30, {"p": (FileId("g1"),)}, bare.file("g3", 30))
    bare.storage.delete([made.path])

    for time in (10, 20):
        with pytest.raises(HistoryExpired, match="cleaned"):
            bare.view().latest(t(time))
    assert [f.instant for f in bare.view().latest()] == [t(10), t(30)]


def test_time_travel_misses_no_base_file_that_is_there(bare: Bare) -> None:
    before = bare.file("g1", 5)
    added(bare, 10, bare.file("g2", 10))
    bare.commit(20, compacted(bare.file("g1", 20), before.path.rpartition("/")[2]))

    assert [f.instant for f in bare.view().latest(t(10))] == [t(5), t(10)]


@pytest.mark.parametrize("updates", [None, 0, 2])
def test_time_travel_misses_a_replaced_group_unless_it_began_with_the_logs_of_a_commit(
    bare: Bare, updates: int | None
) -> None:
    """Only a group that was there has rows to update; of None no active commit wrote to it."""
    added(bare, 10, bare.file("g2", 10))
    if updates is not None:
        log = f"p/.g1_{t(15)}.log.1_0-0-0"
        added(bare, 15, WriteStat(FileId("g1"), log, "p", num_inserts=1, num_updates=updates))
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g3", 20))
    if updates == 0:
        assert [f.file_id for f in bare.view().latest(t(10))] == ["g2"]
    else:
        with pytest.raises(HistoryExpired, match="cleaned"):
            bare.view().latest(t(10))
    assert [f.file_id for f in bare.view().latest()] == ["g2", "g3"]


def test_time_travel_misses_a_group_of_an_archived_commit_that_was_replaced_and_cleaned(
    bare: Bare,
) -> None:
    bare.commit(10, bare.file("g2", 10))
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g3", 20))

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))
    assert [f.file_id for f in bare.view().latest(t(20))] == ["g2", "g3"]


def test_time_travel_misses_a_replaced_group_that_was_cleaned(bare: Bare) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old)
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g2", 20))
    bare.storage.delete([old.path])

    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))


def test_a_group_that_is_younger_than_the_asked_time_is_not_missed(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.commit(20, bare.file("g2", 20))
    bare.commit(30, after(bare.file("g2", 30), 20))

    assert [f.file_id for f in bare.view().latest(t(10))] == ["g1"]


def view_beside(bare: Bare, *times: int) -> FileSystemView:
    """The view of a table that has these archived commits."""
    return list_view(bare.storage, bare.timeline(), archive_of(bare, list(map(t, times))))


def test_time_travel_misses_a_cleaned_slice_also_where_a_file_of_now_is_lost(bare: Bare) -> None:
    """As while a restore undoes commits because of which a clean has deleted files."""
    bare.commit(10, bare.file("g2", 10))
    lost = bare.file("g3", 15)
    bare.commit(15, lost)
    bare.commit(20, after(bare.file("g1", 20), 5))
    bare.storage.delete([lost.path])
    view = view_beside(bare, 3, 5, 7)

    with pytest.raises(HistoryExpired, match="cleaned"):
        view.latest(t(10))
    with pytest.raises(TableCorrupt, match="no later commit has replaced it"):
        view.latest()


def test_a_cleaned_file_counts_until_an_archived_commit_may_have_replaced_it(bare: Bare) -> None:
    """As after the savepoint of the only commit that is not archived was deleted."""
    old = bare.file("g1", 10)
    bare.commit(10, old)
    bare.put(Action.SAVEPOINT, State.COMPLETED, 10)
    bare.file("g9", 20)
    bare.commit(30, bare.file("g2", 30))
    bare.storage.delete([old.path])
    view = view_beside(bare, 5, 20, 25)

    assert [f.file_id for f in view.latest()] == ["g2", "g9"]
    assert [f.file_id for f in view.latest(t(20))] == ["g9"]
    with pytest.raises(HistoryExpired, match="cleaned"):
        view.latest(t(10))


def test_a_cleaned_log_counts_until_an_archived_commit_may_have_replaced_it(bare: Bare) -> None:
    bare.file("g1", 5)
    log = bare.log("g1", 10)
    bare.logged(10, "g1", log)
    bare.put(Action.SAVEPOINT, State.COMPLETED, 10)
    bare.file("g9", 20)
    bare.commit(30, bare.file("g2", 30))
    bare.storage.delete([f"p/{log}"])
    view = view_beside(bare, 5, 20, 25)

    assert [f.file_id for f in view.slices()] == ["g1", "g2", "g9"]
    assert [f.file_id for f in view.slices(t(20))] == ["g1", "g9"]
    with pytest.raises(HistoryExpired, match="cleaned"):
        view.slices(t(10))
