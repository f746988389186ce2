"""Streams whose drivers die where a seed says; ``docs/crashes.md`` gets what was found.

``python -m integration.stream_crashes [KIND ...] [--seeds N]`` plays tables of each kind: ``alone``
and ``two`` (streams on one table) without Spark, ``spark`` with drivers of Spark on a cluster whose
tasks fail, run twice and lose their workers, ``beside`` Apache Hudi's writer and services,
``tables`` from a table of pyhudi's that is written and served meanwhile, and ``batches`` into the
plain writer.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from integration.chaos import Killer
from integration.cluster import standalone
from integration.peers import HudiRs, SparkPeer, apache_hudi
from integration.peers.spark import child_environment
from integration.stream_beside import play_beside
from integration.stream_kills import IN_A_TASK, Trouble
from integration.stream_lives import Lives, problems_of
from integration.stream_seeds import (
    OPERATIONS,
    VERSIONS,
    Played,
    drawn,
    has_logs,
    play_many,
)
from integration.stream_source import Source, differences, options_of, rows_of
from integration.stream_tables import play_tables
from tests.servers.process import BRIEF_JVM, BRIEF_SPARK

PAGE = Path(__file__).parents[1] / "docs" / "crashes.md"
BEGIN, END = "<!-- streams: begin -->", "<!-- streams: end -->"
HEAD = (
    "streams", "seeds", "merge-on-read", "drivers killed", "where", "ended by an error", "rows",
    "seconds", "problems",
)  # fmt: skip
KINDS = {
    "alone": "one, without Spark",
    "two": "two on one table, without Spark",
    "spark": "one, Spark on a cluster under chaos",
    "beside": "two beside Apache Hudi",
    "tables": "one, Spark, from a table of pyhudi",
    "batches": "one, Spark, `foreachBatch` with `df.write`",
}
SEEDS = {"alone": 200, "two": 200, "spark": 4, "beside": 8, "tables": 10, "batches": 10}
#: of a cluster whose tasks are overtaken, and that does not wait for what is gone
CHAOS = {
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": " ".join(BRIEF_JVM),
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.driver.host": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": child_environment(sys.executable)["PYTHONPATH"],
}
Judge = Callable[[Played], list[str]]


class Readers:
    """hudi-rs and Apache Hudi, which any thread may ask (a ``with`` block)."""

    def __init__(self) -> None:
        self._hudi: SparkPeer = apache_hudi("1.2.0")
        self._guard = threading.Lock()

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._hudi.close()

    def judge(self, played: Played) -> list[str]:
        """What is wrong with a table, by all readers."""
        found = problems_of(played.table, played.wanted, [HudiRs()], played.options)
        with self._guard:
            rows = rows_of(self._hudi.read(played.table).rows)
        return found + differences("Apache Hudi", rows, played.wanted)


def with_spark(seed: str, folder: Path) -> Played:
    """A stream of Spark drivers on a cluster: workers and executors die, drivers too."""
    lots = random.Random(f"{seed}/spark")
    version, operation = lots.choice(VERSIONS), lots.choice(OPERATIONS)
    logs = has_logs(seed)
    source, options = Source("a", operation, 5, rows=60), options_of(operation, version, logs)
    table, places = folder / "table", folder / "cluster"
    places.mkdir()
    played = Played(seed, version, operation, table, options, source.wanted(), logs)
    with standalone(places) as cluster:
        stream = Lives.begin(
            source, folder, table, options, master=cluster.master, conf=CHAOS, staged=True,
            dying_s=5.0,
        )  # fmt: skip
        killer = Killer(cluster.pids, f"{seed}/killer", lambda: False)
        try:
            for number in range(8):
                troubles, _ = drawn(lots) if number < 3 else ((), None)
                if number < 3 and lots.random() < 0.3:
                    troubles = (Trouble("CRASH_BEFORE", IN_A_TASK),)
                with killer:
                    if stream.live(*troubles, troubled=f"{seed}/{number}") == "done":
                        break
            else:
                stream.finish()
        finally:
            killer.end()
    played.ended, played.errors, played.deaths = stream.ended, stream.errors, stream.deaths
    played.deaths.update(killer.struck)
    return played


def one_by_one(
    seeds: Sequence[str], folder: Path, judge: Judge, play: Callable[[str, Path], Played]
) -> list[Played]:
    """Each seed's table; its folder stays where something is wrong."""
    found = []
    for seed in seeds:
        own = folder / seed
        own.mkdir()
        played = play(seed, own)
        played.problems += judge(played)
        found.append(played)
        if not played.problems:
            shutil.rmtree(own)
    return found


