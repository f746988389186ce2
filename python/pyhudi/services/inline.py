"""Clean, archive and cluster after a commit, by the writer that has just committed.

Invariant: they yield. They do not wait long for a lock that writers want, and leave a clean alone
that another program may be carrying out. What was not done now is due again after the next commit.
A clustering has waited for its data, so at its own commit it waits as long as a write.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, UnsupportedTable
from pyhudi.format.instants import Action, Instant, InstantTime, format_time
from pyhudi.listing import Listing
from pyhudi.services.archiver import archive_table, rules_of
from pyhudi.services.budget import Budget
from pyhudi.services.clean import clean_table, pending_cleans, retention_of
from pyhudi.services.clustering import ClusteredFile, Clustering, clustered
from pyhudi.services.clustering_schedule import check_repeatable
from pyhudi.services.compaction import (
    CompactedSlice,
    Compaction,
    CompactionFate,
    CompactionStep,
    compacted,
)
from pyhudi.services.compaction_plan import Spared
from pyhudi.services.query_savepoints import end_query_savepoints
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: the longest wait for the lock
LOCK_WAIT_S = 5.0
#: so many files or instants at most, that no commit waits long for a table that was never serviced
AT_ONCE = Budget(max_files=1_000)
MOST_INSTANTS = 100
#: a pending clean is taken over when it is older
OWNED_MS = 600_000
#: logs are young for so long, and few if they are fewer than so many times the commits after which
#: a compaction is due
YOUNG_MS = 600_000
FEW_TIMES = 4


def run_inline(writer: Writer, options: WriteOptions) -> None:
    """Clean and archive the table of ``writer``, if ``options`` ask for it and it is due.

    Errors: those of ``clean_table`` and ``archive_table``.
    """
    refuse_writes_to(writer.table)
    wait_s = min(writer.policy.lock_timeout_s, LOCK_WAIT_S)
    writer = replace(writer, policy=replace(writer.policy, lock_timeout_s=wait_s))
    timeline = writer.table.timeline()
    if options.clean_inline and _is_due(writer, timeline, options.clean_trigger):
        if end_query_savepoints(writer, timeline):
            timeline = writer.table.timeline()
        clean_table(writer, retention_of(options), timeline, incremental=True, budget=AT_ONCE)
    if options.archive_inline:
        archive_table(writer, rules_of(options), timeline, MOST_INSTANTS)


def cluster_inline(run: Clustering) -> Listing[ClusteredFile]:
    """Cluster the table, if so many commits came since the last clustering as the options say.

    Empty if none is due. Errors: those of ``clustered`` and ``check_repeatable``.
    """
    check_repeatable(run.options)
    table, options = run.table, run.options
    every, least = options.cluster_trigger, options.keep_min_commits
    if options.archive_inline and every > least:
        key = "hoodie.clustering.inline.max.commits"
        raise ConfigError(
            f"'{key}' is {every}, but an archive leaves only {least} commits on the timeline, so "
            "no clustering would ever be due. Set it to at most hoodie.keep.min.commits.",
            key=key,
        )
    timeline = table.timeline()
    # The newest commits decide, so a long history is not read.
    recent = timeline.commits[-every:]
    if len(recent) < every or any(_is_clustering(table, timeline, each) for each in recent):
        return Listing(ClusteredFile)
    # The write that has just committed may have changed the table's properties.
    return clustered(replace(run, writer=run.writer.on(open_table(table.storage))))


def compact_inline(run: Compaction) -> Listing[CompactedSlice]:
    """Compact the table if so many delta commits came since the last compaction as the options
    say; if not, or if nothing was compacted, its logs alone if that is due.

    Where no strategy is set, slices are left for later whose logs cost reads little: a stream of
    short epochs would rewrite large base files for a few rows each time. Those that are due for
    their number of logs alone take turns. Empty if neither is due.
    Errors: those of ``compacted``.
    """
    table, options = run.table, run.options
    timeline = table.timeline()
    deltas = _deltas(timeline)
    since = format_time(run.writer.clock.now_ms() - YOUNG_MS, table.config.utc)
    run = replace(run, spared=Spared(FEW_TIMES * options.compact_trigger, since, 1 / FEW_TIMES))
    steps = []
    if options.compact_inline and len(deltas) >= options.compact_trigger:
        steps.append(CompactionStep.SCHEDULE_AND_RUN)
    if options.log_compact_inline and _logs_are_due(table, timeline, deltas, options):
        steps.append(CompactionStep.SCHEDULE_AND_RUN_LOGS)
    found = Listing(CompactedSlice)
    for step in steps:
        try:
            found = compacted(replace(run, writer=run.writer.on(open_table(table.storage))), step)
        except UnsupportedTable as refused:
            log.info("%s is not compacted after commits: %s", table.config.name, refused)
            continue
        if any(each.fate is CompactionFate.COMPACTED for each in found):
            break
    return found


def _deltas(timeline: Timeline) -> list[Instant]:
    """The delta commits since the last compaction, newest first."""
    found = []
    for commit in reversed(timeline.commits):
        if commit.action is Action.COMMIT:
            break
        if commit.action is Action.DELTACOMMIT:
            found.append(commit)
    return found


def _logs_are_due(
    table: Table, timeline: Timeline, deltas: Sequence[Instant], options: WriteOptions
) -> bool:
    """Whether so many delta commits came since the last log compaction as the options say."""
    recent = deltas[: options.log_compact_logs]
    return len(recent) == options.log_compact_logs and not any(
        COMMITS.get(table.storage, timeline, each).log_compacted for each in recent
    )


def _is_clustering(table: Table, timeline: Timeline, commit: Instant) -> bool:
    if commit.action is not Action.REPLACECOMMIT:
        return False
    return COMMITS.get(table.storage, timeline, commit).operation.upper() == "CLUSTER"


def _is_due(writer: Writer, timeline: Timeline, every: int) -> bool:
    """Whether ``every`` commits were requested since the last clean, and nobody cleans now."""
    since = format_time(writer.clock.now_ms() - OWNED_MS, writer.table.config.utc)
    if any(clean.time > since for clean in pending_cleans(timeline)):
        return False
    cleans = [i.time for i in timeline.completed if i.action is Action.CLEAN]
    last = cleans[-1] if cleans else InstantTime("")
    return sum(commit.time > last for commit in timeline.commits) >= every
