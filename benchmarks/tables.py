"""Markdown tables of what a run measured; a cell is a median with the smallest and the largest."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.engines import ENGINES
from benchmarks.results import Measurement, Results

#: the page compares with it
BASE = "parquet"

Value = Callable[[Measurement], float]


def cpu(m: Measurement) -> float:
    return m.cpu


def wall(m: Measurement) -> float:
    return m.seconds


def operations(run: Results, value: Value, base: str = BASE) -> str:
    """A line for each operation; a cell ends with its ratio to the engine ``base``."""
    names = dict.fromkeys(m.operation for m in run.measurements)
    wanted = [n for n in names if n not in ("append", "plan", "cold plan", "cold append")]
    rows = [[name, *(_cell(run, name, e, value, base) for e in run.engines())] for name in wanted]
    return table(["operation", *labels(run)], rows)


def _cell(run: Results, operation: str, engine: str, value: Value, base: str) -> str:
    found = [value(m) for m in run.of(operation, engine)]
    if not found:
        return "-"
    middle = statistics.median(found)
    text = f"{figure(middle)} ({figure(min(found))} to {figure(max(found))})"
    beside = [value(m) for m in run.of(operation, base)]
    if not beside or engine == base or not statistics.median(beside):
        return text
    return f"{text} **{middle / statistics.median(beside):.2f}x**"


def figure(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 10 else f"{seconds:.2f}"


def sizes(run: Results) -> str:
    rows = [
        ["MB", *(f"{run.sizes[e]['bytes'] / 1e6:.1f}" for e in run.engines())],
        ["data files", *(str(run.sizes[e]["files"]) for e in run.engines())],
    ]
    return table(["", *labels(run)], rows)


def labels(run: Results) -> list[str]:
    return [ENGINES[e].label for e in run.engines()]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
