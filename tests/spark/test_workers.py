"""Workers need pyarrow and not pyhudi: its functions travel by value."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from pyspark.sql import SparkSession
import pyhudi

spark = pyhudi.attach(pyhudi.configure(
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m").config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.warehouse.dir", sys.argv[2] + "/warehouse")
).getOrCreate())

def looks(batches):
    import importlib.util
    import pyarrow
    for batch in batches:
        names = [str(importlib.util.find_spec("pyhudi") is not None)]
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(names)], names=["found"])

found = {r[0] for r in spark.range(1).mapInArrow(looks, "found string").collect()}
assert found == {"False"}, "the workers have pyhudi, which this test is to do without"

options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.type": sys.argv[3]}
def write(sql, operation):
    spark.sql(sql).write.format("pyhudi").options(**options).option(
        "hoodie.datasource.write.operation", operation).mode("append").save(sys.argv[2] + "/t")

write("select id, 'a' as name from range(20)", "bulk_insert")
write("select id, 'b' as name from range(10, 30)", "upsert")
write("select id, 'c' as name from range(5)", "delete")
rows = {r.id: r.name for r in spark.read.format("pyhudi").load(sys.argv[2] + "/t").collect()}
assert rows == {i: "a" if i < 10 else "b" for i in range(5, 30)}, rows
try:
    write("select nullif(id, 3) as id, 'd' as name from range(5)", "upsert")
except Exception as e:
    assert str(e).startswith("[INVALID_RECORD] "), str(e)
else:
    raise AssertionError("a null key was written")
print("the workers did without pyhudi")
"""


def test_a_worker_environment_without_pyhudi_is_enough(tmp_path: Path) -> None:
    """The workers see the site packages without pyhudi's entry, which ``-S`` leaves out."""
    site = Path(pyarrow.__file__).parents[1]
    bare = tmp_path / "packages"
    bare.mkdir()
    for entry in site.iterdir():
        if "pyhudi" not in entry.name.lower() and not entry.name.endswith(".pth"):
            (bare / entry.name).symlink_to(entry)
    worker = tmp_path / "python"
    worker.write_text(
        f'#!/bin/sh\nexec env PYTHONPATH="$PYTHONPATH:{bare}" {sys.executable} -S "$@"\n'
    )
    worker.chmod(0o755)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    source = Path(__file__).parents[2] / "python"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": str(worker), "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(script), str(source), str(tmp_path), "BLOOM"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "the workers did without pyhudi" in done.stdout, (
        done.stdout[-2000:] + done.stderr[-6000:]
    )
