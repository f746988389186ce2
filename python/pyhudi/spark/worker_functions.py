"""Sends the worker functions by value, so that executors need pyarrow but not pyhudi.

``dataclasses`` recognises its fields by the identity of sentinels. cloudpickle copies classes by
value and would copy these sentinels, so each is pickled as a reference.
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from typing import Any

from pyspark import cloudpickle


def register() -> None:
    """Make PySpark pickle everything in ``pyhudi`` by value in this process; idempotent."""
    copyreg.pickle(type(dataclasses._FIELD), _sentinel)  # type: ignore[attr-defined]
    cloudpickle.register_pickle_by_value(sys.modules["pyhudi"])  # type: ignore[no-untyped-call]


def _sentinel(sentinel: Any) -> tuple[Any, tuple[Any, str]]:
    return getattr, (dataclasses, sentinel.name)
