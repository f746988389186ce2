from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pyhudi
from pyhudi.choices import Order
from pyhudi.errors import ConfigError, HistoryExpired, UnsupportedTable
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.storage.base import NOTHING_KNOWN, Files, Known
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import open_table
from pyhudi.timeline.tail import table_commits
from tests.golden_tables import ALL, BY_NAME, GoldenTable

ARCHIVED = ["h0150_v6-cow_clean_archive", "h120_v6-cow_clean_archive", "h120_v9-cow_clean_archive"]


@pytest.mark.parametrize("golden", [g for g in ALL if g.moment is None], ids=lambda g: g.name)
def test_a_table_is_followed_from_its_first_commit_to_its_last(
    golden: GoldenTable, tmp_path: Path
) -> None:
    root = str(golden.unzip(tmp_path))
    active = [e for e in pyhudi.history(root) if e.is_commit and e.state is State.COMPLETED]
    found = pyhudi.commits(root)
    assert sorted(found.commits, key=lambda e: e.instant) == active
    if active:
        assert pyhudi.commits(root, found.checkpoint).commits == ()


def test_each_checkpoint_goes_on_where_it_was_taken(tmp_path: Path) -> None:
    root = str(BY_NAME["h120_v9-cow_part"].unzip(tmp_path))
    whole = pyhudi.commits(root)
    assert len(whole.commits) > 2
    ends = [entry.completed_at for entry in whole.commits]
    assert ends == sorted(str(end) for end in ends)
    for n, end in enumerate(ends):
        assert pyhudi.commits(root, end).commits == whole.commits[n + 1 :]


def test_a_pending_write_holds_the_fence_but_not_the_completions(tmp_path: Path) -> None:
    root = str(BY_NAME["h120_v9-cow_failed.midfail"].unzip(tmp_path))
    (pending,) = [e.instant for e in pyhudi.history(root) if e.state is not State.COMPLETED]
    found = pyhudi.commits(root)
    assert found.fence == pending
    assert found.checkpoint == max(e.completed_at or "" for e in found.commits)
    behind = pyhudi.commits(root, order="fenced")
    assert behind.checkpoint is not None
    assert behind.checkpoint < pending


@pytest.mark.parametrize("name", ARCHIVED)
def test_a_checkpoint_that_the_archive_has_passed_is_told(name: str, tmp_path: Path) -> None:
    root = str(BY_NAME[name].unzip(tmp_path))
    archived = [e for e in pyhudi.history(root, archived=True) if e.archived and e.is_commit]
    with pytest.raises(HistoryExpired, match="have been archived, the last at") as error:
        pyhudi.commits(root, archived[0].instant)
    assert error.value.asked == archived[0].instant

    last = archived[-1].instant if "v6" in name else archived[-1].completed_at
    assert len(pyhudi.commits(root, last).commits) == len(pyhudi.commits(root).commits)


class Counting(MemoryStorage):
    """Memory storage that counts what is read of the archive."""

    reads = 0

    def read(self, path: str) -> bytes:
        if "/history/" in path or "/archived/" in path:
            self.reads += 1
        return super().read(path)


def in_memory(name: str, kind: type[MemoryStorage] = MemoryStorage) -> MemoryStorage:
    storage = kind(f"memory:/{name}/{kind.__name__}")
    for path, data in BY_NAME[name].files().items():
        storage.put_if_absent(path, data)
    return storage


@pytest.mark.parametrize("name", ARCHIVED)
def test_the_archive_is_read_again_only_when_it_has_changed(name: str) -> None:
    storage = in_memory(name, Counting)
    assert isinstance(storage, Counting)
    table = open_table(storage)
    checkpoint = table_commits(table, None).checkpoint
    assert storage.reads == 0

    table_commits(table, checkpoint)
    once = storage.reads
    assert once > 0
    table_commits(table, checkpoint)
    assert storage.reads == once

    storage.put_if_absent(f"{table.config.history_folder}/another", b"")
    table_commits(table, checkpoint)
    assert storage.reads == 2 * once


class Disturbed(MemoryStorage):
    """Memory storage where something happens after each listing of the timeline."""

    then: list[Callable[[], None]]

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        found = super().list(folder, known)
        if folder.endswith("timeline") and self.then:
            self.then.pop(0)()
        return found


def test_a_commit_between_the_two_listings_waits_for_the_next_call() -> None:
    name = "h120_v9-cow_part"
    storage = in_memory(name, Disturbed)
    assert isinstance(storage, Disturbed)
    storage.then = []
    table = open_table(storage)
    first = table_commits(table, None)
    late = "20990101000000000_20990101000000001.commit"
    source = table.timeline().file_of(table.timeline().commits[-1])
    data = storage.read(source)

    storage.then = [lambda: storage.put_if_absent(f".hoodie/timeline/{late}", data)]
    found = table_commits(table, None)
    assert found == first

    (after,) = table_commits(table, found.checkpoint).commits
    assert (after.instant, after.action) == (InstantTime(late[:17]), Action.COMMIT)


class Torn(MemoryStorage):
    """Memory storage whose next listing of the timeline misses what ended while it was made."""

    missed = ""

    def list(self, folder: str, known: Known = NOTHING_KNOWN) -> Files:
        found = super().list(folder, known)
        if folder.endswith("timeline") and self.missed:
            missed, self.missed = self.missed, ""
            found = tuple(f for f in found if f.name != missed)
        return found


def test_a_commit_that_a_listing_misses_is_not_passed_over() -> None:
    """It ended in a part of the folder that was read already; a later one shows in another part."""
    storage = in_memory("h120_v9-cow_part", Torn)
    assert isinstance(storage, Torn)
    table = open_table(storage)
    whole = table_commits(table, None)
    *_, last_but_one, last = table.timeline().commits
    storage.missed = table.timeline().file_of(last_but_one).rsplit("/", 1)[-1]

    found = table_commits(table, None)
    rest = table_commits(table, found.checkpoint)

    assert [e.instant for e in (*found.commits, *rest.commits)] == [
        e.instant for e in whole.commits
    ]
    assert last.time in {e.instant for e in found.commits}


def test_a_clustering_that_is_pending_in_version_6_holds_nothing_up() -> None:
    storage = in_memory("h120_v6-cow_cluster")
    table = open_table(storage)
    timeline = table.timeline()
    (clustering,) = [i for i in timeline.commits if i.action is Action.REPLACECOMMIT]
    storage.delete([timeline.file_of(clustering)])

    found = table_commits(table, None)

    assert found.fence is None
    assert found.checkpoint == timeline.commits[-1].time > clustering.time


def test_completion_order_of_version_6_is_refused_with_what_to_do(tmp_path: Path) -> None:
    root = str(BY_NAME["h120_v6-cow_part"].unzip(tmp_path))
    with pytest.raises(UnsupportedTable, match="Follow the table by 'fenced'"):
        pyhudi.commits(root, order=Order.COMPLETED)


def test_an_unknown_order_is_refused_with_those_there_are(tmp_path: Path) -> None:
    root = str(BY_NAME["h120_v9-cow_part"].unzip(tmp_path))
    with pytest.raises(ConfigError, match="requested, fenced, completed"):
        pyhudi.commits(root, order="finished")
