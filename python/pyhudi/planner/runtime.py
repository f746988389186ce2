"""What the planner needs of its surroundings, handed in so that tests can hand in others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException

from pyhudi.clock import Clock
from pyhudi.config import FailedWrites, WriteOptions
from pyhudi.locks.base import TableLock
from pyhudi.planner.application_markers import ApplicationMarkers
from pyhudi.planner.stage import Attempts
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts import STRATEGIES
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.transaction import WriterPolicy
from pyhudi.transactions.visible import VisibilityPolicy
from pyhudi.write.spec import FileSystemSpec


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time, storage, locks, Spark's attempt listener and the application's marker service.

    ``filesystem`` gives a root as workers reach it: the pyarrow file system and the path on it.
    Without ``markers`` every write leaves direct ones. ``spark_errors`` are the classes in which
    PySpark raises what went wrong in the JVM.
    """

    clock: Clock
    storage: Callable[[str], Storage]
    filesystem: Callable[[str], tuple[FileSystemSpec, str]]
    lock: Callable[[Table, WriteOptions], TableLock]
    attempts: Attempts
    markers: ApplicationMarkers | None = None
    spark_errors: tuple[type[Exception], ...] = (PySparkException,)


def visibility(options: WriteOptions) -> VisibilityPolicy | None:
    """How long a commit waits for listings that lag; None where nobody asked for it."""
    if not options.await_visible:
        return None
    return VisibilityPolicy(
        options.visible_first_ms, options.visible_longest_ms, options.visible_looks
    )


def writer_policy(options: WriteOptions) -> WriterPolicy:
    """How a writer with these options behaves beside others."""
    return WriterPolicy(
        heartbeat=HeartbeatPolicy(options.heartbeat_ms, options.heartbeat_misses),
        failed_writes=options.failed_writes or FailedWrites.EAGER,
        conflicts=STRATEGIES[options.conflict_rule],
        schemas=options.schema_conflicts,
        early=options.early_conflicts,
        visibility=visibility(options),
        lock_timeout_s=options.lock.lock_wait_ms / 1000,
    )
