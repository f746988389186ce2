"""PySpark's daemon of Python workers for tests, which run thousands of tasks of a few rows.

Spark starts it in place of ``pyspark.daemon`` (``tests/sessions.py``); its workers do the same. Two
things that each task repeats cost most of what such a task takes. A worker of pyhudi is rid of them
after its first task (``rows/worker_process.py``), these before it:

* ``invalidate_caches`` reads the directories of PySpark's zips and of Spark's core jar from
  ``PYTHONPATH``. Python before 3.12 does it at once. An installed PySpark needs none of them.
* ``gc.collect`` walks all that was ever imported, which is frozen here. What every worker would
  import is imported once, before they fork.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()

    import pandas  # noqa: F401
    from pyspark import daemon, worker  # noqa: F401
    from pyspark.sql.pandas import serializers  # noqa: F401

    from pyhudi.rows import groups  # noqa: F401

    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
