"""What the commits of the active timeline name is in the listing, or a reader is told so."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    render_restore_metadata,
    render_restore_plan,
)
from pyhudi.slices.files import base_files
from pyhudi.timeline.active import COMMITS, Timeline, timeline_of
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import advance, list_view
from tests.archiver import archive
from tests.golden_tables import COPY_ON_WRITE, GoldenTable
from tests.timeline.bare import Bare, after, in_memory, names, t
from tests.transactions.world import World, put_instant

# -- lost files


def test_a_file_that_a_commit_names_and_that_is_gone_is_told_with_file_and_commit(
    bare: Bare,
) -> None:
    lost = bare.file("g1", 10)
    bare.commit(10, lost, bare.file("g2", 10, "q"))
    bare.storage.delete([lost.path])
    view = bare.view()

    with pytest.raises(TableCorrupt) as refused:
        view.latest()
    assert lost.path in str(refused.value)
    assert t(10) in str(refused.value)
    assert refused.value.facts["path"] == lost.path
    with pytest.raises(TableCorrupt):
        view.check()
    with pytest.raises(TableCorrupt):
        view.latest(partitions=view.groups)
    assert [f.file_id for f in view.latest(partitions=["q"])] == ["g2"], "it is whole"
    other = view.latest(partitions=["q"])[0]
    assert [f.path for f in base_files(view.live())] == [lost.path, other.path]
    assert view.partitions() == ["p", "q"], "an overwrite must know of all"


@pytest.mark.parametrize("left", [b"", b"x" * 9], ids=["empty", "cut off"])
def test_a_file_that_is_shorter_than_its_commit_says_is_told_at_the_listing(
    bare: Bare, left: bytes
) -> None:
    cut = bare.file("g1", 10)
    bare.commit(10, cut)
    bare.storage.replace(cut.path, left)

    with pytest.raises(TableCorrupt, match=f"has {len(left)} of its 10 bytes"):
        bare.view().latest()


def test_a_lost_file_does_not_become_the_slice_before_it(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    lost = bare.file("g1", 20)
    bare.commit(20, lost)
    bare.storage.delete([lost.path])

    with pytest.raises(TableCorrupt, match=t(20)):
        bare.view().latest()
    assert [f.instant for f in bare.view().latest(t(15))] == [t(10)]
    with pytest.raises(TableCorrupt, match=t(20)):
        bare.view().latest(t(25))


def test_a_lost_file_of_a_group_that_was_replaced_is_not_missed(bare: Bare) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old)
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g2", 20))
    bare.storage.delete([old.path])

    assert [f.file_id for f in bare.view().latest()] == ["g2"]


def test_files_of_archived_commits_are_not_missed(bare: Bare) -> None:
    bare.file("g1", 5)
    bare.commit(10, bare.file("g2", 10))

    assert [f.file_id for f in bare.view().latest()] == ["g1", "g2"]


def test_a_view_that_moves_on_forgets_a_loss_that_no_longer_counts(bare: Bare) -> None:
    lost = bare.file("g1", 10)
    bare.commit(10, lost, bare.file("g2", 10))
    bare.storage.delete([lost.path])
    view = bare.view()
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g3", 20))

    moved = advance(view, bare.timeline())
    assert moved is not None
    assert [f.file_id for f in moved.latest()] == ["g2", "g3"]


# -- torn views


def test_a_clean_between_the_two_listings_is_noticed_and_is_no_corruption(bare: Bare) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old, bare.file("g2", 10))
    listed = bare.timeline()
    bare.commit(20, bare.file("g1", 20))
    bare.storage.delete([old.path])
    bare.put(Action.CLEAN, State.COMPLETED, 30)

    with pytest.raises(HistoryExpired, match="meanwhile"):
        list_view(bare.storage, listed).latest()
    assert [f.instant for f in bare.view().latest()] == [t(20), t(10)]


def test_a_group_replaced_and_cleaned_between_the_two_listings_is_noticed(bare: Bare) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old)
    listed = bare.timeline()
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g2", 20))
    bare.storage.delete([old.path])

    with pytest.raises(HistoryExpired, match="meanwhile"):
        list_view(bare.storage, listed).latest()


@pytest.mark.parametrize("known", [True, False])
def test_a_commit_rolled_back_between_the_two_listings_is_noticed(bare: Bare, known: bool) -> None:
    bare.commit(10, bare.file("g1", 10))
    undone = bare.file("g1", 20)
    bare.commit(20, undone)
    bare.view()
    listed = bare.timeline()
    for file in bare.storage.list(bare.folder):
        if file.name.startswith(t(20)):
            bare.storage.delete([file.path])
    bare.storage.delete([undone.path])

    if not known:
        COMMITS.__init__()  # type: ignore[misc]
    with pytest.raises(HistoryExpired, match="meanwhile"):
        list_view(bare.storage, listed).latest()


def test_a_commit_archived_between_the_two_listings_changes_nothing(bare: Bare) -> None:
    for time in (10, 20):
        bare.commit(time, bare.file(f"g{time}", time))
    listed = bare.timeline()
    bare.undo(10)

    COMMITS.__init__()  # type: ignore[misc]
    assert [f.instant for f in list_view(bare.storage, listed).latest()] == [t(10), t(20)]


def test_a_clean_before_the_commit_that_replaced_a_file_is_no_commit(bare: Bare) -> None:
    old = bare.file("g1", 10)
    bare.commit(10, old)
    listed = bare.timeline()
    bare.put(Action.CLEAN, State.COMPLETED, 15)
    bare.storage.replace(f"{bare.folder}/{clean_name(bare, 15)}", b"Avro, and no commit")
    bare.commit(20, after(bare.file("g1", 20), 10))
    bare.storage.delete([old.path])

    COMMITS.__init__()  # type: ignore[misc]
    with pytest.raises(HistoryExpired, match=f"commit {t(20)} has replaced"):
        list_view(bare.storage, listed).latest(t(10))


def clean_name(bare: Bare, time: int) -> str:
    done = t(time + 1) if bare.layout == 2 else None
    return instant_file_name(Instant(t(time), Action.CLEAN, State.COMPLETED, done), bare.layout)


def test_a_timeline_that_was_undone_as_a_whole_has_moved_on(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    listed = bare.timeline()
    bare.undo(10)

    COMMITS.__init__()  # type: ignore[misc]
    with pytest.raises(HistoryExpired, match=f"commit {t(10)} was rolled back") as expired:
        list_view(bare.storage, listed)
    assert expired.value.facts["moved"]


def test_a_clean_that_was_there_before_takes_nothing_of_a_commit_archived_since(
    bare: Bare,
) -> None:
    for time in (10, 20):
        bare.commit(time, bare.file(f"g{time}", time))
    bare.put(Action.CLEAN, State.COMPLETED, 15)
    listed = bare.timeline()
    bare.undo(10)

    COMMITS.__init__()  # type: ignore[misc]
    assert [f.instant for f in list_view(bare.storage, listed).latest()] == [t(10), t(20)]


def test_another_commit_meanwhile_does_not_excuse_a_lost_file(bare: Bare) -> None:
    lost = bare.file("g1", 10)
    bare.commit(10, lost)
    listed = bare.timeline()
    bare.storage.delete([lost.path])
    bare.commit(20, bare.file("g2", 20))

    with pytest.raises(TableCorrupt, match=t(10)):
        list_view(bare.storage, listed).latest()


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("cleaned", [True, False])
def test_a_clean_that_is_archived_with_the_commit_before_it_is_noticed(
    version: int, cleaned: bool
) -> None:
    """Between the listing of the timeline and that of the files."""
    world = World(version)
    old, kept = world.upsert({"k": "1"}), world.upsert({"j": "1"})
    table = world.table()
    listed = table.timeline()
    world.upsert({"k": "2"})
    gone = [old.instant]
    if cleaned:
        clean = InstantTime(str(int(kept.instant) + 1))
        done = clean if version > 6 else None
        put_instant(world, Instant(clean, Action.CLEAN, State.COMPLETED, done))
        world.memory.delete([f for f in world.data_files() if old.instant in f])
        gone.append(clean)
    archive(table, *gone)
    COMMITS.__init__()  # type: ignore[misc]

    look = partial(list_view, world.memory, listed, Archive(world.memory, table.config))
    if cleaned:
        with pytest.raises(HistoryExpired, match="after a clean") as told:
            look()
        assert told.value.facts["moved"]
    else:
        assert {f.instant for f in look().latest()} == {old.instant, kept.instant}


@pytest.mark.parametrize("seen", [(10, 30), (10, 40), (20, 40)])
def test_a_listing_torn_by_an_archiver_hides_no_archived_commit(
    bare: Bare, seen: tuple[int, int]
) -> None:
    """Shown by a storm: a folder is no snapshot, and an older instant can outlast a newer one."""
    for time in (10, 20, 30, 40):
        bare.commit(time, bare.file(f"g{time}", time))
    whole = bare.storage.list(bare.folder)
    for time in (10, 20, 30):
        bare.undo(time)
    torn = [file for file in whole if any(file.name.startswith(t(time)) for time in seen)]
    listed = timeline_of(torn, bare.layout, bare.folder)

    with pytest.raises(HistoryExpired, match="archived") as expired:
        list_view(bare.storage, listed)
    assert expired.value.facts["moved"]
    assert [f.instant for f in bare.view().latest()] == [t(10), t(20), t(30), t(40)]


def test_a_pending_write_that_is_older_than_all_commits_is_no_sign_of_a_torn_listing(
    bare: Bare,
) -> None:
    bare.put(Action.COMMIT, State.REQUESTED, 5)
    bare.put(Action.COMMIT, State.INFLIGHT, 5)
    bare.file("g1", 5)
    bare.commit(10, bare.file("g2", 10))

    assert [f.instant for f in bare.view().latest()] == [t(10)]


def test_a_slice_before_the_first_active_commit_may_have_been_made_by_logs(bare: Bare) -> None:
    """Delta commits make slices without a base file: nobody can tell one that is gone."""
    bare.commit(20, after(bare.file("g1", 20), previous=10))
    with pytest.raises(HistoryExpired, match="cleaned"):
        bare.view().latest(t(10))
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 15)

    assert bare.view().latest(t(10)) == []


def test_a_later_commit_takes_over_a_lost_file_in_its_own_partition_alone(bare: Bare) -> None:
    """Ids of file groups may be the same in all partitions, as those of Hudi's buckets."""
    lost = bare.file("bucket", 10)
    bare.commit(10, lost)
    listed = bare.timeline()
    bare.storage.delete([lost.path])
    bare.commit(20, bare.file("bucket", 20, "q"))

    with pytest.raises(TableCorrupt, match="no later commit has replaced it"):
        list_view(bare.storage, listed).latest()


