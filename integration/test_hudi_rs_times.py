"""What hudi-rs cannot merge, as docs/other_engines.md tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pyhudi
from integration.peers import HudiRs, SparkPeer, difference

TIME = "timestamp '2020-01-02 03:04:05'"


@pytest.mark.parametrize(
    "value", [f"array({TIME})", f"map('a', {TIME})", f"named_struct('a', {TIME})"]
)
def test_times_inside_others_are_read_of_logs_by_hudi_and_of_base_files_by_hudi_rs(
    spark: SparkSession,
    hudi_rs: HudiRs,
    peers: Callable[[str], SparkPeer],
    tmp_path: Path,
    value: str,
) -> None:
    path = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "times",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
    }
    rows = spark.range(200).select("id", F.expr(value).alias("c")).coalesce(1)
    for changed in (rows, rows.where("id < 3")):
        changed.write.format("pyhudi").options(**options).mode("append").save(path)
    ours = peers("pyhudi").read(path)
    assert not difference(peers("hudi-1.2.0").read(path), ours)
    with pytest.raises(Exception, match="reconcile: column 'c'"):
        hudi_rs.read(path)
    assert [each.fate.value for each in pyhudi.compact(path, spark=spark)] == ["compacted"]
    assert not difference(hudi_rs.read(path), peers("pyhudi").read(path))
