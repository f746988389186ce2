"""A log that hudi-rs leaves out, as docs/other_engines.md tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyhudi
from integration.peers import HudiRs, SparkPeer, difference
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS

OPTIONS = {
    "hoodie.table.name": "late",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
}


def begin_before(root: Path, time: str) -> None:
    """Have the newest commit begin right before ``time``: its instant in names and contents."""
    last = open_table(LocalStorage(str(root))).timeline().commits[-1].time
    earlier = str(int(time) - 1)
    for file in [each for each in root.rglob("*") if each.is_file()]:
        data = file.read_bytes()
        if last.encode() in data:
            file.write_bytes(data.replace(last.encode(), earlier.encode()))
        if last in file.name:
            file.rename(file.with_name(file.name.replace(last, earlier)))
    VIEWS.forget_all()
    COMMITS.forget_all()


def test_hudi_rs_leaves_an_archived_log_out_that_ended_after_a_compaction_was_planned(
    spark: SparkSession, hudi_rs: HudiRs, peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    root = tmp_path / "t"
    path = str(root)

    def upsert(value: str, most: int = 3) -> None:
        rows = spark.range(most).select("id", F.lit(value).alias("v")).coalesce(1)
        rows.write.format("pyhudi").options(**OPTIONS).mode("append").save(path)

    def readers_that_agree() -> list[str]:
        ours = peers("pyhudi").read(path)
        others = {"hudi-rs": hudi_rs, "Apache Hudi": peers("hudi-1.2.0")}
        return [name for name, one in others.items() if not difference(one.read(path), ours)]

    upsert("a")
    upsert("b")
    pyhudi.compact(path, op="schedule", spark=spark)
    (plan,) = open_table(LocalStorage(path)).timeline().pending
    upsert("late")
    begin_before(root, plan.time)
    (compacted,) = pyhudi.compact(path, op="run", spark=spark)
    assert compacted.fate.value == "compacted"
    assert readers_that_agree() == ["hudi-rs", "Apache Hudi"]
    for value in ("c", "d", "e"):
        upsert(value, 1)
    pyhudi.archive(path, options={"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    assert {row["v"] for row in peers("pyhudi").read(path).rows} == {"e", "late"}
    assert readers_that_agree() == ["Apache Hudi"]
    assert {row["v"] for row in hudi_rs.read(path).rows} == {"e", "b"}
