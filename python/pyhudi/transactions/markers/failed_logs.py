"""The log files of a failed write in layout 1, whose names say only which slice they belong to.

The blocks of a log say which delta commits wrote it (spec/log_files.md L3). A log of one write
alone is deleted with it. On a file system that appends, Apache Hudi may have added to a log of
others: such a log stays, and a command block takes the failed blocks back (spec/log_files.md L6).
So it does with a log that a pending compaction or clustering has in its plan: Apache Hudi plans one
beside writes that run, and nobody could run that plan without the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pyhudi.format.filenames import LogFileName, parse_log_file_name, path_in
from pyhudi.format.instants import InstantTime
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks, render_block
from pyhudi.format.plans import ClusteringSlice, CompactionOperation
from pyhudi.slices.file_listing import StorageListing
from pyhudi.storage.base import Storage
from pyhudi.timeline.pending import COMPACTING, planned_clusterings, planned_compactions
from pyhudi.timeline.table import Table

#: the command that takes back the blocks of an instant
ROLLBACK = "0"


def shared_logs(storage: Storage, paths: Iterable[str], instant: InstantTime) -> set[str]:
    """Those of ``paths`` that are logs with blocks of other instants than ``instant``."""
    return {path for path in paths if _is_shared(storage, path, instant)}


def staying_logs(table: Table, paths: Collection[str], instant: InstantTime) -> set[str]:
    """Those of ``paths`` that a rollback of ``instant`` must leave; none in layout 2.

    They are shared with other writes, or in the plan of a pending compaction or clustering.
    """
    if table.config.layout > 1:
        return set()
    logs = {path for path in paths if parse_log_file_name(path.rpartition("/")[2]) is not None}
    return shared_logs(table.storage, logs, instant) | (logs & _planned(table) if logs else set())


def _planned(table: Table) -> set[str]:
    """The logs that pending compactions and clusterings are to merge."""
    now = table.timeline()
    slices: list[CompactionOperation | ClusteringSlice] = [
        each for _, plan in planned_compactions(table, now, COMPACTING) for each in plan.operations
    ]
    for _, requested in planned_clusterings(table, now):
        groups = requested.clustering_plan.input_groups if requested.clustering_plan else ()
        slices += [each for group in groups for each in group.slices]
    return {
        path_in(each.partition_path, name)
        for each in slices
        for name in (path.rpartition("/")[2] for path in each.delta_file_paths)
    }


def logs_with(storage: Storage, instant: InstantTime) -> list[str]:
    """The logs of a table of layout 1 that have a block of ``instant``; reads all of its logs."""
    return sorted(
        file.path
        for file in StorageListing(storage).files()
        if parse_log_file_name(file.name) is not None and instant in _instants(storage, file.path)
    )


def take_back(
    storage: Storage, path: str, instant: InstantTime, rollback: InstantTime
) -> tuple[str, int]:
    """Put a log after ``path`` whose command takes the blocks of ``instant`` back; its path and
    size."""
    folder, slash, name = path.rpartition("/")
    log = parse_log_file_name(name)
    assert log is not None
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: rollback,
        HeaderKey.TARGET_INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK,
    }
    others = (parse_log_file_name(file.name) for file in storage.list(folder))
    of_slice = (o for o in others if o and (o.file_id, o.instant) == (log.file_id, log.instant))
    version = max((o.version for o in of_slice), default=log.version) + 1
    # The token of Apache Hudi's own logs of a rollback.
    command = LogFileName(log.file_id, log.instant, version, "1-0-1")
    found = f"{folder}{slash}{command.render()}"
    data = render_block(BlockType.COMMAND, header, b"")
    storage.put_if_absent(found, data)
    return found, len(data)


def _is_shared(storage: Storage, path: str, instant: InstantTime) -> bool:
    named = parse_log_file_name(path.rpartition("/")[2])
    if named is None or named.instant == instant:
        return False
    return bool(_instants(storage, path) - {instant})


def _instants(storage: Storage, path: str) -> set[str]:
    try:
        blocks = list(read_blocks(storage.read(path)))
    except FileNotFoundError:
        return set()
    return {block.header.get(HeaderKey.INSTANT_TIME, "") for block in blocks}
