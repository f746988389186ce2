"""What every storage promises, run against each of them: local disk, memory and S3."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pyhudi.errors import FileExists, StorageError
from pyhudi.storage.base import Storage
from tests.contracts.conftest import HADOOP

AWKWARD_PATHS = [
    "with space/file name.parquet",
    "percent/50%25 off%.parquet",
    "day=2024-01-01/country=Österreich/a=b.parquet",
    "語/Кириллица/😀 ∑.parquet",
    "plus+and&amp;/quote'\"<>#?;:,@$.parquet",
    ".hoodie/.temp/20240101000000000/.hidden",
]


def test_a_put_file_is_read_back_whole(storage: Storage) -> None:
    data = bytes(range(256)) * 5_000

    storage.put_if_absent(".hoodie/hoodie.properties", data)

    assert storage.read(".hoodie/hoodie.properties") == data


def test_an_empty_file_is_a_file(storage: Storage) -> None:
    storage.put_if_absent(".hoodie/1.commit.requested", b"")

    assert storage.exists(".hoodie/1.commit.requested")
    assert storage.read(".hoodie/1.commit.requested") == b""
    assert [(f.name, f.size_bytes) for f in storage.list(".hoodie")] == [("1.commit.requested", 0)]


@pytest.mark.parametrize("first", [b"", b"first"])
def test_put_if_absent_refuses_a_taken_name_and_keeps_its_bytes(
    storage: Storage, first: bytes
) -> None:
    storage.put_if_absent("a/b", first)

    with pytest.raises(FileExists) as refused:
        storage.put_if_absent("a/b", b"second")

    assert refused.value.facts["path"] == "a/b"
    assert storage.read("a/b") == first


def test_one_of_many_concurrent_puts_wins_and_its_bytes_stay(storage: Storage) -> None:
    start = threading.Barrier(8)
    won: list[int] = []

    def put(writer: int) -> None:
        start.wait()
        try:
            storage.put_if_absent("race/20240101000000000.commit", b"%d" % writer * 1_000)
        except FileExists:
            return
        won.append(writer)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
    assert storage.read("race/20240101000000000.commit") == b"%d" % won[0] * 1_000


def test_a_refused_put_leaves_no_other_file_behind(storage: Storage) -> None:
    storage.put_if_absent("a/b", b"1")

    with pytest.raises(FileExists):
        storage.put_if_absent("a/b", b"2")

    assert [file.path for file in storage.walk("")] == ["a/b"]


def test_replace_creates_and_replaces(storage: Storage) -> None:
    storage.replace("a/b", b"a longer first text")
    storage.replace("a/b", b"second")

    assert storage.read("a/b") == b"second"
    assert [(f.path, f.size_bytes) for f in storage.walk("")] == [("a/b", 6)]


@pytest.mark.parametrize("path", ["absent", "a/absent", "a/b/c"])
def test_reading_an_absent_file_says_so(storage: Storage, path: str) -> None:
    storage.put_if_absent("a/b", b"")

    with pytest.raises(FileNotFoundError):
        storage.read(path)
    assert not storage.exists(path)


def test_a_folder_is_not_a_file(storage: Storage) -> None:
    storage.put_if_absent("a/b", b"")

    assert not storage.exists("a")


def test_list_shows_the_files_of_one_folder_sorted(storage: Storage) -> None:
    for path in ["p/b", "p/a", "p/sub/c", "pp/d", "p.txt"]:
        storage.put_if_absent(path, path.encode())

    assert [file.path for file in storage.list("p")] == ["p/a", "p/b"]
    assert [file.path for file in storage.list("p/")] == ["p/a", "p/b"]
    assert [file.path for file in storage.list("")] == ["p.txt"]
    assert [(f.name, f.size_bytes) for f in storage.list("p/sub")] == [("c", 7)]


def test_files_known_to_never_change_are_listed_only_while_they_are_there(storage: Storage) -> None:
    for name in ["stays", "goes"]:
        storage.put_if_absent(f"p/{name}", b"1")
    known = {file.path: file for file in storage.list("p")}
    storage.delete(["p/goes"])
    storage.put_if_absent("p/comes", b"22")

    files = storage.list("p", known)

    assert [(file.name, file.size_bytes) for file in files] == [("comes", 2), ("stays", 1)]
    assert files[1] == known["p/stays"]


def test_list_folders_shows_the_folders_of_one_folder_sorted(storage: Storage) -> None:
    for path in ["z/1", "a/x/1", "a/x/2", "a/w/1", "a/file", "ab/1"]:
        storage.put_if_absent(path, b"")

    assert storage.list_folders("") == ["a", "ab", "z"]
    assert storage.list_folders("a") == ["a/w", "a/x"]
    assert storage.list_folders("z") == []


def test_walk_shows_files_at_any_depth_sorted(storage: Storage) -> None:
    paths = ["p/q/r/s/1", "p/0", "p-1/x", "p/q/2"]
    for path in paths:
        storage.put_if_absent(path, b"")

    assert [file.path for file in storage.walk("")] == sorted(paths)
    assert [file.path for file in storage.walk("p/q")] == ["p/q/2", "p/q/r/s/1"]


@pytest.mark.parametrize("folder", ["absent", "a/b/absent", "file"])
def test_an_absent_folder_lists_as_empty(storage: Storage, folder: str) -> None:
    storage.put_if_absent("file", b"")

    assert storage.list(folder) == []
    assert storage.list_folders(folder) == []
    assert storage.walk(folder) == []


def test_a_listing_of_more_than_one_page_is_whole(storage: Storage) -> None:
    names = sorted(f"many/{n:04}" for n in range(1_100))
    run_in_threads(lambda name: storage.put_if_absent(name, b""), names)

    assert [file.path for file in storage.list("many")] == names
    storage.delete(names[:-1])
    assert [file.path for file in storage.walk("")] == names[-1:]


def test_modification_times_are_epoch_milliseconds_of_about_now(storage: Storage) -> None:
    storage.put_if_absent("a", b"")
    storage.put_if_absent("b", b"")

    first, second = storage.list("")

    assert abs(first.modified_ms - second.modified_ms) < 60_000
    assert 1_600_000_000_000 < first.modified_ms < 4_000_000_000_000


@pytest.mark.parametrize("path", AWKWARD_PATHS)
def test_a_path_may_hold_any_script_and_sign(storage: Storage, path: str) -> None:
    folder = path.rsplit("/", 1)[0]

    storage.put_if_absent(path, b"1")
    storage.replace(path, b"2")

    assert storage.read(path) == b"2"
    assert storage.exists(path)
    assert [file.path for file in storage.list(folder)] == [path]
    assert [file.path for file in storage.walk("")] == [path]
    assert storage.list_folders("") == [path.split("/")[0]]
    with pytest.raises(FileExists):
        storage.put_if_absent(path, b"3")
    storage.delete([path])
    assert not storage.exists(path)


def test_delete_takes_many_files_and_minds_no_absent_ones(storage: Storage) -> None:
    for path in ["a/1", "a/2", "b/1"]:
        storage.put_if_absent(path, b"")

    storage.delete(iter(["a/1", "b/1", "a/absent", "absent/absent", "a/2/below-a-file"]))
    storage.delete([])

    assert [file.path for file in storage.walk("")] == ["a/2"]


def test_a_deleted_name_can_be_put_again(storage: Storage) -> None:
    storage.put_if_absent("a", b"1")
    storage.delete(["a"])

    storage.put_if_absent("a", b"2")

    assert storage.read("a") == b"2"


def test_folders_go_with_their_last_file_and_no_file_with_its_folder(storage: Storage) -> None:
    for path in ("t/kept/1", "t/gone/deep/2"):
        storage.put_if_absent(path, b"x")
    storage.delete(["t/gone/deep/2"])
    storage.delete_empty_folders("t")
    storage.delete_empty_folders("t/absent")
    assert storage.list_folders("t") == ["t/kept"]
    assert storage.read("t/kept/1") == b"x"
    storage.delete(["t/kept/1"])
    storage.delete_empty_folders("")
    assert storage.list_folders("") == []
    storage.put_if_absent("again", b"y")


def test_a_folder_that_was_made_holds_no_file_and_goes_with_the_empty_ones(
    storage: Storage,
) -> None:
    for _ in range(2):
        storage.make_folder("t/made/deep")
    storage.make_folder("t/kept")
    storage.put_if_absent("t/kept/1", b"x")
    assert storage.list("t/made/deep") == storage.list_folders("t/made/deep") == []
    assert [file.path for file in storage.walk("")] == ["t/kept/1"]
    storage.delete_empty_folders("")
    assert storage.list_folders("t") == ["t/kept"]
    assert storage.read("t/kept/1") == b"x"


@pytest.mark.parametrize("storage", ["local", "s3", HADOOP], indirect=True)
def test_a_folder_that_was_made_is_there(storage: Storage) -> None:
    storage.make_folder("t/made/deep")
    assert storage.list_folders("") == ["t"]
    assert storage.list_folders("t/made") == ["t/made/deep"]


def test_delete_folder_takes_all_below_it_and_nothing_beside_it(storage: Storage) -> None:
    for path in ["t/x/1", "t/x/y/2", "t/xx/3", "t/x.txt"]:
        storage.put_if_absent(path, b"")

    storage.delete_folder("t/x")
    storage.delete_folder("t/absent")

    assert [file.path for file in storage.walk("")] == ["t/x.txt", "t/xx/3"]
    assert storage.list_folders("t") == ["t/xx"]


def test_the_whole_table_can_be_deleted(storage: Storage) -> None:
    for path in [".hoodie/hoodie.properties", "p/1"]:
        storage.put_if_absent(path, b"")

    storage.delete_folder("")

    assert storage.walk("") == []


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../outside", "a/.."])
@pytest.mark.parametrize(
    "call",
    [
        lambda s, p: s.list(p),
        lambda s, p: s.list_folders(p),
        lambda s, p: s.walk(p),
        lambda s, p: s.exists(p),
        lambda s, p: s.read(p),
        lambda s, p: s.put_if_absent(p, b""),
        lambda s, p: s.replace(p, b""),
        lambda s, p: s.delete([p]),
        lambda s, p: s.delete_folder(p),
    ],
)
def test_no_path_leaves_the_root(
    storage: Storage, call: Callable[[Storage, str], object], path: str
) -> None:
    with pytest.raises(StorageError, match="not a path inside the table"):
        call(storage, path)


def test_checksum_neighbours_never_show_in_listings(storage: Storage) -> None:
    storage.put_if_absent("p/.data.parquet.crc", b"")
    storage.put_if_absent("p/data.parquet", b"")
    storage.put_if_absent("p/data.crc", b"an odd name, but nobody's neighbour")

    assert [file.name for file in storage.list("p")] == ["data.crc", "data.parquet"]
    assert [file.name for file in storage.walk("")] == ["data.crc", "data.parquet"]


def test_a_reader_of_a_replaced_file_sees_old_or_new_bytes_whole(storage: Storage) -> None:
    versions = [bytes([n]) * 50_000 for n in range(1, 20)]
    storage.replace("hot", versions[0])
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(storage.read("hot"))

    reader = threading.Thread(target=read)
    reader.start()
    for version in versions:
        storage.replace("hot", version)
    done.set()
    reader.join()

    assert seen
    assert set(seen) <= set(versions)


def test_the_root_has_no_trailing_slash_and_a_put_has_a_time_limit(storage: Storage) -> None:
    assert not storage.root.endswith("/")
    assert 0 < storage.put_timeout_s < 60


def run_in_threads(call: Callable[[str], None], arguments: list[str]) -> None:
    """Call once per argument, eight at a time; the first error is raised here."""
    errors: list[Exception] = []

    def work(part: list[str]) -> None:
        try:
            for argument in part:
                call(argument)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(arguments[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
