"""The benchmark's own measuring: CPU of a tree, agreement of engines, the page."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import merge_on_read
from benchmarks.changes import make_inputs as make_change_inputs
from benchmarks.cpu import TICKS_PER_SECOND, Process, TreeClock, tree, tree_seconds
from benchmarks.data import COLUMNS, orders, region_of
from benchmarks.merge_on_read_report import (
    AFRESH,
    DELETE,
    FOLDER,
    IN_TURNS,
    READS,
    TINY,
    UPSERTS,
    goals,
)
from benchmarks.report import write_page
from benchmarks.results import Measurement, Results, load
from benchmarks.run import REPO, Disagreement, agree

costly = partial(pytest.param, marks=pytest.mark.matrix)  # engines as their users start them
SPIN = "import time\nwhile time.process_time() < 0.5: pass\n"


def test_cpu_of_a_child_counts_while_it_lives_and_after_it_was_reaped() -> None:
    before = tree_seconds(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-c", SPIN + "print(flush=True)\ninput()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    alive = tree_seconds(os.getpid()) - before
    child.communicate(b"\n")
    reaped = tree_seconds(os.getpid()) - before
    assert alive >= 0.45
    assert reaped >= alive


def test_the_tree_of_a_process_holds_no_stranger() -> None:
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert set(tree(idle.pid)) == {idle.pid}
    assert {idle.pid, os.getpid()} <= set(tree(os.getpid()))
    idle.communicate(b"\n")


def ticks(*processes: tuple[int, int, int, int]) -> dict[int, Process]:
    """A tree of processes: number, parent, own ticks, ticks of those that it reaped."""
    return {pid: Process(parent, 0, own, reaped) for pid, parent, own, reaped in processes}


def looks(*trees: dict[int, Process]) -> list[float]:
    """What the clock of process 1 shows after each further tree, in ticks since the first."""
    given = iter(trees)
    clock = TreeClock(1, lambda _: next(given))
    first = sum(process.ticks for process in trees[0].values())
    return [round(clock.look() * TICKS_PER_SECOND) - first for _ in trees[1:]]


def test_cpu_of_a_child_counts_once_after_it_is_reaped() -> None:
    alone = ticks((1, 0, 5, 0))
    both = ticks((1, 0, 5, 0), (2, 1, 50, 0))
    reaped = ticks((1, 0, 6, 52))
    assert looks(alone, both, reaped, reaped) == [50, 53, 53]
    assert looks(alone, reaped) == [53], "it lived between two looks"


def test_cpu_of_a_child_counts_though_its_killed_parent_did_not_reap_it() -> None:
    alone = ticks((1, 0, 5, 0))
    three = ticks((1, 0, 5, 0), (2, 1, 7, 0), (3, 2, 50, 0))
    lost = ticks((1, 0, 5, 8))
    assert looks(alone, three, lost, lost) == [57, 58, 58]


def test_cpu_of_a_number_that_another_process_has_taken_counts_from_nought() -> None:
    first = ticks((1, 0, 5, 0), (2, 1, 50, 0))
    taken = {**ticks((1, 0, 5, 50)), 2: Process(1, 9, 3, 0)}
    assert looks(first, taken) == [3]


def test_engines_that_disagree_end_the_run() -> None:
    agree("upsert", {"a": ["1"], "b": ["1"]})
    with pytest.raises(Disagreement, match="upsert"):
        agree("upsert", {"a": ["1"], "b": ["2"]})


def test_rows_depend_only_on_ids_and_version() -> None:
    ids = np.arange(1000, dtype=np.int64)
    assert orders(ids, 1) == orders(ids, 1)
    assert orders(ids, 1) != orders(ids, 2)
    assert orders(ids, 1).column_names == list(COLUMNS)
    assert set(region_of(ids)) == set(range(10))


def test_the_page_shows_medians_and_ratios_to_plain_parquet(tmp_path: Path) -> None:
    results = Results(rows=1_000_000, rounds=3, appends=0, append_rows=0)
    for number, seconds in enumerate([3.0, 1.0, 2.0]):
        results.measurements += [
            Measurement("bulk insert", "parquet", number, seconds, seconds),
            Measurement("bulk insert", "delta", number, 2 * seconds, 3 * seconds),
        ]
    results.sizes = {"parquet": {"bytes": 1, "files": 1}, "delta": {"bytes": 1, "files": 1}}
    results.save(tmp_path)
    assert load(tmp_path / "1000000.json") == results
    write_page(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| bulk insert | 2.00 (1.00 to 3.00) | 6.00 (3.00 to 9.00) **3.00x** |" in page
    assert "| bulk insert | 2.00 (1.00 to 3.00) | 4.00 (2.00 to 6.00) **2.00x** |" in page


def test_each_commit_of_the_change_benchmark_changes_one_per_cent(tmp_path: Path) -> None:
    found = make_change_inputs(tmp_path, 20_000)
    ids = {name: pq.read_table(folder)["id"].to_numpy() for name, folder in found.items()}
    assert len(ids["bulk"]) == 20_000
    for name in ("spread", "delete"):
        assert len(np.unique(ids[name])) == len(ids[name]) == 200
    assert set(region_of(ids["one partition"])) == {3}
    assert set(region_of(ids["spread"])) == set(range(10))
    assert not set(ids["delete"]) & set(ids["one partition"])


@pytest.mark.matrix
def test_a_small_run_of_merge_on_read_has_its_section(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    merge_on_read.main([
        "--rows", "2000", "--rounds", "1", "--samples", "1", "--warm-ups", "0", "--tiny", "2",
        "--tiny-rows", "10", "--engines", "pyhudi", "pyhudi-mor", "--note", "A quiet machine.",
        "--results", str(tmp_path), "--page", str(page),
    ])  # fmt: skip
    told = page.read_text(encoding="utf-8")
    assert "### 0.002 M rows beside logs: what is to be reached" in told
    assert "A quiet machine." in told
    for operation in (
        "upsert 3",
        "full read after delete",
        "full read, written afresh",
        "range filter in turns with it",
        *TINY,
    ):
        assert f"| {operation} | " in told
    found = load(tmp_path / FOLDER / "2000.json")
    assert len(found.of(TINY[0], "pyhudi-mor")) == len(found.of(TINY[1], "pyhudi")) == 2


@pytest.mark.parametrize(
    "asked",
    [
        "planning --files 200 --partitions 10 --commits 3",
        "markers --markers 200 --clients 4 --files 50",
        "inline_services --commits 12 --long 12",
        costly("table_types --rows 2000 --writes 2 --shares 0.01 0.5 --warm-up-rows 500"),
        costly("clustering --rows 2000 --commits 2 --rounds 1"),
    ],
    ids=lambda asked: asked.partition(" ")[0],
)
def test_a_small_run_ends_well(asked: str, tmp_path: Path) -> None:
    """In a process of its own: some make a Spark session."""
    name, *options = asked.split()
    if name == "table_types":
        options += ["--results", str(tmp_path / "found.json"), "--page", str(tmp_path / "page.md")]
    command = [sys.executable, "-m", f"benchmarks.{name}", *options]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout


def test_each_upsert_of_merge_on_read_has_a_fifth_of_new_keys_and_later_times(
    tmp_path: Path,
) -> None:
    found = merge_on_read.make_inputs(tmp_path, 20_000, 2, 100)
    tables = [pq.read_table(folder) for folder in (*found.upserts, found.delete)]
    seen = 20_000
    for upsert in tables[:-1]:
        ids = upsert["id"].to_numpy()
        assert len(np.unique(ids)) == len(ids) == 1_000
        assert (ids >= seen).sum() == 200
        assert ids.max() == seen + 199
        seen += 200
    assert len(tables[-1]) == 200
    assert tables[-1]["id"].to_numpy().max() < seen
    latest = [pc.max(each["ts"]).as_py() for each in tables]
    earliest = [pc.min(each["ts"]).as_py() for each in tables]
    assert all(before < after for before, after in pairwise(zip(earliest, latest, strict=True)))


def test_what_is_to_be_reached_is_told_beside_the_best_of_the_others() -> None:
    found = Results(rows=1_000, rounds=1, appends=1, append_rows=1)
    for engine, seconds in (("pyhudi-mor", 1.0), ("delta-dv", 8.0), ("iceberg-mor", 4.0)):
        names = [*UPSERTS, DELETE, TINY[0]]
        names += [
            f"{read}{after}" for read in READS for after in (f" after {DELETE}", IN_TURNS, AFRESH)
        ]
        found.measurements += [Measurement(name, engine, 0, seconds, seconds) for name in names]
    told = dict(line[:2] for line in goals(found))
    assert told["three upserts, of the best peer"] == told[f"{TINY[0]}, of Iceberg"] == "0.25x"
    assert told["full read after all changes, of the same written afresh"] == "1.00x"
    assert f"{DELETE}, of copy-on-write" not in told
