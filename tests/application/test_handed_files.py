"""Files for the JVM: each goes when it is of no more use, however its process ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi.application.handed_files import FOLDER, IDLE_S, OWNER, UNREAD_S, HandedFiles
from pyhudi.errors import StorageError
from pyhudi.transactions.processes import Process
from tests.fakes import FakeClock

ROWS = pa.table({"n": [1, 2, 3]})

MAKES = """
import os, sys
from pathlib import Path
import pyarrow as pa
from pyhudi.application.handed_files import FILES
print(FILES.make("plan", pa.table({"n": [1]})), flush=True)
if sys.argv[1:] == ["forks"]:
    child = os.fork()
    if child == 0:
        print(FILES.make("plan", pa.table({"n": [1]})), flush=True)
        sys.exit(0)
    os.waitpid(child, 0)
input()
"""


class Known:
    """Processes of which the test says which have ended."""

    def __init__(self, pid: int) -> None:
        self.own = Process("h", "b", "p", "t", pid, 0)
        self.ended: set[int] = set()

    def this(self) -> Process:
        return self.own

    def has_ended(self, process: Process) -> bool:
        return process.pid in self.ended


def left(folder: Path) -> list[str]:
    """The files in all folders of processes."""
    return sorted(f.name for f in folder.glob(f"{FOLDER}*/*") if f.name != OWNER)


def folders(folder: Path) -> set[Path]:
    return set(folder.glob(f"{FOLDER}*"))


def begun(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process that makes its files in ``folder``, says their names and waits."""
    paths = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(folder)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", MAKES, *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)


def said(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_a_file_is_private_and_has_the_rows(tmp_path: Path) -> None:
    files = HandedFiles(parent=tmp_path)
    made = Path(files.make("plan", ROWS))
    assert made.name.startswith("plan-")
    with pa.OSFile(str(made)) as source:
        assert pa.ipc.open_stream(source).read_all() == ROWS
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700


def test_a_file_that_its_answer_does_not_name_goes_with_the_question(tmp_path: Path) -> None:
    files = HandedFiles(parent=tmp_path)

    def inner() -> str:
        files.make("inner", ROWS)
        return files.make("inner", ROWS)

    def outer() -> str:
        files.make("outer", ROWS)  # the plan was made again
        kept = files.make("outer", ROWS)
        told = files.answering(inner)
        assert [name.partition("-")[0] for name in left(tmp_path)].count("outer") == 2
        return json.dumps({"ok": [kept, told]})

    (first, second) = json.loads(files.answering(outer))["ok"]
    assert left(tmp_path) == sorted(map(os.path.basename, (first, second)))

    def failing() -> str:
        files.make("failing", ROWS)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.answering(failing)
    assert files.answering(lambda: '{"error": "x"}') == '{"error": "x"}'
    assert len(left(tmp_path)) == 2


def test_files_that_nobody_reads_do_not_grow_in_number(tmp_path: Path) -> None:
    clock = FakeClock()
    files = HandedFiles(clock, parent=tmp_path)
    for _ in range(500):
        files.make("plan", ROWS)
        clock.advance(UNREAD_S / 10)
        assert len(left(tmp_path)) <= 12


def test_files_that_are_read_leave_nothing(tmp_path: Path) -> None:
    files = HandedFiles(FakeClock(), parent=tmp_path)
    for _ in range(500):
        os.unlink(files.make("plan", ROWS))
    assert left(tmp_path) == []
    files.close()
    assert folders(tmp_path) == set()
    assert os.path.exists(files.make("plan", ROWS)), "a later file makes another folder"


def test_a_disk_that_takes_no_file_is_an_error_with_advice_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HandedFiles(parent=tmp_path)
    files.make("plan", ROWS)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(pa.ipc, "new_stream", full)
        with pytest.raises(StorageError, match="No space left on device. Make room there") as told:
            files.make("plan", ROWS)
    assert str(tmp_path) in str(told.value)
    assert len(left(tmp_path)) == 1
    before = folders(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(StorageError, match="No space left"):
            HandedFiles(parent=tmp_path).make("plan", ROWS)
    assert folders(tmp_path) == before
    missing = HandedFiles(parent=tmp_path / "missing")
    with pytest.raises(StorageError, match="No such file"):
        missing.make("plan", ROWS)


def test_a_folder_that_was_taken_away_is_made_again(tmp_path: Path) -> None:
    files = HandedFiles(parent=tmp_path)
    before = Path(files.make("plan", ROWS)).parent
    for each in before.iterdir():
        each.unlink()
    before.rmdir()
    assert os.path.exists(files.make("plan", ROWS))


def test_the_folders_of_ended_processes_go_and_no_other(tmp_path: Path) -> None:
    dead, alive = (HandedFiles(processes=Known(pid), parent=tmp_path) for pid in (1, 2))
    gone, kept = (Path(files.make("plan", ROWS)).parent for files in (dead, alive))
    others = [tmp_path / f"{FOLDER}nobody", tmp_path / "pyhudi-of-a-user", tmp_path / "else"]
    for other in others:
        other.mkdir()
    (others[1] / OWNER).write_bytes((gone / OWNER).read_bytes())
    link = tmp_path / f"{FOLDER}link"
    link.symlink_to(gone)
    known = Known(3)
    known.ended.add(1)
    own = Path(HandedFiles(processes=known, parent=tmp_path).make("plan", ROWS)).parent
    assert set(tmp_path.iterdir()) == {kept, own, link, *others}


@pytest.mark.parametrize("owner", ["unknown", "of another machine"])
def test_a_folder_of_nobody_known_goes_when_it_was_idle_for_long(
    tmp_path: Path, owner: str
) -> None:
    files = HandedFiles(processes=Known(1), parent=tmp_path)
    folder = Path(files.make("plan", ROWS)).parent
    if owner == "unknown":
        (folder / OWNER).write_bytes(b"")
    now = folder.stat().st_mtime
    for idle, stays in ((IDLE_S - 60, True), (IDLE_S + 60, False)):
        os.utime(folder, (now - idle, now - idle))
        HandedFiles(processes=Known(2), parent=tmp_path).make("plan", ROWS)
        assert folder.exists() is stays


def test_a_process_that_ends_takes_its_folder_along(tmp_path: Path) -> None:
    with begun(tmp_path) as process:
        made = said(process)
        assert made.exists()
        assert made.parent.parent == tmp_path
        process.communicate("\n")
    assert process.returncode == 0
    assert folders(tmp_path) == set()


def test_a_process_that_is_killed_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    with begun(tmp_path) as process:
        made = said(process)
        process.send_signal(signal.SIGKILL)
    assert made.exists()
    with begun(tmp_path) as process:
        assert said(process).exists()
        assert not made.parent.exists()
        process.communicate("\n")
    assert folders(tmp_path) == set()


def test_a_forked_process_leaves_the_folder_of_its_parent(tmp_path: Path) -> None:
    with begun(tmp_path, "forks") as process:
        first, second = said(process), said(process)
        assert first.parent != second.parent
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(60) == 0
    assert folders(tmp_path) == set()
