"""The wheel is all that a user needs: code, types, schemas, and a jar for each Spark line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from functools import partial
from pathlib import Path

import pytest

from pyhudi.spark.jars import LINES

ROOT = Path(__file__).parent.parent
JARS = {line.jar for line in LINES.values()}


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


FIRST_TABLE = """
import sys
from pyspark.sql import SparkSession
import pyhudi
assert pyhudi.__file__.startswith(sys.prefix), pyhudi.__file__
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = pyhudi.attach(pyhudi.configure(builder).getOrCreate())
rows = spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string")
key = "hoodie.datasource.write.recordkey.field"
rows.write.format("pyhudi").option(key, "id").save(sys.argv[1])
rows.where("id = 2").write.format("pyhudi").mode("append").save(sys.argv[1])
print(sorted(map(tuple, spark.read.format("pyhudi").load(sys.argv[1]).collect())))
"""


def bare() -> dict[str, str]:
    """The process's environment without what leads Python to this checkout."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK"))}


@pytest.fixture
def installed(wheel: zipfile.ZipFile, tmp_path: Path) -> Path:
    """The programs of an environment that has the wheel, and this one's other libraries."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    programs = tmp_path / "venv" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--no-deps"]
    subprocess.run([*pip, str(wheel.filename)], check=True, capture_output=True, env=bare())
    libraries = sysconfig.get_paths()["purelib"]
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # A path file adds the folder alone: the editable pyhudi in it, itself a path file, stays out.
    (site / "libraries.pth").write_text(libraries + "\n")
    return programs


@pytest.mark.spark
def test_the_installed_wheel_is_enough_to_write_and_read(installed: Path, tmp_path: Path) -> None:
    run = partial(subprocess.run, capture_output=True, text=True, cwd=tmp_path, env=bare())
    done = run([installed / "python", "-c", FIRST_TABLE, str(tmp_path / "table")])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[(1, 'a'), (2, 'b')]"
    told = run([installed / "pyhudi", "history", "table"])
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("completed") == 3
    assert run([installed / "pyhudi", "jars"]).stdout.startswith(str(tmp_path / "venv"))


def test_extras_bring_every_optional_library(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    text = wheel.read(metadata).decode()
    for library in ("boto3", "kazoo", "pymetastore"):
        optional = [
            line for line in text.splitlines() if line.startswith(f"Requires-Dist: {library}")
        ]
        assert any('extra == "all"' in line for line in optional)
        assert all("extra ==" in line for line in optional), f"{library} must be optional"
