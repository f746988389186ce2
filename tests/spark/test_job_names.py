"""Each Spark job of a write or a statement is named: who writes, where, which phase."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyhudi.writes import collected, single_pass
from tests.spark.tables import KEY, Lake, rows_of

pytestmark = pytest.mark.spark


def jobs(spark: SparkSession) -> dict[int, str]:
    """What Spark's UI shows of each job: its description, else where it was started."""
    spark._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    jvm: Any = spark._jvm
    found = spark._jsc.sc().statusStore().jobsList(jvm.java.util.ArrayList())
    every = jvm.scala.collection.JavaConverters.seqAsJavaList(found)
    return {
        job.jobId(): job.description().get() if job.description().isDefined() else f"? {job.name()}"
        for job in every
    }


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has few rows take the ways of many."""
    for module in (collected, single_pass):
        monkeypatch.setattr(module, "HERE_BYTES", -1)
    monkeypatch.setattr(collected, "COLLECT_BYTES", -1)


MORE = [pytest.param(index, marks=pytest.mark.matrix) for index in ("GLOBAL_SIMPLE", "BLOOM")]
INDEXES = ["SIMPLE", "GLOBAL_BLOOM", "BUCKET", *MORE]


@pytest.mark.parametrize("index", INDEXES)
def test_every_job_of_a_large_write_has_a_name(lake: Lake, large: None, index: str) -> None:
    table = lake.table(options={KEY: "id", "hoodie.index.type": index})
    known = set(jobs(lake.spark))
    table.write(rows_of(0, 9, "a"))
    table.write(rows_of(3, 12, "b", 2))
    if index != "BUCKET":
        table.write(rows_of(20, 24, "c"), "bulk_insert")
    table.write(rows_of(0, 2, "d", 3), "delete")

    names = [name for number, name in jobs(lake.spark).items() if number not in known]
    assert names
    assert {name for name in names if not name.startswith("pyhudi ")} == set()
    assert any(re.fullmatch(r"pyhudi upsert \w+: write files, \d+ in all", name) for name in names)


def test_every_job_of_a_statement_has_a_name(lake: Lake, name: str) -> None:
    table, spark = lake.table(), lake.spark
    table.write(rows_of(0, 9, "a"))
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    spark.sql("set spark.sql.sources.partitionOverwriteMode=dynamic")
    known = set(jobs(spark))
    new = "(select id + 5 as id, 'm' as name, 9L as ts, '2024-01-01' as dt from range(9))"
    try:
        for statement in (
            f"update {name} set name = 'x' where id in (select id from {name} where id < 3)",
            f"delete from {name} where id = 2",
            (
                f"merge into {name} t using {new} s on t.id = s.id "
                "when matched then update set * when not matched then insert *"
            ),
            f"merge into {name} t using {new} s on t.id = s.id when not matched then insert *",
            f"insert overwrite {name} select id, 'o', 9L, '2024-01-01' from range(3)",
        ):
            spark.sql(statement)
    finally:
        spark.sql("reset spark.sql.sources.partitionOverwriteMode")
    names = [name for number, name in jobs(spark).items() if number not in known]
    assert {name for name in names if not name.startswith("pyhudi ")} == set()
    assert any(name.endswith(": evaluate the statement") for name in names)
