"""Each kind of client: its first table is one call, a write stopped half way leaves nothing, and
mistakes get clear errors.

The write is stopped when two of its four tasks have written their data files and the others have
not. Then nothing of it may be visible or left in the table, and the client must still work.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.jvm_first import (
    ANSWER_S,
    REPO,
    ConnectClient,
    Place,
    compiled,
    connect_server,
    spark_sql,
    started,
    thrift_server,
)
from integration.notebook import notebook
from integration.strays import stray_files, unnamed_files
from integration.test_jvm_first import Beeline, cancelled_later
from pyhudi.services.failed_writes import clean_failed_writes
from pyhudi.timeline.history import history
from tests.mistakes import TABLES, data_files, unclear
from tests.process_facts import eventually, marked
from tests.spark_lines import LINES

OLDEST, NEWEST = LINES
BOTH = [OLDEST, pytest.param(NEWEST, marks=pytest.mark.matrix)]

#: two tasks that end at once, and two that take longer than any answer may
SLOW = """select id, if(id < 200000 or id % 2000 > 0, id,
length(reflect('java.lang.Thread', 'sleep', 7000L))) as n from range(100, 400000, 1, 4)"""
FIRST = """create table rides using pyhudi tblproperties (primaryKey = 'id')
as select id, id * 2 as n from range(3)"""
INSERT = f"insert into rides {SLOW}"
NEXT = "insert into rides values (9, 9)"
ROWS = "select concat(id, ' ', n) from rides order by id"
LEFT, AFTER = ["0 0", "1 2", "2 4"], ["0 0", "1 2", "2 4", "9 9"]
BULK = "hoodie.spark.sql.insert.into.operation=bulk_insert"
SETTING = f"set {BULK}"


def is_half_written(table: Path) -> Callable[[], bool]:
    """Whether the table has more data files than it has now."""
    before = len(list(table.glob("*.parquet")))
    return lambda: len(list(table.glob("*.parquet"))) > before


def is_clean(table: Path) -> bool:
    return stray_files(table) == set()


ONE_CALL = """
import pyhudi
from pyspark.sql import SparkSession
spark = pyhudi.configure(SparkSession.builder).getOrCreate()
rides = spark.range(3).selectExpr("id", "id * 2 as n").write.format("pyhudi")
rides.option("hoodie.datasource.write.recordkey.field", "id").save({path!r})
"""
LONG = """
print("writing", flush=True)
rows = spark.sql({slow!r}).write.format("pyhudi").mode("append")
rows.option("hoodie.datasource.write.operation", "bulk_insert").save({path!r})
"""
COUNT = "print(sorted(tuple(r) for r in spark.read.format('pyhudi').load({path!r}).collect()))"
MORE = "spark.sql('select 9L as id, 9L as n').write.format('pyhudi').mode('append').save({path!r})"


@pytest.mark.parametrize("line", BOTH)
def test_a_notebook(line: str, tmp_path: Path) -> None:
    table = tmp_path / "rides"
    first, long, count, more = (
        cell.format(path=str(table), slow=SLOW) for cell in (ONE_CALL, LONG, COUNT, MORE)
    )
    with notebook(Place(tmp_path, line)) as cells:
        assert cells.run(first) == ""
        half_written = is_half_written(table)
        cell = cells.begin(long)
        assert eventually(half_written, ANSWER_S)
        cells.interrupt()
        _, error = cells.shown(cell)
        assert "KeyboardInterrupt: The statement was cancelled. Nothing of it is visible." in error
        assert is_clean(table), "rolled back at once"
        assert cells.run(count) == "[(0, 0), (1, 2), (2, 4)]"
        cells.run(more)
        assert cells.run(count) == "[(0, 0), (1, 2), (2, 4), (9, 9)]"


@pytest.mark.parametrize("line", BOTH)
def test_an_application_of_spark_submit(line: str, tmp_path: Path) -> None:
    # Ctrl-C in a terminal ends the JVM of spark-submit, and with it the application.
    table = tmp_path / "rides"
    program = tmp_path / "rides.py"
    program.write_text((ONE_CALL + LONG).format(path=str(table), slow=SLOW))
    here = Place(tmp_path, line)
    with started(here, f"spark-submit {program}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        assert eventually(is_half_written(table), ANSWER_S)
        for pid in marked(here.mark):
            os.kill(pid, signal.SIGINT)
        assert process.wait(ANSWER_S) != 0
        assert here.is_deserted()

    def rolled_back() -> bool:
        clean_failed_writes(str(table))
        return is_clean(table)

    # The last threads of the process may take a moment to end, but no heartbeat has to lapse.
    assert eventually(rolled_back, 60)
    assert len([entry for entry in history(str(table)) if entry.action.value == "commit"]) == 1


@pytest.mark.parametrize("line", BOTH)
def test_the_shell_of_spark_sql(line: str, tmp_path: Path) -> None:
    here = Place(tmp_path, line)
    table = tmp_path / "lake" / "rides"
    with spark_sql(here) as sql:
        sql.run(FIRST)
        sql.run(SETTING)
        before = (tmp_path / "log").stat().st_size
        half_written = is_half_written(table)
        sql.send(INSERT)
        assert eventually(half_written, ANSWER_S)
        for pid in (here.jvm(), *here.planners()):
            os.kill(pid, signal.SIGINT)
        told = sql.error_since(before)
        assert "cancelled" in told, told
        assert is_clean(table), "rolled back at once"
        assert sql.run(ROWS) == LEFT
        sql.run(NEXT)
        assert sql.run(ROWS) == AFTER


# -- servers: the same, and each mistake is one clear error


@pytest.fixture(scope="module", params=BOTH)
def thrift(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, str]]:
    with thrift_server(tmp_path_factory.mktemp("thrift"), request.param) as running:
        yield running


@pytest.fixture(scope="module", params=BOTH)
def connect(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, ConnectClient]]:
    with connect_server(tmp_path_factory.mktemp("connect"), request.param) as running:
        yield running


def test_a_client_of_the_thrift_server(thrift: tuple[Place, str], tmp_path: Path) -> None:
    here, url = thrift
    table = here.folder / "lake" / "rides"
    assert Beeline(here, url, tmp_path).run(FIRST, ROWS) == LEFT
    half_written = is_half_written(table)
    url = f"{url}/default?{BULK}"
    with cancelled_later(Place(tmp_path, here.line), url, INSERT, NEXT, ROWS) as process:
        assert eventually(half_written, ANSWER_S)
        shown, _ = process.communicate("now\n", timeout=ANSWER_S)
    first, *rows = shown.splitlines()
    assert first.startswith("error"), shown
    assert rows == [f"row {row}" for row in AFTER]
    assert eventually(lambda: stray_files(table) == set(), 60)


def test_a_client_of_the_connect_server(connect: tuple[Place, ConnectClient]) -> None:
    here, client = connect
    table = here.folder / "lake" / "rides"
    process = client.start("cut_short", FIRST, SETTING, INSERT, NEXT, ROWS)
    assert eventually((here.folder / "ready").exists, ANSWER_S)
    assert eventually(lambda: unnamed_files(table) != set(), ANSWER_S)
    found = client.answer(process, "now\n")
    assert "cancel" in found["error"].lower(), found["error"]
    assert [row for (row,) in found["rows"]] == AFTER
    assert is_clean(table)


def test_a_stream_of_the_connect_server_by_name(connect: tuple[Place, ConnectClient]) -> None:
    _, client = connect
    found = client.run("named_streams")
    assert found["rows"] == [[[0, "c0"], [1, "c1"], [2, "c0"]]] * 2, "each batch is in once"
    assert found["partitions"] == [[["city=c0"], ["city=c1"]]] * 2
    assert found["queries"] == [1, 1]
    assert "nothing" in found["wrong"]
    assert "wrong" not in found["tables"], "options that do not fit leave no table"


@pytest.mark.parametrize("connect", [pytest.param(NEWEST, marks=pytest.mark.matrix)], indirect=True)
def test_metrics_of_frames_that_a_remote_session_writes(
    connect: tuple[Place, ConnectClient],
) -> None:
    """Remote sessions of Spark 3.5 have no Observation."""
    _, client = connect
    assert client.run("observed") == [{"rows": 100, "sum": 4950}] * 3


def prepared(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The folders of the mistakes, and the statements that make their tables in a database."""
    places = {"lake": str(folder / "lake"), "parquet": str(folder / "parquet")}
    (folder / "parquet").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), folder / "parquet" / "some.parquet")
    tables = [statement.replace("{lake}", places["lake"]) for statement in TABLES]
    return places, ["CREATE DATABASE mistakes", "USE mistakes", *tables]


@pytest.mark.matrix
def test_mistakes_by_a_jdbc_client(thrift: tuple[Place, str], tmp_path: Path) -> None:
    here, url = thrift
    client = Place(tmp_path, here.line)
    jar = compiled(client, REPO / "integration" / "Statements.java")
    places, statements = prepared(tmp_path)
    with started(client, f"java -cp '{client.spark_jars}/*:{jar}' Statements {url}") as process:

        def run(statement: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{statement}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if answer.startswith("error"):
                # Behind the text Spark's Thrift server shows the stack of each of its errors.
                raise RuntimeError(answer.replace("\\n", "\n").partition("\n\tat ")[0])
            assert answer == "ok\n"

        for statement in statements:
            run(statement)
        before = data_files(places)
        wrong = unclear(run, places)
    assert not wrong, "\n".join(wrong)
    assert data_files(places) == before


def test_mistakes_by_a_remote_session(connect: tuple[Place, ConnectClient], tmp_path: Path) -> None:
    _, client = connect
    places, statements = prepared(tmp_path)
    wrong = client.run("mistaken", json.dumps(places), *statements)
    assert not wrong, "\n".join(wrong)