def test_a_file_that_is_on_no_timeline_is_no_sign_of_a_torn_listing(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.file("stray", 15)
    bare.commit(20, bare.file("g2", 20))
    listed = bare.timeline()
    bare.file("begun since", 30)

    assert [f.instant for f in list_view(bare.storage, listed).latest()] == [t(10), t(20)]


# -- restores


def restore(bare: Bare, state: State, time: int, saved: int, *undone: int) -> None:
    """A restore of Apache Hudi to the savepoint of ``saved``, in one of its states."""
    targets = tuple(InstantInfo(t(u), "commit") for u in undone)
    contents = {
        State.REQUESTED: render_restore_plan(RestorePlan(targets, t(saved))),
        State.COMPLETED: render_restore_metadata(
            RestoreMetadata(t(time), 1, tuple(map(t, undone)), {})
        ),
    }
    done = t(time + 1) if state is State.COMPLETED and bare.layout == 2 else None
    name = instant_file_name(Instant(t(time), Action.RESTORE, state, done), bare.layout)
    bare.storage.put_if_absent(f"{bare.folder}/{name}", contents.get(state, b""))


def half_restored(bare: Bare) -> Timeline:
    """Of commits 20 and 30 after a savepoint, the later one is undone: 20 lacks what was cleaned.

    The timeline as it was before.
    """
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10))
    cleaned, undone = bare.file("g1", 20), bare.file("g1", 30)
    bare.commit(20, cleaned)
    bare.commit(30, undone)
    bare.storage.delete([cleaned.path])
    restore(bare, State.REQUESTED, 40, 10, 30, 20)
    before = bare.timeline()
    restore(bare, State.INFLIGHT, 40, 10, 30, 20)
    bare.undo(30)
    bare.storage.delete([undone.path])
    return before


