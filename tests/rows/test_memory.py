"""Memory follows row groups and blocks, not files: measured on processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pyhudi.format.log_blocks import HeaderKey, read_blocks, render_block
from tests.rows.logs import avro_block

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


# A block is 10 MB. Held whole, the logs took this process to 970 MB; block by block to 240 MB, of
# which 64 MB are logs that it holds, and 120 MB Python and Arrow.
LOGS, LOG_ROWS, LOGS_CEILING_BYTES = 40, 10_000, 320 << 20


def test_the_logs_of_a_slice_are_read_block_by_block(tmp_path: Path) -> None:
    rows = [{"key": f"{at:08}", "v": f"{at:01000}"} for at in range(LOG_ROWS)]
    (block,) = read_blocks(avro_block("", rows, {"v": "string"}))
    for at in range(LOGS):
        instant = f"20240101000000{at:03}"
        header = {**block.header, HeaderKey.INSTANT_TIME: instant}
        data = render_block(block.block_type, header, block.content)
        (tmp_path / f".group_{instant}.log.1_0-0-0").write_bytes(data)

    result: dict[str, Any] = json.loads(job("logs", tmp_path))

    assert (result["rows"], result["last"]) == (LOG_ROWS, rows[-1]["v"])
    assert result["peak_bytes"] < LOGS_CEILING_BYTES
