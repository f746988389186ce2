"""The metadata table: never left stale.

pyhudi does not update Hudi's metadata table yet. So before it publishes a commit it switches the
metadata table off: it empties both keys and deletes the folder, as Hudi does for a writer without
metadata (spec/metadata_table.md MT3). Must be called under the table lock.
"""

from __future__ import annotations

from pyhudi.format.table_config import without_metadata_table
from pyhudi.locks.base import TableLock
from pyhudi.locks.renewal import kept
from pyhudi.timeline.table import Table
from pyhudi.transactions.presence import still_there
from pyhudi.transactions.properties import rewrite_properties

FOLDER = ".hoodie/metadata"


def drop_metadata_table(table: Table, lock: TableLock) -> Table:
    """The table without a metadata table; if it has none, unchanged after a single read.

    ``WriterFenced`` if the lease on ``lock``, which is held, might not outlast the change,
    ``TableNotFound`` if the table was removed since it was opened.
    """
    table = still_there(table)
    if not (table.config.metadata_partitions or table.config.metadata_partitions_inflight):
        return table
    table = rewrite_properties(table, without_metadata_table(table.config.raw), lock)
    with kept(lock):  # a folder of thousands of files
        table.storage.delete_folder(FOLDER)
    return table
