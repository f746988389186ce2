"""The files of compactions that their commits do not name, looked for before these are archived.

A worker of a run that was thought dead may put its file after another run has committed. It does
not count as long as the commit is on the timeline, since that does not name it. Below the timeline
each file counts (spec/file_slices.md F3). Invariant: no such file is there when a compaction is
archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import parse_base_file_name, parse_log_file_name, path_in
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import CompactionPlan, parse_compaction_plan
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.strays import rolled_back
from pyhudi.timeline.table import Table


@dataclass(frozen=True, slots=True)
class DisownedFile:
    """A data file of the compaction ``instant``, which committed without it."""

    partition_path: str
    file: StoredFile
    instant: InstantTime


def disowned_files(
    table: Table, timeline: Timeline, commits: Iterable[Instant]
) -> list[DisownedFile]:
    """Those of the compactions and log compactions among ``commits``, of a merge-on-read table.

    Most cost the reading of their plan: the partitions of a plan are listed only if its commit has
    left groups out, or if a rollback says that a run of it was taken back.
    """
    asked: dict[InstantTime, tuple[CommitMetadata, frozenset[str]]] = {}
    folders = set[str]()
    for commit in commits:
        metadata = COMMITS.get(table.storage, timeline, commit)
        plan = _plan(table, timeline, commit, metadata)
        if plan is None:
            continue
        planned = {(each.partition_path, each.file_id) for each in plan.operations}
        written = {(stat.partition_path, stat.file_id) for stat in metadata.stats}
        if planned != written or commit.time in rolled_back(table.storage, timeline):
            asked[commit.time] = metadata, frozenset(_names(metadata))
            folders |= {partition for partition, _ in planned}
    return [each for folder in sorted(folders) for each in _in_folder(table, folder, asked)]


def _plan(
    table: Table, timeline: Timeline, commit: Instant, metadata: CommitMetadata
) -> CompactionPlan | None:
    """The plan that the commit has carried out; None if it is no compaction, or the plan is gone.

    An archiver that died has deleted it, and has looked before that.
    """
    if not metadata.compacted and not metadata.log_compacted:
        return None
    action = Action.LOGCOMPACTION if metadata.log_compacted else Action.COMPACTION
    path = timeline.file_of(Instant(commit.time, action, State.REQUESTED))
    try:
        return parse_compaction_plan(table.storage.read(path), path)
    except (FileNotFoundError, TableCorrupt):
        return None


def _names(metadata: CommitMetadata) -> Iterator[str]:
    for stat in metadata.stats:
        yield from (path_in(stat.partition_path, name) for name in stat.log_files or ())
        yield stat.path


def _in_folder(
    table: Table,
    folder: str,
    asked: dict[InstantTime, tuple[CommitMetadata, frozenset[str]]],
) -> Iterator[DisownedFile]:
    for file in table.storage.list(folder):
        base, log = parse_base_file_name(file.name), parse_log_file_name(file.name)
        named = base or log
        if named is None or named.instant not in asked:
            continue
        metadata, names = asked[named.instant]
        # In layout 1 the instant of a compaction is also in the names of logs that others write.
        if (log is not None) == metadata.log_compacted and file.path not in names:
            yield DisownedFile(folder, file, named.instant)
