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
from tests.jvm.fake_planner import FakePlanner
from tests.jvm.reading import load, plan_text, rows

pytestmark = [pytest.mark.spark, pytest.mark.every_line]

FILES = Path(__file__).parents[1] / "protocol"
GOLDEN: dict[str, Any] = {file.stem: json.loads(file.read_text()) for file in FILES.iterdir()}
#: entries in a Hive Metastore, which this session does not share; integration/test_hive_metastore
OF_A_METASTORE = {"register_table", "forget_entry", "alter_entry", "rename_entry"}

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
    for name in ("aggregate", "partition_values", "inspect", "rename_table", "change_rows"):
        planner.golden[name] = GOLDEN[name]["answer"]
    planner.decisive = {"day"}
    spark.createDataFrame([(1, "mon")], "id long, day string").write.format("pyhudi").save(path)
    assert load(spark, path).count() == 1
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
    if pyspark.__version__ >= "4":
        planner.golden["clean_failed_writes"] = GOLDEN["clean_failed_writes"]["answer"]
        spark.sql(f"CALL pyhudi.system.clean_failed_writes('{path}')").collect()

    asked = dict(planner.calls)
    missing = set(QUESTIONS) - OF_A_METASTORE - set(asked) - {"spool_abort"}
    assert missing <= ({"clean_failed_writes"} if pyspark.__version__ < "4" else set())
    for name, request in planner.calls:
        golden = GOLDEN[name]["request"]
        assert request.keys() == {**golden["place"], **golden["ask"]}.keys(), name


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
    assert rows(spark.sql("SHOW PARTITIONS pyhudi.`/lake/trips`")) == [("day=mon",), ("day=null",)]


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
