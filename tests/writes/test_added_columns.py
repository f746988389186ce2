"""Columns that a write adds, whose names older files may have for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyhudi.errors import SchemaConflict
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.schema import gone_columns, table_schema
from pyhudi.timeline.table import Table, open_table
from pyhudi.writes.added_columns import check_added
from tests.golden_tables import BY_NAME
from tests.timeline.test_schema_history import commit


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of version 6 from which a column ``note`` went by name."""
    table = open_table(LocalStorage(str(BY_NAME["h0150_v6-cow_np"].unzip(tmp_path))))
    commit(table, "20261122000000001", "id", "note:integer")
    commit(table, "20261122000000002", "id")
    return table


def add(table: Table, name: str, kind: Any) -> None:
    timeline = table.timeline()
    before = table_schema(table, timeline, None)
    assert before is not None
    check_added(table, timeline, before, SparkSchema((*before.columns, Column(name, kind))))


@pytest.mark.parametrize("kind", ["string", "boolean", "short", "date"])
def test_a_name_of_older_files_is_refused_for_another_type(table: Table, kind: str) -> None:
    with pytest.raises(SchemaConflict, match="older files of the table have a column of this name"):
        add(table, "Note", kind)


@pytest.mark.parametrize(("name", "kind"), [("note", "integer"), ("note", "long"), ("x", "date")])
def test_another_name_and_a_type_that_holds_the_old_values_are_added(
    table: Table, name: str, kind: str
) -> None:
    add(table, name, kind)


def test_under_a_history_names_are_free(tmp_path: Path) -> None:
    table = open_table(LocalStorage(str(BY_NAME["h0150_v6-cow_evolve"].unzip(tmp_path))))
    timeline = table.timeline()
    now = table_schema(table, timeline, None)
    assert now is not None
    gone = gone_columns(table, timeline, now)
    assert gone
    for column in gone:
        add(table, column.name, "binary")