def test_files_that_a_pending_restore_undoes_are_not_told_as_lost(bare: Bare) -> None:
    half_restored(bare)

    with pytest.raises(HistoryExpired, match="restore") as told:
        bare.view().latest()
    message = str(told.value)
    assert t(40) in message
    assert f"set back to {t(10)}" in message
    assert "Read the table again" in message
    assert told.value.facts["moved"]
    assert told.value.facts["pending"] == t(40)
    assert bare.view().latest(t(10)), "what it restores to can be read"


def test_a_restore_without_a_plan_that_can_be_read_explains_no_less(bare: Bare) -> None:
    half_restored(bare)
    (plan,) = (f for f in bare.storage.list(bare.folder) if "restore.requested" in f.name)
    bare.storage.replace(plan.path, b"")

    with pytest.raises(HistoryExpired, match=t(40)):
        bare.view().latest()


def test_a_restore_that_ends_between_the_listings_is_looked_at_again(bare: Bare) -> None:
    before = half_restored(bare)
    bare.undo(20)
    restore(bare, State.COMPLETED, 40, 10, 30, 20)

    with pytest.raises(HistoryExpired, match="meanwhile") as told:
        list_view(bare.storage, before).latest()
    assert told.value.facts["moved"]
    assert [f.instant for f in bare.view().latest()] == [t(10), t(10)]


