"""The processes of a storm, and what befalls them: SIGKILL, or a stop for longer than a lease."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from integration.peers.spark import child_environment
from integration.storm_check import Told
from integration.storm_places import LAPSE_S
from integration.storm_writer import Spec


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a storm is; ``pauses_holding`` of the paused ones hold the table lock.

    With ``new_keys`` writers also race for keys that the table does not have; Spark's always do.
    A merge-on-read table has a compaction beside its writers, and after some of their commits. With
    ``merges_logs`` it has log compactions, too. One waits for each write that began before it, so
    these writers rest now and then.
    """

    writers: int = 16
    upserts: int = 20
    kills: int = 6
    kills_holding: int = 3
    pauses: int = 4
    pauses_holding: int = 1
    spark: bool = False
    pessimistic: bool = False
    new_keys: bool = False
    merge_on_read: bool = False
    merges_logs: bool = False
    #: without coordination, which needs Spark
    non_blocking: bool = False
    version: int = 9

    def __str__(self) -> str:
        kinds = ("Spark",) * self.spark + ("pessimistic",) * self.pessimistic
        kinds += ("new keys",) * self.new_keys
        if self.merge_on_read:
            kinds += (f"merge-on-read, version {self.version}",)
        kinds += ("log compactions",) * self.merges_logs
        kinds += ("without coordination",) * self.non_blocking
        return ", ".join((f"{self.writers} x {self.upserts}", *kinds))


SAMPLE = Scale(writers=4, upserts=5, kills=1, kills_holding=0, pauses=1, pauses_holding=0)
SPARK = Scale(3, 5, 1, 0, 1, 0, spark=True)
PESSIMISTIC = Scale(pessimistic=True)
NEW_KEYS = Scale(8, 20, 3, 1, 2, 1, new_keys=True)
LOGS = Scale(8, 20, 3, 1, 2, 1, merge_on_read=True)
NON_BLOCKING = Scale(3, 8, 1, 0, 1, 0, spark=True, merge_on_read=True, non_blocking=True)
LOGS_SAMPLE = replace(SAMPLE, merge_on_read=True)
MERGED = Scale(6, 12, 2, 1, 2, 1, merge_on_read=True, merges_logs=True)
MERGED_SAMPLE = replace(LOGS_SAMPLE, merges_logs=True)


@dataclass(frozen=True, slots=True)
class Strike:
    """What befalls a writer ``delay_s`` after the ``event`` of its upsert ``number`` or a later."""

    writer: int
    number: int
    event: str
    delay_s: float
    #: how long the process stands still; None where it is killed
    pause_s: float | None


def strikes(scale: Scale, seed: str, lease_s: float, lapse_s: float = LAPSE_S) -> list[Strike]:
    """Whom it will befall and when, by the seed.

    A pause outlasts the heartbeat's lapse, or the lock's lease where the lock is held.
    """
    lots = random.Random(f"{seed}/strikes")
    victims = lots.sample(range(scale.writers), scale.kills + scale.pauses)
    found = []
    for turn, writer in enumerate(victims):
        killed = turn < scale.kills
        holding = (
            turn < scale.kills_holding if killed else turn >= len(victims) - scale.pauses_holding
        )
        pause_s = (lease_s if holding else lapse_s) + 2
        found.append(
            Strike(
                writer,
                lots.randrange(1, scale.upserts - 1),
                "locked" if holding else "begin",
                lots.random() * (0.1 if holding else 0.03 * scale.writers),
                None if killed else pause_s,
            )
        )
    return found


class Restarted(Protocol):
    """What a process of a storm is to do; it is a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def first(self) -> int:
        """The number of its first event: one more than the last of the process before it."""


S = TypeVar("S", bound=Restarted)


class Victim(Generic[S]):
    """One job's processes, one after the other: a killed one is started again.

    Each runs ``module`` with its spec, and tells events as lines of JSON, which ``hear`` gets. A
    ``with`` block begins when the first is ready and ends when the last has, by force if need be.
    """

    def __init__(
        self,
        module: str,
        name: str,
        spec: S,
        folder: Path,
        hear: Callable[[Mapping[str, Any]], None],
        strikes: list[Strike],
    ):
        self.name, self.dead = name, False
        self.struck: Counter[str] = Counter()
        self._module, self._spec, self._hear, self._strikes = module, spec, hear, strikes
        self._log = folder / f"{name}.log"
        self._guard, self._ended = threading.Lock(), False
        self._process = self._start(spec)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen, name=name)
        self._thread.start()

    def __enter__(self) -> Self:
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.join(time.monotonic())

    def go(self) -> None:
        """Begin."""
        self._say(self._process)

    def join(self, until: float) -> bool:
        """Wait for the end, at the longest until this monotonic time; whether it came."""
        self._thread.join(max(0.0, until - time.monotonic()))
        late = self._thread.is_alive()
        if late:
            with self._guard:
                self._ended = True
                self._process.kill()
            self._thread.join()
        return not late

    @property
    def spared(self) -> bool:
        """Whether nothing is to befall it any more."""
        return not self._strikes

    def _start(self, spec: S) -> subprocess.Popen[str]:
        fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
        with self._log.open("ab") as noise:
            return subprocess.Popen(
                [sys.executable, "-m", self._module, json.dumps(fields)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=noise,
                text=True,
                env=child_environment(sys.executable),
            )

    def _say(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
        except BrokenPipeError:
            """It has ended already, which its exit tells."""

    def _listen(self) -> None:
        spec, first = self._spec, True
        while True:
            process, last = self._process, spec.first - 1
            assert process.stdout is not None
            for line in process.stdout:
                event: dict[str, Any] = json.loads(line)
                with self._log.with_suffix(".events").open("a") as kept:
                    kept.write(f"{time.time():.3f} {line}")
                self._hear(event)
                last = max(last, int(event["number"]))
                if event["event"] == "ready":
                    self._ready.set()
                    if not first:
                        self._say(process)
                self._strike(process, event)
            first = False
            code = process.wait()
            self._ready.set()
            if code != -signal.SIGKILL or self._ended:
                self.dead = code != 0
                return
            spec = replace(spec, first=last + 1)
            with self._guard:
                if self._ended:
                    return
                self._process = self._start(spec)

    def _strike(self, process: subprocess.Popen[str], event: dict[str, Any]) -> None:
        for strike in self._strikes:
            if strike.event != event["event"] or strike.number > event["number"]:
                continue
            self._strikes.remove(strike)
            time.sleep(strike.delay_s)
            holding = " with the lock" if strike.event == "locked" else ""
            if strike.pause_s is None:
                self.struck[f"killed{holding}"] += 1
                process.kill()
                return
            self.struck[f"paused{holding}"] += 1
            process.send_signal(signal.SIGSTOP)
            time.sleep(strike.pause_s)
            process.send_signal(signal.SIGCONT)
            return


class Writer(Victim[Spec]):
    """One writer's processes; ``told`` hears their events."""

    def __init__(self, spec: Spec, folder: Path, told: Told, strikes: list[Strike]):
        module, name = "integration.storm_writer", f"writer{spec.writer}"
        super().__init__(module, name, spec, folder, partial(told.hear, spec.writer), strikes)
