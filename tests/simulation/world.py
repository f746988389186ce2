"""A table in memory with processes on it: one run of a scenario under a pilot."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final

from pyhudi.config import FailedWrites
from pyhudi.errors import HistoryExpired, HudiError
from pyhudi.format.instants import InstantTime
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.locks.base import TableLock
from pyhudi.locks.filesystem import LOCK_PATH, FilesystemLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.locks.open import GROUPS_PATH
from pyhudi.services.compaction import CompactionStep
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import COMMITS, LISTINGS
from pyhudi.timeline.strays import ARCHIVES, ROLLBACKS
from pyhudi.timeline.table import PROPERTIES, open_table
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.epochs import forget_marks
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.markers.marker_service import MarkerService
from pyhudi.transactions.pessimistic import MARK
from pyhudi.transactions.times.times import CLOCK_TIMES
from pyhudi.transactions.transaction import Committed
from pyhudi.transactions.writer import WriterPolicy
from tests.simulation.appends import Append
from tests.simulation.hudi_services import HudiSavepoint, HudiService
from tests.simulation.hudi_sink import HudiSink
from tests.simulation.hudi_steps import AGAIN
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.own_services import OwnService, OwnSettle
from tests.simulation.programs import Machine, Program, Upsert, read_table
from tests.simulation.scheduler import Event, Fault, Kind, Op, Pilot, Process, Scheduler, Task
from tests.simulation.seams import (
    PUT_TIMEOUT_S,
    ProcessClock,
    SteppedCounter,
    SteppedLock,
    SteppedStorage,
    TrueClock,
    real_threads_replaced,
)
from tests.simulation.shared_buckets import NO_VALUE, Share
from tests.simulation.streams import Stream, streams_of
from tests.simulation.truth import Truth

LEASE_S = 0.6
HEARTBEAT = HeartbeatPolicy(interval_ms=300, tolerable_misses=1)
LOCK_TIMEOUT_S = 30.0
MOST_GROUPS = 10
LONG_S = 20.0
START_S = 100.0
SETTLER = "settler"
COMPACTOR = "last compaction"
LOG_COMPACTOR = "last log compaction"
BEFORE_IT = "settler before it"
FIRST = "first"
#: what tells the other of two tables, and the threads that work on it
OTHER_TABLE = "/b"
#: clocks of their applications go by so much, so that both tables take the same instants
COARSE_MS = 10_000

#: of the rows, as far as anybody asks: clusterings and compactions do
SCHEMA: Final = SparkSchema((Column("key", "string"),)).avro("t")
SCHEMA_BY_EVENT: Final = SparkSchema((Column("key", "string"), Column("at", "long"))).avro("t")
#: the ordering value of the rows that are there from the start
FIRST_VALUE = 0

#: What a reader saw: key to the values of each row that has it.
Seen = Mapping[str, list[list[str]]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who runs on which kind of table; ``first`` are the rows that are there from the start.

    ``pessimistic``: writers lock file groups, by files or by the lock service as ``lock`` says.
    ``counter``: instant times come from a counter that all share, and not from clocks.
    ``skews`` are errors of wall clocks in seconds by process; ``standing`` are the processes
    whose monotonic clock stands still while they are stopped. ``lease_s`` is the table lock's.
    ``saved``: the newest commit has a savepoint from the start. ``merge_on_read``: each file group
    has a log from the start. ``shared``: the file groups are buckets of writers without
    coordination, whose rows have ordering values if ``by_event``. ``twin``: each process is an
    application that does the same on two tables at once, in two threads that share what the
    process keeps.
    """

    programs: Mapping[str, Program]
    first: tuple[tuple[str, ...], ...] = (("k1", "k2"),)
    version: int = 9
    buckets: int = 0
    lock: str = "file"
    put_if_absent: bool = True
    counter: bool = False
    failed_writes: FailedWrites = FailedWrites.LAZY
    skews: Mapping[str, float] = field(default_factory=dict)
    standing: frozenset[str] = frozenset()
    pessimistic: bool = False
    lease_s: float = LEASE_S
    saved: bool = False
    merge_on_read: bool = False
    shared: bool = False
    by_event: bool = False
    twin: bool = False

    @property
    def services(self) -> tuple[str, ...]:
        """The processes that are services, of Apache Hudi's or pyhudi's own."""
        services = HudiService | OwnService
        return tuple(n for n, p in self.programs.items() if isinstance(p, services))

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The processes that drive a stream."""
        return streams_of(self.programs)


@dataclass(frozen=True, slots=True)
class Observation:
    """What could be read right after step ``step``; ``error`` where it could not be read.

    ``refused`` is a named error that tells a reader to ask again: no rows, but none wrong.
    """

    step: int
    seen: Seen
    error: str = ""
    reader: str = ""
    began: int = 0
    refused: str = ""
    as_of: InstantTime | None = None


@dataclass(slots=True)
class Run:
    """All that came of one run."""

    scenario: Scenario
    events: list[Event]
    observations: list[Observation]
    outcomes: dict[str, BaseException | None]
    committed: dict[str, Committed]
    ended: dict[str, int]
    begun: dict[str, int]
    files: MemoryStorage
    truth: Truth
    #: the same of the other table
    twin: Run | None = None


class World:
    """The processes of a scenario, ready to run under a scheduler."""

    def __init__(self, scenario: Scenario, pilot: Pilot, table: str = "", *of: World) -> None:
        """``table`` tells the other of two tables, whose world is part of the first one's."""
        self.scenario, self.table = scenario, table
        self.scheduler = of[0].scheduler if of else Scheduler(pilot)
        self.tables = [*of, self]
        self.files = MemoryStorage(f"sim:/truth{table}", TrueClock(self.scheduler))
        self.locks = InProcessLocks()
        self.observations: list[Observation] = []
        self.outcomes: dict[str, BaseException | None] = {}
        self.committed: dict[str, Committed] = {}
        self.ended: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self.settling = False
        self.counted = [0]
        self.truth = Truth()
        if scenario.twin and not of:
            self.tables.append(World(scenario, pilot, OTHER_TABLE, self))
        _forget_caches()

    def run(self) -> Run:
        """Set the table up, let the processes run to their ends, settle, and look."""
        scenario = self.scenario
        self.scheduler.now = START_S
        for path, data in _first_files(
            scenario.first,
            scenario.version,
            scenario.buckets,
            scenario.pessimistic,
            scenario.saved,
            scenario.merge_on_read,
            scenario.shared,
            scenario.by_event,
        ):
            for world in self.tables:
                world.files.put_if_absent(path, data)
                world.truth.landed(world.files, "put", (path,), -1, False)
        _forget_caches()
        self.play()
        with real_threads_replaced(self.scheduler):
            self._settle()
            for world in self.tables:
                world._look(self._step())
        runs = [world._run() for world in self.tables]
        return replace(runs[0], twin=runs[1]) if len(runs) > 1 else runs[0]

    def play(self) -> None:
        """Let the processes run to their ends."""
        with real_threads_replaced(self.scheduler):
            for name, program in self.scenario.programs.items():
                self._spawn(name, program)
            try:
                self.scheduler.run()
            finally:
                self.scheduler.end()

    def digest(self) -> int:
        """The state on which all that can still happen depends."""
        scheduler = self.scheduler
        leases = tuple(
            (n, v.owner.instant, v.ends) for w in self.tables for n, v in w.locks.leases.items()
        )
        processes = tuple(
            (p.name, p.seen, p.dead, p.cut_off, p.lost_s) for p in scheduler.processes
        )
        tasks = tuple(
            (t.name, t.steps, t.wake, max(0.0, t.stopped - scheduler.now), t.done)
            for t in scheduler.tasks
        )
        files = tuple(frozenset(world.files._files.items()) for world in self.tables)
        return hash((files, leases, scheduler.now, processes, tasks, self.counted[0]))

    def _run(self) -> Run:
        return Run(
            self.scenario,
            self.scheduler.events,
            self.observations,
            self.outcomes,
            self.committed,
            self.ended,
            self.begun,
            self.files,
            self.truth,
        )

    def _spawn(self, name: str, program: Program) -> None:
        scenario = self.scenario
        process = Process(
            name,
            isinstance(program, HudiService | HudiSink),
            skew_s=scenario.skews.get(name, 0.0),
            coarse_ms=COARSE_MS if scenario.twin else 1,
            stops_in_pauses=name in scenario.standing,
        )
        clock = ProcessClock(self.scheduler, process)
        markers = MarkerService(clock) if scenario.twin else None
        bodies = [world._body(name, program, process, clock, markers) for world in self.tables]

        def application() -> None:
            """The process lives until each of its tables has been served."""
            others = [
                self.scheduler.start(process, f"{name}{OTHER_TABLE}", body) for body in bodies[1:]
            ]
            bodies[0]()
            if others:
                op = Op(Kind.SLEEP, "waits for the other table")
                self.scheduler.reach(op, math.inf, lambda: all(other.done for other in others))

        self.scheduler.spawn(process, name, application)

    def _body(
        self,
        name: str,
        program: Program,
        process: Process,
        clock: ProcessClock,
        markers: MarkerService | None,
    ) -> Callable[[], None]:
        """What a process does on this table."""
        scenario, scheduler = self.scenario, self.scheduler
        storage = SteppedStorage(
            scheduler,
            process,
            self.files,
            lambda event: self._landed(event, getattr(program, "moves", False)),
            not scenario.put_if_absent,
            self.table,
        )
        policy = WriterPolicy(
            heartbeat=HEARTBEAT,
            failed_writes=scenario.failed_writes,
            lock_timeout_s=LOCK_TIMEOUT_S,
            times=SteppedCounter(scheduler, process, self.counted)
            if scenario.counter
            else CLOCK_TIMES,
        )
        machine = Machine(
            storage,
            self._lock(process, storage, clock),
            clock,
            self._step,
            scheduler.wait_for,
            self._groups(process, storage, clock) if scenario.pessimistic else None,
            markers,
        )

        def body() -> None:
            self.begun[name] = self._step()
            try:
                result = program.run(machine, name, policy)
            except BaseException as error:
                self.outcomes[name] = error
                if isinstance(error, HudiError):
                    return
                raise
            self.ended[name] = self._step()
            self.outcomes[name] = None
            if isinstance(result, Committed):
                self.committed[name] = result
            elif isinstance(result, list):
                self.observations += [
                    Observation(r.ended, r.seen, r.error, name, r.began, r.refused, r.as_of)
                    for r in result
                ]

        return body

    def _lock(
        self,
        process: Process,
        storage: SteppedStorage,
        clock: ProcessClock,
        path: str = LOCK_PATH,
    ) -> TableLock:
        if self.scenario.lock == "file":
            return FilesystemLock(
                storage, clock, path=path, lease_s=self.scenario.lease_s, margin_s=PUT_TIMEOUT_S
            )
        return SteppedLock(
            self.scheduler,
            process,
            lambda service: InProcessLock(self.locks, path, service, self.scenario.lease_s),
        )

    def _groups(
        self, process: Process, storage: SteppedStorage, clock: ProcessClock
    ) -> Callable[[], GroupLocks]:
        """What gives hands for locks of file groups, as ``LockOpener.groups`` opens them."""

        def opened(group: str) -> TableLock:
            path = f"{GROUPS_PATH}/{hashlib.sha1(group.encode()).hexdigest()}"
            return self._lock(process, storage, clock, path)

        return lambda: GroupLocks(opened, clock, MOST_GROUPS, LOCK_TIMEOUT_S)

    def _step(self) -> int:
        return self.scheduler.events[-1].number if self.scheduler.events else 0

    def _landed(self, event: Event, moves: bool) -> None:
        """A reader looks whenever what is visible may have changed."""
        op = event.op
        if self.truth.landed(self.files, op.what, op.paths, event.number, moves):
            self._look(event.number)

    def _look(self, step: int) -> None:
        try:
            seen = read_table(open_table(self.files))
            self.observations.append(Observation(step, seen, began=step))
        except (FileNotFoundError, HudiError) as error:
            gone = f"{error} is not there" if isinstance(error, FileNotFoundError) else str(error)
            # Amid a restore a cleaned table has states that nobody can read, and amid an upgrade
            # it is in no place as a whole.
            moved = isinstance(error, HistoryExpired) and error.facts.get("moved")
            told = {"refused": gone} if moved or self._restores() else {"error": gone}
            self.observations.append(Observation(step, {}, began=step, **told))

    def _restores(self) -> bool:
        names = [f.path for f in self.files.walk(".hoodie") if ".restore" in f.path]
        begun = {name.rsplit("/", 1)[-1][:17] for name in names if name.endswith(".requested")}
        ended = {name.rsplit("/", 1)[-1][:17] for name in names if name.endswith(".restore")}
        return bool(begun - ended)

    def _settle(self) -> None:
        """When all are dead or done and every lease has run out, one settling.

        Services and drivers of streams that came to no end are run again before that.
        """
        self.settling = True
        self.scheduler.now += LONG_S
        for name in (*self.scenario.services, *self.scenario.streams):
            again = getattr(self.scenario.programs[name], "again", True)
            if again and self.outcomes.get(name, self) is not None:
                self._spawn(f"{name}{AGAIN}", self.scenario.programs[name])
                self.scheduler.run()
                self.scheduler.now += LONG_S
        if any(isinstance(p, OwnCompact) for p in self.scenario.programs.values()):
            # A plan that nobody has run stays, whatever becomes of those who might. It waits while
            # a dead writer has requested its instant, too.
            self._spawn(BEFORE_IT, OwnSettle())
            self.scheduler.run()
            self.scheduler.now += LONG_S
            for name, step in self._last_compactions():
                self._spawn(name, OwnCompact(step=step, whosoever=True))
                self.scheduler.run()
                self.scheduler.now += LONG_S
        self._spawn(SETTLER, OwnSettle())
        self.scheduler.run()
        self.scheduler.end()

    def _last_compactions(self) -> list[tuple[str, CompactionStep]]:
        """Who runs the plans that are left; a table without log compactions may be of version 6."""
        last = [(COMPACTOR, CompactionStep.RUN)]
        own = [p for p in self.scenario.programs.values() if isinstance(p, OwnCompact)]
        if any(program.step.merges_logs for program in own):
            last.insert(0, (LOG_COMPACTOR, CompactionStep.RUN_LOGS))
        return last


