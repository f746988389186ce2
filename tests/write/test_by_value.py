"""The worker functions on Spark, in Python workers that cannot import pyhudi.

A subprocess drives Spark, so that its workers get an environment of their own: a
``sitecustomize`` there refuses every import of pyhudi, be it installed or not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyhudi.errors import InvalidRecord
from pyhudi.write.task import error_from_text

SOURCES = Path(__file__).parent.parent.parent / "python"

BLOCKER = """
import sys
from importlib.abc import MetaPathFinder


class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyhudi":
            raise ModuleNotFoundError("pyhudi is not installed on this worker")
        return None


sys.meta_path.insert(0, Absent())
"""

DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pyarrow as pa
import pyhudi
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyhudi.errors import HudiError
from pyhudi.write.bulk import bulk_write
from pyhudi.write.groups import write_groups
from pyhudi.write.shipping import shipped
from pyhudi.write.spec import (
    EVENT_TIME, STAT_DDL, BloomSpec, FileSystemSpec, GroupPlan, WriteSpec
)

root, blocker = sys.argv[2:4]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "2")
    .config("spark.executorEnv.PYTHONPATH", blocker).getOrCreate()
)
cloudpickle.register_pickle_by_value(pyhudi)
schema = pa.schema([("id", pa.string()), ("n", pa.int64()), ("tags", pa.list_(pa.string()))])


def write(instant):
    return WriteSpec(
        root=root, fs=FileSystemSpec(), instant=instant, schema=schema, avro_schema="{}",
        write_nonce=7, merge_mode=EVENT_TIME, ordering_columns=("n",), key_columns=("id",),
        bloom=BloomSpec(fpp=0.01),
    )


def can_import(batches):
    try:
        import pyhudi
        yield pa.RecordBatch.from_pydict({"found": [True]})
    except ModuleNotFoundError:
        yield pa.RecordBatch.from_pydict({"found": [False]})


spare = spark.range(1).mapInArrow(can_import, "found boolean").head()[0]
rows = spark.range(0, 1000, 1, 2).selectExpr(
    "concat('k', id) as _hoodie_record_key", "concat('dt=', id % 2) as _hoodie_partition_path",
    "concat('k', id) as id", "id as n", "array('x', 'y') as tags",
)
first = rows.mapInArrow(bulk_write(write("20240101000000001"), "seed"), STAT_DDL).collect()
plans = {
    n: GroupPlan(n, s.file_id, s.partition_path, s.path, "20240101000000001")
    for n, s in enumerate(s for s in first if s.min_key == "k0")
}
incoming = spark.range(1).selectExpr(
    "0 as _pyhudi_group", "concat('k', id) as _hoodie_record_key", "concat('k', id) as id",
    "5000L as n", "array('new') as tags",
)
merge = shipped(write_groups, write("20240102000000001"), plans)
merged = incoming.mapInArrow(merge, STAT_DDL).collect()
fault = incoming.selectExpr("_pyhudi_group", "_hoodie_record_key", "id", "n", "array(null) as tags")
try:
    fault.mapInArrow(merge, STAT_DDL).collect()
    text = ""
except Exception as error:
    text = str(error)
print("RESULT" + json.dumps({
    "importable": spare, "first": [s.asDict() for s in first],
    "merged": [s.asDict() for s in merged], "fault": text,
}))
spark.stop()
"""


@pytest.mark.spark
def test_workers_without_pyhudi_write_merge_and_report_errors(tmp_path: Path) -> None:
    blocker = tmp_path / "blocker"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(BLOCKER)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, script, SOURCES, tmp_path / "table", blocker],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.partition("RESULT")[2])

    assert result["importable"] is False
    assert sum(stat["num_writes"] for stat in result["first"]) == 1000
    assert len(result["first"]) == 4
    tokens = {Path(stat["path"]).name.split("_")[1] for stat in result["first"]}
    assert len(tokens) == 2
    assert {token.split("-")[0] for token in tokens} == {"0", "1"}
    assert all(token.split("-")[1] == "7" for token in tokens)
    (merged,) = result["merged"]
    table = pq.ParquetFile(tmp_path / "table" / merged["path"]).read()
    tags = dict(zip(table["id"].to_pylist(), table["tags"].to_pylist(), strict=True))
    assert tags["k0"] == ["new"]
    assert tags["k2"] == ["x", "y"]
    error = error_from_text(result["fault"])
    assert isinstance(error, InvalidRecord)
    assert "column 'tags' has a null element" in str(error)
