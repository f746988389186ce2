"""Streams from one table of pyhudi's into another, and streams that the plain writer writes.

Each life is a driver of Spark. The source's table is written meanwhile, by a process without
Spark: it is compacted if it is merge-on-read, and as soon as the first state has been read, cleaned
and archived so that only the newest commits stay. A limit of rows splits its commits. What must be
true in the end is true of both tables: in each, every row of the files is there once.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from integration.stream_kills import IN_A_TASK, Trouble
from integration.stream_lives import Lives, on_disk, settled
from integration.stream_seeds import (
    INJECTED,
    MANY,
    OPERATIONS,
    VERSIONS,
    Played,
    Pool,
    all_played,
    drawn,
    ends,
    has_logs,
    stream_of,
)
from integration.stream_source import Source, differences, options_of
from integration.stream_writer import WriterSpec, make_table

#: tables at once: a driver has a JVM, and waits for leases some of the time
AT_ONCE = 4
#: lives that are troubled, before those that are not
TROUBLED = 4
#: rows of the source that one batch takes, where a file of a commit has four or eight
LIMITS = ("5", "9", "17")
#: a clean and an archive after each commit leave hardly more than the newest state
SERVED = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@dataclass
class Growing:
    """A table that a process without Spark writes, a commit at a time."""

    spec: WriterSpec
    pool: Pool
    commits: int = 0
    errors: list[str] = field(default_factory=list)

    @staticmethod
    def begin(source: Source, folder: Path, options: dict[str, str], pool: Pool) -> Growing:
        """The empty table."""
        table = folder / "source"
        make_table(str(table), options)
        return Growing(replace(stream_of(folder, source, table, options), spares_ms=0), pool)

    def grow(self, served: bool, commits: int = 1) -> None:
        """More commits, if there are any left, each with its services."""
        self.commits = min(self.commits + commits, self.spec.source.files)
        source = replace(self.spec.source, files=self.commits)
        options = self.spec.options | (SERVED if served else {})
        end = ends(self.pool.live(replace(self.spec, source=source, options=options)), "")
        if end != "done":
            self.errors.append(f"the source was not written: {Path(self.spec.log).read_text()}")

    def problems(self) -> list[str]:
        """What is wrong with it when all streams have ended."""
        root, wanted = Path(self.spec.root), self.spec.source.wanted()
        found = self.errors + differences("the source's files", on_disk(root), wanted)
        # A put that was cut in half leaves a hidden file, which no listing shows.
        leases = (root / ".hoodie" / ".leases").glob("[!.]*")
        left = [*settled(root, self.spec.options), *leases]
        return found + [f"in the source: {each}" for each in left]


def is_served(checkpoint: Path) -> bool:
    """Whether the stream has read the first state of its source: a clean may take it then."""
    done = [int(f.name) for f in (checkpoint / "commits").glob("*") if f.name.isdecimal()]
    if not done:
        return False
    place = json.loads((checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1])
    return "begin" not in place and (place["snapshot"] is None or place["files"] is None)


def splits(checkpoint: Path) -> int:
    """How many batches ended amid a commit, not counting the first state."""
    texts = [f.read_text() for f in (checkpoint / "offsets").glob("*") if f.name.isdecimal()]
    places = [json.loads(text.splitlines()[-1]) for text in texts]
    return sum("begin" not in p and p["files"] is not None and not p["snapshot"] for p in places)


def lives(stream: Lives, growing: Growing | None, lots: random.Random) -> None:
    """Troubled lives beside the commits of the source, and one that ends with all of it."""
    for _ in range(TROUBLED):
        troubles = drawn(lots)[0]
        if lots.random() < 0.25:
            troubles = (Trouble("CRASH_BEFORE", IN_A_TASK),)
        staged = troubles[:1] == (Trouble("CRASH_BEFORE", IN_A_TASK),) or lots.random() < 0.3
        rest_s, beside = lots.uniform(4, 14), lots.random() < 0.7
        if growing is None:
            stream.live(*troubles, staged=staged)
            continue
        if not beside:
            growing.grow(is_served(Path(stream.spec.checkpoint)))
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            grown = pool.submit(grow_beside, stream, growing, ended, rest_s)
            try:
                stream.live(*troubles, staged=staged)
            finally:
                ended.set()
            grown.result()
    if growing is not None:
        left = growing.spec.source.files - growing.commits
        growing.grow(is_served(Path(stream.spec.checkpoint)), left)
    stream.finish()


def grow_beside(stream: Lives, growing: Growing, ended: threading.Event, rest_s: float) -> None:
    """A commit of the source while a driver lives, or when it has just died."""
    ended.wait(rest_s)
    growing.grow(is_served(Path(stream.spec.checkpoint)))


def play_table(seed: str, folder: Path, pool: Pool, batches: bool) -> Played:
    """The stream of one seed; ``batches``: into the plain writer, from files or from a table."""
    lots = random.Random(f"{seed}/{'batches' if batches else 'tables'}")
    version, operation = lots.choice(VERSIONS), lots.choice(OPERATIONS)
    logs, parts = has_logs(seed), lots.choice((1, 2)) if batches else 0
    options, table = options_of(operation, version, logs), folder / "table"
    if lots.random() < 0.3:
        options |= MANY
    source = Source("a", operation, 7)
    wanted = source.wanted()
    growing = None
    if not batches or lots.random() < 0.5:
        theirs = options_of(operation, lots.choice(VERSIONS), lots.random() < 0.5)
        growing = Growing.begin(source, folder, theirs, pool)
        growing.grow(False, 2)
        own = folder / "stream"
        own.mkdir()
        limit = {"maxRowsPerTrigger": lots.choice(LIMITS)}
        stream = Lives.of_table(own, growing.spec.root, table, options, limit, parts)
    else:
        stream = Lives.begin(source, folder, table, options, parts=parts)
    played = Played(seed, version, operation, table, options, wanted, logs)
    lives(stream, growing, lots)
    played.ended, played.deaths = stream.ended, stream.deaths
    for text in stream.errors:
        played.errors.append(text.strip().splitlines()[-1][:300])
        if INJECTED not in text:
            played.problems.append(f"a stream ended by what nobody caused: {text[-1500:]}")
    if growing is not None:
        played.problems += growing.problems()
    return played


def play_tables(
    seeds: Sequence[str], folder: Path, judge: Callable[[Played], list[str]], batches: bool
) -> list[Played]:
    """All seeds, some at once; a folder with problems stays."""
    return all_played(seeds, folder, judge, partial(play_table, batches=batches), at_once=AT_ONCE)
