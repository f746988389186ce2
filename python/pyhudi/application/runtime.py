"""What the planner needs from its environment; tests pass another one in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import PySparkException

from pyhudi.application.application_markers import ApplicationMarkers
from pyhudi.application.batches import Ordinals
from pyhudi.application.commit_notice import Callbacks
from pyhudi.application.jobs import Jobs
from pyhudi.application.last_commit import LastCommit
from pyhudi.clock import Clock
from pyhudi.config import ConcurrencyMode, WriteOptions
from pyhudi.index.stateful_lookup import KeyStates
from pyhudi.locks.base import TableLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.scheduling import ServicePlanners
from pyhudi.services.slice_memory import LogMemory
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import Table
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.writer import Writer


def never_cancelled() -> bool:
    """False: for sessions whose clients can cancel a statement only by ending its thread."""
    return False


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time, storage, locks, Spark's jobs and the application's marker service.

    ``filesystem`` says how workers reach a root: the pyarrow file system and the path on it.
    Without ``markers`` every write leaves direct markers. ``spark_errors`` are the classes by which
    PySpark raises errors of the JVM. ``group_lock`` gives the lock of a file group by its name;
    without it there are no pessimistic writes. ``last_commit`` notes each commit; ``callbacks`` and
    ``services`` are called after it. ``ordinals`` number the writes of micro-batches, and
    ``key_states`` remember in which files keys are, ``log_memory`` what logs leave of their files.
    ``cancelled`` says whether the client has
    cancelled this thread's statement.
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
    ordinals: Ordinals = field(default_factory=Ordinals)
    key_states: KeyStates = field(default_factory=KeyStates)
    log_memory: LogMemory = field(default_factory=LogMemory)
    cancelled: Callable[[], bool] = never_cancelled

    def writer(self, table: Table, options: WriteOptions) -> Writer:
        """The ``Writer`` of ``table`` with these options; no lock or service is asked yet."""
        policy = writer_policy(options, table, self.clock)
        return Writer(table, self.lock(table, options), self.clock, policy)

    def group_locks(self, table: Table, options: WriteOptions) -> GroupLocks | None:
        """The locks of one write's file groups, not taken yet; None unless it is pessimistic."""
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
