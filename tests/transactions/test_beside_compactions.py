"""A completed compaction beside writes: it conflicts with base files of its groups, no logs."""

from __future__ import annotations

import pytest

from pyhudi.choices import ConflictRule
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.transactions.conflicts.comparison import STRATEGIES, Footprint, footprint, footprint_of

GROUP = FileId("00000001-0000-4000-8000-000000000000-0")
BASE = f"a/{GROUP}_0-1-1_20240102000000002.parquet"
LOG = f"a/.{GROUP}_20240102000000002.log.1_0-1-1"
COMPACTION = Instant(InstantTime("20240101000000001"), Action.COMMIT, State.COMPLETED)


def stat(path: str, previous: str | None = "20230101000000000") -> WriteStat:
    return WriteStat(GROUP, path, "a", previous)


def ours(*stats: WriteStat) -> Footprint:
    return footprint("upsert X", CommitMetadata("UPSERT", stats), frozenset(), True)


@pytest.mark.parametrize("rule", ConflictRule)
def test_a_log_is_no_conflict_and_a_base_file_of_the_same_group_is_one(rule: ConflictRule) -> None:
    done = CommitMetadata("COMPACT", (stat(BASE),), compacted=True)
    theirs = footprint_of(COMPACTION, done, bucketed=True)
    judge = STRATEGIES[rule].judge
    assert not judge(ours(stat(LOG)), theirs).conflict
    assert not judge(ours(stat(BASE, previous=None)), theirs).conflict
    assert judge(ours(stat(BASE)), theirs).overlap == (f"a/{GROUP}",)
    assert judge(theirs, ours(stat(BASE))).overlap == (f"a/{GROUP}",)
    assert judge(ours(stat(LOG)), ours(stat(LOG))).conflict
