"""Attempts that were overtaken: the table changed, and files were cleaned, while they listed it."""

from __future__ import annotations

from pyhudi.config import Operation
from pyhudi.errors import CommitConflict, HistoryExpired, TableCorrupt
from pyhudi.format.filenames import parse_base_file_name
from pyhudi.timeline.strays import rolled_back
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import VIEWS


def overtaken(operation: Operation, table: Table, why: HistoryExpired) -> CommitConflict:
    """The lost race of an attempt whose table changed while it was listed."""
    return CommitConflict(
        f"{operation.value} to {table.config.name} lost a race, and nothing of it is "
        f"visible. Run it again: it then starts from the new state. The reason: {why}",
        ours=None,
        theirs=None,
        overlap=("table",),
    )


def end_of(table: Table, broken: TableCorrupt) -> str | None:
    """What happened to the missing file; None if the table still needs it, or if no file is named.

    ``TableCorrupt`` names its commit, if that is known.
    """
    VIEWS.forget(table.storage)
    timeline = table.timeline()
    view = table.view(timeline)
    view.check()
    named = parse_base_file_name((broken.path or "").rsplit("/", 1)[-1])
    if named is None:
        return None
    files = (f for groups in view.groups.values() for f in groups.get(named.file_id, ()))
    replaced = any(file_id == named.file_id for _, file_id in view.replaced)
    if replaced or any(f.instant > named.instant for f in files):
        return "replaced and cleaned"
    if named.instant not in {commit.time for commit in timeline.commits}:
        # Below the first active instant it may be archived, unless a rollback names it.
        first = timeline.first_time
        if first is None or named.instant > first:
            return "undone with its commit"
        if named.instant in rolled_back(table.storage, timeline):
            return "undone with its commit"
    return None
