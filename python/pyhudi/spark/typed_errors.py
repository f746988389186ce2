"""Errors that Python callers catch by class although Spark carries them through the JVM.

PySpark makes its exceptions from the JVM's in one function. It is wrapped so that an error which
began as one of ours arrives as both: ``except CommitConflict`` and ``except AnalysisException``
catch it, and its named facts are attributes again.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors.exceptions import captured

from pyhudi.errors import HudiError
from pyhudi.spark.endpoint import LAST_ERROR

_spark_converts = captured.convert_exception
_made: dict[str, Any] = {}


def install() -> None:
    """Have PySpark raise our classes in this process; idempotent."""
    module: Any = captured
    module.convert_exception = _convert


def _convert(error: Any) -> Any:
    converted = _spark_converts(error)
    ours = LAST_ERROR.find(str(converted))
    if ours is None:
        return converted
    kind = _both(type(converted), type(ours))
    both = kind.__new__(kind)
    both.__dict__.update(converted.__dict__)
    both.__dict__["facts"] = ours.facts
    both.args = converted.args
    return both


def _both(spark: type[Exception], ours: type[HudiError]) -> Any:
    """The class that is both; one for each pair."""
    key = f"{spark.__name__} {ours.__name__}"
    if key not in _made:
        inside = {"__doc__": ours.__doc__, "__module__": __name__}
        _made[key] = type(ours.__name__, (spark, ours), inside)
    return _made[key]
