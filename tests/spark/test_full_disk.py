"""A disk that is full: one error that says so, and room for the roll-back."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from pyhudi.errors import HudiError
from tests.process_facts import eventually
from tests.spark.tables import KEY, OPERATION

pytestmark = pytest.mark.spark

ROOM = 3 << 20
BULKY = "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 512)) as text"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room; only root may make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_write_or_statement_that_fills_the_disk_says_so_and_gives_the_room_back(
    spark: SparkSession, small_disk: Path
) -> None:
    path = str(small_disk / "t")
    few = spark.range(3).selectExpr("id", BULKY)
    few.write.format("pyhudi").option(KEY, "id").save(path)
    many = spark.range(0, 60_000, 1, 2).selectExpr("id", BULKY)
    many.createOrReplaceTempView("many")
    merge = f"""merge into pyhudi.`{path}` t using many s on t.id = s.id
        when matched then update set * when not matched then insert *"""

    def write(operation: str) -> None:
        writer = many.write.format("pyhudi").option(OPERATION, operation)
        writer.mode("append").save(path)

    for attempt in (
        lambda: write("bulk_insert"),
        lambda: write("upsert"),
        lambda: spark.sql(merge),
    ):
        with pytest.raises(HudiError, match="No space left on device.*(M|m)ake room") as failed:
            attempt()
        assert len(str(failed.value).splitlines()) == 1
        # A task that another one's failure has ended may end a moment later.
        assert eventually(lambda: shutil.disk_usage(small_disk).free > ROOM * 0.9)
        assert spark.read.format("pyhudi").load(path).count() == 3
    few.write.format("pyhudi").mode("append").save(path)
    assert all(entry.state.value == "completed" for entry in pyhudi.history(path))
