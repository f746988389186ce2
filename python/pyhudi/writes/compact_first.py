"""The compaction of logs that cannot take a row of a write (``rows/log_writer.py``)."""

from __future__ import annotations

import logging

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions
from pyhudi.errors import HudiError
from pyhudi.services.compaction import Compaction, CompactionFate, SliceTasks, compacted
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.conflicts.comparison import Group

log = logging.getLogger(__name__)


def compacted_first(
    runtime: Runtime,
    table: Table,
    options: WriteOptions,
    tasks: SliceTasks,
    groups: frozenset[Group],
) -> bool:
    """Compact ``groups``, whatever the options say of compactions; whether any was.

    A failure is only logged: the write then fails with its own error.
    """
    table = open_table(table.storage)
    place = runtime.filesystem(table.storage.root)
    run = Compaction(runtime.writer(table, options), options, place, tasks, groups=groups)
    try:
        done = compacted(run)
    except HudiError as error:
        log.warning("%s: logs in the way could not be compacted: %s", table.config.name, error)
        return False
    taken = {(each.partition, each.file_group): each.fate for each in done}
    return any(taken.get(group) is CompactionFate.COMPACTED for group in groups)
