"""What a new table may be: checked before any file is made."""

from __future__ import annotations

from typing import Any

import pytest

from pyhudi.config import resolve_write
from pyhudi.errors import ConfigError
from pyhudi.planner.create import new_table_config


def column(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


INNER = {"type": "struct", "fields": [column("at", "long")]}
SCHEMA = {"type": "struct", "fields": [column("id", "long"), column("event", INNER)]}


def test_an_ordering_column_inside_a_struct_is_refused() -> None:
    options = resolve_write(
        {
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.table.ordering.fields": "event.at",
        }
    )
    with pytest.raises(ConfigError, match=r"'event\.at' lies inside a struct"):
        new_table_config("/data/t", options, SCHEMA, record_schema=False)


def test_a_table_is_named_by_its_folder_where_no_option_names_it() -> None:
    options = resolve_write({"hoodie.datasource.write.recordkey.field": "id"})
    assert new_table_config("/data/trips", options, SCHEMA, record_schema=False).name == "trips"
