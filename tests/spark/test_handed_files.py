"""Files that Python hands to the JVM: however a query ends, none of its files stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pyhudi.application.handed_files import FILES
from pyhudi.errors import HistoryExpired, HudiError
from pyhudi.reads import log_slices, scan_plan
from pyhudi.reads.pins import PinnedQueries
from pyhudi.spark import endpoint
from pyhudi.spark.endpoint import Endpoint
from pyhudi.spark.interrupts import Interrupts
from pyhudi.spark.protocol import Nothing, Place
from pyhudi.spark.questions import Target
from pyhudi.spark.wire import encode
from tests.spark.tables import TYPE, HudiTable, Lake
from tests.spark.test_stream_source import CDC, Following

Left = Callable[[], list[str]]
ASKED = encode({"place": Place("/t", {}, {}, {}, None, None), "ask": Nothing()})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was handed to the JVM in this test: every plan, and rows of logs, which are many."""
    found: list[str] = []
    make = FILES.make

    def noted(kind: str, *given: object) -> str:
        found.append(make(kind, *given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(FILES, "make", noted)
    monkeypatch.setattr(scan_plan, "INLINE_FILES", -1)
    monkeypatch.setattr(log_slices, "HERE_ROWS", -1)
    return found


@pytest.fixture
def left(made: list[str]) -> Iterator[Left]:
    """The files that are still there; the test must have made some, and leave none.

    Other tests of the process ask without a JVM, which would read theirs.
    """

    def found() -> list[str]:
        return [name for name in made if Path(name).exists()]

    yield found
    assert made, "no answer came in a file"
    assert found() == []


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, lake: Lake) -> HudiTable:
    """Rows in base files; those of merge-on-read have logs too."""
    made = lake.table(**{TYPE: request.param, "hoodie.compact.inline": "false"})
    made.write([(1, "a", 1, "x"), (2, "a", 1, "y")])
    made.write([(1, "b", 2, "x")], "upsert")
    return made


@pytest.mark.spark
def test_queries_leave_nothing_whether_they_run_or_not(table: HudiTable, left: Left) -> None:
    df = table.df()
    df.where("id > 0").explain()
    assert left() == []
    df.where("id > 1")._jdf.queryExecution().executedPlan()  # planned, and never run
    assert left() == []
    assert len(df.collect()) == 2
    assert len(df.join(df.where("name = 'b'").select("dt"), "dt").collect()) == 1
    assert left() == []
    with pytest.raises(Exception, match="stop here"):
        df.select(F.raise_error(F.lit("stop here"))).collect()
    with pytest.raises(AnalysisException):
        df.where("id > 0").select("nothing")
    assert left() == []


@pytest.mark.spark
def test_a_plan_that_is_too_late_leaves_nothing(
    table: HudiTable, left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expired(*_: object) -> None:
        raise HistoryExpired("too late")

    df = table.df()
    monkeypatch.setattr(PinnedQueries, "_trust", expired)
    with pytest.raises(HudiError, match="too late"):
        df.collect()


@pytest.mark.spark
@pytest.mark.parametrize("options", [{}, CDC, {"maxFilesPerTrigger": "1"}], ids=str)
def test_streams_leave_nothing(
    table: HudiTable, left: Left, made: list[str], tmp_path: Path, options: dict[str, str]
) -> None:
    stream = Following(table, tmp_path / "c", options)
    assert stream.run()
    table.write([(3, "c", 1, "x")])
    assert stream.run()
    assert left() == []
    table.df().collect()  # a stream of changes makes no file


@pytest.mark.spark
def test_a_write_that_reads_its_table_leaves_nothing(
    spark: SparkSession, table: HudiTable, left: Left
) -> None:
    spark.sql(f"update pyhudi.`{table.path}` set name = 'u' where id = 2")
    spark.sql(f"delete from pyhudi.`{table.path}` where name = 'b'")
    assert [row[1] for row in table.rows().values()] == ["u"]
    assert left() == []


def test_a_file_goes_if_the_question_fails_after_it(made: list[str], left: Left) -> None:
    def fails(at: Target, ask: Nothing) -> bool:
        FILES.make("plan", pa.table({"n": [1]}))
        raise HistoryExpired("after the plan")

    told = Endpoint("secret", {"exists": fails}).call("secret", "exists", ASKED)
    assert "after the plan" in json.loads(told)["error"]["message"]


def test_a_file_goes_if_the_statement_was_interrupted(
    made: list[str], left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is then another one than that of the handler."""

    class Interrupted(Interrupts):
        def end(self, method: str, answer: str) -> str:
            assert made[-1] in answer
            return '{"error": {}}'

    def plans(at: Target, ask: Nothing) -> str:
        return FILES.make("plan", pa.table({"n": [1]}))

    monkeypatch.setattr(endpoint, "INTERRUPTS", Interrupted())
    Endpoint("secret", {"exists": plans}).call("secret", "exists", ASKED)
