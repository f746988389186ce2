"""Commits that come below the place of a stream, since the clock of their writer is behind."""

from __future__ import annotations

import pytest

from pyhudi.errors import HistoryExpired
from tests.reads.changing_table import Changing, changing, time
from tests.reads.followed_table import LIMIT_FILES, START, Follower

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


def put(table: Changing, *numbers: int) -> None:
    for number in numbers:
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))


@VERSIONS
@pytest.mark.parametrize("limit", [None, "1"])
def test_a_commit_that_comes_below_the_place_ends_the_stream_and_is_named(
    version: int, limit: str | None
) -> None:
    table = changing(version)
    put(table, 1, 3, 5)
    follower = Follower(table, {} if limit is None else {LIMIT_FILES: limit})
    follower.all()
    put(table, 4)
    for _ in range(2):
        with pytest.raises(HistoryExpired, match=f"Commit {time(4)}.*clock of its writer") as told:
            follower.batch()
        assert told.value.asked == time(4)
        follower.restart()
    again = Follower(table, {START: str(told.value.earliest)})
    assert [row for batch in again.all() for row in batch] == [("k4", 4, 4), ("k5", 5, 5)]


@VERSIONS
def test_what_moved_rows_or_came_before_the_stream_ends_none(version: int) -> None:
    table = changing(version)
    put(table, 3)
    follower = Follower(table, {START: "latest"})
    follower.all()
    put(table, 5, 7)
    follower.all()
    put(table, 2)  # below all that the stream knows of
    table.complete(table.cluster(6, ["g5"], "g6"))
    put(table, 8)
    assert follower.all() == [[("k8", 8, 8)]]
