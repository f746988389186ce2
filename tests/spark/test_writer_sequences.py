"""Random sequences of DataFrame writes: merge-on-read tables have the rows of copy-on-write ones.

A sequence that fails shows its number and its steps. ``PYHUDI_SEQUENCES=41:42`` runs number 41
alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sequence_numbers import asked, numbers
from tests.writer_sequences import Player, story

pytestmark = pytest.mark.spark

#: a sample for `make test`: by event time with ints, and by commit time with a global index
SAMPLE = (2, 6)


@pytest.mark.parametrize("number", numbers(SAMPLE, asked("0:40")))
def test_both_types_of_table_have_the_rows_of_the_model(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    told, done = story(number), 0
    try:
        for _ in Player(spark, told, tmp_path).steps():
            done += 1
    except Exception as error:
        steps = "\n".join(map(str, told.steps[: done + 1]))
        raise AssertionError(f"{error}\n\nafter\n{told.setup}\n{steps}") from error
