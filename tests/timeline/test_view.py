from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import CleanedPartition, CleanMetadata, render_clean_metadata
from pyhudi.slices.files import base_files
from pyhudi.storage.base import StoredFile
from pyhudi.storage.faults import FaultyStorage
from pyhudi.timeline.table import open_table
from pyhudi.timeline.versions import versions_of
from pyhudi.timeline.view import FileSystemView, ViewCache, advance, list_view
from tests.golden_tables import ALL, COPY_ON_WRITE, GoldenTable
from tests.timeline.bare import Bare, in_memory, t


def test_the_newest_visible_slice_of_each_group_counts(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10, "q"))
    bare.commit(20, bare.file("g1", 20))

    assert bare.seen() == [("p", "g1", t(20)), ("q", "g2", t(10))]
    assert bare.view().partitions() == ["p", "q"]
    assert [f.partition_path for f in bare.view().latest(partitions=["q", "r"])] == ["q"]


def test_a_later_commit_with_an_earlier_time_does_not_hide_a_newer_slice() -> None:
    bare = Bare()
    bare.commit(20, bare.file("g1", 20), done=30)
    bare.commit(10, bare.file("g1", 10), done=40)

    assert bare.seen() == [("p", "g1", t(20))]


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_files_of_pending_instants_are_invisible(bare: Bare, state: State) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.put(Action.COMMIT, state, 20)
    bare.file("g1", 20)
    bare.file("new", 20)

    assert bare.seen() == [("p", "g1", t(10))]


