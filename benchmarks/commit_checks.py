"""``python -m benchmarks.commit_checks BEFORE AFTER``: what two versions' checks cost a commit.

Each argument is a checkout of this repository. A process of each makes a table on local disk and
upserts a row into it, as a writer of the storms does, without Spark; the two take turns, commit by
commit, so that the machine's other work falls on both. Plans are taken after each commit, warm and
by a process's first look. Medians and the middle half of all: milliseconds of wall and CPU time,
and requests of the storage.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHILD = "--child"


class Checkout:
    """A process that runs one checkout's code and answers a line with its times."""

    def __init__(self, name: str, tree: Path, table: Path) -> None:
        self.name = name
        self.times: dict[str, list[float]] = {}
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "python")])}
        self._process = subprocess.Popen(
            [sys.executable, __file__, CHILD, str(table)],
            env=env, cwd=tree, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def turn(self) -> None:
        """One commit and its plans."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for what, ms in json.loads(self._process.stdout.readline()).items():
            self.times.setdefault(what, []).append(ms)

    def end(self) -> None:
        """Let it go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def child(table: str) -> None:
    """Commit and plan once for each line on stdin; this runs on the checkout's own modules."""
    import pyarrow as pa

    from integration import storm_writer
    from integration.storm_places import OPTIONS
    from integration.storm_writer import SEEDER, Spec, runtime_without_spark, upserts_without_spark
    from pyhudi.reads.pins import Pinned, PinnedQueries
    from pyhudi.reads.scan import open_query
    from pyhudi.reads.scan_plan import plan_scan
    from pyhudi.storage.faults import Call, FaultyStorage
    from pyhudi.timeline.view import VIEWS

    calls: list[Call] = []
    plain: Any = storm_writer.open_storage
    counted: Any = storm_writer
    counted.open_storage = lambda *given: FaultyStorage(plain(*given), before=calls.append)
    spec = Spec(table, OPTIONS, {}, 30.0, "1", SEEDER, 1, 0, 1)
    make = upserts_without_spark(spec, lambda *_, **__: None)
    make(rows(pa, range(200)), "0/0")
    upsert = upserts_without_spark(
        Spec(table, OPTIONS, {}, 30.0, "1", 0, 1, 0, 1), lambda *_, **__: None
    )
    runtime = runtime_without_spark(spec, lambda *_, **__: None)
    known = PinnedQueries(runtime)

    def plan(pins: PinnedQueries) -> None:
        query = open_query(runtime, table, {}, {})
        asked = Pinned(pins.pin(query), table, {}, {}, query.instant)
        pins.ask(asked, lambda pinned: plan_scan(pinned, []))

    def first_plan() -> None:
        VIEWS.forget(runtime.storage(table))
        plan(PinnedQueries(runtime))

    for number, _ in enumerate(sys.stdin, 1):
        one = rows(pa, [number % 200])
        turns = {
            "commit": lambda one=one, number=number: upsert(one, f"0/{number}"),
            "plan after it": lambda: plan(known),
            "warm plan": lambda: plan(known),
            "first plan": first_plan,
        }
        found: dict[str, float] = {}
        for what, act in turns.items():
            before = len(calls)
            found |= timed(what, act)
            found[f"{what}, requests"] = len(calls) - before
        print(json.dumps(found), flush=True)


def rows(pa: Any, keys: Sequence[int]) -> Any:
    """Rows of these keys in ten partitions."""
    numbers = pa.array([0] * len(keys), pa.int64())
    texts = [f"k{key}" for key in keys]
    places = [f"p{key % 10}" for key in keys]
    return pa.table({"key": texts, "dt": places, "writer": numbers, "number": numbers})


def timed(what: str, act: Any) -> dict[str, float]:
    """Milliseconds of wall and CPU time that ``act`` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    return {
        f"{what}, ms": (time.perf_counter() - wall) * 1_000,
        f"{what}, CPU ms": (time.process_time() - cpu) * 1_000,
    }


def main() -> None:
    """Run both and print a table."""
    parser = argparse.ArgumentParser("python -m benchmarks.commit_checks", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--commits", type=int, default=150)
    parser.add_argument("--warm-up", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        both = [
            Checkout(name, tree.resolve(), Path(folder) / name)
            for name, tree in (("before", given.before), ("after", given.after))
        ]
        for number in range(given.commits + given.warm_up):
            for one in both if number % 2 else both[::-1]:
                one.turn()
        for one in both:
            one.end()
    print("| | before | after | difference of the medians |\n| --- | --- | --- | --- |")
    for what in both[0].times:
        cells, medians = [], []
        for one in both:
            low, middle, high = statistics.quantiles(one.times[what][given.warm_up :], n=4)
            medians.append(middle)
            cells.append(f"{middle:.1f} ({low:.1f} to {high:.1f})")
        print(f"| {what} | {' | '.join(cells)} | {medians[1] - medians[0]:+.1f} |")


if __name__ == "__main__":
    child(sys.argv[2]) if sys.argv[1:2] == [CHILD] else main()
