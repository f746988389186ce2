"""A job for a table's services: rounds of rollback, compaction, clean, archive and clustering.

Invariant: it decides nothing. Each service plans and runs as when it is asked for alone; an error
of one is told, and does not keep the others from their turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from pyhudi.clock import Clock, SystemClock
from pyhudi.config import FailedWrites, WriteOptions
from pyhudi.errors import ConfigError, HudiError
from pyhudi.listing import Listing
from pyhudi.services.archiver import ArchiveFate, archived
from pyhudi.services.budget import NO_BUDGET, Allowance, Budget
from pyhudi.services.clean import Fate, cleaned
from pyhudi.services.clustering import (
    Clustering,
    ClusteringFate,
    Tasks,
    TasksHere,
    clustered,
)
from pyhudi.services.clustering_schedule import check_repeatable
from pyhudi.services.compaction import (
    Compaction,
    CompactionFate,
    CompactionStep,
    SlicesHere,
    SliceTasks,
    compacted,
)
from pyhudi.services.failed_writes import (
    Outcome,
    foreseen,
    lazy_unless_told,
    settle_and_tell,
)
from pyhudi.services.file_systems import FileSystems, filesystems
from pyhudi.services.opened import open_writer
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)


class Service(str, Enum):
    """A service of a round, in the order of their turns."""

    FAILED_WRITES = "failed_writes"
    COMPACT = "compact"
    CLEAN = "clean"
    ARCHIVE = "archive"
    CLUSTER = "cluster"


class RoundTasks(Tasks, SliceTasks, Protocol):
    """Where data is rewritten."""


class EveryTaskHere(TasksHere, SlicesHere):
    """In this process, one task after the other."""


#: what a round does unless it is told; to rewrite data, somebody has to ask for it
USUAL = (Service.FAILED_WRITES, Service.CLEAN, Service.ARCHIVE)


#: what of pending instants stays for the next round
DUE = (Outcome.WOULD_GO, Outcome.WOULD_END, Outcome.ALIVE, Outcome.NEVER)
#: a part of the work that is done before the budget is looked at again
STEP = 1_000


@dataclass(frozen=True, slots=True)
class RoundBudget:
    """What a round may take: seconds, CPU minutes, and files deleted or rewritten."""

    budget_s: float | None = None
    max_cpu_minutes: float | None = None
    files: Budget = NO_BUDGET


@dataclass(frozen=True, slots=True)
class ServiceTurn:
    """What one service did in a round.

    ``done`` are the writes that it rolled back, the files that it deleted or rewrote, or the
    instants that it moved; ``left`` those that are due, but stay for the next round: the budget was
    spent, or their writers live. ``error`` is its failure, empty if there was none.
    """

    service: Service
    done: int
    left: int
    seconds: float
    error: str = ""


def run_services(
    path: str,
    *,
    services: Collection[Service | str] = USUAL,
    budget_s: float | None = None,
    max_files: int | None = None,
    max_bytes: int | None = None,
    max_cpu_minutes: float | None = None,
    dry_run: bool = False,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[ServiceTurn]:
    """Give each of ``services`` a turn on the table at ``path``, without Spark.

    Failed writes are rolled back by the policy LAZY, then comes a clean, then an archive. Only if
    ``services`` names them, a compaction comes before the clean, and a clustering last. After
    ``budget_s`` seconds or ``max_cpu_minutes`` of CPU time no new part of a thousand files or
    instants, group of files to cluster, or compaction begins; nor after ``max_files`` files, or
    ``max_bytes`` bytes, were deleted or rewritten. The next round goes on. With ``dry_run`` nothing
    changes, and ``left`` is what is due. ``options`` are those of a write and say what stays, and
    the lock must be that of the table's writers; ``hadoop_options`` are ``fs.s3a.*`` settings.
    Errors: ``TableNotFound``, ``UnsupportedTable``, ``ConfigError``; those of a service are in its
    turn.
    """
    writer, resolved = open_writer(path, lazy_unless_told(options or {}, {}), hadoop_options)
    files = filesystems(hadoop_options or {})
    budget = RoundBudget(budget_s, max_cpu_minutes, Budget(max_files, max_bytes))
    return round_of(writer, resolved, chosen_services(services), budget, dry_run, files)


def watch_services(
    path: str,
    tell: Callable[[Listing[ServiceTurn]], None],
    every_s: float = 60.0,
    *,
    services: Collection[Service | str] = USUAL,
    budget_s: float | None = None,
    max_files: int | None = None,
    max_bytes: int | None = None,
    max_cpu_minutes: float | None = None,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> None:
    """``run_services`` again and again, with a pause of ``every_s`` seconds, until interrupted.

    ``tell`` gets the turns of each round. A round that cannot begin, since the storage or the table
    does not answer, is an error. ``clock`` is the system's unless a test has another.
    """
    if every_s <= 0:
        what = f"'every_s' is {every_s}. Give the seconds between rounds."
        raise ConfigError(what, key="every_s")
    clock = clock or SystemClock()
    while True:
        tell(
            run_services(
                path,
                services=services,
                budget_s=budget_s,
                max_files=max_files,
                max_bytes=max_bytes,
                max_cpu_minutes=max_cpu_minutes,
                options=options,
                hadoop_options=hadoop_options,
            )
        )
        clock.sleep(every_s)


def round_of(
    writer: Writer,
    options: WriteOptions,
    services: Collection[Service],
    budget: RoundBudget,
    dry_run: bool,
    files: FileSystems,
    tasks: RoundTasks | None = None,
) -> Listing[ServiceTurn]:
    """``run_services`` with the writer and the options of an application.

    ``files`` finds the data files of a clustering or a compaction, and ``tasks`` rewrite them: in
    this process for None.
    """
    if Service.CLUSTER in services:
        check_repeatable(options)
    allowance = Allowance(writer.clock, budget.budget_s, budget.max_cpu_minutes)
    asked = _Round(
        writer, options, allowance, budget.files, dry_run, files, tasks or EveryTaskHere()
    )
    return Listing(ServiceTurn, (_turn(each, asked) for each in Service if each in services))


@dataclass(slots=True)
class _Round:
    """What was asked for; ``rest`` is what is left of its files, None for nothing."""

    writer: Writer
    options: WriteOptions
    allowance: Allowance
    rest: Budget | None
    dry_run: bool
    files: FileSystems
    tasks: RoundTasks

    @property
    def is_over(self) -> bool:
        return self.allowance.is_over(self.tasks.elsewhere_cpu_s())

    def took(self, sizes: Collection[int]) -> None:
        """Take files of these sizes from what is left."""
        if self.rest is not None:
            self.rest = self.rest.rest(len(sizes), sum(sizes))


def _turn(service: Service, asked: _Round) -> ServiceTurn:
    clock = asked.writer.clock
    began = clock.monotonic()
    done, left, error = 0, 0, ""
    try:
        for part in _parts(service, asked):
            done, left = done + part[0], part[1]
            log.info("%s: %d done in this round, %d are left", service.value, done, left)
    except HudiError as e:
        error = str(e)
    seconds = round(clock.monotonic() - began, 3)
    return ServiceTurn(service, done, left, seconds, error)


def _parts(service: Service, asked: _Round) -> Iterator[tuple[int, int]]:
    """After each part: what it did, and what is left."""
    writer, options, dry_run = asked.writer, asked.options, asked.dry_run
    if service is Service.FAILED_WRITES:
        yield _settled(writer, options, dry_run)
        return
    if service is Service.COMPACT:
        yield _compacted(asked)
        return
    if service is Service.CLUSTER:
        if not dry_run and not asked.is_over and asked.rest is not None:
            yield _clustered(asked, asked.rest), 0
        yield 0, _to_cluster(asked)
        return
    part = _cleaned if service is Service.CLEAN else _archived
    while not dry_run and not asked.is_over:
        if service is Service.CLEAN and asked.rest is None:
            break
        done, left = part(asked, False)
        yield done, left
        if not (done and left):
            return
    yield 0, part(asked, True)[1]


def _settled(writer: Writer, options: WriteOptions, dry_run: bool) -> tuple[int, int]:
    policy = options.failed_writes or FailedWrites.LAZY
    writer = replace(writer, policy=replace(writer.policy, failed_writes=policy))
    found = foreseen(writer) if dry_run else settle_and_tell(writer)
    done = sum(each.outcome in (Outcome.ROLLED_BACK, Outcome.FINISHED) for each in found)
    return done, sum(each.outcome in DUE for each in found)


def _cleaned(asked: _Round, dry_run: bool) -> tuple[int, int]:
    budget = NO_BUDGET if dry_run or asked.rest is None else asked.rest
    if asked.allowance.is_bounded:
        budget = budget if dry_run else budget.at_most(STEP)
    found = cleaned(asked.writer, asked.options, dry_run, budget)
    gone = [each.size_bytes or 0 for each in found if each.fate is Fate.DELETED]
    asked.took(gone)
    return len(gone), sum(each.fate in (Fate.WOULD_GO, Fate.LATER) for each in found)


def _archived(asked: _Round, dry_run: bool) -> tuple[int, int]:
    most = STEP if asked.allowance.is_bounded and not dry_run else None
    fates = [each.fate for each in archived(asked.writer, asked.options, dry_run, most)]
    gone, later = fates.count(ArchiveFate.ARCHIVED), fates.count(ArchiveFate.LATER)
    return gone, fates.count(ArchiveFate.WOULD_GO) + later


def _compacted(asked: _Round) -> tuple[int, int]:
    """Pending plans that nobody runs, and a new one of what is left of the budget."""
    begins = not asked.dry_run and not asked.is_over and asked.rest is not None
    place = asked.files(asked.writer.table.storage.root)
    budget = asked.rest if asked.rest is not None else NO_BUDGET
    run = Compaction(asked.writer, asked.options, place, asked.tasks, budget)
    found = compacted(run, CompactionStep.SCHEDULE_AND_RUN, dry_run=not begins)
    done = [each.log_bytes for each in found if each.fate is CompactionFate.COMPACTED]
    asked.took(done)
    return len(done), sum(each.fate is CompactionFate.WOULD_BE for each in found)


def _clustered(asked: _Round, budget: Budget) -> int:
    found = clustered(_clustering(asked, budget))
    sizes = [each.size_bytes for each in found if each.fate is ClusteringFate.CLUSTERED]
    asked.took(sizes)
    return len(sizes)


def _to_cluster(asked: _Round) -> int:
    fates = [each.fate for each in clustered(_clustering(asked, NO_BUDGET), dry_run=True)]
    return fates.count(ClusteringFate.WOULD_BE)


def _clustering(asked: _Round, budget: Budget) -> Clustering:
    place = asked.files(asked.writer.table.storage.root)
    return Clustering(
        asked.writer, asked.options, place, asked.tasks, asked.allowance, budget=budget
    )


def chosen_services(services: Collection[Service | str]) -> list[Service]:
    """The services of these names; ``ConfigError`` for one that is none."""
    names = [each.value for each in Service]
    for each in services:
        if each not in names:
            raise ConfigError(
                f"'{each}' is no service of a round. Choose from {', '.join(names)}.",
                key="services",
            )
    return [Service(each) for each in services]