def test_files_older_than_the_active_timeline_are_data(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.file("archived", 5)
    bare.file("stray", 15)
    bare.commit(20, bare.file("g2", 20))

    assert bare.seen() == [("p", "archived", t(5)), ("p", "g1", t(10)), ("p", "g2", t(20))]


def test_files_of_a_pending_first_instant_are_not_taken_for_archived(bare: Bare) -> None:
    bare.put(Action.COMMIT, State.INFLIGHT, 10)
    bare.file("failed", 10)
    bare.commit(20, bare.file("g1", 20))

    assert bare.seen() == [("p", "g1", t(20))]


def test_a_file_is_not_taken_for_archived_while_no_commit_has_completed(bare: Bare) -> None:
    """Found by the explorer: of two first writers the earlier one requested after the listing."""
    bare.put(Action.COMMIT, State.REQUESTED, 20)
    listed = bare.timeline()
    bare.put(Action.COMMIT, State.REQUESTED, 10)
    bare.file("g", 10)

    assert list_view(bare.storage, listed).latest() == []


def test_files_archived_behind_a_savepoint_stay_visible(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.put(Action.SAVEPOINT, State.COMPLETED, 10)
    bare.file("g1", 20)  # committed at 20, archived since
    bare.commit(30, bare.file("g2", 30))

    assert bare.seen() == [("p", "g1", t(20)), ("p", "g2", t(30))]


@pytest.mark.parametrize("saved", [(30,), (10, 30)], ids=["one savepoint", "two savepoints"])
def test_archived_files_stay_visible_where_only_savepointed_commits_are_left(
    bare: Bare, saved: tuple[int, ...]
) -> None:
    """As after a restore to the oldest commit of the active timeline."""
    for time in saved:
        bare.commit(time, bare.file(f"g{time}", time))
        bare.put(Action.SAVEPOINT, State.COMPLETED, time)
    bare.file("archived", 5)
    bare.file("stray", 40)

    kept = [("p", f"g{time}", t(time)) for time in saved]
    assert bare.seen() == [("p", "archived", t(5)), *kept]
    assert bare.timeline().first_time == t(30)


def test_a_table_without_commits_shows_nothing(bare: Bare) -> None:
    bare.file("stray", 10)
    assert bare.seen() == []
    bare.put(Action.CLEAN, State.COMPLETED, 20)
    assert bare.seen() == []


def test_replaced_groups_vanish_from_the_replace_on(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10), bare.file("g1", 10, "q"))
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g2", 20))

    assert bare.seen() == [("p", "g2", t(20)), ("q", "g1", t(10))]
    assert bare.seen(19) == [("p", "g1", t(10)), ("q", "g1", t(10))]
    assert bare.seen(20) == bare.seen()


def test_a_group_replaced_twice_is_gone_since_the_first_time(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.replace(20, {"p": (FileId("g1"),)})
    bare.replace(30, {"p": (FileId("g1"),)})

    assert bare.seen(20) == bare.seen(25) == bare.seen() == []
    assert bare.seen(19) == [("p", "g1", t(10))]


def test_time_travel_bounds_requested_times_inclusively(bare: Bare) -> None:
    for time in (10, 20, 30):
        bare.commit(time, bare.file("g1", time), done=50 + time)

    assert [bare.seen(n) for n in (9, 10, 19, 20)] == [
        [],
        [("p", "g1", t(10))],
        [("p", "g1", t(10))],
        [("p", "g1", t(20))],
    ]


def test_names_that_are_no_data_files_are_passed_over(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10, ""))
    for path in (
        ".hoodie_partition_metadata",
        "p/_SUCCESS",
        "p/part-00000.parquet",
        f".hoodie/metadata/files/f-0_0-0-0_{t(10)}.parquet",
    ):
        bare.storage.put_if_absent(path, b"")

    assert bare.seen() == [("", "g1", t(10))]


def test_rows_come_from_metadata_and_are_unknown_where_that_is_archived(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.file("archived", 5)
    view = bare.view()

    assert [f.rows for f in view.with_rows(view.latest())] == [-1, 3]


# -- slices


def slices_of(view: FileSystemView, as_of: int | None = None) -> list[tuple[str, str, list[str]]]:
    """(group, instant, names of logs) of every newest slice."""
    found = view.slices(t(as_of) if as_of is not None else None)
    return [(s.file_id, s.instant, [f.named.render() for f in s.logs]) for s in found]


def test_without_log_files_a_slice_is_its_base_file(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10, "q"))
    bare.commit(20, bare.file("g1", 20))

    view = bare.view()
    assert base_files(view.slices()) == view.latest()
    assert [each.logs for each in view.slices()] == [(), ()]
    assert base_files(view.slices(t(10), ["p"])) == view.latest(t(10), ["p"])


def test_in_layout_1_a_log_belongs_to_the_slice_that_it_names() -> None:
    bare = Bare(layout=1)
    bare.commit(10, bare.file("g", 10))
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 20)
    bare.commit(30, bare.file("g", 30))
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 40)
    old, second, first = (bare.log("g", *at) for at in ((10,), (30, "p", 2), (30,)))

    assert slices_of(bare.view()) == [("g", t(30), [first, second])]
    ((_, instant, logs),) = slices_of(bare.view(), 20)
    assert instant == t(10)
    assert old in logs


def test_in_layout_1_a_log_of_a_write_that_has_not_committed_is_in_no_slice() -> None:
    """A reader that opened it would fail if a rollback deleted it meanwhile."""
    bare = Bare(layout=1)
    bare.commit(10, bare.file("g", 10))
    done, failed, change = bare.log("g", 10), bare.log("g", 10, version=2), bare.log("h", 10)
    bare.logged(20, "g", done)
    bare.put(Action.DELTACOMMIT, State.INFLIGHT, 30)

    view = bare.view()
    assert slices_of(view) == [("g", t(10), [done])]
    every = [log.name for slices in versions_of(view)["p"].values() for log in slices[-1].logs]
    assert sorted(every) == sorted([done, failed, change]), "a clean finds them with their version"
    bare.logged(40, "h", change)
    assert [group for group, _, _ in slices_of(bare.view())] == ["g", "h"]