def _forget_caches() -> None:
    """Every process of a run is a new one."""
    for cache in (COMMITS, LISTINGS, VIEWS):
        cache.forget_all()
    for known in (ARCHIVES._known, ROLLBACKS._known):
        known.forget()
    forget_marks()


class Quiet:
    """A pilot that lets each process run as far as it can, unharmed."""

    def choose(self, number: int, task: Task, ready: Sequence[Task]) -> Task:
        return task

    def fault(self, number: int, task: Task) -> Fault | None:
        return None

    def tick(self, number: int) -> float:
        return 0.0


def initial_rows(scenario: Scenario) -> dict[str, list[str]]:
    """Key to value of the rows that are there from the start."""
    logged = [f"{FIRST}{len(scenario.first) + 1}"] if scenario.merge_on_read else []
    if scenario.shared:
        row = Share((), at=FIRST_VALUE if scenario.by_event else NO_VALUE).row(logged[0], [])
        return {key: row for group in scenario.first for key in group}
    groups = enumerate(scenario.first, 1)
    return {key: [f"{FIRST}{n}", *logged] for n, group in groups for key in group}


@lru_cache(maxsize=64)
def _first_files(
    groups: tuple[tuple[str, ...], ...],
    version: int,
    buckets: int,
    pessimistic: bool,
    saved: bool,
    merge_on_read: bool,
    shared: bool,
    by_event: bool,
) -> tuple[tuple[str, bytes], ...]:
    """The files of a table in which each of ``groups`` was written by a commit of its own."""
    properties = new_table_properties(
        name="t",
        table_type="MERGE_ON_READ" if merge_on_read else "COPY_ON_WRITE",
        version=version,
        record_key_fields=["key"],
        partition_fields=["p"],
        ordering_fields=["at"] if by_event else [],
        merge_mode=MergeMode.EVENT_TIME_ORDERING if by_event else MergeMode.COMMIT_TIME_ORDERING,
        key_generator=KeyGenerator.SIMPLE,
        create_schema=SCHEMA_BY_EVENT if by_event else SCHEMA,
        extra=MARK if pessimistic else {},
    )
    files: dict[str, bytes] = {PROPERTIES: render_properties(properties)}
    add = partial(Share, at=FIRST_VALUE if by_event else NO_VALUE) if shared else Append
    programs: list[Program] = [add(keys) if merge_on_read else Upsert(keys, buckets=buckets)
                               for keys in groups]  # fmt: skip
    programs += [add(tuple(key for keys in groups for key in keys))] if merge_on_read else []
    programs += [HudiSavepoint()] if saved else []
    for number, program in enumerate(programs, 1):
        who = f"{FIRST}{number}"
        alone = {who: program}
        scenario = Scenario(alone, (), version, pessimistic=pessimistic)
        world = World(scenario, Quiet())
        world.scheduler.now = float(number)
        for path, data in files.items():
            world.files.put_if_absent(path, data)
        world.play()
        error = world.outcomes[who]
        if error is not None:
            raise error
        files = {f.path: world.files.read(f.path) for f in world.files.walk("")}
    return tuple(files.items())
