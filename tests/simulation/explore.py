"""Two ways through the schedules of a scenario: all within a bound, or many by seed.

``explore`` is stateless: each schedule is run from the start, by its decisions. Within the bound
(so many preemptions, so many faults) it leaves out what cannot differ:

* a process is preempted only before a step that does not commute with a step of another;
* a crash strikes only before a write, for nothing was done between the write before and that;
* a run ends where it comes to a state from which has been explored before with as much left to
  spend. The state is the files, the leases, the time, and for each process a digest of all that
  it has observed, of which its future is a function.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import process_time

from tests.simulation.checkers import anomalies
from tests.simulation.residuals import Residual, barred
from tests.simulation.scheduler import Fault, FaultKind, Kind, Op, Task
from tests.simulation.schedules import Decision, Schedule, Scripted, tick
from tests.simulation.seams import SERVICES
from tests.simulation.world import Run, Scenario, World

PAUSE_S = 3.0
#: runs by seed that tell first which steps do not commute, so that fewer passes are needed
LEARNING_SEEDS = 40

#: faults that strike any write; where a pause strikes is a matter of its own
LOST: tuple[FaultKind, ...] = (
    FaultKind.LOSE_REQUEST,
    FaultKind.LOSE_REPLY,
    FaultKind.LATE,
    FaultKind.CUT_OFF,
    FaultKind.CUT_OFF_AFTER,
)


@dataclass(frozen=True, slots=True)
class Bound:
    """How many preemptions and faults a schedule may have, and which faults."""

    preemptions: int = 2
    faults: int = 0
    kinds: tuple[FaultKind, ...] = ()
    residuals: tuple[Residual, ...] = ()
    #: processes that faults strike; none named: all
    struck: frozenset[str] = frozenset()
    #: the steps that faults strike
    amid: Callable[[Task], bool] = lambda task: True


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found wrong, in which run of which schedule."""

    scenario: Scenario
    schedule: Schedule
    found: tuple[tuple[str, str], ...]
    run: Run

    @property
    def broken(self) -> frozenset[str]:
        return frozenset(invariant for invariant, _ in self.found)


@dataclass(slots=True)
class Explored:
    """The numbers of an exploration; ``findings`` has the first of each kind."""

    schedules: int = 0
    whole: int = 0
    passes: int = 0
    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.schedules} schedules ({self.whole} to their end), {self.states} states, "
            f"{self.steps} steps; passes: {self.passes or 1}"
        )


def replay(scenario: Scenario, schedule: Schedule) -> Run:
    """Run one schedule."""
    return World(scenario, Scripted(schedule)).run()


def judge(scenario: Scenario, schedule: Schedule) -> Finding | None:
    """Run one schedule and look whether anything is wrong with it."""
    run = replay(scenario, schedule)
    found = anomalies(run)
    return Finding(scenario, schedule, tuple(found), run) if found else None


# -- all within a bound ----------------------------------------------------------------------------


class _Seen(Exception):
    """The rest of this run has been explored before."""


Keys = frozenset[str]


def touched(op: Op) -> tuple[Keys, Keys]:
    """What a step reads and what it changes, by names of which equal ones do not commute."""
    reads: set[str] = set()
    writes: set[str] = set()
    for path in op.paths:
        if op.kind is Kind.READ:
            reads.add(path if op.what in ("read", "exists") else f"{op.what} {path}")
        elif op.kind is Kind.WRITE:
            writes.add(path)
            parts = path.split("/")
            writes.add(f"list {'/'.join(parts[:-1])}")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                writes |= {f"walk {folder}", f"list_folders {folder}", folder}
            if op.what == "delete_folder":
                writes |= {f"walk {path}", f"list_folders {'/'.join(parts[:-1])}"}
    return frozenset(reads), frozenset(writes)


class Conflicts:
    """Which names were seen to be touched by two processes so that the order matters."""

    def __init__(self) -> None:
        self._readers: dict[str, set[str]] = {}
        self._writers: dict[str, set[str]] = {}
        self.names: set[str] = set()
        self._known: dict[Op, tuple[Keys, Keys]] = {}

    def learn(self, run: World) -> None:
        for event in run.scheduler.events:
            reads, writes = self._touched(event.op)
            who = event.who.split("'")[0]
            for name in reads:
                self._readers.setdefault(name, set()).add(who)
                if self._writers.get(name, set()) - {who}:
                    self.names.add(name)
            for name in writes:
                self._writers.setdefault(name, set()).add(who)
                alone = name.startswith(("list ", "walk ", "list_folders "))
                others = self._readers.get(name, set())
                others = others if alone else others | self._writers[name]
                if others - {who}:
                    self.names.add(name)

    def matter(self, op: Op) -> bool:
        reads, writes = self._touched(op)
        return not self.names.isdisjoint(reads) or not self.names.isdisjoint(writes)

    def _touched(self, op: Op) -> tuple[Keys, Keys]:
        if op not in self._known:
            self._known[op] = touched(op)
        return self._known[op]


