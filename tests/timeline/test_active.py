from __future__ import annotations

import gc
import tracemalloc

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.storage.base import NOTHING_KNOWN, Files, Known, StoredFile
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import CommitCache, Listings, Timeline, timeline_of
from pyhudi.timeline.table import open_table
from tests.golden_tables import ALL, GoldenTable


def t(n: int) -> InstantTime:
    return InstantTime(f"202401010000{n:05d}")


def listing(*names: str) -> list[StoredFile]:
    return [StoredFile(f".hoodie/timeline/{name}", 0, at) for at, name in enumerate(names)]


def timeline(*names: str, layout: int = 2) -> Timeline:
    return timeline_of(listing(*names), layout, ".hoodie/timeline" if layout == 2 else ".hoodie")


def test_an_instant_is_as_far_as_its_furthest_file() -> None:
    found = timeline(
        f"{t(1)}.commit.requested",
        f"{t(1)}.inflight",
        f"{t(1)}_{t(5)}.commit",
        f"{t(2)}.commit.requested",
        f"{t(2)}.inflight",
        f"{t(3)}.replacecommit.requested",
    )

    assert [(i.time, i.state) for i in found.instants] == [
        (t(1), State.COMPLETED),
        (t(2), State.INFLIGHT),
        (t(3), State.REQUESTED),
    ]
    assert [i.time for i in found.pending] == [t(2), t(3)]
    assert {time for time, _ in found.requested} == {t(1), t(2), t(3)}
    assert found.latest_commit is not None
    assert found.latest_commit.completion_time == t(5)


def test_a_timeline_of_some_instants_is_as_if_the_others_had_not_been_listed() -> None:
    names = (f"{t(1)}_{t(5)}.commit", f"{t(2)}_{t(6)}.commit", f"{t(3)}.commit.requested")
    whole = timeline(*names)

    assert whole.only(i for i in whole.instants if i.time != t(2)).modified_ms == {
        (t(1), Action.COMMIT): 0
    }
    assert whole.only(whole.instants) == whole


def test_layout_1_names_are_read_by_their_own_rules() -> None:
    found = timeline(
        f"{t(1)}.commit.requested",
        f"{t(1)}.inflight",
        f"{t(1)}.commit",
        f"{t(2)}.replacecommit.inflight",
        f"{t(3)}.clean",
        "hoodie.properties",
        layout=1,
    )

    assert [(i.action, i.state) for i in found.instants] == [
        (Action.COMMIT, State.COMPLETED),
        (Action.REPLACECOMMIT, State.INFLIGHT),
        (Action.CLEAN, State.COMPLETED),
    ]
    assert found.latest_commit is not None
    assert found.latest_commit.completion_time is None


def test_a_clustering_is_one_instant_from_its_request_to_its_replacecommit() -> None:
    found = timeline(
        f"{t(1)}.clustering.requested",
        f"{t(1)}.clustering.inflight",
        f"{t(1)}_{t(2)}.replacecommit",
    )

    assert [(i.action, i.state) for i in found.instants] == [
        (Action.REPLACECOMMIT, State.COMPLETED)
    ]


def test_names_that_are_no_instants_are_passed_over() -> None:
    found = timeline(
        f"{t(1)}_{t(2)}.commit",
        f"{t(3)}.commit.0f8fad5b-d9cb-469f-a165-70867728950e",
        f".{t(1)}_{t(2)}.commit.crc",
        "history",
    )

    assert [i.time for i in found.instants] == [t(1)]


def test_the_greatest_time_counts_requests_and_completions() -> None:
    assert timeline().greatest_time() == "0"
    assert timeline(f"{t(1)}_{t(9)}.commit", f"{t(4)}.clean.requested").greatest_time() == t(9)
    assert timeline(f"{t(1)}_{t(3)}.commit", f"{t(4)}.clean.requested").greatest_time() == t(4)


def test_the_first_time_is_that_of_the_first_write_pending_ones_too() -> None:
    assert timeline(f"{t(1)}_{t(2)}.clean").first_time is None
    found = timeline(f"{t(1)}_{t(2)}.clean", f"{t(3)}.commit.requested", f"{t(4)}_{t(5)}.commit")
    assert found.first_time == t(3)


def test_a_savepointed_commit_does_not_begin_the_timeline() -> None:
    """Archival may have taken what came after it; those files must stay visible."""
    saved = [f"{t(1)}_{t(2)}.commit", f"{t(1)}_{t(3)}.savepoint"]
    assert timeline(*saved, f"{t(8)}_{t(9)}.commit").first_time == t(8)
    assert timeline(*saved).first_time == t(1), "nothing follows it, so nothing was archived behind"
    pending = [f"{t(8)}.commit.requested"]
    assert timeline(*saved, *pending).first_time == t(1), "what lies between was undone"
    before = [f"{t(0)}.commit.requested"]
    assert timeline(*before, *saved).first_time == t(0)