def test_a_restore_explains_no_file_that_it_does_not_undo(bare: Bare) -> None:
    lost = bare.file("g1", 10)
    bare.commit(10, lost)
    bare.commit(20, bare.file("g2", 20))
    bare.storage.delete([lost.path])
    restore(bare, State.REQUESTED, 40, 10, 20)

    with pytest.raises(TableCorrupt, match=t(10)):
        bare.view().latest()


def test_a_restore_that_has_ended_explains_no_file_that_is_lost_since(bare: Bare) -> None:
    lost = bare.file("g1", 50)
    bare.commit(10, bare.file("g1", 10))
    restore(bare, State.COMPLETED, 40, 10, 20)
    bare.commit(50, lost)
    bare.storage.delete([lost.path])

    with pytest.raises(TableCorrupt, match=t(50)):
        bare.view().latest()


# -- strays of committed instants


def test_of_two_files_of_one_commit_the_one_that_it_names_is_shown(bare: Bare) -> None:
    named = bare.file("g1", 10, token="0-0-1")
    for token in ("0-0-0", "9-9-9"):
        bare.file("g1", 10, token=token)
    bare.file("another", 10)
    bare.commit(10, named)

    assert names(bare.view()) == [named.path]
    assert names(bare.view(), 10) == [named.path]


def test_a_stray_does_not_stand_in_for_a_lost_file(bare: Bare) -> None:
    lost = bare.file("g1", 10, token="0-0-1")
    bare.file("g1", 10, token="0-0-0")
    bare.commit(10, lost)
    bare.storage.delete([lost.path])

    with pytest.raises(TableCorrupt):
        bare.view().latest()


# -- what Hudi's own tables say


@pytest.mark.parametrize(
    "table", [t for t in COPY_ON_WRITE if t.moment != "midfail"], ids=lambda table: table.name
)
def test_each_lost_file_of_a_golden_table_is_noticed_where_a_commit_tells(
    table: GoldenTable,
) -> None:
    storage = in_memory(table)
    opened = open_table(storage)
    timeline = opened.timeline()
    latest = list_view(storage, timeline).latest()
    active = {commit.time for commit in timeline.commits}
    for file in latest:
        data = storage.read(file.path)
        storage.delete([file.path])
        view = list_view(storage, timeline)
        if file.instant in active:
            with pytest.raises(TableCorrupt, match=file.name):
                view.latest()
        storage.put_if_absent(file.path, data)


@pytest.mark.parametrize(
    "table", [t for t in COPY_ON_WRITE if t.moment != "midfail"], ids=lambda table: table.name
)
def test_golden_tables_answer_each_instant_in_whole_or_not(table: GoldenTable) -> None:
    opened = open_table(in_memory(table))
    timeline = opened.timeline()
    view = list_view(opened.storage, timeline)
    kept = 0
    for commit in timeline.commits:
        with suppress(HistoryExpired):
            shown = {f.path for f in view.latest(commit.time)}
            kept += 1
            named = {s.path for s in COMMITS.get(opened.storage, timeline, commit).stats if s.path}
            assert named <= shown
    assert kept or not timeline.commits
