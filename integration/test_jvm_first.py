"""Where the JVM starts first: spark-sql, servers and applications that no Python program drives."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from integration.jvm_first import (
    ANSWER_S,
    REPO,
    ConnectClient,
    Place,
    compiled,
    connect_server,
    run_to_its_end,
    shown,
    spark_sql,
    started,
    thrift_server,
)
from integration.strays import stray_files
from pyhudi.clock import SystemClock
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.storage.open import open_storage
from tests.process_facts import eventually, threads
from tests.spark_lines import LINES

OLDEST, NEWEST = LINES

CREATE = """create table fares (id bigint, fare double, version int, city string) using pyhudi
partitioned by (city) tblproperties (primaryKey = 'id', preCombineField = 'version')"""
INSERT = "insert into fares values (1, 10.0, 1, 'Oslo'), (2, 20.0, 1, 'Lima'), (3, 30.0, 1, 'Lima')"
NEWS = "(select 2L id, 5.0D fare, 3 version, 'Lima' city union all select 9L, 9.0D, 1, 'Rome')"
MERGE = f"""merge into fares t using {NEWS} s on t.id = s.id
when matched then update set * when not matched then insert *"""
CHANGES = [
    "update fares set fare = fare * 2, version = version + 1 where id = 1",
    "delete from fares where id = 3",
    MERGE,
]
#: what they answer: how many rows they changed
CHANGED: list[list[tuple[object, ...]]] = [[(1,)], [(1,)], [(2, 1, 0, 1)]]
ROWS = "select id, fare, version, city from fares order by id"
AFTER = [(1, 20.0, 2, "Oslo"), (2, 5.0, 3, "Lima"), (9, 9.0, 1, "Rome")]


def tabbed(rows: list[tuple[object, ...]]) -> list[str]:
    return ["\t".join(map(str, row)) for row in rows]


def told_of_changes() -> list[str]:
    return tabbed([row for rows in CHANGED for row in rows])


@pytest.fixture
def place(tmp_path: Path) -> Callable[..., Place]:
    def made(line: str, **settings: str) -> Place:
        return Place(tmp_path, line, {key.replace("_", "."): v for key, v in settings.items()})

    return made


@contextmanager
def locked(table: Path) -> Iterator[None]:
    """A time in which another writer has the table's lock."""
    clock = SystemClock()
    lock = FilesystemLock(open_storage(str(table), {}, clock), clock)
    lock.acquire(20, LockOwner.this_process("20240501123005123"))
    try:
        yield
    finally:
        lock.release()


def instants(table: Path, state: str) -> set[str]:
    return {file.name for file in (table / ".hoodie" / "timeline").glob(f"*.{state}")}


@pytest.mark.parametrize("line", [OLDEST, pytest.param(NEWEST, marks=pytest.mark.matrix)])
def test_spark_sql_works_through_every_end_of_its_planner(
    line: str, place: Callable[..., Place]
) -> None:
    here = place(line)
    with spark_sql(here) as sql:
        assert sql.run("select 1 + 1") == ["2"]
        assert here.planners() == [], "nothing of Hudi was asked for yet"
        sql.run("set hoodie.client.heartbeat.interval_in_ms=5000")
        for statement in (CREATE, INSERT, *CHANGES):
            sql.run(statement)
        assert sql.run(ROWS) == tabbed(AFTER)
        (first,) = here.planners()

        told = sql.error("insert into fares values (null, 1.0, 1, 'Oslo')")
        assert "[INVALID_RECORD]" in told
        assert "Traceback" not in told

        os.kill(first, signal.SIGINT)
        assert sql.run(ROWS) == tabbed(AFTER)
        assert here.planners() == [first], "Ctrl-C in the terminal is for the statement"

        os.kill(first, signal.SIGKILL)
        assert sql.run(ROWS) == tabbed(AFTER), "one that dies while idle is not missed"
        (second,) = here.planners()
        assert second != first

        table = here.folder / "lake" / "fares"
        before = (here.folder / "log").stat().st_size
        begun = instants(table, "inflight")
        with locked(table):
            sql.send("update fares set fare = 0")
            assert eventually(lambda: instants(table, "inflight") > begun, 120)
            os.kill(second, signal.SIGKILL)
            told = sql.error_since(before)
        assert "[COMMIT_UNKNOWN] pyhudi's Python process was lost while it answered" in told
        assert "signal 9 ended it" in told
        assert sql.run(ROWS) == tabbed(AFTER)
        sql.run("delete from fares where id = 9")
        assert sql.run(ROWS) == tabbed(AFTER[:-1])

        os.kill(here.jvm(), signal.SIGKILL)
        assert here.is_deserted()


# -- applications


