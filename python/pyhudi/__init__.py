"""pyhudi: Apache Hudi tables on Spark, for Python.

>>> builder = pyhudi.configure(SparkSession.builder)
>>> spark = pyhudi.attach(builder.getOrCreate())
>>> df.write.format("pyhudi").option("hoodie.table.name", "trips").save(path)
>>> spark.read.format("pyhudi").load(path)
>>> pyhudi.history(path)
>>> pyhudi.commits(path, after=checkpoint)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyhudi.errors import HudiError, SetupError

if TYPE_CHECKING:
    from pyhudi.spark.session import attach, configure
    from pyhudi.timeline.history import history
    from pyhudi.timeline.tail import commits

__version__ = "0.1.0"
__all__ = ["HudiError", "__version__", "attach", "commits", "configure", "history"]


def __getattr__(name: str) -> Any:
    # Executors import the write plane without PySpark's driver side.
    if name in ("attach", "configure"):
        try:
            from pyhudi.spark import session
        except ModuleNotFoundError as e:
            if e.name not in ("pyspark", "py4j"):
                raise
            raise SetupError(
                f"The package {e.name} is not installed in {sys.prefix}. Install pyspark 3.5 or "
                "4.0 there."
            ) from e
        return getattr(session, name)
    if name == "history":
        from pyhudi.timeline.history import history

        return history
    if name == "commits":
        from pyhudi.timeline.tail import commits

        return commits
    raise AttributeError(f"module 'pyhudi' has no attribute '{name}'")
