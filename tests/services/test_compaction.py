"""Compactions of golden merge-on-read tables: their rows stay, and plans of Apache Hudi run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.services.compaction import CompactionFate, CompactionStep
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.services.logged_table import logged

TABLES = [t for t in golden_tables.ALL if t.merge_on_read and t.expected() is not None]
#: tables that Apache Hudi compacted, of each version
PLANNED = ["h0150_v6-mor_log", "h120_v6-mor_part_compact", "h102_v8-mor_part_compact",
           "h120_v9-mor_part_compact", "h120_v9-mor_log"]  # fmt: skip


@pytest.mark.parametrize("golden", TABLES, ids=lambda t: t.name)
def test_a_golden_table_has_the_same_rows_after_its_compaction(
    golden: GoldenTable, tmp_path: Path
) -> None:
    table = logged(golden, tmp_path)
    before = table.rows()
    found = table.compact()
    assert {each.fate for each in found} <= {CompactionFate.COMPACTED}
    assert table.rows() == before
    assert not table.compact()


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_of_apache_hudi_is_run(name: str, tmp_path: Path) -> None:
    table = logged(golden_tables.BY_NAME[name], tmp_path)
    before = table.rows()
    theirs = table.last_commit()
    (time,) = table.forget_compactions()
    found = table.compact(CompactionStep.RUN)
    assert {(each.fate, each.compaction) for each in found} == {(CompactionFate.COMPACTED, time)}
    assert table.rows() == before
    ours = table.last_commit()
    assert (ours.operation, ours.compacted) == ("COMPACT", True)
    # Hudi 1.0.2 counts a row twice that two logs update.
    facts = [
        sorted((s.partition_path, s.file_id, s.prev_commit, s.num_writes) for s in each.stats)
        for each in (ours, theirs)
    ]
    assert facts[0] == facts[1]
