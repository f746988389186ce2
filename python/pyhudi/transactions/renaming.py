"""A table's name in its properties; sessions with Apache Hudi sync to a catalog by that name."""

from __future__ import annotations

from typing import Final

from pyhudi.format.properties import table_checksum
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.properties import rewrite_properties
from pyhudi.transactions.writer import Writer

_NAME: Final = "hoodie.table.name"
_DATABASE: Final = "hoodie.database.name"
_CHECKSUM: Final = "hoodie.table.checksum"


def rename_table(writer: Writer, name: str) -> Table:
    """The table under another name, which its checksum covers: spec/properties.md P3.

    The change is made under the lock. ``LockTimeout`` if that stays taken; then nothing is changed.
    """
    table = writer.table
    time = writer.next_time(table.timeline())
    with writer.locked(time):
        table = open_table(table.storage)
        raw = {**table.config.raw, _NAME: name}
        if _CHECKSUM in raw:
            raw[_CHECKSUM] = str(table_checksum(raw.get(_DATABASE, ""), name))
        return rewrite_properties(table, raw, writer.lock)
