"""Restores of merge-on-read tables that Apache Hudi wrote, of every version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyhudi
from pyhudi.errors import HistoryExpired
from pyhudi.format.log_blocks import HeaderKey, read_blocks
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.view import VIEWS
from tests.golden_tables import ALL, GoldenTable
from tests.reads.merged_table import opened, rows

TABLES = [each for each in ALL if each.merge_on_read and each.expected() is not None]


def table_of(root: Path) -> Table:
    storage = LocalStorage(str(root))
    VIEWS.forget(storage)
    return open_table(storage)


def seen(root: Path, as_of: str | None = None) -> list[dict[str, Any]]:
    VIEWS.forget(LocalStorage(str(root)))
    found = [dict(row) for row in rows(opened(root, as_of), "id", "name", "price", "ts")]
    return sorted(found, key=repr)


def goals(root: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each commit that can be read, the newest first, and its rows."""
    for commit in reversed(table_of(root).timeline().commits):
        try:
            yield str(commit.time), seen(root, str(commit.time))
        except HistoryExpired:
            return


def writers_of_logs(root: Path) -> set[str]:
    """The delta commits whose blocks are in the logs."""
    files = [f for f in root.rglob(".*.log.*") if ".hoodie" not in f.parts]
    blocks = [block for file in files for block in read_blocks(file.read_bytes())]
    return {block.header[HeaderKey.INSTANT_TIME] for block in blocks}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_the_rows_of_each_commit_again(table: GoldenTable, tmp_path: Path) -> None:
    root = table.unzip(tmp_path)
    for goal, before in list(goals(root)):
        pyhudi.restore(str(root), goal)
        assert seen(root) == before, goal
        timeline = table_of(root).timeline()
        assert timeline.commits[-1].time == goal
        assert timeline.pending == ()
        assert writers_of_logs(root) <= {str(commit.time) for commit in timeline.commits}
        assert pyhudi.remove_orphans(str(root), older_than_hours=0) == []