def test_in_layout_1_any_log_of_a_slice_older_than_the_active_timeline_may_count() -> None:
    bare = Bare(layout=1)
    bare.file("g", 5)
    logs = [bare.log("g", 5, version=version) for version in (1, 2)]
    bare.commit(10, bare.file("h", 10))

    assert slices_of(bare.view()) == [("g", t(5), logs), ("h", t(10), [])]


def test_in_layout_1_a_view_is_listed_again_after_a_rollback_which_may_have_taken_a_log() -> None:
    bare = Bare(layout=1)
    bare.file("g", 5)
    bare.log("g", 5)
    bare.commit(10, bare.file("h", 10))
    view = bare.view()
    bare.put(Action.ROLLBACK, State.COMPLETED, 20)

    assert advance(view, bare.timeline()) is None


def test_in_layout_2_a_log_belongs_to_the_slice_before_its_completion() -> None:
    bare = Bare()
    bare.commit(10, bare.file("g", 10))
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 20, 29)
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 25, 35)
    bare.put(Action.DELTACOMMIT, State.INFLIGHT, 50)
    bare.commit(30, bare.file("g", 30))
    _, late, pending = (bare.log("g", at) for at in (20, 25, 50))

    assert slices_of(bare.view()) == [("g", t(30), [late, pending])]


def log_compaction(bare: Bare, time: int, *logs: str) -> None:
    """Its commit, which has left out every group of which none of ``logs`` is."""
    stats = tuple(WriteStat(FileId("g"), f"p/{log}", "p", file_size_bytes=5) for log in logs)
    bare.put(Action.DELTACOMMIT, State.COMPLETED, time, stats=stats, operation="LOG_COMPACT")


def test_a_log_that_a_log_compaction_left_out_is_in_no_slice() -> None:
    bare = Bare()
    bare.commit(10, bare.file("g", 10), bare.file("other", 10))
    log_compaction(bare, 20, named := bare.log("g", 20))
    late = bare.log("other", 20)

    view = bare.view()
    assert slices_of(view) == [("g", t(10), [named]), ("other", t(10), [])]
    assert [log.name for log in view.unread["p"][FileId("other")]] == [late]
    # A clean deletes it with its version.
    (version,) = versions_of(view)["p"][FileId("other")]
    assert [log.name for log in version.logs] == [late]


def test_a_log_that_no_commit_names_may_be_from_before_an_upgrade() -> None:
    """Its name has the instant of its slice, and its own commit may be archived."""
    bare = Bare()
    bare.commit(10, bare.file("g", 10))
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 20)
    log = bare.log("g", 20)
    log_compaction(bare, 30)

    assert slices_of(bare.view()) == [("g", t(10), [log])]


def test_a_view_is_listed_again_if_a_log_compaction_left_out_a_log_that_it_has() -> None:
    bare = Bare()
    bare.commit(10, bare.file("g", 10))
    bare.put(Action.LOGCOMPACTION, State.INFLIGHT, 20)
    first, second = (bare.log("g", 20, version=number) for number in (1, 2))
    view = bare.view()
    assert slices_of(view) == [("g", t(10), [first, second])]
    log_compaction(bare, 20, first)
    assert advance(view, bare.timeline()) is None
    log_compaction(bare, 30)
    known = bare.view()
    log_compaction(bare, 40, third := bare.log("g", 40))
    moved = advance(known, bare.timeline())
    assert moved is not None
    assert slices_of(moved) == [("g", t(10), [first, third])]


def test_a_group_that_began_with_logs_is_a_slice_without_a_base_file(bare: Bare) -> None:
    bare.commit(10, bare.file("g2", 10))
    bare.put(Action.DELTACOMMIT, State.COMPLETED, 20)
    second, first = (bare.log("g1", 20, "q", version) for version in (2, 1))

    view = bare.view()
    assert slices_of(view) == [("g2", t(10), []), ("g1", t(20), [first, second])]
    assert [f.file_id for f in view.latest()] == ["g2"]
    assert [s.file_id for s in view.slices(partitions=["q"])] == ["g1"]
    assert [s.file_id for s in view.live()] == ["g2", "g1"]
    assert view.slices(partitions=["q"], logs=False) == []


