"""``python -m benchmarks``: the engines side by side on equal data, and the result page.

Each engine is one long-lived process with one JVM. The operations take turns: every engine does
one, then every engine does the next, in an order that rotates. After each change the engines'
tables must have the same checksum, and every query the same answer, or the run fails.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.data import Inputs, make_inputs
from benchmarks.engine_process import EngineProcess
from benchmarks.engines import ENGINES
from benchmarks.report import write_page
from benchmarks.results import Measurement, Results

REPO = Path(__file__).resolve().parents[1]
#: appends between two signs of life
PROGRESS = 25
DEFAULT_ENGINES = ["parquet", "pyhudi", "hudi", "hudi-lean", "delta", "iceberg"]


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: its name on the page, the worker's method, and its arguments.

    ``params`` may name another table than that of the round.
    A round measures it ``samples`` times, in each of which the method does it ``times`` times.
    ``only`` names the engines that take part; all by default.
    """

    operation: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1
    changes: bool = False
    samples: int = 1
    only: tuple[str, ...] = ()


def change(operation: str, method: str, source: Path) -> Step:
    """A step that changes the table by the rows in ``source``."""
    return Step(operation, method, {"source": str(source)}, changes=True)


def _steps(inputs: Inputs) -> list[Step]:
    lookups = Step(
        "key lookup", "lookup", {"keys": list(inputs.lookups)}, len(inputs.lookups), samples=3
    )
    ranges = Step(
        "range filter", "range_filter", {"ranges": list(inputs.ranges)}, len(inputs.ranges),
        samples=3,
    )  # fmt: skip
    read = Step("full read", "full_read", samples=5)
    return [
        change("bulk insert", "create", inputs.bulk),
        read,
        Step("column sum", "column_sum", samples=5),
        lookups,
        ranges,
        change("upsert 5 %", "upsert", inputs.upsert),
        change("delete 1 %", "delete", inputs.delete),
        change("MERGE 5 %", "merge", inputs.merge),
        replace(read, operation="full read after changes"),
        replace(lookups, operation="key lookup after changes"),
    ]


class Disagreement(SystemExit):
    """Engines gave different rows for the same operations."""


def agree(what: str, answers: dict[str, Any]) -> None:
    """All engines' answers must be equal."""
    first = next(iter(answers.values()))
    wrong = {name: answer for name, answer in answers.items() if answer != first}
    if wrong:
        raise Disagreement(f"{what}: the engines disagree: {answers}")


def run_round(
    engines: Sequence[EngineProcess], inputs: Inputs, number: int, results: Results
) -> None:
    """All steps of this page once, on a fresh table of each engine."""
    steps = [s for s in _steps(inputs) if not results.only or s.operation in results.only]
    run_steps(engines, f"orders_{inputs.rows}_{number}", steps, number, results)


def run_steps(
    engines: Sequence[EngineProcess], table: str, steps: Sequence[Step], number: int,
    results: Results,
) -> None:  # fmt: skip
    """The steps in turns; the first one makes the table, which is dropped in the end."""
    for turn, step in enumerate(steps):
        for sample in range(step.samples):
            answers = {}
            for engine in rotated(engines, number + turn + sample):
                if step.only and engine.name not in step.only:
                    continue
                measured, answers[engine.name] = engine.measure(
                    step.operation, number, step.method, step.times,
                    **{"table": table, **step.params},
                )  # fmt: skip
                results.measurements.append(measured)
                tell(measured)
            if step.changes:
                answers = {e.name: e.ask("checksum", table=table) for e in engines}
            if answers:
                agree(step.operation, answers)
        if step.method == "create":
            results.sizes = {e.name: e.ask("size", table=table) for e in engines}
    for engine in engines:
        engine.ask("drop", table=table)


