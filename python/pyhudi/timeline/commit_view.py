"""The view of what some commits wrote, from their metadata alone.

Invariant: no folder is listed, so the cost is that of the commits, not of the table.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.advance import add_files, add_replaced
from pyhudi.timeline.view import FileSystemView, Groups


class NeedsListing(Exception):
    """A commit leaves out the size of a file, or wrote a log file: a listing shows what counts."""


def view_of_commits(
    storage: Storage, timeline: Timeline, commits: Sequence[Instant]
) -> FileSystemView:
    """The files that ``commits`` wrote; groups that one of them replaced are gone.

    ``NeedsListing`` if a commit leaves out a size, or wrote a log file.
    """
    groups: Groups = {}
    replaced: dict[tuple[str, FileId], InstantTime] = {}
    touched: set[str] = set()
    for commit in commits:
        metadata = COMMITS.get(storage, timeline, commit)
        for stat in metadata.stats:
            if not stat.path:
                continue
            if stat.is_log or stat.file_size_bytes <= 0:
                raise NeedsListing(stat.path)
        add_files(groups, touched, metadata)
        add_replaced(replaced, commit, metadata)
    return FileSystemView(storage, timeline, groups, {}, replaced)
