"""pyhudi: Apache Hudi tables on Spark, for Python.

    >>> builder = pyhudi.configure(SparkSession.builder)
    >>> spark = pyhudi.attach(builder.getOrCreate())
    >>> df.write.format("pyhudi").option("hoodie.table.name", "trips").save(path)
    >>> spark.read.format("pyhudi").load(path)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyhudi.errors import HudiError

if TYPE_CHECKING:
    from pyhudi.spark.session import attach, configure

__version__ = "0.1.0"
__all__ = ["HudiError", "__version__", "attach", "configure"]


def __getattr__(name: str) -> Any:
    # Executors import the write plane without PySpark's driver side.
    if name in ("attach", "configure"):
        from pyhudi.spark import session

        return getattr(session, name)
    raise AttributeError(f"module 'pyhudi' has no attribute '{name}'")
