"""Which files of a stream's batch have rows for it, and how those of the first state are told."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from pyhudi.format.change_log import OP
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Instant
from pyhudi.reads.change_data import STILL, Finder
from pyhudi.reads.conditions import Compare, Comparison, Filter, Text
from pyhudi.reads.scan import Query
from pyhudi.reads.stream_admission import Load
from pyhudi.reads.stream_look import StreamLook
from pyhudi.rows.change_spec import ChangePiece
from pyhudi.slices.files import FileSlice, base_files
from pyhudi.storage.base import Storage

Group = tuple[str, FileId]


def digest_of(slices: Iterable[FileSlice]) -> str:
    """The name of a state by its files: equal if they are."""
    paths = "\n".join(file.path for file in base_files(slices))
    return hashlib.sha256(paths.encode()).hexdigest()[:16]


def loads_of(query: Query, slices: Sequence[FileSlice]) -> list[Load]:
    """What each file of a state costs to read."""
    files = query.view().with_rows(base_files(slices))
    return [Load(1, file.size_bytes, max(file.rows, 0)) for file in files]


def among(slices: Iterable[FileSlice], paths: frozenset[str]) -> list[FileSlice]:
    """The slices whose base files are at ``paths``."""
    return [each for each in slices if each.base is not None and each.base.path in paths]


def snapshot_pieces(query: Query, slices: Iterable[FileSlice]) -> Iterator[tuple[ChangePiece, int]]:
    """The rows of a state as if they were inserted by the commit that wrote their file."""
    finder = Finder(query, query.own_timeline)
    for base in base_files(slices):
        yield ChangePiece(base.instant, after=finder.slice(base.path), ops="i"), base.size_bytes


def only_inserted() -> Filter:
    """The condition on change data that leaves inserts."""
    return Compare(Comparison.EQUAL, OP, Text("i"))


def inserts_only(commits: Sequence[CommitMetadata]) -> bool:
    """Whether the rows with the times of ``commits`` are the inserted ones, all and no others.

    An update has such a time, too. What a later commit of the same batch deletes or replaces was
    inserted nevertheless.
    """
    told = [each for each in commits if each.operation not in STILL]
    stats = [stat for each in told for stat in each.stats if stat.path]
    if any(s.num_updates or (s.num_writes and not s.num_inserts) for s in stats):
        return False
    takes = any(each.replaced for each in told) or any(stat.num_deletes for stat in stats)
    return len(commits) == 1 or not takes


def without_changes(look: StreamLook, commits: Sequence[Instant]) -> frozenset[str]:
    """The files of a range that have no row of it: a clustering moved rows of earlier commits."""
    written: set[Group] = set()
    found: set[str] = set()
    for commit in sorted(commits, key=lambda each: each.time):
        metadata = look.metadata(commit)
        stats = [stat for stat in metadata.stats if stat.path]
        own = {(stat.partition_path, stat.file_id) for stat in stats}
        if metadata.operation in STILL:
            came_from = own | {
                (partition, group)
                for partition, groups in (metadata.replaced or {}).items()
                for group in groups
            }
            if came_from.isdisjoint(written):
                found |= {stat.path for stat in stats}
        written |= own
    return frozenset(found)


def needed_files(pieces: Iterable[tuple[ChangePiece, int]]) -> set[str]:
    """The files that the workers open for change data."""
    found: set[str] = set()
    for piece, _ in pieces:
        found |= {*piece.logs, *(each.path for each in (piece.before, piece.after) if each)}
    return found


def listed_files(storage: Storage, paths: Iterable[str]) -> set[str]:
    """Those of ``paths`` that exist; lists their folders."""
    folders = {path.rpartition("/")[0] for path in paths}
    listed = {file.path for folder in folders for file in storage.list(folder)}
    return listed.intersection(paths)
