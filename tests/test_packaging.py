"""The wheel is all that a user needs: code, types, schemas, and a jar for each Spark line."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
JARS = {"pyhudi-spark-3.5_2.12.jar", "pyhudi-spark-4.0_2.13.jar"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of a copy of the sources, so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("sources")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "python", copy / "python", ignore=skip)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", copy / "dist", copy], check=True, capture_output=True)
    (built,) = (copy / "dist").glob("pyhudi-*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_all_that_the_package_reads(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    package = ROOT / "python" / "pyhudi"
    wanted = {p for kind in ("*.py", "*.avsc", "py.typed") for p in package.rglob(kind)}
    assert {p.relative_to(package.parent).as_posix() for p in wanted} - names == set()
    assert {f"pyhudi/jars/{jar}" for jar in JARS} - names == set(), "run `make jars`"


def test_the_command_starts_a_function_that_exists(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    line = wheel.read(entry_points).decode().split("pyhudi = ")[1].strip()
    module, function = line.split(":")
    code = f"import {module} as m; assert callable(m.{function})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT / "python")


def test_extras_bring_every_optional_library(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    text = wheel.read(metadata).decode()
    for library in ("boto3", "kazoo", "pymetastore"):
        optional = [
            line for line in text.splitlines() if line.startswith(f"Requires-Dist: {library}")
        ]
        assert any('extra == "all"' in line for line in optional)
        assert all("extra ==" in line for line in optional), f"{library} must be optional"
