"""The benchmark of streams: its epochs, the rows that must come of them, and its section."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.events import APPEND, COLUMNS, RECENT, SPREAD, WORKLOADS, Stream
from benchmarks.memory import PeakMemory
from benchmarks.run import Disagreement
from benchmarks.stream_report import Findings, Turn, percentile, section
from benchmarks.streams import Feed, main

STREAM = Stream(RECENT, rows=2_000, days=10, size=100)
SMALL = ["--rows", "2000", "--size", "100", "--epochs", "3", "--warm-up", "1", "--turn", "2"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_tenth_of_an_upserts_epoch_is_known(workload: str) -> None:
    stream = dataclasses.replace(STREAM, workload=workload)
    seen = stream.rows
    for number in range(5):
        epoch = stream.epoch(number)
        known = epoch[epoch < seen]
        assert len(np.unique(epoch)) == len(epoch) == stream.size
        assert len(known) == (0 if workload == APPEND else stream.size // 10)
        if workload == RECENT:
            assert known.min() >= seen - stream.per_day
        if workload == SPREAD:
            assert known.min() < seen - stream.per_day
        seen = int(epoch.max()) + 1


def test_a_later_version_keeps_key_and_day_and_is_later() -> None:
    numbers = np.arange(1_000, dtype=np.int64)
    first, second = (STREAM.events(numbers, np.full(1_000, v)) for v in (1, 2))
    assert first.column_names == list(COLUMNS)
    assert first.select(["id", "day"]) == second.select(["id", "day"])
    assert len(set(first["id"].to_pylist())) == 1_000
    pairs = zip(first["ts"].to_pylist(), second["ts"].to_pylist(), strict=True)
    assert all(earlier < later for earlier, later in pairs)
    assert first["note"] != second["note"]


def test_the_expected_rows_are_the_last_of_each_key(tmp_path: Path) -> None:
    files = [STREAM.write_bulk(tmp_path / "bulk"), *STREAM.write_epochs(tmp_path / "epochs", 4)]
    assert [f.stat().st_mtime_ns for f in files[1:]] == sorted(
        {f.stat().st_mtime_ns for f in files[1:]}
    )
    last = {row["id"]: row for file in files for row in pq.read_table(file).to_pylist()}
    expected = pq.read_table(STREAM.write_expected(tmp_path / "expected", 4)).to_pylist()
    assert {row["id"]: row for row in expected} == last
    assert len(expected) == len(last) == 2_000 + 4 * 90


def test_the_largest_memory_is_that_of_all_processes() -> None:
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child,  # it ends with its input
        PeakMemory(os.getpid()) as both,
        PeakMemory(child.pid) as one,
    ):
        pass
    assert both.bytes > one.bytes > 0


def test_the_99th_per_cent_is_a_value_that_was_measured() -> None:
    assert percentile([float(k) for k in range(1, 201)], 0.99) == 198
    assert percentile([3.0], 0.99) == 3


def test_the_section_tells_rows_a_second_growth_and_memory(tmp_path: Path) -> None:
    assert section(tmp_path) == ""
    found = Findings(rows=1_000_000, days=10, size=1_000, warm_up=1, note="A quiet machine.")
    found.turns = [
        Turn(SPREAD, "pyhudi-sink", 2.0, 4.0, 700_000_000, [1_000, 1_000], [900, 900]),
        Turn(SPREAD, "pyhudi-sink", 4.0, 8.0, 800_000_000, [2_000, 2_500], [900, 900]),
    ]
    found.heaps = {SPREAD: {"pyhudi-sink": [50.2, 51.0]}}
    found.save("some", tmp_path)
    page = section(tmp_path)
    assert "### Upsert, spread keys: 4 epochs of 1,000 rows, 1 M rows before" in page
    assert "| pyhudi | 750 (500 to 1,000) | 375 (250 to 500) | 1.50 (1.00 to 2.50) | 2.50 |" in page
    assert "| 2.50x | 2.00x | 800 | 50 to 51 |" in page
    assert "A quiet machine." in page


@pytest.mark.parametrize(
    "engine",
    [
        "pyhudi-sink",
        *(pytest.param(e, marks=pytest.mark.matrix) for e in ("pyhudi-batches", "delta-sink")),
    ],
)
def test_every_row_of_a_stream_is_in_the_table(engine: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    main([*SMALL, "--engines", engine, "--results", str(tmp_path), "--page", str(page)])
    told = page.read_text(encoding="utf-8")
    for title in ("Append", "Upsert, recent keys", "Upsert, spread keys"):
        assert f"### {title}: 3 epochs of 100 rows, 0.002 M rows before" in told


def test_a_lost_row_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_more(feed: Feed) -> str:
        folder = feed.stream.write_expected(feed.folder / "expected", feed.epochs)
        more = feed.stream.events(np.array([10_000_000]), np.array([1]))
        pq.write_table(pa.table(more), folder / "more.parquet")
        return str(folder)

    monkeypatch.setattr(Feed, "expected", one_more)
    with pytest.raises(Disagreement, match=APPEND):
        main([*SMALL, "--engines", "pyhudi-batches", "--workloads", "append"])