@pytest.mark.matrix
@pytest.mark.parametrize("line", LINES)
def test_an_application_on_the_jvm_leaves_nothing_behind(
    line: str, place: Callable[..., Place]
) -> None:
    here = place(line)
    compiled(here, REPO / "integration" / "Rides.java")
    said = [f"{here.folder}/by_path", CREATE, INSERT, *CHANGES, ROWS]
    command = f"{shown('spark-submit --class Rides')} {shlex.join(said)}"
    lines = [line for line in run_to_its_end(here, command) if line.startswith("row ")]
    assert lines == [f"row {row}" for row in ["0", "1", "2", *told_of_changes(), *tabbed(AFTER)]]
    assert here.is_deserted()


# -- the Thrift server


@pytest.fixture(scope="module", params=LINES)
def thrift(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, str]]:
    with thrift_server(tmp_path_factory.mktemp("thrift"), request.param) as running:
        yield running


class Beeline:
    """A JDBC client in a process of its own, whose statements come from a file."""

    def __init__(self, server: Place, url: str, folder: Path) -> None:
        self._place = Place(folder, server.line)
        self._url = url

    def command(self, *statements: str, more: str = "") -> str:
        script = self._place.folder / f"{uuid.uuid4().hex}.sql"
        script.write_text("".join(f"{' '.join(s.split())};\n" for s in statements))
        shape = "--silent=true --outputformat=tsv2 --showHeader=false"
        return f"beeline -u {self._url} {shape} {more} -f {script}"

    def run(self, *statements: str) -> list[str]:
        shown = run_to_its_end(self._place, self.command(*statements))
        # For each statement without rows it shows "null" and blanks, at times on a row's own line.
        return [line for line in (text.removeprefix("null").strip() for text in shown) if line]

    def error(self, statement: str) -> str:
        told = run_to_its_end(self._place, self.command(statement, more="--force=true") + " 2>&1")
        return "\n".join(told)


@pytest.mark.matrix
def test_a_jdbc_client_reads_and_changes_tables(thrift: tuple[Place, str], tmp_path: Path) -> None:
    beeline = Beeline(*thrift, tmp_path)
    assert beeline.run(CREATE, INSERT, *CHANGES, ROWS) == [*told_of_changes(), *tabbed(AFTER)]
    told = beeline.error("insert into fares values (null, 1.0, 1, 'Oslo')")
    assert "[INVALID_RECORD]" in told


@pytest.mark.matrix
def test_jdbc_sessions_at_once_keep_their_settings_apart(
    thrift: tuple[Place, str], tmp_path: Path
) -> None:
    here, _ = thrift
    beeline = Beeline(*thrift, tmp_path)

    def make(version: str) -> list[str]:
        statements = [f"set hoodie.write.table.version={version}"]
        for number in range(3):
            table = f"of_{version}_{number}"
            statements.append(f"create table {table} using pyhudi as select {number} as id")
        return beeline.run(*statements)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(make, "689"))
    for version in "689":
        for number in range(3):
            table = here.folder / "lake" / f"of_{version}_{number}"
            properties = (table / ".hoodie" / "hoodie.properties").read_text()
            assert f"hoodie.table.version={version}\n" in properties


SLOW = "length(reflect('java.lang.Thread', 'sleep', 1000L))"


@pytest.mark.matrix
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_a_statement_that_a_jdbc_client_cancels_leaves_nothing_pending(
    operation: str, thrift: tuple[Place, str], tmp_path: Path
) -> None:
    here, url = thrift
    beeline = Beeline(here, url, tmp_path)
    name = f"cut_{operation}"
    table = here.folder / "lake" / name
    beeline.run(
        f"create table {name} (id bigint, n bigint) using pyhudi tblproperties (primaryKey = 'id')",
        f"insert into {name} values (1, 1)",
    )
    (planner,) = here.planners()
    begun = instants(table, "requested")

    url = f"{url}/default?hoodie.spark.sql.insert.into.operation={operation}"
    slow = f"insert into {name} select id + 2, {SLOW} from range(0, 240, 1, 2)"
    client = Place(tmp_path, here.line)
    with cancelled_later(client, url, slow, *afterwards(name)) as process:
        assert eventually(lambda: instants(table, "requested") > begun, 120)
        shown, _ = process.communicate("now\n", timeout=ANSWER_S)

    first, *rows = shown.splitlines()
    assert first.startswith("error"), shown
    assert rows == ["row 1 1", "row 2 2"]
    assert here.planners() == [planner]
    assert stray_files(table) == set()


@contextmanager
def cancelled_later(
    client: Place, url: str, statement: str, *more: str
) -> Iterator[subprocess.Popen[str]]:
    """A JDBC client that cancels ``statement`` once told to, and then runs the others."""
    jar = compiled(client, REPO / "integration" / "Cancelled.java")
    said = [url, statement, *more]
    command = f"java -cp '{client.spark_jars}/*:{jar}' Cancelled {shlex.join(said)}"
    with started(client, command) as process:
        yield process


def afterwards(name: str) -> tuple[str, str]:
    """A row more for the table, and its rows."""
    rows = f"select concat(id, ' ', n) from {name} order by id"
    return f"insert into {name} values (2, 2)", rows


