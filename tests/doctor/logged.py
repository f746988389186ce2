"""Merge-on-read tables that are broken in one way each.

``TOLD`` are faults that the doctor tells and leaves alone, ``REPAIRED`` those that it repairs. In
``UNJUDGED`` it cannot see whether there is a fault, and says so.
"""

from __future__ import annotations

from pathlib import Path

import pyhudi
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.filenames import FileId, parse_log_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.log_blocks import MAGIC
from pyhudi.format.plans import CompactionOperation, CompactionPlan, render_compaction_plan
from tests.doctor import faults
from tests.doctor.broken import NOW, ONE_BUCKET, READ, Broken
from tests.doctor.faults import drop, put

V9, V6 = "h120_v9-mor_np", "h0150_v6-mor_np"
PARTITIONED = "h120_v9-mor_part_compact"
BUCKETS = "h120_v9-mor_bucket"
GONE_FILES = "compaction whose files are gone"


def logs(root: Path) -> list[Path]:
    """The log files with rows."""
    named = ((path, parse_log_file_name(path.name)) for path in sorted(root.rglob(".*.log.*")))
    return [p for p, name in named if name and not name.cdc and ".hoodie" not in p.parts]


def lost_log(root: Path) -> None:
    drop(logs(root)[-1])


def cut_log(root: Path) -> None:
    path = logs(root)[-1]
    put(path, path.read_bytes()[:100])


def flipped_length(root: Path) -> None:
    """One bit of a block's length, so that the block is passed over."""
    path = logs(root)[-1]
    data = bytearray(path.read_bytes())
    data[len(MAGIC) + 7] ^= 1
    put(path, bytes(data))


def unreadable_compaction(root: Path) -> None:
    put(faults.instant_path(root, Instant(faults.LATER, Action.COMPACTION, State.REQUESTED)), b"")


def future_compaction(root: Path) -> None:
    """Later logs would have this instant in their names."""
    instant = Instant(faults.FUTURE, Action.COMPACTION, State.REQUESTED)
    put(faults.instant_path(root, instant), render_compaction_plan(CompactionPlan(())))


def _planned(root: Path) -> CompactionOperation:
    """A compaction of the newest log's group that names a log which is gone."""
    log = parse_log_file_name(logs(root)[-1].name)
    (base,) = pyhudi.Table(str(root)).files()
    name, gone = base.path.rpartition("/")[2], f".{log.file_id}_{faults.GONE}.log.1_0-1-1"  # type: ignore[union-attr]
    return CompactionOperation(InstantTime(base.instant), (gone,), name, FileId(base.file_id), "")


def lost_from_plan(root: Path) -> None:
    instant = Instant(faults.LATER, Action.COMPACTION, State.REQUESTED)
    plan = CompactionPlan((_planned(root),))
    put(faults.instant_path(root, instant), render_compaction_plan(plan))


def lost_from_plan_of_a_replaced_group(root: Path) -> None:
    lost_from_plan(root)
    (base,) = pyhudi.Table(str(root)).files()
    done = Instant(faults.REPLACED, Action.REPLACECOMMIT, State.COMPLETED, faults.REPLACED)
    told = CommitMetadata("DELETE_PARTITION", (), {}, {"": (FileId(base.file_id),)})
    put(faults.instant_path(root, done), render_commit(told, 2))


def orphaned_log(root: Path) -> None:
    """As an attempt leaves it that nobody rolled back."""
    log_of_no_slice(root)


def log_of_no_slice(root: Path) -> None:
    """As if a compaction was taken off the timeline beside whose plan a write had put its log."""
    path = logs(root)[-1]
    named = parse_log_file_name(path.name)
    assert named is not None
    put(path.with_name(path.name.replace(named.instant, faults.LATER)), path.read_bytes())


def lost_partition(root: Path) -> None:
    for path in root.rglob(".hoodie_partition_metadata"):
        if ".hoodie" not in path.parts:
            drop(path)
            return


TOLD = [
    Broken("torn_commit", "torn commit", V9, faults.torn(-1), False),
    Broken("torn_commit_v6", "torn commit", V6, faults.torn(-1), False),
    Broken("empty_commit", "empty commit", V9, faults.emptied(-1), False),
    Broken("empty_commit_v6", "empty commit", V6, faults.emptied(-1), False),
    Broken("lost_log", "commit that names lost files", V9, lost_log, False),
    Broken("lost_log_v6", "commit that names lost files", V6, lost_log, False),
    Broken("cut_log", "commit that names lost files", V9, cut_log, False),
    Broken("damaged_log", "damaged log", V9, flipped_length, False, READ),
    Broken("compaction", "plan that cannot be read", V9, unreadable_compaction, False, NOW),
    Broken("compaction_v6", "plan that cannot be read", V6, unreadable_compaction, False, NOW),
    Broken("lost_from_plan", GONE_FILES, V9, lost_from_plan, False),
    Broken("lost_from_plan_v6", GONE_FILES, V6, lost_from_plan, False),
    Broken("replaced_in_plan", GONE_FILES, V9, lost_from_plan_of_a_replaced_group, False),
    Broken("log_of_no_slice", "log of a slice that nothing begins", V6, log_of_no_slice, False),
    Broken("torn_savepoint", "torn savepoint", V9, faults.torn_savepoint, False),
    Broken("bucket", "bucket beyond the count", BUCKETS, lambda root: None, False, ONE_BUCKET),
    Broken("future", "instant in the future", V9, faults.future_rows, False),
    Broken("future_plan", "instant in the future", V6, future_compaction, False),
]

REPAIRED = [
    Broken("clean_plan", "plan that cannot be read", V9, faults.unreadable_plan, True, NOW),
    Broken("lost_partition", "partition metadata lost", PARTITIONED, lost_partition),
    Broken(
        "begun_savepoint", "savepoint that was only begun", V6, faults.begun_savepoint, more=NOW
    ),
    Broken("lost_metadata", "metadata table that is gone", V9, faults.lost_metadata),
    Broken("orphaned_log", "orphan", V9, orphaned_log, more=NOW),
]

UNJUDGED = [
    Broken("keys", "keys in two file groups", V9, lambda root: None, more=READ),
    Broken("blocks", "damaged log", V6, lambda root: None, more=READ),
]
