"""Which states of a table before its first active commit can still be read.

Invariant: such a state is readable only if the archive and the listing agree on it, group by group:
the file that the archived commits made the newest is there, whole, and no other one counts. So a
file that a clean took, or an archive that somebody has shortened, refuses the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.table_config import TableType
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.strays import Archive
from pyhudi.timeline.table import Table

NOTHING_SAID = CommitMetadata()
#: partition path and file id
Group = tuple[str, FileId]


@dataclass(frozen=True, slots=True)
class _Commit:
    time: InstantTime
    action: Action
    metadata: CommitMetadata


@dataclass(slots=True)
class _State:
    """The newest file of each live group, path and size in bytes, after some commits."""

    files: dict[Group, tuple[str, int]] = field(default_factory=dict)
    #: False once a commit does not say what it wrote
    known: bool = True

    def apply(self, commit: _Commit) -> set[Group]:
        """Take one more commit in; the groups that it changed."""
        if commit.action is Action.DELTACOMMIT or commit.metadata == NOTHING_SAID:
            self.known = False
        changed = set[Group]()
        for stat in commit.metadata.stats:
            name = parse_base_file_name(stat.path.rpartition("/")[2]) if stat.path else None
            if name is not None:
                changed.add((stat.partition_path, name.file_id))
                self.files[stat.partition_path, name.file_id] = stat.path, stat.file_size_bytes
        for partition, file_ids in (commit.metadata.replaced or {}).items():
            for file_id in file_ids:
                changed.add((partition, file_id))
                self.files.pop((partition, file_id), None)
        return changed


def is_whole(table: Table, timeline: Timeline, as_of: InstantTime) -> bool:
    """Whether the state at ``as_of``, before the first active commit, is there file by file.

    False for merge-on-read tables, and for those with a schema history, of which the columns at
    that time are not certain. It reads the whole archive.
    """
    if not _is_plain(table, timeline):
        return False
    state, any_commit = _State(), False
    try:
        for commit in takewhile(lambda each: each.time <= as_of, _commits(table, timeline)):
            state.apply(commit)
            any_commit = True
    except TableCorrupt:
        return False
    if not any_commit or not state.known:
        return False
    found = table.view(timeline).existing(as_of)
    sizes = {(f.partition_path, f.file_id): (f.path, f.size_bytes) for f in found}
    if sizes.keys() != state.files.keys():
        return False
    wanted = ((group, *file) for group, file in state.files.items())
    return all(sizes[g][0] == path and sizes[g][1] >= size for g, path, size in wanted)


def whole_states(table: Table, timeline: Timeline, since: InstantTime) -> Iterator[InstantTime]:
    """The archived commits after ``since`` at which the table can be read, oldest first."""
    if not _is_plain(table, timeline):
        return
    there = _existing_paths(table, timeline)
    state, lost = _State(), set[Group]()
    try:
        for commit in _commits(table, timeline):
            for group in state.apply(commit):
                lost.discard(group)
                if (file := state.files.get(group)) is not None and file[0] not in there:
                    lost.add(group)
            # The cheap look comes first: the other one goes through all groups.
            if commit.time > since and not lost and is_whole(table, timeline, commit.time):
                yield commit.time
    except TableCorrupt:
        return


def _is_plain(table: Table, timeline: Timeline) -> bool:
    merges = table.config.table_type is TableType.MERGE_ON_READ
    return not merges and SchemaHistory(table, timeline).current() is None


def _existing_paths(table: Table, timeline: Timeline) -> set[str]:
    groups = table.view(timeline).groups.values()
    held = (each for by_id in groups for slices in by_id.values() for each in slices)
    return {each.base.path for each in held if each.base is not None}


def _commits(table: Table, timeline: Timeline) -> Iterator[_Commit]:
    """The commits before the active timeline, oldest first, with those that a savepoint keeps."""
    archived = Archive(table.storage, table.config).commits()
    first = timeline.first_above(max(archived, default=InstantTime("")))
    kept = {i.time: i for i in timeline.commits if first is not None and i.time < first}
    for time in sorted({*archived, *kept}):
        if first is not None and time >= first:
            return
        if time in kept:
            metadata = COMMITS.get(table.storage, timeline, kept[time])
            yield _Commit(time, kept[time].action, metadata)
        else:
            entry = archived[time]
            yield _Commit(time, entry.instant.action, entry.commit())
