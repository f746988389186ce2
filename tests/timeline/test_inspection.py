"""``pyhudi.Table`` on tables that Apache Hudi wrote, compared with their expected rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.errors import ConfigError, HistoryExpired, TableNotFound
from tests import golden_tables


@pytest.fixture
def table(tmp_path: Path) -> pyhudi.Table:
    """A table of Hudi 1.2.0, version 9, partitioned, with updates and deletes."""
    return pyhudi.Table(str(golden_tables.BY_NAME["h120_v9-cow_bloom"].unzip(tmp_path)))


def test_its_facts_are_those_of_the_table(table: pyhudi.Table) -> None:
    shown = repr(table)
    assert table.config.name in shown.splitlines()[0]
    assert "copy-on-write" in shown
    assert "<td>version</td><td>9</td>" in table._repr_html_()


def test_its_files_hold_the_expected_rows(table: pyhudi.Table) -> None:
    rows = golden_tables.BY_NAME["h120_v9-cow_bloom"].expected()
    assert rows is not None
    files, partitions = table.files(), table.partitions()
    assert sum(file.rows or 0 for file in files) == len(rows)
    assert sum(each.rows or 0 for each in partitions) == len(rows)
    assert sum(each.files for each in partitions) == len(files)
    for file in files:
        assert (Path(table.path) / file.path).stat().st_size == file.size_bytes


def test_its_schema_has_the_columns_without_hudi_own(table: pyhudi.Table) -> None:
    names = table.schema().names
    assert names
    assert not [name for name in names if name.startswith("_hoodie_")]


def test_it_travels_in_time(table: pyhudi.Table) -> None:
    first = next(entry for entry in table.history() if entry.is_commit)
    before = table.files(first.instant)
    assert {file.instant for file in before} == {first.instant}
    assert table.schema(first.instant).names
    assert [each.files for each in table.partitions(first.instant)]
    with pytest.raises(HistoryExpired):
        table.files("20200101000000000")


def test_a_commit_tells_its_files_and_metadata(table: pyhudi.Table) -> None:
    last = [entry for entry in table.history() if entry.is_commit][-1]
    commit = table.commit(last.instant)
    assert commit.entry == last
    assert len(commit.files) == last.files
    assert sum(file.rows_updated for file in commit.files) == last.rows_updated
    assert "schema" in commit.metadata
    with pytest.raises(ConfigError, match="no completed commit 1"):
        table.commit("1")


def test_history_is_the_list_that_it_was(table: pyhudi.Table) -> None:
    assert list(table.history()) == pyhudi.history(table.path)
    assert table.history().to_arrow().num_rows == len(table.history())
    assert len(table.history(archived=True)) >= len(table.history())


def test_a_folder_that_is_no_table_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        pyhudi.Table(str(tmp_path))
