"""A log that a commit names and that is lost is told while its slice counts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.view import VIEWS
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.reads.merged_table import opened

TABLES = [t for t in golden_tables.ALL if t.merge_on_read and t.expected() is not None]
OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
DAMAGES: dict[str, Callable[[Path], None]] = {
    "lost": os.unlink,
    "empty": lambda path: os.truncate(path, 0),
    "cut off": lambda path: os.truncate(path, path.stat().st_size - 1),
}


def needed(root: Path, as_of: str | None = None) -> list[str]:
    """The logs of the slices that count, of those that an active commit names."""
    asked = opened(root, as_of)
    storage, timeline = asked.table.storage, asked.timeline
    commits = (COMMITS.get(storage, timeline, each) for each in timeline.commits)
    named = {stat.path for metadata in commits for stat in metadata.stats}
    return [log.path for each in asked.slices(()) for log in each.logs if log.path in named]


def slices(root: Path, as_of: str | None = None, **options: str) -> object:
    VIEWS.forget_all()
    return opened(root, as_of, **options).slices(())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_lost_log_of_a_golden_table_is_told_with_its_file(
    table: GoldenTable, damage: str, tmp_path: Path
) -> None:
    root = table.unzip(tmp_path)
    for path in needed(root):
        file = root / path
        whole = file.read_bytes()
        DAMAGES[damage](file)
        with pytest.raises(TableCorrupt) as caught:
            slices(root)
        assert caught.value.path == path
        slices(root, **OPTIMIZED)
        file.write_bytes(whole)
    slices(root)


def test_most_golden_tables_need_logs(tmp_path: Path) -> None:
    assert sum(bool(needed(table.unzip(tmp_path / table.name))) for table in TABLES) > 12


def test_a_lost_log_of_one_partition_leaves_the_others_readable(tmp_path: Path) -> None:
    root = golden_tables.BY_NAME["h120_v9-mor_part_compact"].unzip(tmp_path)
    lost = needed(root)[0]
    (root / lost).unlink()
    VIEWS.forget_all()
    view = opened(root).view()
    others = [each for each in view.groups if each != lost.rpartition("/")[0]]
    assert others
    assert view.slices(None, others)
    with pytest.raises(TableCorrupt):
        view.slices()


@pytest.mark.parametrize("name", ["h0150_v6-mor_log", "h120_v9-mor_log", "h120_v9-sql_mor"])
def test_a_log_that_only_an_earlier_snapshot_needs_was_cleaned(name: str, tmp_path: Path) -> None:
    root = golden_tables.BY_NAME[name].unzip(tmp_path)
    early = [each.time for each in opened(root).timeline.commits]
    past = next(each for each in reversed(early) if set(needed(root, each)) - set(needed(root)))
    for path in set(needed(root, past)) - set(needed(root)):
        (root / path).unlink()
    slices(root)
    with pytest.raises(HistoryExpired, match="cleaned"):
        slices(root, past)
