"""Sending the worker functions by value, so that an executor needs pyarrow but not pyhudi.

The sentinels by which ``dataclasses`` recognises its fields do not survive cloudpickle's way with
classes by themselves, because it compares identities.
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from typing import Any

from pyspark import cloudpickle


def register() -> None:
    """Have PySpark pickle everything below ``pyhudi`` by value in this process; idempotent."""
    copyreg.pickle(type(dataclasses._FIELD), _sentinel)  # type: ignore[attr-defined]
    cloudpickle.register_pickle_by_value(sys.modules["pyhudi"])  # type: ignore[no-untyped-call]


def _sentinel(sentinel: Any) -> tuple[Any, tuple[Any, str]]:
    return getattr, (dataclasses, sentinel.name)
