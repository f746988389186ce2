"""Ranges that end between a compaction's request and its end, when the older slice was cleaned.

A clean keeps the compaction's file for each instant after its request. So a state without it has
logs whose base file is gone, and in it rows come out that have lost to the rows of that file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.instants import Action, Instant, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.plans import CleanMetadata, render_clean_metadata
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.reads.scan import Query
from pyhudi.reads.stream_offsets import StreamOffset
from pyhudi.rows.spec import COMMIT_TIME_COLUMN
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from tests.reads import merged_table
from tests.reads.filed_table import BEGIN, END, at
from tests.reads.followed_table import LIMIT_FILES, START
from tests.reads.logged_table import LoggedTable
from tests.reads.test_log_streams import follower

RANGE = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.read.incr.order": "completed",
}
#: versions that record when a commit completed
VERSIONS = pytest.mark.parametrize("version", [8, 9])


def by_value(root: Path, version: int) -> LoggedTable:
    """A table in which of two rows of one key that with the greater value wins."""
    properties = new_table_properties(
        name="t", version=version, table_type="MERGE_ON_READ", record_key_fields=["id"],
        partition_fields=[], ordering_fields=["v"], merge_mode=MergeMode.EVENT_TIME_ORDERING,
        key_generator=KeyGenerator.NON_PARTITION,
    )  # fmt: skip
    LocalStorage(str(root)).put_if_absent(PROPERTIES, render_properties(properties))
    return LoggedTable(root, version=version)


def crossed(table: LoggedTable) -> None:
    """A compaction is requested at 3 and done at 6; commit 4 has a row that loses, and one that
    wins."""
    table.merge(1, "g1", {"a": 9, "b": 9, "c": 9}, "BULK_INSERT")
    table.merge(2, "g1", {"c": 10})
    table.plan(3, "g1")
    table.merge(4, "g1", {"a": 5, "b": 11})


def completed(table: LoggedTable) -> None:
    table.done[3] = 6
    table.compact(3, "g1")
    table.merge(7, "g2", {"x": 7}, "BULK_INSERT")


def clean(table: LoggedTable, named: bool) -> None:
    """A clean whose metadata names the earliest commit that it kept; by versions it has none."""
    table.clean(8, 4)
    if not named:
        done = Instant(at(8), Action.CLEAN, State.COMPLETED, at(8))
        said = render_clean_metadata(CleanMetadata(at(8), 1, 1, "", at(4), {}))
        (table.root / ".hoodie/timeline" / instant_file_name(done, 2)).write_bytes(said)


def archive(table: LoggedTable, number: int) -> None:
    """A commit leaves the timeline."""
    done = Instant(at(number), Action.DELTACOMMIT, State.COMPLETED, at(number))
    (table.root / ".hoodie/timeline" / instant_file_name(done, 2)).unlink()


def found(query: Query) -> list[tuple[str, int]]:
    """The rows of the range: key and value."""
    counted = query.rows
    assert counted is not None
    held = merged_table.rows(query)
    return sorted((r["id"], r["v"]) for r in held if r[COMMIT_TIME_COLUMN] in counted.commits)


def between(table: LoggedTable, begin: int, end: int) -> list[tuple[str, int]]:
    return found(merged_table.opened(table.root, **RANGE, **{BEGIN: at(begin), END: at(end)}))


@VERSIONS
@pytest.mark.parametrize("named", [True, False], ids=["by commits", "by versions"])
@pytest.mark.parametrize("archived", [False, True], ids=["active", "archived"])
def test_rows_of_a_range_come_from_the_compaction_that_a_clean_has_kept(
    version: int, archived: bool, named: bool, tmp_path: Path
) -> None:
    table = by_value(tmp_path, version)
    crossed(table)
    completed(table)
    assert between(table, 1, 5) == [("b", 11), ("c", 10)]
    assert between(table, 2, 5) == [("b", 11)]
    clean(table, named)
    assert len(list(tmp_path.glob("g1_*.parquet"))) == 1
    if archived:
        archive(table, 1)
    assert between(table, 1, 5) == [("b", 11), ("c", 10)]
    assert between(table, 2, 5) == [("b", 11)]


@VERSIONS
@pytest.mark.parametrize("archived", [False, True], ids=["active", "archived"])
def test_a_stream_reads_a_batch_again_when_a_compaction_has_crossed_its_end(
    version: int, archived: bool, tmp_path: Path
) -> None:
    table = by_value(tmp_path, version)
    crossed(table)
    stream = follower(table, **{START: at(2)})
    start = stream.place
    assert stream.all() == [[("b", 11, 4)]]
    end = stream.place
    completed(table)
    table.clean(8, 4)
    if archived:
        archive(table, 1)
    assert isinstance(end, StreamOffset)
    assert stream.rows(start, end) == [("b", 11, 4)]
    late = follower(table, **{START: at(2), LIMIT_FILES: "1"})
    assert [batch for batch in late.all() if batch] == [[("b", 11, 4)], [("x", 7, 7)]]


@VERSIONS
def test_a_range_that_a_clustering_has_crossed_is_refused_if_its_older_files_may_be_gone(
    version: int, tmp_path: Path
) -> None:
    table = by_value(tmp_path, version)
    table.merge(1, "g1", {"a": 9, "b": 9}, "BULK_INSERT")
    table.merge(4, "g2", {"x": 1}, "BULK_INSERT")
    table.done[3] = 6
    table.cluster(3, ["g1"], "g3")
    table.merge(7, "g2", {"x": 7})
    assert between(table, 0, 5) == [("a", 9), ("b", 9), ("x", 1)]
    table.clean(8, 4)
    next(tmp_path.glob("g1_*.parquet")).unlink()
    archive(table, 1)
    with pytest.raises(HistoryExpired) as told:
        between(table, 0, 5)
    assert told.value.earliest == at(6)