def test_logs_of_a_replaced_group_vanish_from_the_replace_on(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    log = bare.log("g1", 10)
    bare.logged(12, "g1", log)
    bare.replace(20, {"p": (FileId("g1"),)}, bare.file("g2", 20))

    assert slices_of(bare.view()) == [("g2", t(20), [])]
    assert slices_of(bare.view(), 15) == [("g1", t(10), [log])]


def test_how_many_rows_slices_hold_is_unknown_where_logs_lie_on_top(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10))
    view = bare.view()
    assert view.rows_of(view.slices()) == 6
    bare.logged(20, "g2", bare.log("g2", 10))
    view = bare.view()
    assert view.rows_of(view.slices()) is None
    assert view.rows_of(view.slices(logs=False)) == 6


def test_a_view_lists_by_what_it_is_given(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10, "q"))

    class Metadata:
        """Another place that knows the files, in an order of its own."""

        def files(self) -> Iterator[StoredFile]:
            return iter([f for f in reversed(bare.storage.walk("")) if f.path[0] in "pq"])

    watched = FaultyStorage(bare.storage)
    view = list_view(watched, bare.timeline(), listing=Metadata())
    assert view.latest() == bare.view().latest()
    assert {c.method for c in watched.calls} <= {"read"}


# -- moving on without a listing


def test_a_view_moves_on_by_metadata_alone(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10))
    view = bare.view()
    bare.commit(20, bare.file("g1", 20))
    bare.replace(30, {"p": (FileId("g2"),)}, bare.file("g3", 30, "q"))
    watched = FaultyStorage(bare.storage)
    moved = advance(FileSystemView(watched, *rest(view)), bare.timeline())

    assert moved is not None
    assert {c.method for c in watched.calls} == {"read"}
    assert facts(moved) == facts(bare.view())


def rest(view: FileSystemView):  # type: ignore[no-untyped-def]
    return view.timeline, view.groups, view.logs, view.replaced


def facts(view: FileSystemView) -> object:
    """What two equal views agree on, at every instant."""
    times: list[InstantTime | None] = [None, *(i.time for i in view.timeline.instants)]
    rows = {f.path: f.rows for f in view.with_rows(view.latest())}
    latest = [[(f.path, f.size_bytes) for f in view.latest(at)] for at in times]
    return latest, rows, view.partitions()


def test_files_of_an_attempt_that_lost_are_not_remembered(bare: Bare) -> None:
    """They were listed while the instant was pending and deleted before it completed."""
    bare.commit(10, bare.file("g1", 10))
    bare.put(Action.COMMIT, State.INFLIGHT, 20)
    named = bare.file("g1", 20, token="0-0-1")
    strays = [bare.file("g1", 20, token="9-9-9"), bare.file("another", 20)]
    view = bare.view()
    bare.storage.delete([stray.path for stray in strays])
    bare.commit(20, named)

    moved = advance(view, bare.timeline())

    assert moved is not None
    assert [f.path for f in moved.latest()] == [named.path]


def test_files_of_a_write_that_was_rolled_back_are_not_remembered(bare: Bare) -> None:
    bare.put(Action.COMMIT, State.INFLIGHT, 10)
    failed = bare.file("failed", 10)
    bare.commit(20, bare.file("g1", 20))
    view = bare.view()
    bare.storage.delete([failed.path])
    bare.undo(10)
    bare.put(Action.ROLLBACK, State.COMPLETED, 30)

    moved = advance(view, bare.timeline()) or bare.view()

    assert [f.file_id for f in moved.latest()] == ["g1"]


