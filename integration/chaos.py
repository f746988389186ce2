"""Trouble for a Spark application: tasks that fail, workers that stop or die, executors killed.

Part of it is in the input, where each attempt of a task draws its lot by a seed; the rest comes
from outside at random times, while a ``Killer`` is armed, and strikes the workers that write too.
Only descendants of the cluster's own processes are ever touched.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
#: what a killer does -> how often
STRIKES = {"an executor": 12, "the marker server": 8, "a worker": 40, "a worker's breath": 40}
PAUSE_S = 1.0
EXECUTOR, DAEMON = "CoarseGrainedExecutorBackend", "pyspark.daemon"


@dataclass(frozen=True, slots=True)
class Odds:
    """Of each attempt's lot; a second attempt fails as often, but does not do the rest."""

    fails: float = 0.08
    loses_worker: float = 0.03
    loses_executor: float = 0.01
    is_slow: float = 0.06
    slow_s: float = 2.0


def troubled(seed: str, odds: Odds) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` that hands its rows on, unless its lot is another."""
    given = asdict(odds)

    def run(batches: Batches) -> Batches:
        import os
        import random
        import signal
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0
        lots = random.Random(f"{seed}/{context.partitionId()}/{context.taskAttemptId()}")
        lot, at_end = lots.random(), lots.random() < 0.5

        def strike() -> None:
            left = lot
            for what in ("fails", "loses_worker", "loses_executor", "is_slow"):
                left -= given[what]
                if left < 0:
                    break
            else:
                return
            if what == "fails":
                raise RuntimeError("this attempt was to fail")
            if what == "is_slow":
                time.sleep(given["slow_s"] if first else 0)
            elif what == "loses_worker" and first:
                os.kill(os.getpid(), signal.SIGKILL)
            elif what == "loses_executor" and first:
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)

        if not at_end:
            strike()
        yield from batches
        if at_end:
            strike()

    return run


class Killer:
    """Strikes processes of the application at random times while armed (a ``with`` block)."""

    def __init__(self, pids: Collection[int], seed: str, crash_server: Callable[[], bool]) -> None:
        """Executors are looked for below ``pids``. ``crash_server`` breaks the marker server's
        loop; it tells whether there was one."""
        self.struck: Counter[str] = Counter()
        self._pids, self._lots, self._crash_server = pids, random.Random(seed), crash_server
        self._armed, self._ended = threading.Event(), threading.Event()
        self._turn = threading.Lock()
        self._left: list[str] = []
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)
        self._thread.start()

    def __enter__(self) -> None:
        # As many as a slow machine gets over: an executor takes its time to come back.
        self._left = self._lots.choices([*STRIKES], [*STRIKES.values()], k=self._lots.randrange(4))
        self._armed.set()

    def __exit__(self, *_: object) -> None:
        self._armed.clear()
        with self._turn:
            """What it is doing is done: a stopped worker goes on."""

    def end(self) -> None:
        """Stop for good."""
        self._ended.set()
        self._armed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._lots.expovariate(1 / PAUSE_S)):
            self._armed.wait()
            with self._turn:
                if self._armed.is_set() and not self._ended.is_set() and self._left:
                    self._strike(self._left.pop())

    def _strike(self, what: str) -> None:
        children = tree(self._pids)
        daemons = {pid for pid, (_, line) in children.items() if DAEMON in line}
        workers = [pid for pid in daemons if children[pid][0] in daemons]
        if what == "an executor":
            self._kill(what, [pid for pid, (_, line) in children.items() if EXECUTOR in line])
        elif what == "the marker server":
            self.struck[what] += self._crash_server()
        elif what == "a worker":
            self._kill(what, workers)
        elif workers:
            self._pause(what, self._lots.choice(sorted(workers)))

    def _kill(self, what: str, pids: list[int]) -> None:
        if pids:
            self.struck[what] += signalled(self._lots.choice(sorted(pids)), signal.SIGKILL)

    def _pause(self, what: str, pid: int) -> None:
        """A worker on a machine that stalls: its attempt is overtaken, and then it goes on."""
        self.struck[what] += signalled(pid, signal.SIGSTOP)
        self._ended.wait(self._lots.choice([0.3, 1.0, 2.5]))
        signalled(pid, signal.SIGCONT)


def signalled(pid: int, what: signal.Signals) -> bool:
    """Send a signal; whether the process was there."""
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return False
    return True


def tree(roots: Collection[int]) -> dict[int, tuple[int, str]]:
    """Descendants of some processes: pid -> parent and command line."""
    found: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                line = (
                    (folder / "cmdline")
                    .read_bytes()
                    .replace(b"\0", b" ")
                    .decode("utf-8", "replace")
                )
            except OSError:
                continue
            found[int(folder.name)] = int(stat[1]), line
    below = set(roots)
    while more := {pid for pid, (parent, _) in found.items() if parent in below} - below:
        below |= more
    return {pid: found[pid] for pid in below if pid in found and pid not in roots}


def figures(event_log: Path) -> dict[str, int]:
    """What an application went through, by its event log."""
    told: Counter[str] = Counter()
    stages: set[tuple[int, int]] = set()
    for line in event_log.read_text().splitlines():
        event: dict[str, Any] = json.loads(line)
        kind = event["Event"]
        if kind == "SparkListenerTaskEnd":
            reason = event["Task End Reason"]["Reason"]
            told["task attempts"] += 1
            told["speculative attempts"] += event["Task Info"]["Speculative"]
            told["attempts killed"] += reason == "TaskKilled"
            told["fetch failures"] += reason == "FetchFailed"
            told["attempts failed"] += reason in ("ExceptionFailure", "ExecutorLostFailure")
        elif kind == "SparkListenerExecutorRemoved":
            told["executors lost"] += 1
        elif kind == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            stages.add((info["Stage ID"], info["Stage Attempt ID"]))
    told["stages run again"] = sum(attempt > 0 for _, attempt in stages)
    return dict(told)
