"""A metastore embedded in one session, as Spark makes it in the folder where it runs.

Spark's own client keeps the entries there. They are what ``SHOW TABLE EXTENDED`` tells other tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conftest import NEWEST_PYTHON
from integration.peers import SparkPeer, pyhudi_on_spark

#: the catalog's warnings are seen, whatever the level of other loggers
LOGGERS = """\
rootLogger.level = error
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
logger.hive.name = org.apache.spark.sql.hive.HiveExternalCatalog
logger.hive.level = warn
"""


@pytest.fixture(scope="module", params=["oldest", pytest.param("newest", marks=pytest.mark.matrix)])
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkPeer]:
    folder = tmp_path_factory.mktemp("embedded")
    (folder / "log.properties").write_text(LOGGERS)
    conf = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
        "spark.driver.extraJavaOptions": (
            f"-Dderby.stream.error.file={folder}/derby.log "
            f"-Dlog4j2.configurationFile={folder}/log.properties"
        ),
        "spark.driver.memory": "1g",
    }
    if request.param == "newest":
        peer = pyhudi_on_spark("pyhudi-newest", str(NEWEST_PYTHON), conf=conf)
    else:
        peer = pyhudi_on_spark(conf=conf)
    yield peer
    peer.close()


def columns(session: SparkPeer, name: str) -> dict[str, str]:
    """The comment of each column that DESCRIBE shows."""
    shown = session.texts(f"describe {name}")
    return {row[0]: row[2] for row in shown if row[0] and not row[0].startswith("#")}


def test_an_alter_changes_the_columns_and_comments_of_the_entry(session: SparkPeer) -> None:
    session.sql(
        "create table rides (id int, fare double, gone int, city string comment 'of the start') "
        "using pyhudi partitioned by (city) comment 'all rides' tblproperties (primaryKey = 'id')"
    )
    session.sql("insert into rides values (1, 2.5, 3, 'Oslo')")
    assert "which is NOT compatible with Hive" in session.log.read_text()
    said = len(session.log.read_text())
    session.sql("alter table rides alter column fare comment 'in euros'")
    session.sql("alter table rides add columns (tip double comment 'after the ride')")
    session.sql("alter table rides rename column fare to price")
    session.sql("alter table rides drop column gone")
    session.sql("alter table rides set tblproperties ('team' = 'rides')")

    for words in ("HiveException", "Failed to alter table"):
        assert words not in session.log.read_text()[said:]
    session.sql("create table others (id int) using pyhudi")
    assert "which is NOT compatible with Hive" in session.log.read_text()[said:]
    assert columns(session, "rides") == {
        "id": "NULL", "price": "in euros", "tip": "after the ride", "city": "of the start"
    }  # fmt: skip
    ((*_, entry),) = session.texts("show table extended like 'rides'")
    schema = [line.split()[1] for line in entry.splitlines() if line.startswith(" |-- ")]
    assert schema == ["id:", "price:", "tip:", "city:"]
    assert "Comment: all rides" in entry
    session.sql("insert into rides values (2, 1.5, 0.5, 'Lima')")
    assert session.texts("select id, price, tip, city from rides order by id") == [
        ["1", "2.5", "NULL", "Oslo"], ["2", "1.5", "0.5", "Lima"]
    ]  # fmt: skip


def test_a_definition_that_replaces_columns_changes_those_of_the_entry(
    session: SparkPeer,
) -> None:
    place = "using pyhudi partitioned by (city)"
    session.sql(
        f"create table fares (id int, fare double comment 'in euros', city string) {place} "
        "tblproperties (primaryKey = 'id')"
    )
    said = len(session.log.read_text())
    session.sql(
        "create or replace table fares (fare array<string> comment 'a list', id int, "
        f"code char(4), city string) {place}"
    )
    session.sql("insert into fares values (array('a'), 1, 'x', 'Oslo')")
    session.sql(
        f"create or replace table fares {place} as select id, fare[0] as tip, city from fares"
    )

    assert "HiveException" not in session.log.read_text()[said:]
    assert columns(session, "fares") == {"id": "NULL", "tip": "NULL", "city": "NULL"}
    ((*_, entry),) = session.texts("show table extended like 'fares'")
    schema = [line.split()[1] for line in entry.splitlines() if line.startswith(" |-- ")]
    assert schema == ["id:", "tip:", "city:"]
    assert session.texts("select * from fares") == [["1", "a", "Oslo"]]


@pytest.mark.parametrize("made", ["by the stream", "before"])
def test_each_batch_of_a_stream_is_once_in_the_table_of_its_name(
    session: SparkPeer, tmp_path: Path, made: str
) -> None:
    name, source = f"streamed_{made[:2]}", tmp_path / "source"
    source.mkdir()
    if made == "before":
        session.sql(
            f"create table {name} (id int, city string) using pyhudi partitioned by (city) "
            "tblproperties (primaryKey = 'id')"
        )
    for number, city in enumerate(("Oslo", "Lima", "Rome")):
        (source / f"{number}.json").write_text(json.dumps({"id": number, "city": city}))
        session.call(
            "stream_by_name", name=name, source=str(source), schema="id int, city string",
            checkpoint=str(tmp_path / "c"), partitions=["city"],
            options={
                "hoodie.datasource.write.recordkey.field": "id",
                "hoodie.datasource.write.operation": "insert",
            },
        )  # fmt: skip
        # Spark repeats a batch that it had not noted when its driver died.
        for left in (f".{number}.crc", f"{number}"):
            (tmp_path / "c" / "commits" / left).unlink()
    assert session.texts(f"select id, city from {name} order by id") == [
        ["0", "Oslo"], ["1", "Lima"], ["2", "Rome"]
    ]  # fmt: skip
    assert session.texts(f"show partitions {name}") == [["city=Lima"], ["city=Oslo"], ["city=Rome"]]
    session.sql(f"drop table {name}")
