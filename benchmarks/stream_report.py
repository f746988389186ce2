"""What a run of ``benchmarks.streams`` found, and its section of the result page."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engines import ENGINES
from benchmarks.engines.streams import STREAMS
from benchmarks.tables import table

#: of all epochs the share at each end between which growth is told
END = 0.1


@dataclass(frozen=True, slots=True)
class Turn:
    """Some epochs in a row of one engine. ``cpu`` seconds are those of its process tree.

    ``epochs`` and ``sinks`` are Spark's milliseconds of each epoch and of the sink's part in it,
    ``visible`` those after which its rows can be read.
    """

    workload: str
    engine: str
    seconds: float
    cpu: float
    peak: int
    epochs: list[int]
    sinks: list[int]
    visible: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Findings:
    """One run; ``note`` says what a reader must know of the machine meanwhile."""

    rows: int
    days: int
    size: int
    warm_up: int
    note: str = ""
    turns: list[Turn] = field(default_factory=list)
    #: megabytes of heap in use by workload and engine, after the warm-up and in the end
    heaps: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def of(self, workload: str, engine: str) -> list[Turn]:
        """The turns of an engine in their order."""
        return [t for t in self.turns if (t.workload, t.engine) == (workload, engine)]

    def save(self, name: str, folder: Path) -> None:
        """Write ``<name>.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(self), separators=(",", ":"))
        (folder / f"{name}.json").write_text(text.replace('{"workload"', '\n{"workload"') + "\n")


def load(file: Path) -> Findings:
    """The run that ``Findings.save`` wrote."""
    raw = json.loads(file.read_text(encoding="utf-8"))
    raw["turns"] = [Turn(**turn) for turn in raw["turns"]]
    return Findings(**raw)


def section(folder: Path) -> str:
    """The page's section "Streams", or "" without findings."""
    runs = [load(file) for file in sorted(folder.glob("*.json"))]
    if not runs:
        return ""
    ran = {turn.engine for run in runs for turn in run.turns}
    names = [name for name in STREAMS if name in ran]
    notes = table(("engine", "set up"), ((ENGINES[e].label, ENGINES[e].notes) for e in names))
    parts = [f"{INTRO}\n\n{notes}", *(part for run in runs for part in _run(run))]
    return "\n\n".join(parts)


INTRO = """## Streams

`python -m benchmarks.streams` streams the same epochs into a table of each engine. An epoch is a
Parquet file, which Spark's file source takes by `maxFilesPerTrigger=1` and `availableNow`. A row
has eight columns and a key of text that says nothing of its time; tables are partitioned by day. In
the upserts one of ten rows has a known key: a *recent* one, of the last day's worth of events, or
one from anywhere in the table (*spread*). The other rows are new, and belong to the last day.
Engines take turns of some epochs; the start of the query is a part of each turn, and the first turn
is left out. In the end each table had exactly the rows that it must have, by number and a checksum
over all columns.

*rows/s* and *rows per CPU s* are medians of the turns with the smallest and the largest, the CPU
being that of the whole process tree. *epoch* is what Spark says of each: the median with the
smallest and the largest, and the 99th per cent. *visible* is the part of it after which its rows
can be read: services follow, and Spark's own log. *growth* compares the medians of the last and the
first tenth of the epochs (of the turns, for CPU). *peak* is the resident memory of the process
tree, *heap* what the JVM holds after a collection, before the first counted epoch and after the
last."""
HEAD = (
    "engine", "rows/s", "rows per CPU s", "epoch, s", "99 %, s", "visible, s", "99 %, s", "growth",
    "growth of CPU", "peak, MB", "heap, MB",
)  # fmt: skip


def _run(run: Findings) -> Iterable[str]:
    for workload in dict.fromkeys(turn.workload for turn in run.turns):
        engines = list(dict.fromkeys(t.engine for t in run.turns if t.workload == workload))
        count = len(_epochs(run.of(workload, engines[0])))
        title = f"### {workload[0].upper()}{workload[1:]}: {count} epochs of {run.size:,} rows"
        yield title + f", {run.rows / 1e6:g} M rows before"
        lines = [HEAD, *(line(run, workload, engine) for engine in engines)]
        # Older runs do not have all figures.
        has = [any(each[at] for each in lines[1:]) for at in range(len(HEAD))]
        head, *rest = (
            [cell for cell, held in zip(each, has, strict=True) if held] for each in lines
        )
        yield table(head, rest)
    if run.note:
        yield run.note


def line(run: Findings, workload: str, engine: str) -> tuple[str, ...]:
    """The engine's line of the workload's table."""
    turns = run.of(workload, engine)
    epochs = [ms / 1000 for ms in _epochs(turns)]
    visible = [ms / 1000 for turn in turns for ms in turn.visible]
    before, after = run.heaps[workload][engine]
    return (
        ENGINES[engine].label,
        _spread([run.size * len(turn.epochs) / turn.seconds for turn in turns]),
        _spread([run.size * len(turn.epochs) / turn.cpu for turn in turns]),
        _spread(epochs),
        _figure(percentile(epochs, 0.99)),
        _figure(statistics.median(visible)) if visible else "",
        _figure(percentile(visible, 0.99)) if visible else "",
        _growth(epochs),
        _growth([turn.cpu / len(turn.epochs) for turn in turns]),
        f"{max(turn.peak for turn in turns) / 1e6:,.0f}",
        f"{before:.0f} to {after:.0f}",
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _epochs(turns: Iterable[Turn]) -> list[int]:
    return [ms for turn in turns for ms in turn.epochs]


def _growth(values: Sequence[float]) -> str:
    width = max(1, round(len(values) * END))
    if len(values) < 2 * width:
        return "-"
    return f"{statistics.median(values[-width:]) / statistics.median(values[:width]):.2f}x"


def _spread(values: Sequence[float]) -> str:
    low, high = _figure(min(values)), _figure(max(values))
    return f"{_figure(statistics.median(values))} ({low} to {high})"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
