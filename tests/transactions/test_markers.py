from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import Marker, MarkerKind, marker_folder, marker_path, render_marker_list
from pyhudi.rows.base_file import TableFiles
from pyhudi.rows.spec import GroupPlan
from pyhudi.rows.task import Task
from pyhudi.storage.base import Files
from pyhudi.storage.faults import FaultyStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.markers import markers
from pyhudi.transactions.markers.markers import (
    belongs_to,
    delete_files,
    delete_markers,
    files_of,
    marked_files,
)
from tests.rows.workers import spec

T = InstantTime("20240101000000000")
OTHER = InstantTime("20240101000000001")


def name(group: str, time: InstantTime = T) -> str:
    return BaseFileName(FileId(group), "0-1-2", time).render()


def test_direct_markers_and_lists_tell_together_what_was_written() -> None:
    storage = MemoryStorage()
    for path, kind in ((f"p/{name('a')}", MarkerKind.CREATE), (name("b"), MarkerKind.MERGE)):
        storage.put_if_absent(marker_path(T, path, kind), b"")
    lines = [Marker(f"q/r/{name('c')}", MarkerKind.CREATE), Marker(name("b"), MarkerKind.MERGE)]
    storage.put_if_absent(f"{marker_folder(T)}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.put_if_absent(f"{marker_folder(T)}/MARKERS3", render_marker_list(lines))

    assert marked_files(storage, T) == sorted([f"p/{name('a')}", name("b"), f"q/r/{name('c')}"])


def test_no_folder_is_told_from_an_empty_list() -> None:
    storage = MemoryStorage()
    assert marked_files(storage, T) is None
    storage.put_if_absent(f"{marker_folder(T)}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    assert marked_files(storage, T) == []


def test_a_marker_never_leads_to_the_file_of_another_instant() -> None:
    storage = MemoryStorage()
    for path in (f"p/{name('a', OTHER)}", "p/notes.txt", f"p/{name('a')}"):
        storage.put_if_absent(marker_path(T, path, MarkerKind.MERGE), b"")

    assert marked_files(storage, T) == [f"p/{name('a')}"]
    assert not belongs_to(f"p/{name('a', OTHER)}", T)


def test_without_markers_the_table_is_listed() -> None:
    storage = MemoryStorage()
    for path in (f"p/{name('a')}", name("b"), f"p/{name('a', OTHER)}", f".hoodie/m/{name('x')}"):
        storage.put_if_absent(path, b"")

    assert files_of(storage, T) == [name("b"), f"p/{name('a')}"]
    storage.put_if_absent(marker_path(T, f"p/{name('a')}", MarkerKind.CREATE), b"")
    assert files_of(storage, T) == [f"p/{name('a')}"]


@pytest.mark.parametrize("left", [0, 1, 30, -30, -1])
def test_files_whose_names_a_torn_list_has_lost_are_found_by_listing(left: int) -> None:
    """Hudi empties a list and writes it again, longer; a crash comes in between."""
    storage = MemoryStorage()
    files = [f"p/{name('a')}", f"q/{name('b')}"]
    for path in (*files, f"q/{name('b', OTHER)}"):
        storage.put_if_absent(path, b"")
    whole = render_marker_list([Marker(path, MarkerKind.CREATE) for path in files])
    storage.put_if_absent(f"{marker_folder(T)}/MARKERS0", whole[:left])

    assert marked_files(storage, T) == files


def test_whole_lists_need_no_listing() -> None:
    storage = FaultyStorage(MemoryStorage())
    lines = render_marker_list([Marker(f"p/{name('a')}", MarkerKind.CREATE)])
    for number in range(2):
        storage.put_if_absent(f"{marker_folder(T)}/MARKERS{number}", lines)

    assert marked_files(storage, T) == [f"p/{name('a')}"]
    assert [c.paths for c in storage.calls if c.method == "walk"] == [(marker_folder(T),)]


class Settling(MemoryStorage):
    """A storage on which an instant settles just after its markers were listed."""

    def walk(self, folder: str) -> Files:
        found = super().walk(folder)
        delete_markers(self, T)
        return found


def test_lists_of_an_instant_that_settles_meanwhile_are_no_markers() -> None:
    storage = Settling()
    lines = render_marker_list([Marker(f"p/{name('a')}", MarkerKind.CREATE)])
    storage.put_if_absent(f"{marker_folder(T)}/MARKERS0", lines)

    assert marked_files(storage, T) is None


@pytest.mark.parametrize("count", [0, 1, 5])
def test_files_are_deleted_in_batches_with_a_sign_of_life_after_each(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(markers, "DELETE_BATCH", 2)
    storage = FaultyStorage(MemoryStorage())
    paths = [f"p/{n}" for n in range(count)]
    for path in paths[1:]:
        storage.put_if_absent(path, b"")
    signs: list[int] = []

    delete_files(storage, iter(paths), lambda: signs.append(1))

    assert storage.walk("") == []
    deletes = [c.paths for c in storage.calls if c.method == "delete"]
    assert sorted(p for batch in deletes for p in batch) == paths
    assert len(signs) == len(deletes) == -(-count // 2)


def test_only_the_own_markers_go() -> None:
    storage = MemoryStorage()
    for time in (T, OTHER):
        storage.put_if_absent(marker_path(time, name("a", time), MarkerKind.CREATE), b"")

    delete_markers(storage, T)

    assert marked_files(storage, T) is None
    assert marked_files(storage, OTHER) == [name("a", OTHER)]


class Killed:
    """A file system whose process dies when it gives a file its name."""

    def __init__(self, real: object) -> None:
        self._real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def move(self, *_: str) -> None:
        raise KeyboardInterrupt


def test_metadata_of_a_partition_that_a_killed_task_did_not_name_goes_with_its_file(
    tmp_path: Path,
) -> None:
    storage = LocalStorage(str(tmp_path))
    files = TableFiles(spec(tmp_path), Task(3, 7))
    files.fs = Killed(files.fs)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        files.ensure_partition("p")
    (left,) = storage.walk("")
    assert left.name.startswith(".hoodie_partition_metadata_")
    others = ["p/.hoodie_partition_metadata", "p/of-another.parquet"]
    data = files.file_of(GroupPlan(0, "0" * 36, "p")).data_path
    for path in (data, *others):
        storage.put_if_absent(path, b"")

    delete_files(storage, [data])

    assert [file.path for file in storage.walk("")] == others
