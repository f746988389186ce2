"""A table whose first write failed goes away, unless somebody else has to do with it by now."""

from __future__ import annotations

import pytest

from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.format.instants import Action
from pyhudi.format.properties import render_properties
from pyhudi.locks.filesystem import FilesystemLock
from pyhudi.planner.create import create_table, new_table_config
from pyhudi.planner.write import discard_if_unused
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import PROPERTIES, Table, table_exists
from pyhudi.transactions.transaction import Transaction, WriterPolicy

SCHEMA = {
    "type": "struct",
    "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
}


@pytest.fixture
def table() -> Table:
    config = new_table_config("/data/t", resolve_write({}), SCHEMA, record_schema=False)
    return create_table(MemoryStorage(), config)


def test_a_table_that_nobody_uses_is_discarded(table: Table) -> None:
    discard_if_unused(table)
    assert not table_exists(table.storage)


def test_a_table_that_another_writer_writes_to_stays(table: Table) -> None:
    clock = SystemClock()
    lock = FilesystemLock(table.storage, clock)
    other = Transaction.begin(table, Action.COMMIT, "insert", lock, clock, WriterPolicy())
    discard_if_unused(table)
    assert table_exists(table.storage)
    other.abort(lambda timeout_s: True)


def test_a_table_that_was_changed_since_stays(table: Table) -> None:
    changed = {**table.config.raw, "hoodie.table.create.schema": "{}"}
    table.storage.replace(PROPERTIES, render_properties(changed))
    discard_if_unused(table)
    assert table_exists(table.storage)
