"""Many processes on one OS thread, one step at a time, in an order that a pilot decides.

A task is a greenlet that runs real code until its next call of storage, lock or clock: there it
says what it is about to do (``Op``) and gives way. The pilot names the task that goes on, and
what befalls it (``Fault``). Time stands still while anybody can run, unless the pilot lets it
tick; when all wait, it jumps to the next moment that somebody waits for. Nothing else is left to
chance, so the pilot's decisions are the whole schedule: the same decisions, the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from greenlet import getcurrent, greenlet

from pyhudi.storage.faults import SimulatedCrash

MOST_STEPS = 20_000


class Endless(Exception):
    """A run took more steps than any honest one: somebody waits for ever."""


class Kind(Enum):
    """What a step does, as far as the scheduler cares."""

    READ = "read"
    WRITE = "write"
    CLOCK = "clock"
    SLEEP = "sleep"
    BEGIN = "begin"


class FaultKind(Enum):
    """What can befall a step; all but PAUSE, CRASH and SLOW strike writes only."""

    CRASH = "crashes before"
    PAUSE = "stops before"
    LOSE_REQUEST = "gets no answer, the request is lost, to"
    LOSE_REPLY = "gets no answer, only the reply is lost, to"
    CUT_OFF = "is cut off, the request is lost, at"
    CUT_OFF_AFTER = "is cut off, only the reply is lost, at"
    LATE = "gets no answer, the request lands later, to"
    SLOW = "waits long for the answer, which comes, to"


@dataclass(frozen=True, slots=True)
class Fault:
    """One misfortune; ``seconds`` is how long a pause or an answer takes."""

    kind: FaultKind
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Op:
    """A step that a task is about to make; ``paths`` are what it touches."""

    kind: Kind
    what: str
    paths: tuple[str, ...] = ()


@dataclass(slots=True)
class Event:
    """A step that was made, for the history; ``result`` is filled in by who made it."""

    number: int
    who: str
    op: Op
    fault: Fault | None
    now: float
    result: object = None


@dataclass(eq=False, slots=True)
class Process:
    """What dies and pauses together, and has clocks of its own.

    ``skew_s`` is the wall clock's error, and ``coarse_ms`` how far apart its readings are;
    ``lost_s`` is what a monotonic clock that stands still in pauses has missed. ``service``: it is
    one of Apache Hudi's. ``seen`` is a digest of all that the process has observed.
    """

    name: str
    service: bool = False
    skew_s: float = 0.0
    coarse_ms: int = 1
    lost_s: float = 0.0
    stops_in_pauses: bool = False
    draws: int = 0
    cut_off: int = 0
    dead: bool = False
    crashed: bool = False
    seen: int = 0
    tasks: list[Task] = field(default_factory=list)

    def observe(self, result: object) -> None:
        """Its future depends on this, beside all that it saw before."""
        self.seen = hash((self.seen, result))


@dataclass(eq=False, slots=True)
class Task:
    """One thread of a process."""

    name: str
    process: Process
    run: greenlet
    op: Op = field(default_factory=lambda: Op(Kind.BEGIN, "begin"))
    last: Op | None = None  # the step before, readings of clocks left out
    wake: float = 0.0  # not before
    until: Callable[[], bool] | None = None  # or, if this is so, earlier
    stopped: float = 0.0  # but never before
    done: bool = False
    steps: int = 0
    error: BaseException | None = None

    def ready(self, now: float) -> bool:
        return not self.done and self.next() <= now

    def next(self) -> float:
        """When it can go on, as things are."""
        waits = self.until is None or not self.until()
        return max(self.stopped, self.wake if waits else 0.0)


class Pilot(Protocol):
    """Decides what is not decided by the code."""

    def choose(self, number: int, task: Task, ready: Sequence[Task]) -> Task:
        """Who makes step ``number``; ``task`` is who would without further ado."""

    def fault(self, number: int, task: Task) -> Fault | None:
        """What befalls ``task`` at this step."""

    def tick(self, number: int) -> float:
        """Seconds that pass after this step."""


class Scheduler:
    """Runs tasks until all that are no daemons have ended."""

    def __init__(self, pilot: Pilot) -> None:
        self.pilot = pilot
        self.now = 0.0
        self.events: list[Event] = []
        self.processes: list[Process] = []
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self._hub = getcurrent()
        self._starter: greenlet | None = None
        self._number = 0

    # -- what tasks call -----------------------------------------------------------------------

    def reach(self, op: Op, wake: float = 0.0, until: Callable[[], bool] | None = None) -> Event:
        """Give way before ``op``, and come back when it is its turn.

        ``wake`` and ``until``: it cannot go on before that time, unless that is so.
        """
        task = self.current
        assert task is not None, "only a task makes steps"
        if task.process.dead:
            raise SimulatedCrash(f"{task.name} is dead already")
        task.op, task.wake, task.until = op, wake, until
        back, self._starter = self._starter or self._hub, None
        event: Event = back.switch()
        return event

    def wait_for(self, name: str) -> None:
        """Until no process of that name lives."""
        named = [process for process in self.processes if process.name == name]
        wait = Op(Kind.SLEEP, f"waits for the end of {name}")
        self.reach(wait, math.inf, lambda: all(process.dead for process in named))

    def spawn(self, process: Process, name: str, body: Callable[[], None]) -> Task:
        """A new thread of ``process``; its first step is to begin."""
        if process not in self.processes:
            self.processes.append(process)

        def run(_: object) -> None:
            try:
                body()
            except SimulatedCrash as crash:
                task.error = crash
            except BaseException as error:
                task.error = error
            task.done = True

        task = Task(name, process, greenlet(run, self._hub))
        process.tasks.append(task)
        self.tasks.append(task)
        return task

    def start(self, process: Process, name: str, body: Callable[[], None]) -> Task:
        """The same from within a task, up to the new thread's first step."""
        starter = self.current
        assert starter is not None
        self.current = task = self.spawn(process, name, body)
        self._starter = starter.run
        task.run.switch(None)
        self.current = starter
        return task

    # -- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """Until every process' first task has ended; daemons end with it."""
        while any(not p.dead for p in self.processes):
            ready = [t for t in self.tasks if not t.process.dead and t.ready(self.now)]
            if not ready:
                self.now = min(t.next() for t in self.tasks if not t.done and not t.process.dead)
                continue
            if self._number >= MOST_STEPS:
                raise Endless(f"{self._number} steps")
            default = self._default(ready)
            task = self.pilot.choose(self._number, default, ready)
            fault = self.pilot.fault(self._number, task)
            self._perform(task, fault)
            self._number += 1
            self.now += self.pilot.tick(self._number)

    def _default(self, ready: Sequence[Task]) -> Task:
        """Who goes on where nobody says otherwise: the same task, then the same process."""
        last = self.current
        if last is None or last in ready:
            return last or ready[0]
        return next((t for t in ready if t.process is last.process), ready[0])

    def end(self) -> None:
        """Unwind whatever still hangs: nothing of it has an effect any more."""
        for process in self.processes:
            self._kill(process)

    def _perform(self, task: Task, fault: Fault | None) -> None:
        self.current, process = task, task.process
        event = Event(self._number, task.name, task.op, fault, self.now)
        if fault is not None or task.op.kind is not Kind.CLOCK:
            self.events.append(event)
        if fault is not None and fault.kind is FaultKind.CRASH:
            process.crashed = True
            self._kill(process)
            return
        if fault is not None and fault.kind is FaultKind.PAUSE:
            for each in process.tasks:
                each.stopped = self.now + fault.seconds
            if process.stops_in_pauses:
                process.lost_s += fault.seconds
            return
        task.steps += 1
        if task.op.kind is not Kind.CLOCK:
            task.last = task.op
        task.run.switch(event)
        if task.done and task is process.tasks[0]:
            self._kill(process)

    def _kill(self, process: Process) -> None:
        process.dead = True
        for task in process.tasks:
            if not task.done:
                self.current = task
                if task.run:
                    task.run.throw(SimulatedCrash("killed"))
                task.done = True
