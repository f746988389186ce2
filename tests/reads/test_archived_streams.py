"""Streams whose commits were archived, and whose files were cleaned, while they did not run."""

from __future__ import annotations

from itertools import chain

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.filenames import FileId
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.reads import stream_look
from pyhudi.reads.stream_admission import Load
from pyhudi.reads.stream_offsets import Offset, StreamOffset
from pyhudi.services.file_schemas import FileSchemas
from pyhudi.timeline.table import open_table
from tests.archiver import archive
from tests.reads.changing_table import Began, Changing, changing, time
from tests.reads.followed_table import LIMIT_FILES, Follower, Given

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
APPENDS = {"hoodie.datasource.streaming.appendsOnly": "true"}


@pytest.fixture(autouse=True)
def _footers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of archived commits tell their columns by their footers, which bytes here lack."""
    columns = SparkSchema((Column("id", "string"), Column("p", "string")))
    monkeypatch.setattr(FileSchemas, "_of_footer", lambda self, path: columns)


def of_five(table: Changing, number: int) -> None:
    """One commit that inserts a row into each of five groups."""
    files = {f"h{n}": {f"h{n}": (number, number)} for n in range(5)}
    table.complete(Began(number, files, (), lambda rows: {**rows, **_all(files)}, False))


def _all(files: dict[str, dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    return dict(chain.from_iterable(rows.items() for rows in files.values()))


def gone(table: Changing, *numbers: int) -> None:
    archive(open_table(table.world.storage), *map(time, numbers))


def halfway(version: int, **options: str) -> tuple[Changing, Follower, Offset, StreamOffset]:
    """A stream that has read two of five files, and a next batch that was begun: two more."""
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table, {LIMIT_FILES: "2", **options})
    follower.all()
    of_five(table, 2)
    if options:  # workers read the changes, from real files
        follower.offsets.append(begun(follower).render())
    else:
        assert follower.batch()
    return table, follower, follower.place, begun(follower)


def begun(follower: Follower) -> StreamOffset:
    """The end of a batch that Spark has noted, and of which nothing was written yet."""
    end = follower.ahead().end
    assert isinstance(end, StreamOffset)
    return end


def given(number: int, *keys: str) -> list[Given]:
    return [(key, number, number) for key in keys]


@VERSIONS
def test_a_part_of_a_commit_is_the_same_after_the_commit_was_archived(version: int) -> None:
    table, follower, start, end = halfway(version)
    table.complete(table.write(3, "h2", {"h2": 3}))
    gone(table, 1, 2)
    follower.restart()
    assert follower.rows(start, end) == given(2, "h2", "h3")
    assert follower.all() == [given(2, "h2", "h3"), given(2, "h4"), given(3, "h2")]


def test_in_version_6_an_archived_commit_of_several_partitions_does_not_tell_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, follower, start, end = halfway(6)
    table.complete(table.write(3, "h2", {"h2": 3}))
    gone(table, 1, 2)
    follower.restart()
    two = {(partition, FileId("h2")): Load(1) for partition in ("p", "q")}
    monkeypatch.setattr(stream_look, "_files", lambda metadata: two)
    with pytest.raises(HistoryExpired, match="have been archived"):
        follower.rows(start, end)


@VERSIONS
def test_a_part_whose_files_were_cleaned_gives_what_later_batches_do_not(version: int) -> None:
    table, follower, start, end = halfway(version)
    table.complete(table.write(3, "h2", {"h2": 3}))
    table.complete(table.write(4, "h3", {"other": 4}))
    gone(table, 1, 2)
    for group in ("h2", "h3"):
        table.forget_files(group, 2)
    follower.restart()
    assert follower.rows(start, end) == given(2, "h3")
    assert follower.all() == [
        given(2, "h3"),
        given(2, "h4"),
        [*given(3, "h2"), *given(4, "other")],
    ]


@VERSIONS
def test_a_part_whose_rows_a_clustering_has_moved_since_is_refused(version: int) -> None:
    table, follower, start, end = halfway(version)
    table.complete(table.cluster(3, ["h0", "h3"], "m"))
    gone(table, 1, 2)
    table.forget_files("h3", 2)
    follower.restart()
    with pytest.raises(HistoryExpired, match="p/h0.*another checkpoint location"):
        follower.rows(start, end)


@VERSIONS
def test_of_each_change_a_part_of_an_archived_commit_is_refused(version: int) -> None:
    table, follower, start, end = halfway(version, **APPENDS)
    table.complete(table.write(3, "g1", {"a": 3}))
    gone(table, 1, 2)
    follower.restart()
    for ask in (lambda: follower.rows(start, end), follower.batch):
        with pytest.raises(HistoryExpired, match="have been archived"):
            ask()


@VERSIONS
def test_of_each_change_a_batch_whose_commits_were_archived_is_refused(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table, APPENDS)
    follower.all()
    table.complete(table.write(2, "g1", {"a": 2, "b": 2}))
    end = begun(follower)
    table.complete(table.write(3, "g1", {"c": 3}))
    gone(table, 1, 2)
    follower.restart()
    with pytest.raises(HistoryExpired, match="have been archived"):
        follower.rows(follower.place, end)


@VERSIONS
def test_a_batch_whose_commits_were_archived_and_cleaned_gives_what_is_left(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.write(2, "g1", {"a": 2, "b": 2}))
    end = begun(follower)
    table.complete(table.write(3, "g1", {"b": 3}))
    gone(table, 1, 2)
    table.forget_files("g1", 2)
    follower.restart()
    assert follower.rows(follower.place, end) == given(2, "a")


def test_a_part_is_read_beside_an_archived_commit_that_ended_after_it() -> None:
    table = changing(9)
    table.complete(table.write(1, "g1", {"a": 1}), 1)
    follower = Follower(table, {LIMIT_FILES: "2"})
    follower.all()
    slow = table.write(2, "g2", {"s": 2})
    of_five(table, 3)
    assert follower.batch()
    end = begun(follower)
    table.complete(slow, 4)
    table.complete(table.write(5, "g1", {"a": 5}))
    gone(table, 1, 2)
    follower.restart()
    assert follower.rows(follower.place, end) == given(3, "h2", "h3")
    assert follower.all() == [
        given(3, "h2", "h3"),
        given(3, "h4"),
        [*given(5, "a"), *given(2, "s")],
    ]
