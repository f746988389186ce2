"""``python -m benchmarks.versions BEFORE``: this checkout beside another one, as two engines.

BEFORE is a checkout whose jars are built. Both do the operations of ``python -m benchmarks``, turn
by turn, and must have the same rows after each. For each operation: medians with the middle half,
CPU seconds and wall time, and the quotients of neighbours: each figure of AFTER by that of BEFORE
in the same turn, since both get faster from round to round as their JVMs warm up.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data import make_inputs
from benchmarks.engine_process import EngineProcess
from benchmarks.results import Results
from benchmarks.run import run_round

BEFORE, AFTER = "before", "after"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-ups", type=int, default=2)
    parser.add_argument("--warm-up-rows", type=int, default=200_000)
    parser.add_argument("--only", nargs="+", default=[], help="operations as they are named")
    parser.add_argument("--memory", default="2g", help="heap of each JVM")
    options = parser.parse_args(arguments)
    results = Results(options.rows, options.rounds, 0, 1, options.only)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as place:
        work = Path(place)
        inputs = make_inputs(work / "input", options.rows, 4, 1)
        small = make_inputs(work / "warm-up", options.warm_up_rows, 0, 1)
        engines = [
            EngineProcess("pyhudi", work / BEFORE, options.memory, BEFORE, options.before),
            EngineProcess("pyhudi", work / AFTER, options.memory, AFTER),
        ]
        try:
            for number in range(options.warm_ups):
                run_round(engines, small, number, Results(0, 0, 0, 0, options.only))
            for number in range(options.rounds):
                run_round(engines, inputs, number, results)
        finally:
            for engine in engines:
                engine.close()
    print_table(results)


def print_table(results: Results) -> None:
    """One line per operation and measure."""
    for operation in dict.fromkeys(m.operation for m in results.measurements):
        for measure in ("cpu", "seconds"):
            each = {
                name: [getattr(m, measure) for m in results.of(operation, name)]
                for name in (BEFORE, AFTER)
            }
            beside = [b / a for a, b in zip(each[BEFORE], each[AFTER], strict=True)]
            shown = "   ".join(f"{name} {spread(values)}" for name, values in each.items())
            unit = {"cpu": "CPU s", "seconds": "s"}[measure]
            print(f"{operation:<26} {unit:<5}  {shown}   quotient {spread(beside)}")


def spread(values: Sequence[float]) -> str:
    """The median, and the middle half of the values in brackets."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:8.3f} [{low:.3f} to {high:.3f}]"


if __name__ == "__main__":
    main()