class _Searching(Scripted):
    """Follows a schedule to its end, and from there on notes what else could be decided."""

    def __init__(self, schedule: Schedule, left: tuple[int, int], search: _Search) -> None:
        super().__init__(schedule)
        self.world: World
        self.branches: list[tuple[Schedule, tuple[int, int]]] = []
        self._budget, self._search = left, search
        self._over = False

    def choose(self, number: int, task: Task, ready: Sequence[Task]) -> Task:
        if not self.finished:
            return super().choose(number, task, ready)
        if self._over:  # only the settler is left, which nothing befalls
            return task
        if self.world.settling:
            self._over = True
            return task
        preemptions, faults = self._budget
        self._search.visit(self.world, task, self._budget)
        free = task.name == (last.name if (last := self.world.scheduler.current) else "")
        cost = 1 if free else 0
        if preemptions >= cost and (not free or self._search.conflicts.matter(task.op)):
            for other in ready:
                if other is not task and other.op.what != "waits to beat":
                    decision = Decision(task.name, task.steps, other=other.name)
                    self.branches.append(
                        (self.schedule.but(decision), (preemptions - cost, faults))
                    )
        return task

    def fault(self, number: int, task: Task) -> Fault | None:
        if not self.finished:
            return super().fault(number, task)
        preemptions, faults = self._budget
        if faults and not self._over:
            for fault in possible(task, self._search.bound):
                decision = Decision(task.name, task.steps, fault=fault)
                self.branches.append((self.schedule.but(decision), (preemptions, faults - 1)))
        return None


def possible(task: Task, bound: Bound) -> Iterator[Fault]:
    """What may befall a task at its next step."""
    op = task.op
    if bound.struck and task.process.name not in bound.struck:
        return
    if task.process.name.startswith("late put") or not bound.amid(task):
        return
    for kind in bound.kinds:
        if barred(kind, task, bound.residuals):
            continue
        if kind is FaultKind.PAUSE:
            if op.kind in (Kind.READ, Kind.WRITE, Kind.CLOCK):
                yield Fault(kind, PAUSE_S)
        elif kind is FaultKind.SLOW:
            if op.kind in (Kind.READ, Kind.WRITE) and op.paths not in SERVICES:
                yield Fault(kind, PAUSE_S)
        elif op.kind is Kind.WRITE and (kind is FaultKind.CRASH or op.paths not in SERVICES):
            yield Fault(kind)


class _Search:
    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.conflicts = Conflicts()
        self.explored = Explored()
        self._visited: dict[int, list[tuple[int, int]]] = {}

    def visit(self, world: World, task: Task, left: tuple[int, int]) -> None:
        key = hash((world.digest(), task.name))
        known = self._visited.get(key)
        if known is None:
            self._visited[key] = [left]
            self.explored.states += 1
            return
        if any(p >= left[0] and f >= left[1] for p, f in known):
            raise _Seen
        known.append(left)

    def forget(self) -> None:
        self._visited.clear()
        self.explored = Explored()


def explore(
    scenario: Scenario,
    bound: Bound,
    stop: Callable[[Finding], bool] = lambda _: True,
    most: int = 10_000_000,
) -> Explored:
    """Every schedule within ``bound`` up to those that commute; ends early where ``stop`` says."""
    search, passes = _Search(bound), 0
    started = process_time()
    for seed in range(LEARNING_SEEDS):
        pilot = Seeded(seed, Weather(bound.kinds, bound.faults, bound.residuals))
        world = pilot.world = World(scenario, pilot)
        world.run()
        search.conflicts.learn(world)
    while True:
        before = len(search.conflicts.names)
        search.forget()
        passes += 1
        complete = _pass(scenario, bound, search, stop, most)
        search.explored.seconds = process_time() - started
        search.explored.passes = passes
        if not complete or len(search.conflicts.names) == before:
            return search.explored


