"""Streams whose troubles a seed draws: where drivers die, which replies are lost, how rows come.

A seed is one table. What must be true after it is in ``stream_lives``.
"""

from __future__ import annotations

import queue
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from integration.stream_driver import FAILED
from integration.stream_kills import ANSWERED, Trouble, step_of
from integration.stream_source import NAME, Row, Source, options_of
from integration.stream_writer import Forks, WriterSpec, make_table

VERSIONS = (6, 8, 9)
OPERATIONS = ("insert", "upsert")
MANY = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.wait_time_ms": "180000",
}
#: processes; they mostly wait for leases
AT_ONCE = 24
#: what every error of a life must go back to
INJECTED = "A fault was injected"
#: lives that are troubled, before those that are not
TROUBLED = 5
#: and as many that may follow, where others stand in the way
AGAIN = 10
#: the storage calls of an epoch that change something, and of the settling before it
CALLS = 40


@dataclass
class Played:
    """What became of one table."""

    seed: str
    version: int
    operation: str
    table: Path
    options: dict[str, str]
    wanted: Counter[Row]
    logs: bool = False
    ended: Counter[str] = field(default_factory=Counter)
    deaths: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def has_logs(seed: str) -> bool:
    """Whether the table of a seed is merge-on-read: about every second is."""
    return random.Random(f"{seed}/table type").random() < 0.5


def drawn(lots: random.Random) -> tuple[tuple[Trouble, ...], float | None]:
    """The troubles of one life, and after how many seconds it is killed if nothing else does it."""
    found = []
    kind = lots.random()
    if kind < 0.5:
        effect = lots.choice(["CRASH_BEFORE", "CRASH_AFTER"])
        found.append(Trouble(effect, at=lots.randint(1, CALLS)))
    elif kind < 0.6:
        puts = "put_if_absent replace swap"
        found.append(Trouble("CRASH_HALFWAY", at=lots.randint(1, CALLS // 2), methods=puts))
    elif kind < 0.75:
        effect = lots.choice(["CRASH_BEFORE", "CRASH_AFTER"])
        found.append(Trouble(effect, "*commit", lots.randint(1, 2), methods="put_if_absent"))
    elif kind < 0.9:
        found.append(Trouble("CRASH_AFTER", ANSWERED, lots.randint(1, 3)))
    if lots.random() < 0.5:
        effect = lots.choice(["LOSE_REPLY", "LOSE_REQUEST", "FAIL_BEFORE"])
        path = lots.choice(["*", "*commit", "*commit"])
        found.append(Trouble(effect, path, lots.randint(1, 3), methods="put_if_absent replace"))
    return tuple(found), None if kind < 0.9 else lots.uniform(0.02, 1.5)


def ends(code: int, log: str) -> str:
    """How a life ended."""
    names = {0: "done", -signal.SIGKILL: "killed", FAILED: "failed"}
    if code not in names:
        raise AssertionError(f"a driver ended with {code}:\n{Path(log).read_text()[-3000:]}")
    return names[code]


class Pool:
    """Some processes that fork lives, each of which any thread may ask for (a ``with`` block)."""

    def __init__(self, size: int, log: Path) -> None:
        self._all = [Forks(log) for _ in range(size)]
        self._free: queue.SimpleQueue[Forks] = queue.SimpleQueue()
        for each in self._all:
            self._free.put(each)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._all:
            each.close()

    def live(self, spec: WriterSpec, kill_after_s: float | None = None) -> int:
        """One life; its exit code."""
        forks = self._free.get()
        try:
            return forks.live(spec, kill_after_s)
        finally:
            self._free.put(forks)


def lives(spec: WriterSpec, seed: str, pool: Pool, played: Played) -> None:
    """Troubled lives, and then as many as the rest of the stream needs."""
    lots = random.Random(f"{seed}/{spec.source.prefix}/troubles")
    for number in range(TROUBLED + AGAIN):
        troubles, kill_after_s = drawn(lots) if number < TROUBLED else ((), None)
        end = ends(pool.live(replace(spec, troubles=troubles), kill_after_s), spec.log)
        played.ended[end] += 1
        if end == "failed":
            text = Path(spec.log).read_text().strip().rpartition("Traceback")[2]
            played.errors.append(text.splitlines()[-1][:300])
            if INJECTED not in text:
                played.problems.append(f"a stream ended by what nobody caused: {text[-600:]}")
        if end == "done":
            return
    played.problems.append(f"the stream {spec.source.prefix} does not get through: {played.errors}")


def stream_of(folder: Path, source: Source, table: Path, options: dict[str, str]) -> WriterSpec:
    """A stream with a folder of its own."""
    own = folder / f"stream{source.prefix}"
    own.mkdir()
    places = (str(own / "checkpoint"), str(own / "deaths"), str(own / "log"))
    return WriterSpec(str(table), source, *places, options)


def play(
    seed: str,
    folder: Path,
    pool: Pool,
    streams: int = 1,
    more: dict[str, str] | None = None,
    beside: Callable[[Played], AbstractContextManager[object]] = nullcontext,
) -> Played:
    """The streams of one table, side by side, until all is in; ``judge`` looks at it then.

    ``more`` are options, and what ``beside`` gives runs meanwhile.
    """
    lots = random.Random(f"{seed}/streams")
    version, operation = lots.choice(VERSIONS), lots.choice(OPERATIONS)
    table, logs = folder / "table", has_logs(seed)
    options = {**options_of(operation, version, logs), **(more or {})}
    if streams > 1 or lots.random() < 0.3:
        options |= MANY
    sources = [Source("ab"[n], operation, lots.randint(3, 6)) for n in range(streams)]
    wanted = sum((source.wanted() for source in sources), Counter[Row]())
    played = Played(seed, version, operation, table, options, wanted, logs)
    make_table(str(table), options)
    specs = [
        stream_of(folder, source, table, {**options, NAME: f"stream-{source.prefix}"})
        for source in sources
    ]
    with beside(played), ThreadPoolExecutor(streams) as threads:
        for _ in threads.map(lambda spec: lives(spec, seed, pool, played), specs):
            """An error of a life is raised here."""
    for spec in specs:
        if Path(spec.deaths).exists():
            played.deaths.update(map(step_of, Path(spec.deaths).read_text().splitlines()))
    return played


def play_many(
    seeds: Sequence[str], folder: Path, judge: Callable[[Played], list[str]], streams: int = 1
) -> list[Played]:
    """All seeds, some at once, since they mostly wait for leases; a folder with problems stays."""
    return all_played(seeds, folder, judge, partial(play, streams=streams), streams)


def all_played(
    seeds: Sequence[str],
    folder: Path,
    judge: Callable[[Played], list[str]],
    play_one: Callable[[str, Path, Pool], Played],
    streams: int = 1,
    at_once: int = AT_ONCE,
) -> list[Played]:
    """The same by ``play_one``, which runs ``streams`` drivers; ``at_once`` of them at most."""

    def one(seed: str) -> Played:
        own = folder / seed
        own.mkdir()
        try:
            played = play_one(seed, own, pool)
            played.problems += judge(played)
        except Exception as error:
            played = Played(seed, 0, "", own / "table", {}, Counter())
            played.problems.append(repr(error)[:3000])
        if not played.problems:
            shutil.rmtree(own)
        return played

    size = min(at_once, len(seeds) * streams)
    with Pool(size, folder / "log") as pool, ThreadPoolExecutor(size // streams) as threads:
        return list(threads.map(one, seeds))
