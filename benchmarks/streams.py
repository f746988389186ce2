"""``python -m benchmarks.streams``: streaming sinks beside each other, on the same epochs.

Each engine makes the same table, then takes the same files, one to an epoch: appends, upserts of
which a tenth has recent keys, and upserts of which a tenth has keys from all over the table. The
engines take turns of ``--turn`` epochs. The first turn of each workload warms up and does not
count. In the end each table must have exactly the rows that follow from the input, or the run
fails. See ``benchmarks.events`` for the rows and ``benchmarks.stream_report`` for the figures.

The findings go to ``benchmarks/results/streams/`` and from there to the page.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engine_process import EngineProcess
from benchmarks.engines.streams import APPEND, STREAMS, UPSERT
from benchmarks.events import WORKLOADS, Stream
from benchmarks.memory import PeakMemory
from benchmarks.report import write_page
from benchmarks.run import agree, rotated
from benchmarks.stream_report import Findings, Turn, line

DEFAULT = ["pyhudi-sink", "pyhudi-log-sink", "hudi-sink", "hudi-log-sink", "delta-sink",
           "iceberg-sink", "iceberg-deletes"]  # fmt: skip
NAMES = {"append": WORKLOADS[0], "recent": WORKLOADS[1], "spread": WORKLOADS[2]}
#: Spark keeps what it says of an epoch for so many of them
MORE = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
REPO = Path(__file__).resolve().parents[1]


class Feed:
    """The epochs of a workload, handed to one engine after the other by links to the files."""

    def __init__(self, stream: Stream, work: Path, epochs: int) -> None:
        self.stream = stream
        self.table = stream.workload.replace(",", "").replace(" ", "_")
        self.epochs = epochs
        self.folder = work / self.table
        self._files = stream.write_epochs(self.folder / "epochs", epochs)

    def bulk(self) -> str:
        """The rows of the table before the first epoch."""
        return str(self.stream.write_bulk(self.folder / "bulk"))

    def expected(self) -> str:
        """The rows of the table after the last epoch."""
        return str(self.stream.write_expected(self.folder / "expected", self.epochs))

    def turn(self, engine: EngineProcess, first: int, last: int) -> Turn:
        """The engine takes epochs ``first`` to before ``last``."""
        source = self.folder / "sources" / engine.name
        source.mkdir(parents=True, exist_ok=True)
        for file in self._files[first:last]:
            os.link(file, source / file.name)
        with PeakMemory(engine.pid) as memory:
            measured, told = engine.measure(
                self.stream.workload, first, "stream", table=self.table, source=str(source),
                checkpoint=str(self.folder / "checkpoints" / engine.name),
                kind=APPEND if self.stream.workload == WORKLOADS[0] else UPSERT,
            )  # fmt: skip
        parts = "triggerExecution", "addBatch", "visible"
        epochs, sinks, visible = ([one[part] for one in told] for part in parts)
        if len(epochs) != last - first:
            raise SystemExit(f"{engine.name} took {len(epochs)} epochs instead of {last - first}")
        return Turn(
            self.stream.workload, engine.name, measured.seconds, measured.cpu, memory.bytes,
            epochs, sinks, visible,
        )  # fmt: skip

    def drop(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.folder)


def run_workload(feed: Feed, engines: Sequence[EngineProcess], found: Findings, turn: int) -> None:
    """All epochs in turns on a fresh table of each engine, whose rows are compared in the end."""
    workload, bulk = feed.stream.workload, feed.bulk()
    for engine in engines:
        engine.ask("create", table=feed.table, source=bulk)
        if found.warm_up:
            feed.turn(engine, 0, found.warm_up)
    before = {engine.name: engine.ask("heap") for engine in engines}
    for number, first in enumerate(range(found.warm_up, feed.epochs, turn)):
        for engine in rotated(engines, number):
            found.turns.append(feed.turn(engine, first, min(first + turn, feed.epochs)))
            tell(found.turns[-1])
    found.heaps[workload] = {e.name: [before[e.name], e.ask("heap")] for e in engines}
    facts = {engine.name: engine.ask("stream_facts", table=feed.table) for engine in engines}
    agree(workload, {"expected": engines[0].ask("source_facts", source=feed.expected()), **facts})
    for engine in engines:
        engine.ask("drop", table=feed.table)
        print(" | ".join(line(found, workload, engine.name)), flush=True)


def tell(turn: Turn) -> None:
    wall, cpu = (value / len(turn.epochs) for value in (turn.seconds, turn.cpu))
    print(
        f"{turn.workload:<20} {turn.engine:<16} {wall:8.2f} s {cpu:8.2f} CPU s "
        f" {max(turn.epochs):7d} ms at most {turn.peak / 1e6:7.0f} MB",
        flush=True,
    )


def run(given: argparse.Namespace, work: Path) -> None:
    """All workloads with one process of each engine; published after each of them."""
    found = Findings(given.rows, given.days, given.size, given.warm_up, given.note)
    engines: list[EngineProcess] = []
    try:
        for name in given.engines:
            engines.append(EngineProcess(name, work / name, given.memory, more=MORE))
        for name in given.workloads:
            stream = Stream(NAMES[name], given.rows, given.days, given.size)
            feed = Feed(stream, work / "input", given.warm_up + given.epochs)
            run_workload(feed, engines, found, given.turn)
            feed.drop()
            found.save(given.name, given.results / "streams")
            write_page(given.results, given.page)
    finally:
        for engine in engines:
            engine.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="in the table before")
    parser.add_argument("--days", type=int, default=10, help="of these rows, the partitions")
    parser.add_argument("--size", type=int, default=10_000, help="rows of an epoch")
    parser.add_argument("--epochs", type=int, default=30, help="that count")
    parser.add_argument("--warm-up", type=int, default=20, help="epochs before them")
    parser.add_argument("--turn", type=int, default=10, help="epochs of an engine in a row")
    parser.add_argument("--workloads", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--engines", nargs="+", choices=list(STREAMS), default=DEFAULT)
    parser.add_argument(
        "--batches", action="store_true", help="pyhudi by foreachBatch, not by sink"
    )
    parser.add_argument("--memory", default="2g", help="heap of each engine's JVM")
    parser.add_argument("--work", type=Path, help="folder for the data; default: a temporary one")
    parser.add_argument("--note", default="", help="what a reader must know of the machine")
    parser.add_argument("--name", default="sinks", help="of the findings; each is on the page")
    parser.add_argument("--results", type=Path, default=REPO / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=REPO / "docs" / "benchmarks.md")
    given = parser.parse_args(arguments)
    if given.batches:
        given.engines = ["pyhudi-batches" if e == "pyhudi-sink" else e for e in given.engines]
    with tempfile.TemporaryDirectory(prefix="streams-", dir=given.work) as scratch:
        run(given, Path(scratch))
    print(f"written: {given.page}")


if __name__ == "__main__":
    main()