def _pass(
    scenario: Scenario,
    bound: Bound,
    search: _Search,
    stop: Callable[[Finding], bool],
    most: int,
) -> bool:
    """One search with what is known of conflicts; False where it was ended early."""
    stack = [(Schedule(residuals=bound.residuals), (bound.preemptions, bound.faults))]
    explored = search.explored
    while stack:
        schedule, left = stack.pop()
        pilot = _Searching(schedule, left, search)
        world = pilot.world = World(scenario, pilot)
        explored.schedules += 1
        if explored.schedules > most:
            return False
        try:
            run = world.run()
        except _Seen:
            run = None
        search.conflicts.learn(world)
        explored.steps += len(world.scheduler.events)
        stack += pilot.branches
        if run is None:
            continue
        explored.whole += 1
        found = anomalies(run)
        if found:
            finding = Finding(scenario, schedule, tuple(found), run)
            explored.findings.append(finding)
            if stop(finding):
                return False
    return True


# -- many by seed ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weather:
    """How rough a seeded run is: chances at each step, and the faults that there are."""

    kinds: tuple[FaultKind, ...] = (FaultKind.CRASH, FaultKind.PAUSE, *LOST)
    faults: int = 3
    residuals: tuple[Residual, ...] = ()
    pauses_s: tuple[float, ...] = (0.05, 0.3, 0.7, PAUSE_S)


class Seeded:
    """A pilot that draws lots by a seed and writes down what it drew."""

    def __init__(self, seed: int, weather: Weather) -> None:
        self._lots = random.Random(seed)
        self._weather = weather
        self._bound = Bound(kinds=weather.kinds, residuals=weather.residuals)
        self._switching = self._lots.choice((0.03, 0.1, 0.3, 0.7))
        self._faulty = self._lots.choice((0.0, 0.01, 0.05))
        self._left = self._lots.randint(0, weather.faults)
        self.decisions: list[Decision] = []
        self.pace = seed + 1 if self._lots.random() < 0.7 else 0
        self._schedule = Schedule(pace=self.pace, residuals=weather.residuals)
        self.world: World

    @property
    def schedule(self) -> Schedule:
        """What was decided, to be run again or shrunk."""
        return replace(self._schedule, decisions=tuple(self.decisions))

    def choose(self, number: int, task: Task, ready: Sequence[Task]) -> Task:
        if len(ready) > 1 and not self.world.settling and self._lots.random() < self._switching:
            other = self._lots.choice(ready)
            if other is not task:
                self.decisions.append(Decision(task.name, task.steps, other=other.name))
                return other
        return task

    def fault(self, number: int, task: Task) -> Fault | None:
        if not self._left or self.world.settling or self._lots.random() >= self._faulty:
            return None
        faults = list(possible(task, self._bound))
        if not faults:
            return None
        fault = self._lots.choice(faults)
        if fault.kind in (FaultKind.PAUSE, FaultKind.SLOW):
            fault = Fault(fault.kind, self._lots.choice(self._weather.pauses_s))
        self._left -= 1
        self.decisions.append(Decision(task.name, task.steps, fault=fault))
        return fault

    def tick(self, number: int) -> float:
        return tick(self._schedule, number)


def search_seeds(
    scenario: Scenario,
    seeds: Iterable[int],
    weather: Weather,
    stop: Callable[[Finding], bool] = lambda _: True,
) -> Explored:
    """One run for each seed; ends early where ``stop`` says."""
    explored, started = Explored(), process_time()
    for seed in seeds:
        explored.schedules += 1
        explored.whole += 1
        finding = run_seed(scenario, seed, weather)
        if finding is not None:
            explored.findings.append(finding)
            if stop(finding):
                break
    explored.seconds = process_time() - started
    return explored


def run_seed(scenario: Scenario, seed: int, weather: Weather) -> Finding | None:
    """One run by lots; what it finds can be replayed by its schedule."""
    pilot = Seeded(seed, weather)
    world = pilot.world = World(scenario, pilot)
    run = world.run()
    found = anomalies(run)
    return Finding(scenario, pilot.schedule, tuple(found), run) if found else None


# -- a shorter way to the same anomaly -------------------------------------------------------------


def shrink(finding: Finding, keep: str = "", tries: int = 400) -> Finding:
    """The same anomaly with as few decisions as can be found: parts are left out by halves.

    ``keep`` is the invariant that must stay broken, by default any of those that are.
    """
    best = finding
    kept = {keep} if keep else finding.broken
    size = max(1, len(best.schedule.decisions) // 2)
    while tries > 0:
        at, shrunk = 0, False
        while at < len(best.schedule.decisions) and tries > 0:
            tries -= 1
            shorter = best.schedule.without(range(at, at + size))
            again = judge(best.scenario, shorter)
            if again is not None and again.broken & kept:
                best, shrunk = again, True
            else:
                at += size
        if size == 1 and not shrunk:
            break
        size = max(1, size // 2)
    return best
