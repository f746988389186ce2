"""Keeps Spark's classes for the drivers of tests: ``python -m tests.spark_archive FILE``.

A driver reads, checks and links some ten thousand classes before its first statement. Java's class
data sharing maps those that an earlier driver used, if class path and Java are the same.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pyhudi
from tests.servers.process import BRIEF_JVM
from tests.sessions import local_session

ENDS_WITHIN_S = 300
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "ts",
}
STATEMENTS = (
    "create table t (id int, ts string) using pyhudi tblproperties (primaryKey = 'id')",
    "insert into t values (1, 'a'), (2, 'b')",
    "merge into t using (select 1 id, 'c' ts) s on t.id = s.id when matched then update set *",
    "delete from t where id = 2",
    "drop table t",
)


def main(archive: Path) -> None:
    """Write, read and merge once in a driver that writes ``archive`` when it ends."""
    unfinished = archive.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    archive.unlink(missing_ok=True)
    quiet = ("-Xlog:disable", "-Xlog:all=error:stderr")
    options = (*BRIEF_JVM, f"-XX:ArchiveClassesAtExit={unfinished}", *quiet)
    os.environ["SPARK_SUBMIT_OPTS"] = " ".join(options)
    with tempfile.TemporaryDirectory() as folder:
        spark = pyhudi.attach(local_session(Path(folder) / "warehouse"))
        rows = spark.createDataFrame([(1, "a", 1.5)], "id int, ts string, fare double")
        for _ in range(2):
            rows.write.format("pyhudi").options(**OPTIONS).mode("append").save(f"{folder}/t")
        table = spark.read.format("pyhudi").load(f"{folder}/t")
        table.where("fare > 1").groupBy("ts").count().collect()
        for statement in STATEMENTS:
            spark.sql(statement)
        driver = spark.sparkContext._gateway.proc
        spark.stop()
        driver.stdin.close()
        driver.wait(ENDS_WITHIN_S)
    unfinished.rename(archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
