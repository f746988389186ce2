from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyhudi.errors import FileExists, StorageError
from pyhudi.storage.local import LocalStorage
from tests.fakes import FakeClock


@pytest.fixture
def table(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path), FakeClock())


Replaced = Callable[[str, Callable[..., Any]], None]


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Replaced:
    """Replace a call of ``os`` in this thread: heartbeats of other tests may still beat."""
    mine = threading.get_ident()

    def replace(name: str, fake: Callable[..., Any]) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            return (fake if threading.get_ident() == mine else real)(*args, **options)

        monkeypatch.setattr(os, name, call)

    return replace


def names_on_disk(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def failing(code: int):  # type: ignore[no-untyped-def]
    def call(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("name", ["hoodie.properties", ".hoodie_partition_metadata"])
def test_a_stale_checksum_goes_with_each_change_of_its_file(
    table: LocalStorage, tmp_path: Path, name: str
) -> None:
    checksum = tmp_path / f".{name}.crc"
    for change in (table.put_if_absent, table.replace):
        checksum.write_bytes(b"stale")
        change(name, b"new bytes")
        assert not checksum.exists()

    checksum.write_bytes(b"stale")
    table.delete([name])
    assert names_on_disk(tmp_path) == []


def test_a_refused_put_keeps_the_checksum_of_the_file_that_stays(
    table: LocalStorage, tmp_path: Path
) -> None:
    (tmp_path / "1.commit").write_bytes(b"Hudi's")
    (tmp_path / ".1.commit.crc").write_bytes(b"right")

    with pytest.raises(FileExists):
        table.put_if_absent("1.commit", b"ours")

    assert names_on_disk(tmp_path) == [".1.commit.crc", "1.commit"]


def test_a_put_leaves_the_checksum_of_a_file_that_another_program_is_creating(
    table: LocalStorage, tmp_path: Path, replaced: Replaced
) -> None:
    """Hudi's lock provider fails where its checksum goes, and leaves a lock that nobody has."""
    real = os.fsync

    def meanwhile(descriptor: int) -> None:
        (tmp_path / "lock").write_bytes(b"")
        (tmp_path / ".lock.crc").write_bytes(b"")
        real(descriptor)

    replaced("fsync", meanwhile)
    with pytest.raises(FileExists):
        table.put_if_absent("lock", b"ours")

    assert names_on_disk(tmp_path) == [".lock.crc", "lock"]


def test_the_temporaries_of_a_killed_writer_are_not_listed(
    table: LocalStorage, tmp_path: Path
) -> None:
    (tmp_path / ".pyhudi-tmp-0f6cbd6c").write_bytes(b"half of a fi")

    assert table.list("") == []
    assert table.walk("") == []


@pytest.mark.parametrize(
    ("call", "broken"),
    [(c, b) for c in ("put_if_absent", "replace") for b in ("write", "fsync")]
    + [("put_if_absent", "link"), ("replace", "rename")],
)
def test_a_failed_put_leaves_the_old_state_and_no_temporary(
    table: LocalStorage, tmp_path: Path, replaced: Replaced, call: str, broken: str
) -> None:
    (tmp_path / "old").write_bytes(b"old")
    replaced(broken, failing(errno.ENOSPC))

    with pytest.raises(StorageError, match="No space left on device. Make room") as failed:
        getattr(table, call)("old" if call == "replace" else "new", b"new")

    assert failed.value.had_no_effect
    assert names_on_disk(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["put_if_absent", "replace"])
def test_a_name_that_could_not_be_synced_has_an_unknown_outcome(
    table: LocalStorage, replaced: Replaced, call: str
) -> None:
    real = os.fsync
    synced: list[int] = []

    def fail_second(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.EIO, "disk")
        real(descriptor)

    replaced("fsync", fail_second)

    with pytest.raises(StorageError) as failed:
        getattr(table, call)("new", b"new")

    assert not failed.value.had_no_effect
    assert table.read("new") == b"new"


def test_a_link_without_an_answer_has_an_unknown_outcome(
    table: LocalStorage, replaced: Replaced
) -> None:
    link = os.link

    def landed(*args: str, **kwargs: bool) -> None:
        link(*args, **kwargs)
        raise OSError(errno.EIO, "no answer")

    replaced("link", landed)

    with pytest.raises(StorageError, match="may or may not") as failed:
        table.put_if_absent("new", b"new")

    assert not failed.value.had_no_effect
    assert table.read("new") == b"new"


def test_a_disk_without_hard_links_is_refused_by_name(
    table: LocalStorage, replaced: Replaced
) -> None:
    replaced("link", failing(errno.EPERM))

    with pytest.raises(StorageError, match="no hard links"):
        table.put_if_absent("new", b"new")


def test_a_link_that_landed_although_nfs_says_otherwise_counts(
    table: LocalStorage, replaced: Replaced
) -> None:
    real = os.link

    def link_and_complain(source: str, target: str, **options: bool) -> None:
        real(source, target, **options)
        raise FileExistsError(errno.EEXIST, "the repeated request found the first")

    replaced("link", link_and_complain)

    table.put_if_absent("new", b"ours")

    assert table.read("new") == b"ours"


def test_every_new_name_is_synced_before_the_put_returns(
    table: LocalStorage, tmp_path: Path, replaced: Replaced
) -> None:
    real = os.fsync
    synced: list[str] = []

    def spy(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    replaced("fsync", spy)
    table.put_if_absent("a/b/file", b"")

    folders = [path for path in synced if ".pyhudi-tmp-" not in path]
    assert folders == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    assert len(synced) == 4


def test_a_relative_root_is_refused() -> None:
    with pytest.raises(StorageError, match="not an absolute path"):
        LocalStorage("tables/trips")


def test_a_folder_that_vanished_during_a_put_is_made_again(
    table: LocalStorage, tmp_path: Path, replaced: Replaced
) -> None:
    real = os.open
    emptied: list[str] = []

    def open_after_a_cleaner(path: str, *options: int) -> int:
        if ".pyhudi-tmp-" in path and (tmp_path / "p").is_dir() and not emptied:
            emptied.append(path)
            os.rmdir(tmp_path / "p")
        return real(path, *options)

    replaced("open", open_after_a_cleaner)

    table.put_if_absent("p/file", b"data")

    assert emptied
    assert table.read("p/file") == b"data"


def test_a_killed_writer_leaves_only_whole_files(tmp_path: Path) -> None:
    script = """
        import sys
        from pyhudi.storage.local import LocalStorage

        table = LocalStorage(sys.argv[1])
        for n in range(1_000_000):
            table.put_if_absent(f"p/{n}", b"x" * 300_000)
            table.replace("hot", b"y" * 300_000)
            print(n, flush=True)
    """
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()

    files = LocalStorage(str(tmp_path)).walk("")
    assert len(files) > 20
    assert {file.size_bytes for file in files} == {300_000}


def test_a_tree_of_many_files_is_walked_in_one_pass(tmp_path: Path) -> None:
    table = LocalStorage(str(tmp_path))
    for folder in range(50):
        (tmp_path / f"day={folder}").mkdir()
        for file in range(100):
            (tmp_path / f"day={folder}" / f"{file}.parquet").touch()

    files = table.walk("")

    assert len(files) == 5_000
    assert files == sorted(files, key=lambda found: found.path)


@pytest.mark.parametrize(("call", "broken"), [("put_if_absent", "link"), ("replace", "rename")])
@pytest.mark.parametrize(
    ("code", "known"),
    [
        *((code, True) for code in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT)),
        *((code, False) for code in (errno.EIO, errno.ETIMEDOUT, errno.ESTALE)),
        *((code, False) for code in (errno.ENOTCONN, errno.ECONNRESET, errno.EINTR, 0)),
    ],
)
def test_only_an_errno_that_proves_it_makes_a_link_or_rename_a_known_failure(
    table: LocalStorage,
    replaced: Replaced,
    call: str,
    broken: str,
    code: int,
    known: bool,
) -> None:
    replaced(broken, failing(code))

    with pytest.raises(StorageError) as failed:
        getattr(table, call)("new", b"new")

    assert failed.value.had_no_effect is known
    assert ("may or may not" in str(failed.value)) is not known


def test_a_folder_that_cannot_be_synced_before_the_put_is_a_known_failure(
    table: LocalStorage, replaced: Replaced
) -> None:
    replaced("fsync", failing(errno.EIO))

    with pytest.raises(StorageError, match="Cannot sync") as failed:
        table.put_if_absent("new folder/new", b"new")

    assert failed.value.had_no_effect
    assert table.walk("") == []
