"""What the planner needs of its surroundings, handed in so that tests can hand in others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.errors import PySparkException

from pyhudi.clock import Clock
from pyhudi.config import WriteOptions
from pyhudi.locks.base import TableLock
from pyhudi.planner.application_markers import ApplicationMarkers
from pyhudi.planner.commit_notice import Callbacks
from pyhudi.planner.stage import Attempts
from pyhudi.services.scheduling import ServicePlanners
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import Table
from pyhudi.write.spec import FileSystemSpec


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time, storage, locks, Spark's attempt listener and the application's marker service.

    ``filesystem`` gives a root as workers reach it: the pyarrow file system and the path on it.
    Without ``markers`` every write leaves direct ones. ``spark_errors`` are the classes in which
    PySpark raises what went wrong in the JVM. ``callbacks`` and ``services`` are asked after each
    commit.
    """

    clock: Clock
    storage: Callable[[str], Storage]
    filesystem: Callable[[str], tuple[FileSystemSpec, str]]
    lock: Callable[[Table, WriteOptions], TableLock]
    attempts: Attempts
    markers: ApplicationMarkers | None = None
    spark_errors: tuple[type[Exception], ...] = (PySparkException,)
    callbacks: Callbacks = field(default_factory=Callbacks)
    services: ServicePlanners = field(default_factory=ServicePlanners)
