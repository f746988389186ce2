"""pyhudi: Apache Hudi tables on Spark, for Python.

>>> spark = pyhudi.configure(SparkSession.builder).getOrCreate()
>>> df.write.format("pyhudi").option("hoodie.table.name", "trips").save(path)
>>> spark.read.format("pyhudi").load(path)
>>> pyhudi.Table(path).files()
>>> pyhudi.history(path)
>>> pyhudi.why(path, "r1")
>>> pyhudi.health(path)
>>> pyhudi.advise(path)
>>> pyhudi.commits(path, after=checkpoint)
>>> pyhudi.last_commit(spark)
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyhudi.errors import HudiError, SetupError

if TYPE_CHECKING:
    from pyhudi.diagnosis.advise import advise
    from pyhudi.diagnosis.health import health
    from pyhudi.diagnosis.why import why
    from pyhudi.repairs.doctor import doctor
    from pyhudi.services.archiver import archive
    from pyhudi.services.bin import bins, put_back
    from pyhudi.services.clean import clean
    from pyhudi.services.failed_writes import clean_failed_writes
    from pyhudi.services.orphans import remove_orphans
    from pyhudi.services.restore import restore
    from pyhudi.services.rounds import run_services, watch_services
    from pyhudi.services.savepoints import delete_savepoint, savepoint
    from pyhudi.spark.cluster_tasks import cluster
    from pyhudi.spark.compact_tasks import compact
    from pyhudi.spark.session import attach, configure, last_commit, on_commit
    from pyhudi.timeline.history import history
    from pyhudi.timeline.inspection import InspectedTable as Table
    from pyhudi.timeline.tail import commits

__version__ = "0.1.0"
__all__ = [
    "HudiError",
    "Table",
    "__version__",
    "advise",
    "archive",
    "attach",
    "bins",
    "clean",
    "clean_failed_writes",
    "cluster",
    "commits",
    "compact",
    "configure",
    "delete_savepoint",
    "doctor",
    "health",
    "history",
    "last_commit",
    "on_commit",
    "put_back",
    "remove_orphans",
    "restore",
    "run_services",
    "savepoint",
    "watch_services",
    "why",
]

# Imported when first used: executors import the write plane without PySpark's driver side.
_HOMES = {
    "Table": "pyhudi.timeline.inspection",
    "advise": "pyhudi.diagnosis.advise",
    "archive": "pyhudi.services.archiver",
    "attach": "pyhudi.spark.session",
    "bins": "pyhudi.services.bin",
    "clean": "pyhudi.services.clean",
    "clean_failed_writes": "pyhudi.services.failed_writes",
    "cluster": "pyhudi.spark.cluster_tasks",
    "commits": "pyhudi.timeline.tail",
    "compact": "pyhudi.spark.compact_tasks",
    "configure": "pyhudi.spark.session",
    "delete_savepoint": "pyhudi.services.savepoints",
    "doctor": "pyhudi.repairs.doctor",
    "health": "pyhudi.diagnosis.health",
    "history": "pyhudi.timeline.history",
    "last_commit": "pyhudi.spark.session",
    "on_commit": "pyhudi.spark.session",
    "put_back": "pyhudi.services.bin",
    "remove_orphans": "pyhudi.services.orphans",
    "restore": "pyhudi.services.restore",
    "run_services": "pyhudi.services.rounds",
    "savepoint": "pyhudi.services.savepoints",
    "watch_services": "pyhudi.services.rounds",
    "why": "pyhudi.diagnosis.why",
}
#: where a public name is not the one that its module has: inside, a ``Table`` is an opened one
_OWN_NAMES = {"Table": "InspectedTable"}


def __dir__() -> list[str]:
    """What completion and ``help`` show."""
    return sorted([*__all__, "errors"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pyhudi' has no attribute '{name}'")
    try:
        return getattr(import_module(_HOMES[name]), _OWN_NAMES.get(name, name))
    except ModuleNotFoundError as e:
        if e.name not in ("pyspark", "py4j"):
            raise
        raise SetupError(
            f"The package {e.name} is not installed in {sys.prefix}. Install pyspark 3.5 or "
            "newer there."
        ) from e
