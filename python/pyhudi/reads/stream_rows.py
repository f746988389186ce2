"""Which files of a stream's batch have rows for it, and how those of the first state are told."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Sequence

from pyhudi.format.change_log import INSERT, OP
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import parse_log_file_name
from pyhudi.format.instants import Instant
from pyhudi.reads.change_data import STILL, Finder, Piece
from pyhudi.reads.change_slices import Group
from pyhudi.reads.conditions import Compare, Comparison, Filter, Text
from pyhudi.reads.log_slices import counted_instants, log_slice
from pyhudi.reads.scan import Query
from pyhudi.reads.stream_admission import Load
from pyhudi.reads.stream_look import StreamLook
from pyhudi.rows.change_spec import ChangePiece
from pyhudi.rows.log_spec import SliceChange
from pyhudi.slices.files import FileSlice, base_files
from pyhudi.storage.base import Storage


def digest_of(query: Query, slices: Iterable[FileSlice]) -> str:
    """The name of a state by its files: equal if they are.

    In layout 1 later commits may add logs to a slice of the state: there its first file stands for
    it.
    """
    layout = query.table.config.layout
    files = (each.files if layout > 1 else each.files[:1] for each in slices)
    paths = "\n".join(file.path for held in files for file in held)
    return hashlib.sha256(paths.encode()).hexdigest()[:16]


def loads_of(query: Query, slices: Sequence[FileSlice]) -> list[Load]:
    """What each slice of a state costs to read; rows that its logs insert are not known."""
    known = {file.path: file.rows for file in query.view().with_rows(base_files(slices))}
    rows = [max(known[each.base.path], 0) if each.base is not None else 0 for each in slices]
    return [Load(1, each.size_bytes, n) for each, n in zip(slices, rows, strict=True)]


def among(slices: Iterable[FileSlice], groups: Container[Group]) -> list[FileSlice]:
    """The slices of ``groups``."""
    return [each for each in slices if (each.partition_path, each.file_id) in groups]


def snapshot_pieces(query: Query, slices: Iterable[FileSlice]) -> Iterator[tuple[Piece, int]]:
    """The rows of a state as if they were inserted by the commit that began their slice."""
    finder, counted = Finder(query, query.own_timeline), None
    for each in slices:
        if each.logs:
            counted = counted or counted_instants(query)
            of, at = log_slice(query, each), each.instant
            yield SliceChange(at, of, counted, "i", whole=INSERT), each.size_bytes
        elif each.base is not None:
            after = finder.slice(each.base.path)
            yield ChangePiece(each.instant, after=after, ops="i"), each.size_bytes


def only_inserted() -> Filter:
    """The condition on change data that leaves inserts."""
    return Compare(Comparison.EQUAL, OP, Text("i"))


def inserts_only(commits: Sequence[CommitMetadata]) -> bool:
    """Whether the rows with the times of ``commits`` are the inserted ones, all and no others.

    An update has such a time, too, and so has a row of a log, whatever the statistic calls it. What
    a later commit of the same batch deletes or replaces was inserted nevertheless.
    """
    told = [each for each in commits if each.operation not in STILL]
    stats = [stat for each in told for stat in each.stats if stat.path]
    if any(s.num_updates or (s.num_writes and not s.num_inserts) for s in stats):
        return False
    if any(parse_log_file_name(s.path.rpartition("/")[2]) for s in stats):
        return False
    takes = any(each.replaced for each in told) or any(stat.num_deletes for stat in stats)
    return len(commits) == 1 or not takes


def changed_groups(look: StreamLook, commits: Sequence[Instant]) -> set[Group]:
    """The groups that may have rows of ``commits``: what a clustering or a compaction wrote is left
    out if it moved rows of earlier commits only."""
    found: set[Group] = set()
    for commit in sorted(commits, key=lambda each: each.time):
        metadata = look.metadata(commit)
        own = {(stat.partition_path, stat.file_id) for stat in metadata.stats if stat.path}
        if metadata.operation in STILL:
            came_from = own | {
                (partition, group)
                for partition, groups in (metadata.replaced or {}).items()
                for group in groups
            }
            if came_from.isdisjoint(found):
                continue
        found |= own
    return found


def needed_files(pieces: Iterable[tuple[Piece, int]]) -> set[str]:
    """The files that the workers open for change data."""
    return {path for piece, _ in pieces for path in piece.files}


def listed_files(storage: Storage, paths: Iterable[str]) -> set[str]:
    """Those of ``paths`` that exist; lists their folders."""
    folders = {path.rpartition("/")[0] for path in paths}
    listed = {file.path for folder in folders for file in storage.list(folder)}
    return listed.intersection(paths)
