"""A file-system view moved on to a later timeline by the metadata of its new instants alone.

Invariant: the moved view is the one that a new listing would give. If the metadata does not tell
that, there is none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import (
    FileId,
    parse_base_file_name,
    parse_data_file_name,
    parse_log_file_name,
)
from pyhudi.format.instants import Action, Instant, InstantTime
from pyhudi.format.plans import CleanMetadata, parse_clean_metadata
from pyhudi.slices.files import BaseFile, FileSlice, Logs, with_logs_of
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.log_promises import without_disowned_logs
from pyhudi.timeline.versions import archived_logs

if TYPE_CHECKING:
    from pyhudi.timeline.view import FileSystemView, Groups

#: completed actions whose metadata describes their whole effect on the view
APPLIED_ACTIONS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
#: completed actions that change no visible file
NEUTRAL_ACTIONS = frozenset({Action.ROLLBACK, Action.SAVEPOINT, Action.SCHEMACOMMIT})


def advance(view: FileSystemView, timeline: Timeline) -> FileSystemView | None:
    """``view`` updated to a later timeline from metadata alone; None if a listing is needed."""
    if view.timeline.keys() - timeline.keys() or view.timeline.first_time != timeline.first_time:
        # An instant was undone or archived, or now other old files count as archived.
        return None
    new = sorted(timeline.since(view.timeline), key=lambda instant: instant.time)
    if any(i.action not in APPLIED_ACTIONS | NEUTRAL_ACTIONS | {Action.CLEAN} for i in new):
        return None
    undone = any(i.action is Action.ROLLBACK for i in new)
    if timeline.layout == 1 and (view.logs or view.unread) and undone:
        # It may have deleted a log of which the name does not tell that its write has failed.
        return None
    if view.unread and any(i.action is Action.CLEAN for i in new):
        return None
    groups, replaced, logs = dict(view.groups), dict(view.replaced), view.logs
    touched: set[str] = set()
    for instant in new:
        if instant.action is Action.CLEAN:
            cleaned = _cleaned(view.storage, timeline, instant)
            if cleaned is None:
                return None
            _drop_files(groups, touched, cleaned)
            logs = _without_logs(logs, cleaned)
        if instant.action in APPLIED_ACTIONS:
            metadata = COMMITS.get(view.storage, timeline, instant)
            if any(s.path and s.file_size_bytes <= 0 for s in metadata.stats):
                # Some writers leave out the size; a plan with a size of 0 would read no rows.
                return None
            add_files(groups, touched, metadata)
            add_replaced(replaced, instant, metadata)
            logs = with_logs_of(logs, metadata)
            if without_disowned_logs(logs, {instant.time: metadata}, view.own_logs) is not logs:
                # They were listed while it ran, and may have been deleted by now.
                return None
    groups |= {partition: dict(sorted(groups[partition].items())) for partition in touched}
    moved = replace(
        view, timeline=timeline, groups=groups, logs=logs, replaced=replaced,
        _rows=dict(view._rows),
    )  # fmt: skip
    rewritten = _rewritten(view, groups, touched) if logs else ()
    if rewritten and archived_logs(moved, rewritten) - archived_logs(view, rewritten):
        # The archive has to tell whether a log that began before a new base file ended after it.
        return None
    return moved


def _rewritten(view: FileSystemView, groups: Groups, touched: set[str]) -> list[tuple[str, FileId]]:
    """The groups of the ``touched`` partitions that have other base files than in ``view``."""
    return [
        (partition, file_id)
        for partition in touched
        for file_id, slices in groups[partition].items()
        if view.groups.get(partition, {}).get(file_id) is not slices
    ]


def _cleaned(storage: Storage, timeline: Timeline, clean: Instant) -> CleanMetadata | None:
    """What a clean deleted; None if a listing must tell.

    That is so if its file is gone or torn. It is so too if it names no earliest commit, or deleted
    a later file, as by versions, or one that is no later than a savepoint, whose commit stays
    readable: then only a listing finds which snapshots are no longer whole.
    """
    path = timeline.file_of(clean)
    try:
        found = parse_clean_metadata(storage.read(path), path)
    except (FileNotFoundError, TableCorrupt):
        return None
    earliest = found.earliest_commit_to_retain
    names = [n for each in found.partition_metadata.values() for n in each.success_delete_files]
    savepoints = (i.time for i in timeline.completed if i.action is Action.SAVEPOINT)
    saved = max(savepoints, default=InstantTime(""))
    if any("" < _instant_of(name) <= saved for name in names):
        return None
    return found if earliest and all(_instant_of(name) < earliest for name in names) else None


def _instant_of(name: str) -> str:
    """The instant of a data file; "" if it is none."""
    file = parse_data_file_name(name)
    return "" if file is None else file.instant


def _drop_files(groups: Groups, touched: set[str], cleaned: CleanMetadata) -> None:
    """Take cleaned base files out of ``groups``; copies a partition before its first change."""
    for partition, each in cleaned.partition_metadata.items():
        if partition not in groups:
            continue
        by_id = groups[partition] = dict(groups[partition])
        touched.add(partition)
        gone = set(each.success_delete_files)
        names = (parse_base_file_name(name) for name in gone)
        for file_id in {name.file_id for name in names if name is not None} & by_id.keys():
            held = by_id[file_id]
            kept = tuple(s for s in held if s.base is None or s.base.name not in gone)
            if kept:
                by_id[file_id] = kept
            else:
                del by_id[file_id]


def _without_logs(logs: Logs, cleaned: CleanMetadata) -> Logs:
    """``logs`` without those that a clean has deleted."""
    found = dict(logs)
    for partition, each in cleaned.partition_metadata.items():
        gone = {parse_log_file_name(name) for name in each.success_delete_files}
        by_id = dict(found.get(partition, {}))
        for file_id in {name.file_id for name in gone if name is not None} & by_id.keys():
            by_id[file_id] = tuple(log for log in by_id[file_id] if log.named not in gone)
            if not by_id[file_id]:
                del by_id[file_id]
        if partition in found:
            found[partition] = by_id
            if not by_id:
                del found[partition]
    return found


def add_files(groups: Groups, touched: set[str], metadata: CommitMetadata) -> None:
    for stat in metadata.stats:
        name = parse_base_file_name(_name(stat.path)) if stat.path else None
        if name is None:
            continue
        partition = stat.partition_path
        if partition not in touched:
            groups[partition] = dict(groups.get(partition, {}))
            touched.add(partition)
        size, rows = stat.file_size_bytes, stat.num_writes
        file = BaseFile(partition, _name(stat.path), name.file_id, name.instant, size, rows)
        slices = (*groups[partition].get(name.file_id, ()), FileSlice(file))
        groups[partition][name.file_id] = tuple(sorted(slices, key=lambda f: f.instant))


def add_replaced(
    found: dict[tuple[str, FileId], InstantTime], instant: Instant, metadata: CommitMetadata
) -> None:
    for partition, file_ids in (metadata.replaced or {}).items():
        for file_id in file_ids:
            # If it was replaced twice, the group is gone since the first time, in any order here.
            known = found.get((partition, file_id), instant.time)
            found[partition, file_id] = min(known, instant.time)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
