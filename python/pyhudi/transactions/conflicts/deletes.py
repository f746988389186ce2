"""A delete and a row beside it, of writers without coordination that merge by event time.

Readers merge logs in the order of their instants. A row above a delete that always wins takes its
place, and then loses against the base file's row if that has a larger ordering value: the deleted
row would be back (spec/merging.md R4), which neither order of the two writes leaves. A writer that
sees the delete avoids it (``rows/late_rows.py``); one that runs beside it begins again.
"""

from __future__ import annotations

from typing import Final

from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.format.table_config import MergeMode
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.pending import planned_compactions
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import Group, group_names
from pyhudi.transactions.conflicts.meanwhile import RETRY, Meanwhile
from pyhudi.transactions.conflicts.ordering_types import ALWAYS

#: in the metadata of a commit whose logs have deletes: whether some of them always win; all those
#: of operation ``delete`` do
FORCED_KEY: Final = "pyhudi.deletes.forced"


def check_deletes(
    table: Table, loaded: Timeline, now: Timeline, instant: InstantTime, ours: CommitMetadata
) -> None:
    """``CommitConflict`` if our log would lie above a delete that we have not seen, or a delete of
    ours below a log of others, in a file group that has a base file, or is about to."""
    config, mine = table.config, _logged(ours)
    if config.merge_mode is not MergeMode.EVENT_TIME_ORDERING or not config.ordering_fields:
        return
    found: list[tuple[Instant, CommitMetadata]] = []
    if may_force(ours):
        later = [commit for commit in now.commits if commit.time > instant]
        others = [(commit, COMMITS.get(table.storage, now, commit)) for commit in later]
        found += [(commit, metadata) for commit, metadata in others if not _only_deletes(metadata)]
    if not _only_deletes(ours):
        unseen = Meanwhile(table, loaded, now).commits()
        found += [
            (c, metadata) for c, metadata in unseen if c.time < instant and may_force(metadata)
        ]
    for theirs, metadata in found:
        both = mine & _logged(metadata)
        if both:
            _check_base(table, now, instant, theirs, both)


def may_force(metadata: CommitMetadata) -> bool:
    """Whether a write may have logged deletes that always win; Apache Hudi does not say."""
    if _only_deletes(metadata):
        return True
    # A negative number of deletes is an unknown one.
    deletes = any(stat.log_version is not None and stat.num_deletes for stat in metadata.stats)
    return deletes and metadata.extra.get(FORCED_KEY) != "false"


def _check_base(
    table: Table, now: Timeline, instant: InstantTime, theirs: Instant, both: frozenset[Group]
) -> None:
    slices = table.view(now).slices(partitions={partition for partition, _ in both})
    based = {(each.partition_path, each.file_id) for each in slices if each.base is not None}
    plans = planned_compactions(table, now)  # of logs alone, which the delete may not be among
    based |= {(each.partition_path, each.file_id) for _, plan in plans for each in plan.operations}
    names = group_names(both & based)
    if names:
        raise CommitConflict(
            f"Write {instant} and {theirs.time} changed the same file groups at once, and one of "
            "them deletes: by event time a row above a delete may bring the deleted row back: "
            f"{', '.join(names[:5])}. {theirs.time} was first. {RETRY}",
            ours=instant,
            theirs=theirs.time,
            overlap=names,
        )


def _only_deletes(metadata: CommitMetadata) -> bool:
    return metadata.operation.upper() == ALWAYS


def _logged(metadata: CommitMetadata) -> frozenset[Group]:
    """The groups to which a write added logs."""
    if metadata.compacted or metadata.log_compacted:
        return frozenset()
    stats = (stat for stat in metadata.stats if stat.log_version is not None)
    return frozenset((stat.partition_path, stat.file_id) for stat in stats)