@pytest.mark.parametrize(
    "change",
    [
        lambda bare: bare.undo(10),
        lambda bare: bare.put(Action.RESTORE, State.COMPLETED, 30),
        lambda bare: bare.put(Action.CLEAN, State.COMPLETED, 30, torn=True),
        lambda bare: bare.put(Action.SAVEPOINT, State.COMPLETED, 10),
    ],
    ids=["undone or archived", "restore", "torn clean", "savepoint at the start"],
)
def test_what_metadata_does_not_tell_needs_a_listing(
    bare: Bare, change: Callable[[Bare], None]
) -> None:
    bare.commit(10, bare.file("g1", 10))
    bare.commit(20, bare.file("g2", 20))
    view = bare.view()
    change(bare)

    assert advance(view, bare.timeline()) is None


def test_after_a_clean_of_a_file_that_a_savepoint_shows_its_query_is_refused(bare: Bare) -> None:
    """The commit 20 began before the savepoint's and ended after it, so Apache Hudi's does not keep
    its files. A clean of later ones tells all."""
    bare.commit(10, bare.file("g1", 10), bare.file("g2", 10))
    bare.put(Action.COMMIT, State.INFLIGHT, 20)
    bare.commit(30, bare.file("g3", 30))
    bare.put(Action.SAVEPOINT, State.COMPLETED, 30)
    bare.commit(20, late := bare.file("g1", 20), bare.file("g2", 20), done=35)
    bare.commit(40, newer := bare.file("g1", 40))
    bare.commit(60, bare.file("g1", 60))
    view = bare.view()
    assert [f.instant for f in view.latest(t(30))] == [t(20), t(20), t(30)]

    def cleaned(time: int, file: WriteStat) -> FileSystemView | None:
        bare.storage.delete([file.path])
        name = file.path.rpartition("/")[2]
        gone = {"p": CleanedPartition("p", "KEEP_LATEST_COMMITS", (name,), (name,))}
        done = t(time + 1) if bare.layout == 2 else None
        clean = Instant(t(time), Action.CLEAN, State.COMPLETED, done)
        data = render_clean_metadata(CleanMetadata(t(time), 1, 1, t(60), t(60), gone))
        bare.storage.put_if_absent(f"{bare.folder}/{instant_file_name(clean, bare.layout)}", data)
        return advance(view, bare.timeline())

    assert cleaned(70, newer) is not None
    assert cleaned(80, late) is None
    with pytest.raises(HistoryExpired):
        bare.view().latest(t(30))


def test_a_file_whose_size_no_commit_tells_needs_a_listing(bare: Bare) -> None:
    bare.commit(10, bare.file("g1", 10))
    view = bare.view()
    stat = bare.file("g1", 20)
    bare.commit(20, WriteStat(stat.file_id, stat.path, "p", num_writes=3))

    assert advance(view, bare.timeline()) is None


def test_the_cache_lists_a_table_once_and_never_serves_another_timeline() -> None:
    bare = Bare()
    bare.commit(10, bare.file("g1", 10))
    config = config_of_a_golden_table()
    watched = FaultyStorage(bare.storage)
    cache = ViewCache(limit=1)

    def listed() -> int:
        return sum(c.method == "walk" for c in watched.calls)

    old = bare.timeline()
    cache.load(watched, config, old)
    bare.commit(20, bare.file("g1", 20))
    new = cache.load(watched, config, bare.timeline())
    assert listed() == 1
    assert [f.instant for f in new.latest()] == [t(20)]
    assert [f.instant for f in cache.load(watched, config, old).latest()] == [t(10)]
    assert listed() == 2
    cache.forget(watched)
    cache.load(watched, config, old)
    assert listed() == 3


