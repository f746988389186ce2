"""Files that a killed process had not given their names yet.

On a local disk and by Hadoop's client a file gets its name once it is whole (``storage/names``).
Readers and Apache Hudi pass the temporary file over. What a process leaves that is killed in
between is deleted here, from the folders that a writer lists anyhow and ``.hoodie`` itself.

Invariant: such a file goes only when it is old by the storage's clock. Were its writer alive after
all, the rename or link fails, which is a known failure of that put.
"""

from __future__ import annotations

from typing import Final

from pyhudi.clock import Clock
from pyhudi.storage.base import PassesTemporariesOver
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import storage_now_ms

#: no put takes so long
OLD_MS: Final = 3_600_000
#: where the table's properties and its lock are put
TABLE_FOLDER: Final = ".hoodie"


def sweep_temporaries(table: Table, clock: Clock, everywhere: bool = False) -> None:
    """Delete the old ones among the temporary files that listings of the table passed over.

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
    # Our clock is asked first, for that costs nothing.
    if not any(clock.now_ms() - file.modified_ms >= OLD_MS for file in left):
        return
    now_ms = storage_now_ms(storage, clock)
    storage.delete([file.path for file in left if now_ms - file.modified_ms >= OLD_MS])
