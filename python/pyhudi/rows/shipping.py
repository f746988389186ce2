"""Sending a worker function to executors that have no pyhudi.

The code goes by value, made into bytes once in a driver's life: it is the same in every write, and
making it takes longer than all else that the driver does for a small one. What differs, the plain
values of ``spec.py``, goes beside it and meets its classes again on the worker.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from pyhudi.rows.announce import MarkerAddress
from pyhudi.rows.spec import BloomSpec, FileSystemSpec, GroupPlan, WriteSpec
from pyhudi.rows.task import Batches

Work = Callable[[Batches], Batches]

_VALUES = (BloomSpec, FileSystemSpec, GroupPlan, MarkerAddress, WriteSpec)


def shipped(factory: Callable[..., Work], *arguments: object) -> Work:
    """``factory(*arguments)`` for Spark's ``mapInArrow``; call it on the driver.

    ``factory`` is ``write_groups`` or ``bulk_write``; the arguments are plain values and those of
    ``spec.py``. The worker's environment needs Python, pyarrow and PySpark.
    """
    code = _code(factory)
    plain = pickle.dumps(arguments)

    def work(batches: Batches) -> Batches:
        import io
        import pickle
        import zlib

        make, classes = pickle.loads(zlib.decompress(code))

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
    # PySpark's own copy: the one on PyPI keeps another registry. It has no types on 3.5.
    cloudpickle: Any = import_module("pyspark.cloudpickle")
    cloudpickle.register_pickle_by_value(import_module(__name__.partition(".")[0]))
    classes = {cls.__name__: cls for cls in _VALUES}
    return zlib.compress(cloudpickle.dumps((factory, classes)))