def test_a_view_that_lacks_a_file_is_not_kept() -> None:
    """The file may be put back, or the table has moved on."""
    bare = Bare()
    lost = bare.file("g1", 10)
    bare.commit(10, lost)
    bare.storage.delete([lost.path])
    cache, config, timeline = ViewCache(), config_of_a_golden_table(), bare.timeline()
    assert not cache.load(bare.storage, config, timeline).whole
    bare.file("g1", 10)
    assert [f.path for f in cache.load(bare.storage, config, timeline).latest()] == [lost.path]


def test_views_of_fewer_tables_are_kept_where_the_tables_are_large() -> None:
    cache, config = ViewCache(groups=3), config_of_a_golden_table()
    tables = [Bare(), Bare()]
    for bare in tables:
        bare.commit(10, bare.file("g1", 10), bare.file("g2", 10))
        cache.load(bare.storage, config, bare.timeline())
    assert [root for root, *_ in cache._views.kept()] == [tables[1].storage.root]
    cache.load(tables[0].storage, config, tables[0].timeline())
    assert [root for root, *_ in cache._views.kept()] == [tables[0].storage.root]


def config_of_a_golden_table():  # type: ignore[no-untyped-def]
    return open_table(in_memory(COPY_ON_WRITE[0])).config


# -- golden tables


@pytest.mark.parametrize(
    "table", [t for t in COPY_ON_WRITE if t.moment != "midfail"], ids=lambda table: table.name
)
def test_the_rows_of_golden_tables_are_in_the_latest_files(table: GoldenTable) -> None:
    opened = open_table(in_memory(table))
    view = list_view(opened.storage, opened.timeline())
    latest = view.with_rows(view.latest())

    rows: dict[str, int] = {}
    for row in table.expected() or []:
        path = f"{row['_hoodie_partition_path']}/{row['_hoodie_file_name']}".lstrip("/")
        rows[path] = rows.get(path, 0) + 1
    # A file that a delete has emptied has no row to name it.
    assert {f.path for f in latest if f.rows != 0} == set(rows)
    # Rows are unknown where the commit is archived, else exact.
    assert {f.path: f.rows for f in latest if f.rows > 0}.items() <= rows.items()
    first = opened.timeline().first_time
    assert all(f.rows >= 0 for f in latest if first is None or f.instant >= first)


@pytest.mark.parametrize(
    "table",
    [t for t in ALL if t.merge_on_read and t.moment != "midfail"],
    ids=lambda table: table.name,
)
def test_read_optimized_files_of_golden_tables_are_completed_and_one_for_each_group(
    table: GoldenTable,
) -> None:
    opened = open_table(in_memory(table))
    timeline = opened.timeline()
    view = list_view(opened.storage, timeline)
    latest = view.latest()

    done = {i.time for i in timeline.commits}
    first = timeline.first_time
    assert first is not None
    assert all(f.instant in done or f.instant < first for f in latest)
    assert len({(f.partition_path, f.file_id) for f in latest}) == len(latest)
    # Rows that no log has touched since stand in a base file that a reader gets.
    in_base = {
        row["_hoodie_file_name"]
        for row in table.expected() or []
        if row["_hoodie_file_name"].endswith(".parquet")
    }
    assert in_base <= {f.path.rsplit("/", 1)[-1] for f in latest}


@pytest.mark.parametrize(
    "table",
    [t for t in ALL if t.merge_on_read and t.moment != "midfail"],
    ids=lambda table: table.name,
)
def test_each_row_of_golden_merge_on_read_tables_is_in_a_slice(table: GoldenTable) -> None:
    """A row of a log file says its file group where others say their file."""
    opened = open_table(in_memory(table))
    slices = list_view(opened.storage, opened.timeline()).slices()

    places = {(s.partition_path, s.base.name) for s in slices if s.base is not None}
    places |= {(s.partition_path, s.file_id) for s in slices if s.logs}
    rows = table.expected() or []
    assert {(r["_hoodie_partition_path"], r["_hoodie_file_name"]) for r in rows} <= places
    assert all(opened.storage.exists(f.path) for s in slices for f in s.logs)
