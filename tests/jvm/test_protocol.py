"""The shim and the golden files of the protocol: it asks as they do, and reads what they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyhudi.spark.protocol import QUESTIONS
from pyhudi.spark.wire import decode
from tests.jvm.fake_planner import FakePlanner
from tests.jvm.reading import load, plan_text, rows

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

FILES = Path(__file__).parents[1] / "protocol"
GOLDEN: dict[str, Any] = {file.stem: json.loads(file.read_text()) for file in FILES.iterdir()}
#: entries in a Hive Metastore, which this session does not share; integration/test_hive_metastore
OF_A_METASTORE = {
    "register_table", "forget_entry", "alter_entry", "rename_entry", "sync_partitions"
}  # fmt: skip

#: questions of the procedures: what is called, and what it needs behind the table
CALLS = {
    "serve": ("clean", ""),
    "clean_failed_writes": ("clean_failed_writes", ""),
    "savepoint": ("savepoint", ""),
    "delete_savepoint": ("delete_savepoint", ", '20260101000000000'"),
    "restore": ("restore", ", '20260101000000000'"),
    "why": ("why", ", '1'"),
    "bins": ("bins", ""),
    "put_back": ("put_back", ", '20260101000000000'"),
}

STATEMENTS = (
    "INSERT INTO trips VALUES (1, 'mon'), (2, 'tue')",
    "INSERT INTO trips SELECT id + 2, day FROM trips",
    "INSERT OVERWRITE trips PARTITION (day = 'mon') SELECT 5",
    "UPDATE trips SET id = 9 WHERE id = 999",
    (
        "MERGE INTO trips t USING (SELECT 7L id, 'wed' day) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "SHOW PARTITIONS trips",
    "SELECT count(*) FROM trips",
    "SELECT max(id) FROM trips",
    "SELECT id FROM trips WHERE day = 'mon' AND id > 1",
    "SELECT * FROM trips.history",
    "ALTER TABLE trips ADD COLUMNS (fare DOUBLE)",
    "ALTER TABLE trips SET TBLPROPERTIES ('team' = 'fares')",
    "DELETE FROM trips WHERE day = 'mon'",
    "TRUNCATE TABLE trips",
    "ALTER TABLE trips RENAME TO rides",
    "DROP TABLE rides",
    "CREATE TABLE taken USING pyhudi AS SELECT 1L AS id, assert_true(false) AS no",
)


@pytest.fixture(autouse=True)
def _clean(spark: SparkSession, planner: FakePlanner) -> Iterator[None]:
    yield
    planner.golden.clear()
    for table in ("trips", "rides", "taken"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def test_each_question_of_the_shim_has_the_keys_of_its_golden_file(
    spark: SparkSession, planner: FakePlanner, path: str, tmp_path: Path
) -> None:
    """What a question says beside its keys is what the tests of its statement look at."""
    answered = "aggregate partition_values inspect rename_table change_rows write_batch"
    for name in answered.split():
        planner.golden[name] = GOLDEN[name]["answer"]
    planner.decisive = {"day"}
    spark.createDataFrame([(1, "mon")], "id long, day string").write.format("pyhudi").save(path)
    assert load(spark, path).count() == 1
    assert rows(load(spark, path, changes="true").select("after")) == [("{}",)]
    stream = spark.readStream.format("pyhudi").load(path).writeStream.format("noop")
    stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()
    assert [r["end"] for name, r in planner.calls if name == "plan_batch"] == ["1", "2"]
    stream = spark.readStream.format("pyhudi").load(path).writeStream.format("pyhudi")
    stream = stream.option("checkpointLocation", str(tmp_path / "into"))
    stream.trigger(availableNow=True).start(path).awaitTermination()
    spark.sql(f"CREATE TABLE IF NOT EXISTS pyhudi.`{path}` (id BIGINT, day STRING)")
    spark.sql("CREATE TABLE trips (id BIGINT, day STRING) USING pyhudi PARTITIONED BY (day)")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql("INSERT OVERWRITE trips VALUES (3, 'thu')")
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    for statement in STATEMENTS:
        try:
            spark.sql(statement).collect()
        except Exception:
            assert "assert_true" in statement, statement
    for question, (call, more) in CALLS.items():
        planner.golden[question] = GOLDEN[question]["answer"]
        spark.sql(f"CALL pyhudi.system.{call}('{path}'{more})").collect()

    asked = dict(planner.calls)
    missing = set(QUESTIONS) - OF_A_METASTORE - set(asked) - {"spool_abort", "tell_failure"}
    assert missing == set()
    for name, request in planner.calls:
        golden = GOLDEN[name]["request"]
        assert request.keys() == {**golden["place"], **golden["ask"]}.keys(), name


#: a table whose filters are those of the golden question, one condition for each of them
COLUMNS = (
    "flag BOOLEAN, small SMALLINT, big BIGINT, real DOUBLE, money DECIMAL(10, 2), day DATE, "
    "at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, name STRING, number INT, head STRING, "
    "tail STRING, middle STRING, gone STRING, there STRING, x INT, y INT, z INT, "
    "span INTERVAL YEAR, late DATE"
)
CONDITIONS = (
    "flag",
    "small > 3",
    "big >= 9007199254740993",
    "real < 1.5",
    "money <= 12.5",
    "day = DATE'1500-01-02'",
    "late > DATE'+10183-09-21'",
    "at = TIMESTAMP'2024-01-01 00:00:00'",
    "local = TIMESTAMP_NTZ'2024-01-01 00:00:00'",
    "raw = X'6162'",
    "name <=> 'ann'",
    "number IN (1, 2, NULL)",
    "head LIKE 'a%'",
    "tail LIKE '%a'",
    "middle LIKE '%a%'",
    "gone IS NULL",
    "there IS NOT NULL",
    "x = 1 OR y = 2 OR (x = 3 AND y = 4)",
    "NOT z <=> 7",
    "span = INTERVAL '1' YEAR",
)


def test_each_filter_of_the_golden_question_is_asked_as_it_is_there(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    schema = json.loads(spark.createDataFrame([], COLUMNS).schema.json())
    planner.golden["describe"] = {**GOLDEN["describe"]["answer"], "schema": schema}
    planner.golden["plan_scan"] = {**GOLDEN["plan_scan"]["answer"], "files": []}
    golden = decode(QUESTIONS["decide"].ask, GOLDEN["decide"]["request"]["ask"], "decide").filters
    for condition, expected in zip(CONDITIONS, golden, strict=True):
        load(spark, path).where(condition).collect()
        *_, found = planner.named("plan_scan")[-1]["filters"]
        assert found == expected, condition


#: an ALTER for each change of the golden question
ALTERS = (
    "ADD COLUMNS (tip DOUBLE)",
    "ADD COLUMNS (trip.`a.b` ARRAY<BIGINT> FIRST)",
    "ALTER COLUMN fare TYPE DOUBLE",
    "RENAME COLUMN trip.from TO start",
    "ALTER COLUMN fare AFTER id",
    "ALTER COLUMN trip DROP NOT NULL",
    "DROP COLUMN note",
    "ALTER COLUMN id SET NOT NULL",
    "ALTER COLUMN id SET DEFAULT 1",
)
ALTERED = "id BIGINT NOT NULL, note STRING, fare FLOAT, trip STRUCT<from: STRING> NOT NULL"


def test_each_change_of_the_golden_question_is_asked_as_it_is_there(
    spark: SparkSession, planner: FakePlanner, path: str
) -> None:
    schema = json.loads(spark.createDataFrame([], ALTERED).schema.json())
    planner.golden["describe"] = {**GOLDEN["describe"]["answer"], "schema": schema}
    planner.golden["alter_columns"] = GOLDEN["alter_columns"]["answer"]
    ask = GOLDEN["alter_columns"]["request"]["ask"]
    golden = decode(QUESTIONS["alter_columns"].ask, ask, "alter_columns").changes
    # Since 4.1 Spark judges a default before it asks the table.
    asked = ALTERS[:-1] if pyspark.__version__ >= "4.1" else ALTERS
    for statement, expected in zip(asked, golden[: len(asked)], strict=True):
        spark.sql(f"ALTER TABLE pyhudi.`{path}` {statement}")
        assert planner.named("alter_columns")[-1]["changes"] == (expected,), statement


@pytest.fixture
def told(planner: FakePlanner) -> FakePlanner:
    """A planner that answers what the golden files do."""
    planner.golden = {name: file["answer"] for name, file in GOLDEN.items()}
    planner.golden["describe"] = {**planner.golden["describe"], "travels": False}
    return planner


def test_the_shim_reads_the_golden_answers_about_a_table(
    spark: SparkSession, told: FakePlanner
) -> None:
    frame = load(spark, "/lake/trips")
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema] == [
        ("id", "bigint"), ("day", "string"),
    ]  # fmt: skip
    assert frame.count() == GOLDEN["count"]["answer"]
    assert rows(frame.selectExpr("count(*)", "max(id)")) == [(2, None)]
    narrowed = plan_text(frame.where("day = 'mon' and id in (1, 2)"))
    assert "PartitionFilters: [IsNotNull(day)]" in narrowed, "the first of the filters"
    history = spark.sql("SELECT * FROM pyhudi.`/lake/trips`.history")
    assert history.dtypes == [("instant", "string"), ("rows", "bigint")]
    assert rows(history)[0] == ("20260101000000000", 2)
    shown = [("day=__HIVE_DEFAULT_PARTITION__",), ("day=mon",)]
    assert rows(spark.sql("SHOW PARTITIONS pyhudi.`/lake/trips`")) == shown


def test_the_shim_reads_a_golden_plan(spark: SparkSession, told: FakePlanner) -> None:
    frame = load(spark, "/lake/trips")
    with pytest.raises(Exception, match="a.parquet"):
        frame.collect()


def test_a_planner_of_another_version_is_not_registered(
    spark: SparkSession, planner: FakePlanner
) -> None:
    bridge = spark.sparkContext._jvm.io.pyhudi.Bridge
    with pytest.raises(AnalysisException, match="the Python package has version other"):
        bridge.register(planner, "a secret", "other")
    assert bridge.isRegistered()
