"""What a Spark worker process keeps between its tasks, so that a task costs its own work only.

PySpark ends each task with ``gc.collect`` and begins it with ``importlib.invalidate_caches``. The
one walks all that was ever imported, the other reads the directories of PySpark's archives and of
Spark's core jar again, once for each of their packages. Together they take a tenth of a CPU
second, most of what a task of a few rows takes. A new process pays for its imports besides: Spark
ends one that was idle for a minute. The largest, pandas, no task of pyhudi needs.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib.abc import MetaPathFinder
from typing import Any
from zipimport import zipimporter

import pyarrow as pa


def settle_in() -> None:
    """Set up pyarrow for tasks: the executor's cores belong to them, and so does its memory."""
    # Each task computes on one thread.
    pa.set_cpu_count(1)
    # Arrow's own pool gives memory back at once and takes it again page by page. For the
    # short-lived columns here that costs up to a third of the CPU time.
    pa.set_memory_pool(pa.system_memory_pool())
    _leave_pandas_out()


def _leave_pandas_out() -> None:
    """Let pyarrow make arrays of Python values without pandas.

    It imports pandas for the first of them, which takes a third of a CPU second and 50 MB, only to
    ask whether the values are a series. It asks once: if pandas cannot be imported then, it is not.
    """
    if "pandas" in sys.modules or not hasattr(pa.lib, "_pandas_api"):
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas, and leaves all other modules to the next finder."""

    def find_spec(self, fullname: str, *where: Any) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def _let_pandas_in() -> None:
    """Let pyarrow look for pandas again, which functions of others in this process may use."""
    shim = getattr(pa.lib, "_pandas_api", None)
    if shim is not None and not shim.have_pandas:
        shim.__init__()


def spare_later_tasks() -> None:
    """Let later tasks of this process neither walk today's objects nor read archives again.

    An archive that has changed is read again, and objects made from now on are collected.
    """
    _let_pandas_in()
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
    for importer in list(sys.path_importer_cache.values()):
        if isinstance(importer, zipimporter):
            _read_when_changed(importer)


def _read_when_changed(importer: zipimporter) -> None:
    """Let ``invalidate_caches`` of ``importer`` do nothing while its archive stays the same."""
    read = getattr(type(importer), "invalidate_caches", None)  # Python 3.10 has it first
    if read is None or "invalidate_caches" in vars(importer):
        return
    known = _stamp(importer.archive)

    def invalidate() -> None:
        nonlocal known
        now = _stamp(importer.archive)
        if now != known:
            known = now
            read(importer)

    read(importer)
    vars(importer)["invalidate_caches"] = invalidate


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
