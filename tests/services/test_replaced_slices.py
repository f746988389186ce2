"""Plans of compactions of which a file group was replaced before they have run, in version 6.

The first slice of the plan has a later log that names the plan, the second has none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.choices import CleanPolicy
from pyhudi.errors import WriteFailed
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.plans import CompactionOperation
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.compaction import CompactionStep
from pyhudi.timeline.pending import planned_compactions
from tests import golden_tables
from tests.reads.filed_table import Change, as_changes, asked, changes_at
from tests.services.logged_table import LoggedTable, logged

OLD, NEW = "h120_v6-mor_part_compact", "h120_v9-mor_part_compact"
BOTH = pytest.mark.parametrize("number", [0, 1], ids=["a log names the plan", "no log names it"])


def planned(folder: Path, name: str = OLD) -> tuple[LoggedTable, list[CompactionOperation]]:
    """A table with a plan of Apache Hudi that nobody has begun, and the slices of the plan."""
    table = logged(golden_tables.BY_NAME[name], folder)
    table.forget_compactions()
    ((_, plan),) = planned_compactions(table.table(), table.table().timeline())
    return table, list(plan.operations)


def replace_group(table: LoggedTable, of: CompactionOperation) -> InstantTime:
    """A later write takes the whole group away; its instant."""
    timeline = table.table().timeline()
    time = InstantTime(str(int(timeline.greatest_time()) + 1))
    gone = {of.partition_path: (FileId(of.file_id),)}
    done = CommitMetadata("DELETE_PARTITION", (), replaced=gone)
    names = {1: f"{time}.replacecommit", 2: f"{time}_{int(time) + 1}.replacecommit"}
    file = table.root / timeline.folder / names[timeline.layout]
    file.write_bytes(render_commit(done, timeline.layout))
    return time


def files(table: LoggedTable, of: CompactionOperation) -> list[Path]:
    return sorted((table.root / of.partition_path).glob(f"*{of.file_id}*"))


def changes(table: LoggedTable) -> list[Change]:
    """What each commit did to each row."""
    order = {"hoodie.datasource.read.incr.order": "requested"}
    return as_changes(changes_at(str(table.root), asked(**order)))


@BOTH
def test_a_replaced_group_is_compacted_and_stays_replaced(number: int, tmp_path: Path) -> None:
    table, slices = planned(tmp_path)
    last = table.table().timeline().commits[-1].time
    then = table.rows(last)
    replace_group(table, slices[number])
    before, did = table.rows(), changes(table)
    assert len(before) < len(then)
    found = table.compact(CompactionStep.RUN)
    assert [each.fate.value for each in found] == ["compacted", "compacted"]
    assert table.rows() == before
    assert table.rows(last) == then
    assert changes(table) == did
    again = {each.file_group for each in table.compact()}
    assert again
    assert slices[number].file_id not in again
    assert table.rows() == before


@BOTH
def test_the_new_file_of_a_replaced_group_goes_with_a_clean(number: int, tmp_path: Path) -> None:
    table, slices = planned(tmp_path)
    replace_group(table, slices[number])
    before = table.rows()
    table.compact(CompactionStep.RUN)
    assert [path for path in files(table, slices[number]) if path.suffix == ".parquet"]
    clean_table(table.writer(), Retention(CleanPolicy.VERSIONS, versions=1))
    assert not files(table, slices[number])
    assert table.rows() == before


@BOTH
def test_a_replaced_group_of_which_the_files_are_gone_is_left_out_alone(
    number: int, tmp_path: Path
) -> None:
    table, slices = planned(tmp_path)
    replace_group(table, slices[number])
    for path in files(table, slices[number]):
        path.unlink()
    before = table.rows()
    found = table.compact(CompactionStep.RUN)
    told = {each.file_group: (each.fate.value, each.why) for each in found}
    assert told.pop(slices[number].file_id) == ("left", "its file group was replaced meanwhile")
    assert [fate for fate, _ in told.values()] == ["compacted"]
    assert table.rows() == before
    assert not files(table, slices[number])


def test_a_replaced_group_without_one_of_its_logs_is_left_out(tmp_path: Path) -> None:
    table, slices = planned(tmp_path)
    replace_group(table, slices[0])
    (table.root / slices[0].partition_path / slices[0].delta_file_paths[-1]).unlink()
    found = table.compact(CompactionStep.RUN)
    assert sorted(each.fate.value for each in found) == ["compacted", "left"]


def test_a_group_that_is_not_replaced_must_still_fit_the_plan(tmp_path: Path) -> None:
    table, slices = planned(tmp_path)
    replace_group(table, slices[0])
    for path in files(table, slices[1]):
        path.unlink()
    with pytest.raises(WriteFailed, match="does not fit the table: its base file is gone"):
        table.compact(CompactionStep.RUN)


def test_a_replaced_group_of_layout_2_is_left_out(tmp_path: Path) -> None:
    table, slices = planned(tmp_path, NEW)
    replace_group(table, slices[0])
    before = table.rows()
    found = table.compact(CompactionStep.RUN)
    assert sorted(each.fate.value for each in found) == ["compacted", "left"]
    assert table.rows() == before