def run(kind: str, seeds: Sequence[str], folder: Path, judge: Judge) -> list[Played]:
    """The tables of a kind."""
    match kind:
        case "alone":
            return play_many(seeds, folder, judge)
        case "two":
            return play_many(seeds, folder, judge, streams=2)
        case "spark":
            return one_by_one(seeds, folder, judge, with_spark)
        case "tables" | "batches":
            return play_tables(seeds, folder, judge, kind == "batches")
    return play_beside(seeds, folder, judge)


def summary(kind: str, played: Sequence[Played], seconds: float) -> tuple[str, ...]:
    """A line of the table."""
    ended = sum((each.ended for each in played), Counter[str]())
    deaths = sum((each.deaths for each in played), Counter[str]())
    problems = sum(len(each.problems) for each in played)
    return (
        KINDS[kind],
        str(len(played)),
        str(sum(each.logs for each in played)),
        str(ended["killed"]),
        ", ".join(f"{step} {count}" for step, count in deaths.most_common()),
        str(ended["failed"]),
        str(sum(each.wanted.total() for each in played)),
        f"{seconds:.0f}",
        str(problems or "none"),
    )


def publish(text: str, lines: Sequence[tuple[str, ...]]) -> str:
    """The page with these lines in its table, in place of those of the same kind."""
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    old = [tuple(row.strip("| ").split(" | ")) for row in table.strip().splitlines()[2:]]
    rows = {row[0]: row for row in (*old, *lines)}
    order = [rows[name] for name in KINDS.values() if name in rows]
    made = "\n".join("| " + " | ".join(row) + " |" for row in (HEAD, ("---",) * len(HEAD), *order))
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def main() -> int:
    """Play what is named, or all, and publish it; 1 where a problem was found."""
    parser = argparse.ArgumentParser("python -m integration.stream_crashes", description=__doc__)
    parser.add_argument("kind", nargs="*", help=f"all, or some of {', '.join(KINDS)}")
    parser.add_argument("--seeds", type=int, help="so many, not as many as are published")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    if unknown := set(given.kind) - KINDS.keys():
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    os.environ.update(BRIEF_SPARK)
    bad = False
    with Readers() as readers:
        for kind in given.kind or KINDS:
            folder = Path(tempfile.mkdtemp(prefix=f"streams-{kind}-"))
            last = given.first + (given.seeds or SEEDS[kind])
            begun = time.monotonic()
            seeds = [str(number) for number in range(given.first, last)]
            played = run(kind, seeds, folder, readers.judge)
            line = summary(kind, played, time.monotonic() - begun)
            print(dict(zip(HEAD, line, strict=True)), flush=True)
            bad |= tell(played, folder)
            if given.seeds in (None, SEEDS[kind]):
                PAGE.write_text(publish(PAGE.read_text(), [line]))
    return int(bad)


def tell(played: Sequence[Played], folder: Path) -> bool:
    """Print errors and problems; whether there are problems."""
    for each in played:
        kind = "merge-on-read" if each.logs else "copy-on-write"
        who = f"seed {each.seed}, {kind}, version {each.version}, {each.operation}"
        for text in each.errors:
            print(f"  {who}: {text[-300:]}", flush=True)
        for text in each.problems:
            print(f"  PROBLEM {who}: {text}", flush=True)
    bad = any(each.problems for each in played)
    if bad:
        print(f"the tables and logs are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return bad


if __name__ == "__main__":
    sys.exit(main())