def run_appends(
    engines: Sequence[EngineProcess], inputs: Inputs, results: Results, memory: str
) -> None:
    """Tiny appends one after the other, planning after each; then once more in cold processes."""
    table, rows = "tiny", inputs.appends
    for engine in engines:
        engine.ask("create", table=table, source=str(rows[0]))
    for number, source in enumerate(rows[1:-1]):
        for engine in rotated(engines, number):
            measured, _ = engine.measure(
                "append", number, "append", table=table, source=str(source)
            )
            results.measurements.append(measured)
            measured, _ = engine.measure("plan", number, "plan", table=table)
            results.measurements.append(measured)
        if number % PROGRESS == PROGRESS - 1:
            print(f"{number + 1} appends", flush=True)
    agree("appends", {e.name: e.ask("checksum", table=table) for e in engines})
    for engine in engines:
        results.measurements += _cold(engine, inputs, table, memory)


def _cold(warm: EngineProcess, inputs: Inputs, table: str, memory: str) -> list[Measurement]:
    """A fresh process, warmed on another table, meets the one with all the commits."""
    fresh = EngineProcess(warm.name, warm.root, memory)
    other = "other"
    fresh.ask("create", table=other, source=str(inputs.appends[0]))
    for source in inputs.appends[1:4]:
        fresh.ask("append", table=other, source=str(source))
        fresh.ask("plan", table=other)
    plan, _ = fresh.measure("cold plan", 0, "plan", table=table)
    append, _ = fresh.measure(
        "cold append", 0, "append", table=table, source=str(inputs.appends[-1])
    )
    fresh.ask("drop", table=other)
    fresh.close()
    return [plan, append]


def rotated(engines: Sequence[EngineProcess], by: int) -> list[EngineProcess]:
    """Who begins changes from turn to turn."""
    cut = by % len(engines)
    return [*engines[cut:], *engines[:cut]]


def tell(m: Measurement) -> None:
    print(
        f"{m.round:>3} {m.operation:<26} {m.engine:<10} {m.seconds:8.2f} s {m.cpu:8.2f} CPU s",
        flush=True,
    )


def run(options: argparse.Namespace, rows: int, work: Path) -> Results:
    """One run at ``rows`` rows with new processes."""
    results = Results(rows, options.rounds, options.appends, options.append_rows, options.only)
    appends = options.appends + 2 if options.appends else 4
    inputs = make_inputs(work / "input", rows, appends, options.append_rows)
    small = make_inputs(work / "warm-up", options.warm_up_rows, 0, options.append_rows)
    engines: list[EngineProcess] = []
    try:
        for name in options.engines:
            engines.append(EngineProcess(name, work / name, options.memory))
        print("warm-up, not reported", flush=True)
        for number in range(options.warm_ups):
            run_round(engines, small, number, Results(0, 0, 0, 0, options.only))
        print(f"{rows} rows", flush=True)
        for number in range(options.rounds):
            run_round(engines, inputs, number, results)
        # What comes now takes long; a run that is stopped keeps what it has measured.
        if options.rounds:
            results.save(options.results)
        if options.appends:
            run_appends(engines, inputs, results, options.memory)
    finally:
        for engine in engines:
            engine.close()
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, run each size, keep the results and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 5_000_000])
    parser.add_argument("--rounds", type=int, default=3, help="0: nothing but the appends")
    parser.add_argument("--warm-ups", type=int, default=2)
    parser.add_argument("--warm-up-rows", type=int, default=200_000)
    parser.add_argument("--appends", type=int, default=100, help="0: leave this part out")
    parser.add_argument("--append-rows", type=int, default=100)
    parser.add_argument("--only", nargs="+", default=[], help="operations as the page names them")
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=DEFAULT_ENGINES)
    parser.add_argument("--memory", default="2g", help="heap of each engine's JVM")
    parser.add_argument("--work", type=Path, help="folder for the data; default: a temporary one")
    parser.add_argument("--results", type=Path, default=REPO / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=REPO / "docs" / "benchmarks.md")
    options = parser.parse_args(arguments)
    work = options.work or Path(tempfile.mkdtemp(prefix="benchmarks-"))
    try:
        for number, rows in enumerate(options.rows):
            # Appends do not depend on the size of the table beside them: once is enough.
            options.appends = options.appends if number == 0 else 0
            run(options, rows, work).save(options.results)
            shutil.rmtree(work, ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    write_page(options.results, options.page)
    print(f"written: {options.page}")


if __name__ == "__main__":
    main()
