"""What the planner needs of its surroundings, handed in so that tests can hand in others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import PySparkException

from pyhudi.application.application_markers import ApplicationMarkers
from pyhudi.application.commit_notice import Callbacks
from pyhudi.application.jobs import Jobs
from pyhudi.application.last_commit import LastCommit
from pyhudi.clock import Clock
from pyhudi.config import ConcurrencyMode, WriteOptions
from pyhudi.locks.base import TableLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.scheduling import ServicePlanners
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import Table
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.writer import Writer


def never_cancelled() -> bool:
    """For sessions in which a client can cancel a statement only by ending its thread."""
    return False


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time, storage, locks, Spark's jobs and the application's marker service.

    ``filesystem`` gives a root as workers reach it: the pyarrow file system and the path on it.
    Without ``markers`` every write leaves direct ones. ``spark_errors`` are the classes in which
    PySpark raises what went wrong in the JVM. ``group_lock`` gives a handle on the lock of a file
    group by its name; without it there are no pessimistic writes. ``last_commit``
    is told of each commit, ``callbacks`` and ``services`` are called after it. ``cancelled`` tells
    whether the client has cancelled this thread's statement.
    """

    clock: Clock
    storage: Callable[[str], Storage]
    filesystem: Callable[[str], tuple[FileSystemSpec, str]]
    lock: Callable[[Table, WriteOptions], TableLock]
    jobs: Jobs
    markers: ApplicationMarkers | None = None
    spark_errors: tuple[type[Exception], ...] = (PySparkException,)
    group_lock: Callable[[Table, WriteOptions], Callable[[str], TableLock]] | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    last_commit: LastCommit = field(default_factory=LastCommit)
    services: ServicePlanners = field(default_factory=ServicePlanners)
    cancelled: Callable[[], bool] = never_cancelled

    def writer(self, table: Table, options: WriteOptions) -> Writer:
        """Who changes ``table`` with these options; neither the lock nor a service is asked yet."""
        policy = writer_policy(options, table, self.clock)
        return Writer(table, self.lock(table, options), self.clock, policy)

    def group_locks(self, table: Table, options: WriteOptions) -> GroupLocks | None:
        """The locks of one write's file groups, none held yet; None unless it is pessimistic."""
        if options.concurrency_mode is not ConcurrencyMode.PESSIMISTIC:
            return None
        if self.group_lock is None:
            raise RuntimeError("this runtime has no locks of file groups")
        return GroupLocks(
            self.group_lock(table, options),
            self.clock,
            options.most_group_locks,
            options.lock.lock_wait_ms / 1000,
        )
