"""The move of a table from Delta Lake that docs/from_delta.md describes, step by step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from integration.peers import SparkPeer, maven
from pyhudi.spark.jars import jar_for

PAGE = Path(__file__).parents[1] / "docs" / "from_delta.md"
BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAKE = """\
spark.range(20).selectExpr("id", "if(id % 2 = 0, 'Oslo', 'Lima') as city", "id * 1.5d as fare")\\
    .write.format("delta").partitionBy("city").save("/data/trips_delta")
spark.sql("DELETE FROM delta.`/data/trips_delta` WHERE id = 3")
"""
LOOK = """\
for path, name in (("trips_delta", "delta"), ("trips", "pyhudi")):
    rows = spark.read.format(name).load(f"/data/{path}").select("id", "city", "fare").collect()
    print(name, sorted(map(tuple, rows)))
"""


def test_a_delta_table_moves_with_all_of_its_rows(
    tmp_path: Path, peers: Callable[[str], SparkPeer]
) -> None:
    session, copy = BLOCK.findall(PAGE.read_text("utf-8"))
    given = (
        "import pyhudi\nfrom pyspark.sql import SparkSession\n"
        f"delta_jars = {','.join(str(maven.jar(each)) for each in maven.DELTA)!r}\n"
        f"pyhudi_jar = {str(jar_for('3.5'))!r}\n"
    )
    program = "\n".join([given, session, MAKE, copy, LOOK]).replace("/data/", f"{tmp_path}/")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    delta, ours = (line.partition(" ")[2] for line in done.stdout.splitlines()[-2:])
    assert delta == ours
    assert delta.count("(") == 19

    hudis = peers("hudi-1.2.0").read(tmp_path / "trips").without_meta().rows
    assert str(sorted((row["id"], row["city"], row["fare"]) for row in hudis)) == ours
