"""What workers tell of a file that they cannot read."""

from __future__ import annotations

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.rows.piece_reading import reading


def test_the_file_of_a_change_may_be_gone_by_a_clean_or_by_a_rollback() -> None:
    with (
        pytest.raises(HistoryExpired, match="a clean or a rollback .*Run the query again") as told,
        reading("20260101000000000", "p0/a.parquet"),
    ):
        raise FileNotFoundError("p0/a.parquet")
    assert told.value.asked == "20260101000000000"