@pytest.mark.matrix
def test_a_statement_that_is_cancelled_while_it_waits_for_the_lock_commits_nothing(
    thrift: tuple[Place, str], tmp_path: Path
) -> None:
    here, url = thrift
    name = "cut_at_the_lock"
    table = here.folder / "lake" / name
    Beeline(here, url, tmp_path).run(
        f"create table {name} (id bigint, n bigint) using pyhudi tblproperties (primaryKey = 'id')",
        f"insert into {name} values (1, 1)",
    )
    files = len(list(table.glob("*.parquet")))

    url, quick = f"{url}/default", f"update {name} set n = 7"
    client = Place(tmp_path, here.line)
    with cancelled_later(client, url, quick, *afterwards(name)) as process:
        with locked(table):
            assert eventually(lambda: len(list(table.glob("*.parquet"))) > files, 120)
            time.sleep(3)  # what is behind the data file asks the lock alone
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("now\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith("error")
        shown, _ = process.communicate(timeout=ANSWER_S)

    assert shown.splitlines() == ["row 1 1", "row 2 2"]
    assert eventually(lambda: stray_files(table) == set(), 60)


# -- Spark Connect


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, ConnectClient]]:
    with connect_server(tmp_path_factory.mktemp("connect"), NEWEST) as running:
        yield running


@pytest.mark.matrix
def test_a_remote_client_without_pyhudi_reads_and_changes_tables(
    connect: tuple[Place, ConnectClient],
) -> None:
    _, client = connect
    found = client.run("statements", CREATE, INSERT, *CHANGES, ROWS)
    assert [tuple(row) for row in found["rows"]] == AFTER
    assert found["by_path"] == [[1, "a"], [2, "c"]]
    assert "[TABLE_NOT_FOUND]" in found["error"]


@pytest.mark.matrix
def test_each_batch_of_a_remote_stream_is_in_its_table_once(
    connect: tuple[Place, ConnectClient],
) -> None:
    _, client = connect
    assert client.run("streams") == [[[0], [1], [2]], [[0], [1], [2]], [[3]]]


@pytest.mark.matrix
def test_a_remote_stream_of_a_table_gives_its_rows_and_its_changes(
    connect: tuple[Place, ConnectClient],
) -> None:
    _, client = connect
    told = client.run("followed")
    assert told["found"] == [
        [[[1, "a"], [2, "a"]], [[1, "i", "a"], [2, "i", "a"]]],
        [[[1, "a"], [2, "b"], [3, "b"]], [[1, "i", "a"], [2, "u", "b"], [3, "i", "b"]]],
        [[[1, "a"], [2, "b"], [3, "b"]], [[1, "d", None], [2, "u", "b"], [3, "i", "b"]]],
    ]
    assert "hoodie.datasource.streaming.startOffset" in told["error"]


@pytest.mark.matrix
def test_sessions_at_once_keep_their_settings_and_views_apart(
    connect: tuple[Place, ConnectClient],
) -> None:
    here, client = connect
    count = 4
    running = [client.start("tables_of_version", version, str(count)) for version in "689"]
    assert [client.answer(process) for process in running] == ["made"] * 3
    for version in "689":
        for number in range(count):
            table = here.folder / f"of_{version}_{number}"
            properties = (table / ".hoodie" / "hoodie.properties").read_text()
            assert f"hoodie.table.version={version}\n" in properties
            assert pq.read_table(next(table.glob("*.parquet")))["name"].to_pylist() == [version]


@pytest.mark.matrix
def test_many_statements_leave_no_threads_behind(connect: tuple[Place, ConnectClient]) -> None:
    here, client = connect
    path = str(here.folder / "asked")
    client.run("write_at", path)
    assert client.run("questions", path, "2") == [1, 1]
    (planner,) = here.planners()
    before = threads(planner)
    running = [client.start("questions", path, "25") for _ in range(4)]
    assert [client.answer(process) for process in running] == [[1] * 25] * 4
    assert threads(planner) <= before + 4


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["interrupted", "bereaved"])
def test_a_write_that_is_cut_short_ends_at_once_and_commits_nothing(
    how: str, connect: tuple[Place, ConnectClient]
) -> None:
    here, client = connect
    path = here.folder / how
    client.run("write_at", str(path))
    began = here.folder / "began"
    began.unlink(missing_ok=True)
    process = client.start("interrupted" if how == "interrupted" else "slow_write", str(path))
    assert eventually(began.exists, 120)
    if how == "bereaved":
        (planner,) = here.planners()
        os.kill(planner, signal.SIGKILL)
    found = client.answer(process, "now\n")  # it does not wait for the rows
    if how == "bereaved":
        assert "[COMMIT_UNKNOWN] pyhudi's Python process was lost" in found["error"]
        assert "signal 9 ended it" in found["error"]
    assert client.run("questions", str(path), "1") == [1]
    client.run("write_at", str(path))
    assert client.run("questions", str(path), "1") == [1]
