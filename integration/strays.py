"""What failed writes may leave in a table on disk: files that no commit names, and their traces."""

from __future__ import annotations

from pathlib import Path

from pyhudi.format.filenames import parse_log_file_name
from pyhudi.format.instants import Action
from pyhudi.storage.base import Storage
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.recovery.rollback import read_metadata


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


def taken_back(table: Table, timeline: Timeline) -> set[str]:
    """Logs of layout 1 that rollbacks left: their commands, and the failed logs before those.

    A command takes blocks back, so Apache Hudi deletes no log (spec/log_files.md L6).
    """
    found = set()
    for done in timeline.completed:
        told = read_metadata(table, timeline, done) if done.action is Action.ROLLBACK else None
        for folder, partition in (told.partition_metadata if told else {}).items():
            commands = {uri.rpartition("/")[2] for uri in partition.rollback_log_files}
            slices = {_slice_of(name) for name in commands}
            failed = {n for n in partition.log_files_from_failed_commit if _slice_of(n) in slices}
            found |= {f"{folder}/{name}".lstrip("/") for name in commands | failed}
    return found


def _slice_of(name: str) -> tuple[str, str]:
    """The file group and the base instant of a log of layout 1."""
    log = parse_log_file_name(name)
    assert log is not None, name
    return log.file_id, log.instant


def unnamed_files(table: Path) -> set[str]:
    """Data files that no commit names, active or archived, and no rollback took back."""
    opened = open_table(LocalStorage(str(table)))
    files = (str(f.relative_to(table)) for f in table.rglob("*") if f.is_file())
    archived = archived_instants(opened.storage, opened.config)
    old = {stat.path for entry in archived for stat in entry.commit().stats}
    timeline = opened.timeline()
    known = named_files(opened.storage, timeline) | taken_back(opened, timeline) | old
    return set(filter(is_data, files)) - known


def stray_files(table: Path) -> set[str]:
    """Data files that no commit names, and what is left of markers, heartbeats and locks."""
    timeline = open_table(LocalStorage(str(table))).timeline()
    left = [f for kind in (".temp", ".heartbeat") for f in (table / ".hoodie" / kind).rglob("*")]
    pending = {f"{i.time}.{i.action.value}" for i in timeline.pending}
    # An empty temporary file of a put that was cut in half is seen by nobody: not by listings.
    left = [f for f in left if f.is_file() and not f.name.startswith(".pyhudi-tmp-")]
    return unnamed_files(table) | {str(f) for f in left} | pending
