"""Two tables of one application whose writes have the same instant."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pyhudi.application.jobs import Jobs
from pyhudi.application.runtime import Runtime
from pyhudi.spark.session import spark_runtime
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.write import write_table
from tests.fakes import FakeClock
from tests.spark.tables import OPTIONS, Lake, model_of, rows_of

pytestmark = pytest.mark.spark


@dataclass
class Overlapping:
    """The jobs of an application, seen between two writes: the first is not forgotten yet."""

    real: Jobs
    forgotten: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def forget(self, key: str) -> None:
        self.forgotten.append(key)


def at_one_time(runtime: Runtime, jobs: Jobs) -> Runtime:
    return replace(runtime, clock=FakeClock(), jobs=jobs)


def test_writes_of_two_tables_with_one_instant_are_two_to_the_tracker_of_attempts(
    lake: Lake,
) -> None:
    runtime = spark_runtime(lake.spark)
    jobs: Any = Overlapping(runtime.jobs)
    rows, instants = rows_of(0, 6, "a"), []
    for name in ("one", "two"):
        table = lake.table(name)
        root = table.path
        same = at_one_time(runtime, jobs)
        df, intent = table.frame(rows), Intent(Route.SAVE)
        done = write_table(same, df, root, OPTIONS, {}, lambda exists, i=intent: i)  # type: ignore[misc]
        assert done is not None
        instants.append(done.instant)
        assert table.rows() == model_of(rows)

    first, second = jobs.forgotten
    assert instants[0] == instants[1]
    assert first != second
    for key in jobs.forgotten:
        runtime.jobs.forget(key)
