"""A worker's report on the driver: what it says of a file is what the commit says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId


def files_in(stats: Iterable[WriteStat]) -> list[str]:
    """The data files that write statistics name, with their change logs."""
    return [path for stat in stats for path in (stat.path, *(stat.cdc_stats or ()))]


def stat_of(row: dict[str, Any]) -> WriteStat:
    """One row of a worker's report (``STAT_SCHEMA``), as a commit records it.

    The statistic of a log names the base file of its slice in layout 1, and none in layout 2.
    """
    version, before = row["log_version"], row["prev_base_file"]
    stat = WriteStat(
        file_id=FileId(row["file_id"]),
        path=row["path"],
        partition_path=row["partition_path"],
        prev_commit=row["prev_instant"],
        num_writes=row["num_writes"],
        num_inserts=row["num_inserts"],
        num_updates=row["num_updates"],
        num_deletes=row["num_deletes"],
        total_write_bytes=row["file_size_bytes"],
        file_size_bytes=row["file_size_bytes"],
        prev_base_file=before if version is None else None,
        cdc_stats={row["change_log"]: row["change_log_bytes"]} if row["change_log"] else None,
    )
    if version is None:
        return stat
    name = row["path"].rpartition("/")[2]
    return replace(
        stat, log_version=version, log_offset=0, base_file=before or "", log_files=(name,)
    )
