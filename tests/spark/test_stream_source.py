"""``readStream.format("pyhudi")``: what each batch of a stream gives, and where it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.spark.tables import HudiTable, Lake

pytestmark = pytest.mark.spark

START = "hoodie.datasource.streaming.startOffset"
CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}


@dataclass
class Following:
    """A stream of a table into lists: one list of rows for each batch."""

    table: HudiTable
    checkpoint: Path
    options: dict[str, str] = field(default_factory=dict)
    batches: list[list[tuple[Any, ...]]] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)

    def frame(self) -> DataFrame:
        spark = self.table.spark
        return spark.readStream.format("pyhudi").options(**self.options).load(self.table.path)

    def run(self, frame: DataFrame | None = None, **trigger: Any) -> list[list[tuple[Any, ...]]]:
        """The batches of one query, which reads all that there is and ends."""
        count = len(self.batches)

        def keep(batch: DataFrame, number: int) -> None:
            self.batches.append([tuple(row) for row in batch.collect()])

        writing = (self.frame() if frame is None else frame).writeStream.foreachBatch(keep)
        query = (
            writing.option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            self.progress = list(query.recentProgress)
            query.stop()
        return [sorted(batch, key=repr) for batch in self.batches[count:]]


@pytest.fixture
def table(lake: Lake) -> HudiTable:
    made = lake.table()
    made.write([(1, "a", 1, "x"), (2, "a", 1, "y")])
    return made


def test_a_stream_begins_with_the_rows_of_now_and_goes_on_with_each_commit(
    table: HudiTable, tmp_path: Path
) -> None:
    stream = Following(table, tmp_path / "c")
    assert stream.run() == [[(1, "a", 1, "x"), (2, "a", 1, "y")]]
    assert stream.run() == []
    table.write([(2, "b", 2, "y"), (3, "b", 2, "x")])
    table.write([(4, "c", 3, "z")])
    assert stream.run() == [[(2, "b", 2, "y"), (3, "b", 2, "x"), (4, "c", 3, "z")]]
