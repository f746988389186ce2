"""What failed writes may leave in a table on disk: files that no commit names, and their traces."""

from __future__ import annotations

from pathlib import Path

from pyhudi.format.filenames import parse_log_file_name
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.table import open_table


def is_data(path: str) -> bool:
    """Whether the file at this path of a table holds rows: a base file or a log."""
    if path.startswith(".hoodie/"):
        return False
    name = path.rpartition("/")[2]
    log = parse_log_file_name(name)
    return name.endswith(".parquet") or (log is not None and not log.cdc)


def named_files(storage: Storage, timeline: Timeline) -> set[str]:
    """The paths of the data files that the commits of the timeline name."""
    return {
        stat.path
        for commit in timeline.commits
        for stat in COMMITS.get(storage, timeline, commit).stats
    }


def unnamed_files(table: Path) -> set[str]:
    """Data files that no commit names, active or archived."""
    opened = open_table(LocalStorage(str(table)))
    files = (str(f.relative_to(table)) for f in table.rglob("*") if f.is_file())
    archived = archived_instants(opened.storage, opened.config)
    old = {stat.path for entry in archived for stat in entry.commit().stats}
    return set(filter(is_data, files)) - named_files(opened.storage, opened.timeline()) - old


def stray_files(table: Path) -> set[str]:
    """Data files that no commit names, and what is left of markers, heartbeats and locks."""
    timeline = open_table(LocalStorage(str(table))).timeline()
    left = [f for kind in (".temp", ".heartbeat") for f in (table / ".hoodie" / kind).rglob("*")]
    pending = {f"{i.time}.{i.action.value}" for i in timeline.pending}
    # An empty temporary file of a put that was cut in half is seen by nobody: not by listings.
    left = [f for f in left if f.is_file() and not f.name.startswith(".pyhudi-tmp-")]
    return unnamed_files(table) | {str(f) for f in left} | pending
