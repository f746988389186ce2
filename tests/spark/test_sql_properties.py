"""Random sequences of SQL statements and writes: the table and its past are what the model says.

``make properties`` runs many. A sequence that fails shows its number and its statements:
``make properties SEQUENCES=41:42`` runs number 41 alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sequence_numbers import asked, numbers
from tests.sql_replay import replay
from tests.sql_sequences import logged_story, story

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

#: a sample for `make test`: versions 6, 8 and 9, keyed (also by times) and keyless, a global index,
#: with each kind of statement, columns that a definition replaces among them, arrays and maps, and
#: partial updates
SAMPLE = (6, 7, 18, 93, 99)
#: the same of tables with logs: by event time, in buckets, with compactions; with partial updates
LOGGED = (83, 104)


@pytest.mark.parametrize("number", numbers(SAMPLE, asked("0:40")))
def test_a_random_sequence_does_what_the_model_does(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    replay(spark, story(number), f"sequence_{number}", tmp_path / "t")


@pytest.mark.parametrize("number", numbers(LOGGED, asked("0:40")))
def test_services_and_logs_leave_what_the_model_says(
    spark: SparkSession, tmp_path: Path, number: int
) -> None:
    replay(spark, logged_story(number), f"logged_{number}", tmp_path / "t")
