"""The result page: markdown tables from the result files, and notes written by hand."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks import merge_on_read_report, stream_report
from benchmarks.engines import ENGINES
from benchmarks.results import Results, load
from benchmarks.tables import cpu, labels, operations, sizes, table, wall

NOTES = Path(__file__).with_name("notes.md")
FIRST_APPENDS = 30
SPAN = 10


def write_page(results: Path, page: Path) -> None:
    """Make ``page`` from every ``*.json`` in ``results``."""
    runs = sorted((load(path) for path in results.glob("*.json")), key=lambda run: run.rows)
    parts = [_intro(runs)]
    for run in runs:
        if run.rounds:
            some = f": {', '.join(run.only)}" if run.only else ""
            parts.append(f"## {run.rows / 1e6:g} M rows{some}\n\n{run.rounds} rounds.")
            parts.append("### CPU seconds of the process tree\n\n" + operations(run, cpu))
            parts.append("### Wall seconds\n\n" + operations(run, wall))
        if run.sizes:
            parts.append("### Size after the bulk insert\n\n" + sizes(run))
    for run in runs:
        if run.of("append", run.engines()[0]):
            parts.append(f"## {run.appends} tiny appends\n\n" + _appends(run))
    parts += filter(
        None,
        [
            merge_on_read_report.section(results / merge_on_read_report.FOLDER),
            stream_report.section(results / "streams"),
        ],
    )
    if NOTES.exists():
        parts.append(NOTES.read_text().strip())
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n")


def _intro(runs: Sequence[Results]) -> str:
    engines = list(dict.fromkeys(name for run in runs for name in run.engines()))
    settings = table(["engine", "set up"], ([ENGINES[e].label, ENGINES[e].notes] for e in engines))
    return f"""# Benchmarks

`make bench` runs this page again (`python -m benchmarks --help` for sizes and engines).

All engines run on the same Spark 3.5, each in its own process with one JVM, `local[2]`, 4 shuffle
partitions, Snappy, otherwise defaults. The rows are equal: 12 columns (long, timestamp, strings of
several cardinalities, int, double, decimal, boolean), 10 partitions by a hash of the id. Operations
take turns between the engines in rotating order. After each change the checksum over all columns
of all engines' tables was equal, and so was each query's answer. A cell is the median, with the
smallest and the largest in brackets, then the ratio of medians to plain Parquet; reads are
measured three or five times a round, changes once. CPU is user and
system time of the whole process tree: driver, JVM with compiler and collector, Python workers.

* *upsert 5 %*: four of five rows are updates spread over all files, one of five is a new key
* *delete 1 %*: by key, spread over all files
* *MERGE 5 %*: `MERGE INTO` on id and region, four of five rows match, of which a quarter is deleted
  and the others updated; one of five is inserted
* *full read*: all columns into Spark's `noop` sink; *column sum*: one decimal column
* *key lookup*: `id = k`; *range filter*: one per cent of the ids; the table is opened each time

{settings}"""


def _appends(run: Results) -> str:
    engines = run.engines()
    appends = {e: [m.seconds for m in run.of("append", e)] for e in engines}
    cpu = {e: [m.cpu for m in run.of("append", e)] for e in engines}
    plans = {e: [m.seconds * 1000 for m in run.of("plan", e)] for e in engines}

    def spread(values: Sequence[float], digits: int) -> str:
        middle = statistics.median(values)
        return f"{middle:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"

    def growth(values: Sequence[float]) -> str:
        # The first appends still warm the code up: growth counts from the eleventh.
        early = values[SPAN : 2 * SPAN] or values
        return f"{statistics.median(values[-SPAN:]) / statistics.median(early):.2f}x"

    cold = {e: (run.of("cold plan", e)[0], run.of("cold append", e)[0]) for e in engines}
    first = f"first {min(FIRST_APPENDS, run.appends)}"
    rows = [
        [f"{first}: s", *(spread(appends[e][:FIRST_APPENDS], 2) for e in engines)],
        [f"{first}: CPU s", *(spread(cpu[e][:FIRST_APPENDS], 2) for e in engines)],
        [f"last {SPAN}: s", *(spread(appends[e][-SPAN:], 2) for e in engines)],
        [f"growth, last {SPAN} to {SPAN + 1}..{2 * SPAN}", *(growth(appends[e]) for e in engines)],
        ["growth of CPU seconds", *(growth(cpu[e]) for e in engines)],
        [f"planning, last {SPAN}: ms", *(spread(plans[e][-SPAN:], 0) for e in engines)],
        ["planning growth", *(growth(plans[e]) for e in engines)],
        ["planning in a fresh process: ms", *(f"{cold[e][0].seconds * 1000:.0f}" for e in engines)],
        ["append in a fresh process: s", *(f"{cold[e][1].seconds:.2f}" for e in engines)],
    ]
    text = (
        f"Each of {run.append_rows} rows into 10 partitions; planning (from path to Spark "
        "partitions) is measured after each. A fresh process was warmed on another table."
    )
    return text + "\n\n" + table(["", *labels(run)], rows)
