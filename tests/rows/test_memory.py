"""Memory follows the row groups, not the file: measured on a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent.parent
ROWS, GROUP_ROWS = 1_000_000, 16_384
MEMORY_BYTES = 8 << 20
# Held whole, old and incoming rows take this process to 470 MB; bounded, to 200 MB, of which
# Python and Arrow are 120 MB.
CEILING_BYTES = 290 << 20


def job(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.rows.memory_job", *map(str, arguments)],
        cwd=ROOT, env={"PYTHONPATH": "python:."}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    job("make", folder, ROWS, GROUP_ROWS)
    return folder


@pytest.mark.parametrize("share", [0.05, 1])
def test_a_merge_into_a_large_file_stays_below_the_ceiling(table: Path, share: float) -> None:
    result: dict[str, Any] = json.loads(job("merge", table, share, GROUP_ROWS, MEMORY_BYTES))
    assert result["peak_bytes"] < CEILING_BYTES
    assert result["num_updates"] == int(ROWS * share)
    assert (result["num_inserts"], result["num_writes"]) == (0, ROWS)
    merged = pq.read_table(table / result["path"], columns=["id", "ts", "note"])
    changed = merged.filter(pc.equal(merged["ts"], 2))
    assert changed.num_rows == int(ROWS * share)
    assert pc.all(pc.starts_with(changed["note"], "note 2")).as_py()
    assert pc.count_distinct(merged["id"]).as_py() == ROWS
    assert not list(table.glob("*.arrow"))
