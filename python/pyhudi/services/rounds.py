"""A job for a table's services: rounds of rollback, clean, archive and clustering.

Invariant: it decides nothing. Each service plans and runs as when it is asked for alone; an error
of one is told, and does not keep the others from their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from pyhudi.clock import Clock, SystemClock
from pyhudi.config import FailedWrites, WriteOptions
from pyhudi.errors import ConfigError, HudiError
from pyhudi.listing import Listing
from pyhudi.services.archiver import ArchiveFate, archived
from pyhudi.services.clean import Fate, cleaned
from pyhudi.services.clustering import (
    Clustering,
    ClusteringFate,
    TasksHere,
    check_repeatable,
    clustered,
)
from pyhudi.services.failed_writes import Outcome, settle_and_tell
from pyhudi.services.file_systems import FileSystems, filesystems
from pyhudi.services.opened import open_writer
from pyhudi.transactions.writer import Writer


class Service(str, Enum):
    """A service of a round, in the order of their turns."""

    FAILED_WRITES = "failed_writes"
    CLEAN = "clean"
    ARCHIVE = "archive"
    CLUSTER = "cluster"


#: what a round does unless it is told; a clustering rewrites data, so somebody has to ask for it
USUAL = (Service.FAILED_WRITES, Service.CLEAN, Service.ARCHIVE)


#: a part of the work that is done before the budget is looked at again
STEP = 1_000


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
    dry_run: bool = False,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[ServiceTurn]:
    """Give each of ``services`` a turn on the table at ``path``, without Spark.

    Failed writes are rolled back by the policy LAZY, then comes a clean, then an archive. A
    clustering comes last, and only if ``services`` names it. After ``budget_s`` seconds no new part
    of a thousand files or instants, or group of files to cluster, begins; the next round goes on.
    With ``dry_run`` nothing changes, and ``left`` is what is due. ``options`` are those of a write
    and say what stays, and the lock must be that of the table's writers; ``hadoop_options`` are
    ``fs.s3a.*`` settings. Errors: ``TableNotFound``, ``UnsupportedTable``, ``ConfigError``; those
    of a service are in its turn.
    """
    writer, resolved = open_writer(path, options, hadoop_options)
    files = filesystems(hadoop_options or {})
    return round_of(writer, resolved, _chosen(services), budget_s, dry_run, files)


def watch_services(
    path: str,
    tell: Callable[[Listing[ServiceTurn]], None],
    every_s: float = 60.0,
    *,
    services: Collection[Service | str] = USUAL,
    budget_s: float | None = None,
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
                options=options,
                hadoop_options=hadoop_options,
            )
        )
        clock.sleep(every_s)


def round_of(
    writer: Writer,
    options: WriteOptions,
    services: Collection[Service],
    budget_s: float | None,
    dry_run: bool,
    files: FileSystems,
) -> Listing[ServiceTurn]:
    """``run_services`` with the writer and the options of an application.

    ``files`` finds the data files of a clustering.
    """
    if Service.CLUSTER in services:
        check_repeatable(options)
    if budget_s is not None and budget_s <= 0:
        raise ConfigError(
            f"'budget_s' is {budget_s}. Give the seconds of a round, or leave it out.",
            key="budget_s",
        )
    ends = None if budget_s is None else writer.clock.monotonic() + budget_s
    asked = _Round(writer, options, ends, dry_run, files)
    return Listing(ServiceTurn, (_turn(each, asked) for each in Service if each in services))


@dataclass(frozen=True, slots=True)
class _Round:
    """What was asked for; ``ends`` in seconds of the monotonic clock."""

    writer: Writer
    options: WriteOptions
    ends: float | None
    dry_run: bool
    files: FileSystems

    @property
    def is_over(self) -> bool:
        return _is_over(self.writer.clock, self.ends)


def _turn(service: Service, asked: _Round) -> ServiceTurn:
    clock = asked.writer.clock
    began = clock.monotonic()
    done, left, error = 0, 0, ""
    try:
        for part in _parts(service, asked):
            done, left = done + part[0], part[1]
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
    if service is Service.CLUSTER:
        if not dry_run and not asked.is_over:
            yield _clustered(asked), 0
        yield 0, _to_cluster(asked)
        return
    part = _cleaned if service is Service.CLEAN else _archived
    most = None if asked.ends is None else STEP
    while dry_run or not asked.is_over:
        done, left = part(writer, options, dry_run, most)
        yield done, left
        if dry_run or not (done and left):
            return
    yield 0, part(writer, options, True, None)[1]


def _is_over(clock: Clock, ends: float | None) -> bool:
    return ends is not None and clock.monotonic() >= ends


def _settled(writer: Writer, options: WriteOptions, dry_run: bool) -> tuple[int, int]:
    policy = options.failed_writes or FailedWrites.LAZY
    if dry_run:
        policy = FailedWrites.NEVER
    found = settle_and_tell(replace(writer, policy=replace(writer.policy, failed_writes=policy)))
    done = sum(each.outcome in (Outcome.ROLLED_BACK, Outcome.FINISHED) for each in found)
    return done, sum(each.outcome in (Outcome.ALIVE, Outcome.NEVER) for each in found)


def _cleaned(
    writer: Writer, options: WriteOptions, dry_run: bool, most: int | None
) -> tuple[int, int]:
    fates = [each.fate for each in cleaned(writer, options, dry_run, None if dry_run else most)]
    return fates.count(Fate.DELETED), fates.count(Fate.WOULD_GO) + fates.count(Fate.LATER)


def _archived(
    writer: Writer, options: WriteOptions, dry_run: bool, most: int | None
) -> tuple[int, int]:
    fates = [each.fate for each in archived(writer, options, dry_run, None if dry_run else most)]
    gone, later = fates.count(ArchiveFate.ARCHIVED), fates.count(ArchiveFate.LATER)
    return gone, fates.count(ArchiveFate.WOULD_GO) + later


def _clustered(asked: _Round) -> int:
    fates = [each.fate for each in clustered(_clustering(asked))]
    return fates.count(ClusteringFate.CLUSTERED)


def _to_cluster(asked: _Round) -> int:
    fates = [each.fate for each in clustered(_clustering(asked), dry_run=True)]
    return fates.count(ClusteringFate.WOULD_BE)


def _clustering(asked: _Round) -> Clustering:
    place = asked.files(asked.writer.table.storage.root)
    return Clustering(asked.writer, asked.options, place, TasksHere(), asked.ends)


def _chosen(services: Collection[Service | str]) -> list[Service]:
    names = [each.value for each in Service]
    for each in services:
        if each not in names:
            raise ConfigError(
                f"'{each}' is no service of a round. Choose from {', '.join(names)}.",
                key="services",
            )
    return [Service(each) for each in services]
