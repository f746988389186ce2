"""Planning a compaction: which slices are there, which plans have them, and the request.

Invariant: a plan is requested under the table's lock, and names all logs of a slice that completed
before its instant, and no group of another pending plan (docs/decisions/compaction.md).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyhudi.choices import CompactionChoice, FailedWrites
from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, WriteFailed
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import render_compaction_plan
from pyhudi.locks.renewal import kept
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.services.compaction_plan import (
    CompactionFacts,
    CompactionRules,
    Group,
    PlannedSlice,
    Spared,
    compaction_plan,
    plan_compaction,
)
from pyhudi.services.compaction_run import NAMES, older_writes, running_writes
from pyhudi.services.planned_groups import compacting_groups, unreadable_plan
from pyhudi.services.slice_merging import completed_slices
from pyhudi.services.written_columns import older_logs
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.pending import planned_clusterings
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.clustering_plans import groups_of
from pyhudi.transactions.instants import path_of, take_time
from pyhudi.transactions.recovery.settle import settled_timeline
from pyhudi.transactions.recovery.undoing import check_undoing
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

#: how often a plan is made if writers that take no lock commit meanwhile
PLANS: Final = 10


def rules_of(
    options: WriteOptions,
    budget: Budget = NO_BUDGET,
    merges_logs: bool = False,
    spared: Spared | None = None,
    groups: frozenset[Group] | None = None,
) -> CompactionRules:
    """The rules that the options state; ``ConfigError`` for a pattern that is none.

    Nothing is ``spared`` if they name a strategy or a threshold. If ``groups`` are asked for, all
    of them are taken, whatever the options say.
    """
    if groups is not None:
        every = CompactionChoice.ALL
        return CompactionRules(every, file_bytes=options.max_file_bytes, groups=groups)
    pattern, key = options.compact_partition_regex, "hoodie.compaction.partition.path.regex"
    try:
        regex = None if pattern is None else re.compile(pattern)
    except re.error as e:
        raise ConfigError(f"'{key}' is '{pattern}', no regular expression: {e}.", key=key) from e
    if options.compact_choice or options.compact_log_bytes or options.compact_log_files:
        spared = None
    return CompactionRules(
        choice=options.compact_choice or CompactionChoice.LOG_SIZE,
        least_log_bytes=options.compact_log_bytes,
        least_log_files=options.compact_log_files,
        most_io_mb=options.compact_io_mb,
        file_bytes=options.max_file_bytes,
        budget=budget,
        regex=regex,
        spared=spared,
        merges_logs=merges_logs,
        least_merged=options.log_compact_logs,
    )


def _busy(table: Table, now: Timeline) -> dict[Group, str]:
    """The groups that other plans have, and which."""
    found = compacting_groups(table, now)
    for pending, requested in planned_clusterings(table, now):
        why = f"the clustering {pending.time} is to rewrite it"
        found |= dict.fromkeys(groups_of(requested), why)
    return found


def slices_to_compact(
    table: Table, now: Timeline, rules: CompactionRules
) -> tuple[PlannedSlice, ...]:
    """The slices that have logs under ``now``, and which of them a plan would take."""
    slices = tuple(each for each in completed_slices(table.view(now)) if each.logs)
    busy, merged = _busy(table, now), dict[Group, InstantTime]()
    if rules.merges_logs:
        merged = _merged(table, now, slices)
        of_groups = (((each.partition_path, each.file_id), each.logs) for each in slices)
        busy = older_logs(SchemaHistory(table, now), of_groups) | busy
    planned = plan_compaction(CompactionFacts(slices, busy, merged), rules)
    why = _waits(table, now)
    if why is None and rules.merges_logs and (running := running_writes(now)):
        why = f"a log compaction waits for writes, and {running[0].time} is pending"
    if why is None:
        return planned
    return tuple(replace(p, taken=False, why=why) if p.taken else p for p in planned)


def _merged(table: Table, now: Timeline, slices: Sequence[FileSlice]) -> dict[Group, InstantTime]:
    """The instant of the last log compaction of each group, as far as one is on the timeline."""
    oldest = min((log.instant for each in slices for log in each.logs), default=None)
    found: dict[Group, InstantTime] = {}
    for commit in reversed(now.commits):
        if oldest is None or commit.time < oldest:
            break
        if commit.action is Action.DELTACOMMIT:
            metadata = COMMITS.get(table.storage, now, commit)
            if metadata.log_compacted:
                for stat in metadata.stats:
                    found.setdefault((stat.partition_path, stat.file_id), commit.time)
    return found


def _waits(table: Table, now: Timeline) -> str | None:
    """Why no plan can be made now; None if one can."""
    hidden = unreadable_plan(table, now)
    if hidden is not None:
        return hidden
    running = older_writes(now) if now.layout == 1 else []
    if running:
        return f"in version 6 a compaction waits for writes, and {running[0].time} is pending"
    return None


def requested_compaction(
    writer: Writer, rules: CompactionRules
) -> tuple[tuple[PlannedSlice, ...], InstantTime | None]:
    """Plan and request under the lock; None if nothing is due after all.

    A log that completed between the listing and the request would belong to the slice before it,
    and not be in the plan. With the lock no such log comes. A writer without one is noticed by a
    second look: then the request is taken back. So it is, in layout 1, if a write has begun.
    """
    name = NAMES[rules.action]
    lazy = replace(writer.policy, failed_writes=FailedWrites.LAZY)
    policy = lazy if writer.policy.failed_writes is FailedWrites.EAGER else writer.policy
    settled_timeline(replace(writer, policy=policy), f"A {name}")
    table, lock = writer.table, writer.lock
    with writer.locked():
        for _ in range(PLANS):
            with kept(lock):
                now = table.timeline()
                check_undoing(table, now, f"A {name}", None)
                planned = slices_to_compact(table, now, rules)
            if not any(p.taken for p in planned):
                return planned, None
            content = render_compaction_plan(compaction_plan(planned, rules.file_bytes))
            lock.renew()

            def alive(time: InstantTime) -> None:
                lock.check(table.storage.put_timeout_s)

            time, shown = take_time(writer, rules.action, content, now, alive)
            if not shown.since(now) and not _crossed(shown, rules):
                log.info("scheduled %s %s", name, time)
                return planned, time
            requested = Instant(time, rules.action, State.REQUESTED)
            table.storage.delete([path_of(table, requested)])
    raise WriteFailed(
        f"No {name} of {table.config.name} was planned in {PLANS} attempts: writers that do "
        "not take the table's lock committed meanwhile. Nothing was changed. Give all writers the "
        "same lock, or plan when they rest.",
        path=table.storage.root,
    )


def _crossed(shown: Timeline, rules: CompactionRules) -> bool:
    """Whether a write has begun for which the plan should have waited."""
    if rules.merges_logs:
        return bool(running_writes(shown))
    return shown.layout == 1 and bool(older_writes(shown))
