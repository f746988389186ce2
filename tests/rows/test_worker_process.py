"""What a worker process keeps between tasks: nothing that an archive or an object has changed."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyhudi.rows import task, worker_process

REREADS = hasattr(zipimport.zipimporter, "invalidate_caches")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A zip on ``sys.path`` with one module, and importers as a new process has them."""
    path = tmp_path / "carried.zip"
    _write(path, {"carried_one": "ANSWER = 1"})
    monkeypatch.syspath_prepend(str(path))
    monkeypatch.setattr(worker_process.gc, "freeze", lambda: None)
    monkeypatch.setattr(sys, "path_importer_cache", {})
    yield path
    for name in ("carried_one", "carried_two"):
        sys.modules.pop(name, None)


def _write(path: Path, modules: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as out:
        for name, text in modules.items():
            out.writestr(f"{name}.py", text)


@pytest.mark.skipif(not REREADS, reason="before Python 3.10 archives are not read again")
def test_an_archive_that_stays_is_not_read_again(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert importlib.import_module("carried_one").ANSWER == 1
    read: list[str] = []
    original = zipimport.zipimporter.invalidate_caches

    def counted(importer: zipimport.zipimporter) -> None:
        read.append(importer.archive)
        original(importer)

    monkeypatch.setattr(zipimport.zipimporter, "invalidate_caches", counted)
    importlib.invalidate_caches()
    assert str(archive) in read
    worker_process.spare_later_tasks()
    read.clear()
    importlib.invalidate_caches()
    assert read == []


def test_an_archive_that_changed_is_read_again(archive: Path) -> None:
    assert importlib.import_module("carried_one").ANSWER == 1
    worker_process.spare_later_tasks()
    _write(archive, {"carried_one": "ANSWER = 1", "carried_two": "ANSWER = 2"})
    importlib.invalidate_caches()
    assert importlib.import_module("carried_two").ANSWER == 2


def test_an_archive_that_went_away_does_no_harm(archive: Path) -> None:
    importlib.import_module("carried_one")
    worker_process.spare_later_tasks()
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("carried_two")


FROZEN = """
import gc
from pyhudi.rows import task
made = [object() for _ in range(3)]
task._context = lambda: {context}
counts = []
for _ in range(2):
    list(task.telling(lambda given: iter(given))([1]))
    counts.append(gc.get_freeze_count())
print(*counts)
"""


@pytest.mark.parametrize("in_spark", [True, False])
def test_a_worker_freezes_once_and_a_driver_never(in_spark: bool) -> None:
    code = FROZEN.format(context="object()" if in_spark else "None")
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    first, second = map(int, run.stdout.split())
    assert (first > 0) is in_spark
    assert second <= first


def test_a_task_that_fails_spares_later_tasks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(task, "_context", object)
    monkeypatch.setattr(task, "settle_in", lambda: done.append("settled"))
    monkeypatch.setattr(task, "spare_later_tasks", lambda: done.append("spared"))

    def fails(given: list[int]) -> Iterator[int]:
        yield from given
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(task.telling(fails)([1]))
    assert done == ["settled", "spared"]


WITHOUT_PANDAS = """
import sys
from types import SimpleNamespace
import pyarrow as pa
from pyhudi.rows import task, worker_process
if "unknown" in sys.argv:
    worker_process.pa = SimpleNamespace(**{**vars(pa), "lib": None})
task._context = object
def work(given):
    yield pa.array(["a"])
    yield "pandas" in sys.modules
for _ in range(2):
    print(list(task.telling(work)(()))[1])
import pandas as pd
print(pa.array(pd.Series(["a"], dtype="category")).type)
"""


@pytest.mark.parametrize("answer", ["known", "unknown"])
def test_a_task_does_without_pandas_and_functions_of_others_have_it(answer: str) -> None:
    """Where pyarrow keeps its answer elsewhere, it could not be asked again: then tasks have it."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_PANDAS, answer], capture_output=True, text=True, check=True
    )
    first, second, kind = run.stdout.splitlines()
    assert first == second == str(answer == "unknown")
    assert kind.startswith("dictionary"), "pyarrow knows a series of pandas"
