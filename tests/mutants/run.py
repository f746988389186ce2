"""Runs each mutant in a scratch copy of the checkout, with the tests that must turn red by it."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Final

import pyspark

from tests.mutants.mutant import ROOT, Mutant, MutantMisfit, edited
from tests.spark_lines import ALL, environment_of

#: built, and so in no listing of git's, but needed by tests that start Spark
JARS: Final = "python/pyhudi/jars"
BUILT: Final = (JARS, ".tools/dynamodb.classpath")
ENVIRONMENTS: Final = tuple(environment_of(line).name for line in ALL)
#: seconds that sbt may take, the first time in a copy that has nothing compiled
BUILD_S: Final = 900
TESTS: Final = ("tests", "integration")
_RED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_TEST: Final = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
_PASSED, _FAILED = 0, 1


class Outcome(Enum):
    """What the tests said."""

    GREEN = "green"
    RED = "red"
    #: no end within the limit
    ENDLESS = "no end"
    #: pytest could not run them
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of tests: those that failed, by node id, its seconds, and what it printed."""

    outcome: Outcome
    red: tuple[str, ...]
    seconds: float
    said: str

    @property
    def killed(self) -> bool:
        return self.outcome in (Outcome.RED, Outcome.ENDLESS)


def node_ids(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """What pytest calls the tests ``names``; ``MutantMisfit`` where there is none of a name."""
    found = _files_by_test(root)
    missing = [name for name in names if name.partition("[")[0] not in found]
    if missing:
        raise MutantMisfit(f"no test is called {', '.join(missing)} any more (tests/mutants)")
    return [f"{path}::{name}" for name in names for path in found[name.partition("[")[0]]]


@cache
def _files_by_test(root: Path) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(path for top in TESTS for path in (root / top).rglob("test_*.py")):
        for name in _TEST.findall(path.read_text("utf-8")):
            found.setdefault(name, []).append(path.relative_to(root).as_posix())
    return found


@contextmanager
def scratch(count: int) -> Iterator[list[Path]]:
    """So many copies of what git tracks here, and of the built jars; deleted at the end."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    paths += [p for b in BUILT for p in (ROOT / b, *(ROOT / b).rglob("*"))]
    with tempfile.TemporaryDirectory(prefix="pyhudi-mutants-") as top:
        copies = [Path(top) / str(number) for number in range(count)]
        for copy in copies:
            for path in filter(Path.is_file, paths):
                target = copy / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
            # Processes that tests start have an interpreter of the checkout by its path.
            for environment in ENVIRONMENTS:
                if (ROOT / environment).exists():
                    (copy / environment).symlink_to(ROOT / environment)
        yield copies


def run_tests(copy: Path, ids: Sequence[str], limit_s: float, more: Sequence[str] = ("-x",)) -> Ran:
    """Run tests of a copy in a process of their own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--durations-min=1000",
    ]
    environment = os.environ | {
        "PYTHONPATH": f"{copy}/python:{copy}",
        # A file that is changed twice within a second would be taken from its old byte code.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    started = monotonic()
    with subprocess.Popen(
        [*command, *more, *ids], cwd=copy, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return Ran(Outcome.ENDLESS, (), monotonic() - started, said)
    known = {_PASSED: Outcome.GREEN, _FAILED: Outcome.RED}
    outcome = known.get(process.returncode, Outcome.BROKEN)
    return Ran(outcome, tuple(_RED.findall(said)), monotonic() - started, said)


def run_mutant(copy: Path, mutant: Mutant, limit_s: float) -> Ran:
    """Run the mutant's tests with its edit in place, which is taken back after that."""
    try:
        with in_place(copy, mutant):
            return run_tests(copy, node_ids(mutant.tests, copy), limit_s)
    except subprocess.CalledProcessError as failure:
        return Ran(Outcome.BROKEN, (), 0.0, f"{failure}\n{failure.stdout}")


@contextmanager
def in_place(copy: Path, mutant: Mutant) -> Iterator[None]:
    """``mutant`` applied to ``copy`` while the block runs; of the shim the jar as well."""
    change = edited(mutant, copy)
    path = copy / change.path
    jars = sorted((copy / JARS).glob("*.jar")) if mutant.scala else []
    before = {file: file.read_bytes() for file in (path, *jars)}
    path.write_text(change.text, "utf-8")
    try:
        if mutant.scala:
            # The line of Spark that the tests run on; what sbt compiled stays for the next mutant.
            build = ["make", "-s", "jars", f"SBT_TASK={_project()}/jars"]
            subprocess.run(
                build, cwd=copy, check=True, text=True, timeout=BUILD_S,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        yield
    finally:
        for file, data in before.items():
            file.write_bytes(data)


def _project() -> str:
    """build.sbt's name for the line of Spark that is installed here."""
    return "spark" + "".join(pyspark.__version__.split(".")[:2])


def run_all(
    mutants: Sequence[Mutant],
    copies: Sequence[Path],
    limit_s: float,
    tell: Callable[[Mutant, Ran], None],
) -> dict[str, Ran]:
    """What the tests said of each mutant, by ``Mutant.what``; one at a time in each copy."""
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(mutant: Mutant) -> Ran:
        copy = free.get()
        try:
            ran = run_mutant(copy, mutant, limit_s)
        finally:
            free.put(copy)
        tell(mutant, ran)
        return ran

    with ThreadPoolExecutor(len(copies)) as pool:
        return dict(zip((m.what for m in mutants), pool.map(one, mutants), strict=True))
