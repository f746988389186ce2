"""Changing ``hoodie.properties``, which is rewritten in place: under the table lock alone.

Invariant: a reader, also during the change or after a crash, finds the old properties or the new
ones. Some Hadoop file systems delete the old file before they rename another onto its name. So the
old properties are first put beside it, where Apache Hudi and ``timeline.table`` look for them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyhudi.errors import StorageError
from pyhudi.format.properties import render_properties
from pyhudi.locks.base import TableLock
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table, config_of

log = logging.getLogger(__name__)


def rewrite_properties(table: Table, raw: Mapping[str, str], lock: TableLock) -> Table:
    """The table with ``raw`` as its properties; ``table`` has those that were read under ``lock``.

    ``WriterFenced`` if the lease might not outlast the put: then nothing is changed.
    """
    storage, data = table.storage, render_properties(raw)
    storage.replace(BACKUP, render_properties(table.config.raw))
    lock.check(storage.put_timeout_s)
    storage.replace(PROPERTIES, data)
    try:
        storage.delete([BACKUP])
    except StorageError as error:
        # It counts only if the properties are gone, and the next change deletes it.
        log.warning("%s: the backup of its properties remains: %s", storage.root, error)
    return Table(storage, config_of(storage, data))
