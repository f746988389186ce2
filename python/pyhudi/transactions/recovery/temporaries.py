"""Files that a killed process had not given their names yet.

On a local disk and by Hadoop's client a file gets its name when it is whole (``storage/names``).
Readers and Apache Hudi ignore the temporary file. If a process is killed in between, the file is
deleted here, from the folders that a writer lists in any case and from ``.hoodie`` itself.

Invariant: such a file is deleted only when it is old by the storage's clock. If its writer is still
alive, the rename or link fails, which is a known failure of that put.
"""

from __future__ import annotations

from typing import Final

from pyhudi.clock import Clock
from pyhudi.storage.base import PassesTemporariesOver
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import storage_now_ms

#: no put takes this long
OLD_MS: Final = 3_600_000
#: where the table's properties and its lock are put
TABLE_FOLDER: Final = ".hoodie"


def sweep_temporaries(table: Table, clock: Clock, everywhere: bool = False) -> None:
    """Delete the old temporary files, which listings of the table leave out.

    ``everywhere`` looks into each folder of the table's metadata for them.
    """
    storage = table.storage
    if not isinstance(storage, PassesTemporariesOver):
        return
    if everywhere:
        storage.walk(TABLE_FOLDER)
    elif table.config.timeline_folder != TABLE_FOLDER:
        storage.list(TABLE_FOLDER)
    left = storage.passed_over()
    # Our clock is asked first, since that costs nothing.
    if not any(clock.now_ms() - file.modified_ms >= OLD_MS for file in left):
        return
    now_ms = storage_now_ms(storage, clock)
    storage.delete([file.path for file in left if now_ms - file.modified_ms >= OLD_MS])
