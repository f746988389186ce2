"""The compaction of logs that are in the way of a write.

They cannot take a row of it (``rows/log_writer.py``), or their group has no base file in which keys
could be looked up (``placement/log_groups.py``).

Another program may compact them at the same time. Then the write waits for it.
"""

from __future__ import annotations

import logging

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions
from pyhudi.errors import CommitConflict, HudiError, LockTimeout
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
    """Compact ``groups``, whatever the options say of compactions; whether logs went.

    They may have gone before. ``CommitConflict`` if others are in the way. Another failure is only
    logged: the write then fails with its own error.
    """
    table = open_table(table.storage)
    place = runtime.filesystem(table.storage.root)
    run = Compaction(runtime.writer(table, options), options, place, tasks, groups=groups)
    try:
        done = compacted(run)
    except (CommitConflict, LockTimeout) as error:
        raise _busy(table, str(error)) from error
    except HudiError as error:
        log.warning("%s: logs in the way could not be compacted: %s", table.config.name, error)
        return False
    asked = [each for each in done if (each.partition, each.file_group) in groups]
    if asked and all(each.fate is CompactionFate.LEFT for each in asked):
        raise _busy(table, asked[0].why)
    return True


def _busy(table: Table, why: str) -> CommitConflict:
    return CommitConflict(
        f"Logs of {table.config.name} are in the way of this write, and cannot be compacted now: "
        f"{why.rstrip('.')}. Nothing of this write is visible. Run it again once that has ended.",
        path=table.storage.root,
        pending=True,
    )
