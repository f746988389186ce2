"""The metadata table: never left stale.

pyhudi does not keep Hudi's metadata table up to date yet, so before it publishes a commit it
takes the table's promise back: both keys emptied, the folder deleted, as Hudi does for a writer
without metadata (FORMAT.md section 6). Must be called under the table lock.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import parse_table_config, without_metadata_table
from pyhudi.timeline.table import PROPERTIES, Table

FOLDER = ".hoodie/metadata"


def drop_metadata_table(table: Table) -> Table:
    """The table without a metadata table; unchanged, and no I/O but one read, where none is."""
    storage = table.storage
    config = parse_table_config(storage.read(PROPERTIES), f"{storage.root}/{PROPERTIES}")
    if not (config.metadata_partitions or config.metadata_partitions_inflight):
        return replace(table, config=config)
    data = render_properties(without_metadata_table(config.raw))
    storage.replace(PROPERTIES, data)
    storage.delete_folder(FOLDER)
    return replace(table, config=parse_table_config(data, f"{storage.root}/{PROPERTIES}"))
