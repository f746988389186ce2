"""Sends a worker function to executors without pyhudi.

The code is sent by value. The driver pickles it only once: it is the same in every write, and for a
small write pickling would take longer than the driver's other work. The plain values of
``spec.py``, which differ, are sent beside it and get their classes from it on the worker.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from pyhudi.rows.announce import MarkerAddress
from pyhudi.rows.change_spec import ChangePiece, ChangeSpec, Slice
from pyhudi.rows.log_spec import (
    ClusterTask,
    CompactTask,
    CountedInstants,
    LoggedSlices,
    LogSlice,
    MergeSpec,
    SliceChange,
    SliceChanges,
)
from pyhudi.rows.logged_reader import LoggedPiece, LoggedSpec
from pyhudi.rows.slice_reader import LogPiece
from pyhudi.rows.spec import (
    BloomSpec,
    ChangeLogSpec,
    FileSystemSpec,
    GroupPlan,
    WriteSpec,
)
from pyhudi.rows.task import Batches

Work = Callable[[Batches], Batches]

_VALUES = (
    BloomSpec,
    ChangeLogSpec,
    ChangePiece,
    ChangeSpec,
    ClusterTask,
    CompactTask,
    CountedInstants,
    FileSystemSpec,
    GroupPlan,
    LogPiece,
    LogSlice,
    LoggedPiece,
    LoggedSlices,
    LoggedSpec,
    MarkerAddress,
    MergeSpec,
    Slice,
    SliceChange,
    SliceChanges,
    WriteSpec,
)


def shipped(factory: Callable[..., Work], *arguments: object) -> Work:
    """``factory(*arguments)`` for Spark's ``mapInArrow``; call it on the driver.

    ``factory`` is a worker function of ``rows``: ``write_groups``, ``bulk_write``,
    ``cluster_files``, ``compact_slices``, ``read_changes``, ``read_logged_rows``,
    ``merge_slices`` or ``read_log_rows``; the arguments are plain values or those of ``_VALUES``.
    The worker's environment needs Python, pyarrow and PySpark.
    """
    code = _code(factory)
    plain = pickle.dumps(arguments)

    def work(batches: Batches) -> Batches:
        import io
        import pickle
        import sys
        import types
        import zlib

        # The process keeps it for its later tasks: it takes 12 ms to make the code again.
        name = "_pyhudi_code"
        kept = vars(sys.modules.setdefault(name, types.ModuleType(name))).setdefault("kept", {})
        if code not in kept:
            kept[code] = pickle.loads(zlib.decompress(code))
        make, classes = kept[code]

        class Values(pickle.Unpickler):
            def find_class(self, module: str, name: str) -> object:
                if name in classes:
                    return classes[name]
                return super().find_class(module, name)

        result: Batches = make(*Values(io.BytesIO(plain)).load())(batches)
        return result

    return work


@lru_cache(maxsize=8)
def _code(factory: Callable[..., Work]) -> bytes:
    # PySpark's own copy: the package on PyPI has another registry. It has no types on 3.5.
    cloudpickle: Any = import_module("pyspark.cloudpickle")
    cloudpickle.register_pickle_by_value(import_module(__name__.partition(".")[0]))
    classes = {cls.__name__: cls for cls in _VALUES}
    return zlib.compress(cloudpickle.dumps((factory, classes)))