def test_a_commit_is_read_once_and_told_apart_when_its_file_changes() -> None:
    storage = MemoryStorage("memory:/active-cache")
    cache = CommitCache(limit_bytes=1)

    def get(at: int, name: str) -> CommitMetadata:
        files = [StoredFile(f".hoodie/timeline/{name}", 0, at)]
        found = timeline_of(files, 2, ".hoodie/timeline")
        return cache.get(storage, found, found.completed[0])

    first, second = f"{t(1)}_{t(2)}.commit", f"{t(3)}_{t(4)}.commit"
    for name in (first, second):
        data = render_commit(CommitMetadata(operation=name), 2)
        storage.put_if_absent(f".hoodie/timeline/{name}", data)
    assert get(1, first).operation == first
    storage.delete([f".hoodie/timeline/{first}"])
    assert get(1, first).operation == first
    with pytest.raises(TableCorrupt, match="run the query again"):
        get(2, first)
    assert get(1, second).operation == second
    with pytest.raises(TableCorrupt):  # pushed out by the second
        get(1, first)


def test_only_completed_commits_have_metadata() -> None:
    found = timeline(f"{t(1)}.inflight")
    with pytest.raises(ValueError, match="not completed"):
        CommitCache().get(MemoryStorage(), found, found.instants[0])


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_golden_timelines_are_listed_whole_in_both_layouts(table: GoldenTable) -> None:
    storage = MemoryStorage(f"memory:/active-{table.name}")
    for path, data in table.files().items():
        storage.put_if_absent(path, data)
    opened = open_table(storage)

    found = opened.timeline()

    folder = ".hoodie" if table.version == 6 else ".hoodie/timeline"
    ends = (".commit", ".deltacommit", ".replacecommit", ".clean", ".rollback", ".restore")
    ends = (*ends, ".savepoint", ".indexing")
    done = {f.name for f in storage.list(folder) if f.name.endswith(ends)}
    assert len(found.completed) == len(done)
    assert {found.file_of(i).rsplit("/", 1)[-1] for i in found.completed} == done


def test_a_listing_asks_again_only_for_files_of_instants_that_may_still_change() -> None:
    asked: list[list[str]] = []

    class Watched(MemoryStorage):
        def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
            asked.append(sorted(known))
            return super().list(folder, known)

    storage, listings = Watched(), Listings()
    for name in (f"{t(1)}.commit.requested", f"{t(1)}.commit", f"{t(2)}.commit.requested"):
        storage.put_if_absent(f".hoodie/{name}", b"")

    first = listings.list(storage, ".hoodie", 1)
    storage.delete([f".hoodie/{t(1)}.commit"])
    second = listings.list(storage, ".hoodie", 1)
    listings.list(storage, ".hoodie", 1)

    assert [f.name for f in first][:-1] == [f"{t(1)}.commit", f"{t(1)}.commit.requested"]
    assert [f.name for f in second] == [f"{t(1)}.commit.requested", f"{t(2)}.commit.requested"]
    assert asked == [[], [f".hoodie/{t(1)}.commit", f".hoodie/{t(1)}.commit.requested"], []]


def test_the_cache_of_commits_holds_as_much_as_its_bound_says() -> None:
    """By number, commits of a thousand files took 15 GB."""
    storage = MemoryStorage("memory:/bounded-cache")
    names = [f"{t(n)}_{t(n + 1)}.commit" for n in range(1, 9, 2)]
    stats = tuple(
        WriteStat(FileId(f"{n:036d}"), f"p/{n:036d}_0-1-2_{t(1)}.parquet", "p") for n in range(500)
    )
    commit = CommitMetadata(stats=stats)
    for name in names:
        storage.put_if_absent(f".hoodie/timeline/{name}", render_commit(commit, 2))
    found = timeline_of(storage.list(".hoodie/timeline"), 2, ".hoodie/timeline")
    room = 2 * commit.memory_bytes

    tracemalloc.start()
    try:
        cache = CommitCache(limit_bytes=room)
        for instant in found.completed:
            cache.get(storage, found, instant)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.4 * room < held < 1.1 * room
    kept = found.completed[2:]
    storage.delete([found.file_of(instant) for instant in found.completed])
    for instant in kept:
        cache.get(storage, found, instant)
    with pytest.raises(TableCorrupt):
        cache.get(storage, found, found.completed[1])


def test_the_cache_of_listings_holds_fewer_tables_where_their_timelines_are_long() -> None:
    listings = Listings(files=3)
    tables = [MemoryStorage(f"memory:/{table}-listings") for table in ("a", "b")]
    for storage in tables:
        for n in (1, 3):
            storage.put_if_absent(f".hoodie/timeline/{t(n)}_{t(n + 1)}.commit", b"")
        listings.list(storage, ".hoodie/timeline", 2)
    known = [len(listings.known(storage, ".hoodie/timeline")) for storage in tables]
    assert known == [0, 2]
