"""What a new table may be: checked before any file is made."""

from __future__ import annotations

from typing import Any

import pytest

from pyhudi.config import resolve_write
from pyhudi.errors import ConfigError, SchemaConflict
from pyhudi.format.table_config import TableConfig
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.planner.create import new_table_config
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import table_exists
from pyhudi.transactions.presence import make_table
from pyhudi.transactions.transaction import WriterPolicy
from tests.fakes import FakeClock


def make(storage: MemoryStorage, config: TableConfig) -> None:
    clock = FakeClock()
    make_table(storage, config, InProcessLock(InProcessLocks(), "t"), clock, WriterPolicy())


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


def test_columns_are_recorded_in_their_own_spelling() -> None:
    schema = {"type": "struct", "fields": [column(n, "long") for n in ("Id", "Ts", "City")]}
    options = resolve_write(
        {
            "primaryKey": "id",
            "hoodie.table.ordering.fields": "TS",
            "hoodie.datasource.write.partitionpath.field": "city",
        }
    )
    config = new_table_config("/data/t", options, schema, record_schema=False)
    assert config.record_key_fields == ("Id",)
    assert config.ordering_fields == ("Ts",)
    assert config.partition_fields == ("City",)


@pytest.mark.parametrize("names", [("id", "ID"), ("id", "a b"), ()], ids=["twice", "unfit", "none"])
def test_columns_that_no_table_can_have_are_refused(names: tuple[str, ...]) -> None:
    schema = {"type": "struct", "fields": [column(name, "long") for name in names]}
    with pytest.raises(SchemaConflict):
        new_table_config("/data/t", resolve_write({}), schema, record_schema=True)


@pytest.mark.parametrize("file", ["part-0.parquet", "a/b/part-0.parquet"])
def test_a_folder_with_files_of_something_else_becomes_no_table(file: str) -> None:
    storage = MemoryStorage()
    config = new_table_config("/data/t", resolve_write({}), SCHEMA, record_schema=False)
    storage.put_if_absent(file, b"rows")
    with pytest.raises(ConfigError, match=f"other files, such as '{file}'"):
        make(storage, config)
    assert not table_exists(storage)


def test_hidden_files_do_not_keep_a_folder_from_becoming_a_table() -> None:
    storage = MemoryStorage()
    config = new_table_config("/data/t", resolve_write({}), SCHEMA, record_schema=False)
    for file in ("_SUCCESS", ".part-0.crc", ".hoodie/.temp/x", "_tmp/x", "p/.hoodie_partition"):
        storage.put_if_absent(file, b"rows")
    make(storage, config)
    assert table_exists(storage)
