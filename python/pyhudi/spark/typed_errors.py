"""Errors that Python callers catch by class, although they pass through the JVM.

PySpark makes its exceptions from the JVM's in one function. That function is wrapped, so that a
pyhudi error arrives as both classes: ``except CommitConflict`` and ``except AnalysisException``
catch it, and its facts are attributes. An error that a task raised, as for a data file that is
gone, also arrives as itself, and not as the failure of its job.
"""

from __future__ import annotations

from typing import Any

from pyspark.errors.exceptions import captured

from pyhudi.errors import HudiError
from pyhudi.rows.task import error_from_text
from pyhudi.spark.endpoint import LAST_ERROR
from pyhudi.spark.interrupts import INTERRUPTS

OURS = "org.apache.spark.sql.pyhudi.HudiAnalysisException"
#: how deep the chain of causes is searched
DEEPEST = 8

_spark_converts = captured.convert_exception
_made: dict[str, Any] = {}


def install() -> None:
    """Make PySpark raise pyhudi's classes in this process; idempotent."""
    module: Any = captured
    module.convert_exception = _convert


def _convert(error: Any) -> Any:
    if (interrupted := INTERRUPTS.take()) is not None:
        return interrupted
    own = _ours(error)
    converted = _spark_converts(error if own is None else own)
    ours = LAST_ERROR.find(str(converted)) or (own and error_from_text(str(converted)))
    if ours is None:
        return converted
    kind = _both(type(converted), type(ours))
    both = kind.__new__(kind)
    both.__dict__.update(converted.__dict__)
    both.__dict__.update(ours.__dict__)
    both.args = converted.args
    return both


def _ours(error: Any) -> Any:
    """``error`` itself if it is pyhudi's, or the one that made its job fail; None if neither."""
    for _ in range(DEEPEST + 1):
        if error is None or error.getClass().getName() == OURS:
            return error
        error = error.getCause()
    return None


def _both(spark: type[Exception], ours: type[HudiError]) -> Any:
    """A class derived from both; one for each pair."""
    key = f"{spark.__name__} {ours.__name__}"
    if key not in _made:
        inside = {"__doc__": ours.__doc__, "__module__": __name__}
        _made[key] = type(ours.__name__, (spark, ours), inside)
    return _made[key]
