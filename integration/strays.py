"""What failed writes may leave in a table on disk: files that no commit names, and their traces."""

from __future__ import annotations

from pathlib import Path

from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table


def unnamed_files(table: Path) -> set[str]:
    """Data files that no commit names."""
    opened = open_table(LocalStorage(str(table)))
    timeline = opened.timeline()
    named = {
        stat.path
        for commit in timeline.commits
        for stat in COMMITS.get(opened.storage, timeline, commit).stats
    }
    files = [f.relative_to(table) for f in table.rglob("*.parquet")]
    return {str(f) for f in files if f.parts[0] != ".hoodie"} - named


def stray_files(table: Path) -> set[str]:
    """Data files that no commit names, and what is left of markers, heartbeats and locks."""
    timeline = open_table(LocalStorage(str(table))).timeline()
    left = [f for kind in (".temp", ".heartbeat") for f in (table / ".hoodie" / kind).rglob("*")]
    pending = {f"{i.time}.{i.action.value}" for i in timeline.pending}
    # An empty temporary file of a put that was cut in half is seen by nobody: not by listings.
    left = [f for f in left if f.is_file() and not f.name.startswith(".pyhudi-tmp-")]
    return unnamed_files(table) | {str(f) for f in left} | pending
