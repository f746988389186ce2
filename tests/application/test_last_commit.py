"""The numbers of rows that a statement answers, from its commit's statistics."""

from __future__ import annotations

import pytest

from pyhudi.application.last_commit import ChangedRows, changed_rows
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.transactions.transaction import Committed

TIME = InstantTime("20260101000000000")


def stat(inserts: int, updates: int, deletes: int) -> WriteStat:
    return WriteStat(
        FileId("a"), "x/a", "x", num_inserts=inserts, num_updates=updates, num_deletes=deletes
    )


@pytest.mark.parametrize(
    ("moved", "replaced", "expected"),
    [
        (0, 0, ChangedRows(inserted=4, updated=2, deleted=5)),
        (3, 0, ChangedRows(inserted=1, updated=5, deleted=2)),
        (0, 10, ChangedRows(inserted=4, updated=2, deleted=15)),
        (0, None, ChangedRows(inserted=4, updated=2, deleted=None)),
    ],
)
def test_a_row_that_moved_is_updated_and_a_replaced_one_deleted(
    moved: int, replaced: int | None, expected: ChangedRows
) -> None:
    metadata = CommitMetadata("UPSERT", (stat(3, 2, 0), stat(1, 0, 5)), {})
    done = Committed(TIME, TIME, metadata, rows_moved=moved, rows_replaced=replaced)
    assert changed_rows(done) == expected


def test_nothing_changes_without_a_commit() -> None:
    assert changed_rows(None) == ChangedRows(0, 0, 0)
