"""Compacts a merge-on-read table: plans under the lock, and runs plans, also those of Apache Hudi.

A log compaction goes the same way, and writes logs instead of base files.

Invariant: a plan names all logs of a slice that completed before its instant, and no group of
another pending plan. It stays until it has run (docs/decisions/compaction.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Protocol

import pyarrow as pa

from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, HudiError, UnsupportedTable, WriteFailed
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import CompactionOperation, CompactionPlan
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.listing import Listing
from pyhudi.rows.compact import compact_slices
from pyhudi.rows.log_spec import CompactTask, MergeSpec
from pyhudi.rows.spec import GROUP, FileSystemSpec, WriteSpec
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.services.compaction_plan import (
    CompactionRules,
    Group,
    PlannedSlice,
    Spared,
    compaction_plan,
)
from pyhudi.services.compaction_run import NAMES, RunningCompaction, unschedule
from pyhudi.services.compaction_schedule import (
    requested_compaction,
    rules_of,
    slices_to_compact,
)
from pyhudi.services.compaction_tasks import tasks_of
from pyhudi.services.log_compaction_run import RunningLogCompaction
from pyhudi.services.rewriting import change_log_spec, rewrite_spec
from pyhudi.services.slice_merging import counted_instants, merge_spec, unfollowed, unmergeable
from pyhudi.services.written_columns import written_columns
from pyhudi.services.written_files import files_in, stat_of
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import COMPACTING, planned_compactions
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.pessimistic import is_pessimistic
from pyhudi.transactions.writable import refuse_kind_of, unlogged
from pyhudi.transactions.writer import Writer

Place = tuple[FileSystemSpec, str]


class CompactionStep(str, Enum):
    """What a compaction is asked to do."""

    SCHEDULE = "schedule"
    RUN = "run"
    SCHEDULE_AND_RUN = "scheduleAndRun"
    UNSCHEDULE = "unschedule"
    SCHEDULE_LOGS = "scheduleLogCompaction"
    RUN_LOGS = "logCompact"
    SCHEDULE_AND_RUN_LOGS = "scheduleAndLogCompact"
    UNSCHEDULE_LOGS = "unscheduleLogCompaction"

    @property
    def merges_logs(self) -> bool:
        """Whether it is a step of a log compaction."""
        return "log" in self.value.lower()

    @property
    def schedules(self) -> bool:
        """Whether it makes a plan."""
        return self.value.startswith("schedule")

    @property
    def runs(self) -> bool:
        """Whether it runs plans."""
        return self in _RUNS

    @property
    def unschedules(self) -> bool:
        """Whether it deletes plans."""
        return self.value.startswith("unschedule")


_RUNS = {
    CompactionStep.RUN,
    CompactionStep.SCHEDULE_AND_RUN,
    CompactionStep.RUN_LOGS,
    CompactionStep.SCHEDULE_AND_RUN_LOGS,
}

#: Apache Hudi's other words for steps
STEP_WORDS = {"execute": CompactionStep.RUN, "scheduleandexecute": CompactionStep.SCHEDULE_AND_RUN}


def stated_step(op: str) -> CompactionStep:
    """The step that ``op`` names, in any case; ``ConfigError`` for a word that is none."""
    words = {step.value.lower(): step for step in CompactionStep} | STEP_WORDS
    found = words.get(op.lower())
    if found is None:
        steps = ", ".join(step.value for step in CompactionStep)
        raise ConfigError(f"op is '{op}', but it must be one of {steps}.", key="op")
    return found


class CompactionFate(str, Enum):
    """What a compaction does with a slice."""

    COMPACTED = "compacted"
    PLANNED = "planned"
    WOULD_BE = "would be compacted"
    UNSCHEDULED = "unscheduled"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class CompactedSlice:
    """A file group with logs, and what became of them.

    ``compaction`` is the instant of the plan that has the slice, if one has; ``file`` the base file
    before, None for a group that had only logs.
    """

    partition: str
    file_group: str
    file: str | None
    logs: int
    log_bytes: int
    fate: CompactionFate
    why: str
    compaction: InstantTime | None = None


class SliceTasks(Protocol):
    """Where the slices of a compaction are merged."""

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """Whether no attempt writes for ``instant`` any more, after at most this time."""

    def committed(
        self, options: WriteOptions, tasks: Iterable[CompactTask], stats: Sequence[WriteStat]
    ) -> None:
        """Hear which of ``stats`` are of slices whose compaction has been committed."""


class SlicesHere:
    """The slices one after the other in this process."""

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""
        numbers = pa.record_batch({GROUP: pa.array(sorted(tasks), pa.int32())})
        work = compact_slices(spec, order, tasks)
        return [stat_of(row) for batch in work(iter([numbers])) for row in batch.to_pylist()]

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """True: ``compact`` has returned."""
        return True

    def committed(
        self, options: WriteOptions, tasks: Iterable[CompactTask], stats: Sequence[WriteStat]
    ) -> None:
        """Nothing: this process keeps nothing of the files."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """One call: the writer, its options, the place of the data files, and who does the work.

    ``budget`` bounds what a new plan takes, which leaves out what is ``spared``; if ``groups`` are
    named it takes all of them and no other. Of pending plans only the ``instants`` are touched, all
    if it is empty. To name a plan also says that no program runs it, unless its heartbeat shows
    one.
    """

    writer: Writer
    options: WriteOptions
    place: Place
    tasks: SliceTasks
    budget: Budget = NO_BUDGET
    instants: frozenset[InstantTime] = frozenset()
    spared: Spared | None = None
    groups: frozenset[Group] | None = None

    @property
    def table(self) -> Table:
        return self.writer.table


def compacted(
    run: Compaction, step: CompactionStep = CompactionStep.SCHEDULE_AND_RUN, dry_run: bool = False
) -> Listing[CompactedSlice]:
    """Run the pending plans, or make one, or both; an entry for each slice with logs.

    With ``dry_run`` nothing changes. Errors: ``UnsupportedTable``, ``ConfigError``,
    ``LockTimeout``, ``CommitConflict`` if commits were undone meanwhile.
    """
    table = run.table
    rules = rules_of(run.options, run.budget, step.merges_logs, run.spared, run.groups)
    timeline = table.timeline()
    schema = table_schema(table, timeline, None)
    if schema is None:
        return Listing(CompactedSlice)
    _refuse(table, rules, step.unschedules)
    found = planned_compactions(table, timeline, _planned_by(table, step, rules))
    plans = [(i, plan) for i, plan in found if _is_asked(run, i)]
    rows: list[CompactedSlice] = []
    if step.unschedules:
        for instant, plan in plans:
            named = bool(run.instants)
            why = None if dry_run else unschedule(run.writer, instant.time, named, rules.action)
            rows += _unscheduled(instant, plan, why, dry_run)
        return Listing(CompactedSlice, rows)
    for instant, plan in plans if step.runs else ():
        other = _rival(timeline, instant)
        if dry_run:
            rows += _pending(instant, plan)
        elif other is not None:
            rows += _unscheduled(instant, plan, _given_up(run, instant, other), False)
        else:
            rows += _carried_out(run, instant, plan)
    if step.schedules:
        rows += _proposed(run, timeline, rules) if dry_run else _scheduled(run, rules, step.runs)
    return Listing(CompactedSlice, rows)


def _rival(timeline: Timeline, planned: Instant) -> Instant | None:
    """Another instant at the time of a plan that nobody has begun to run."""
    if planned.state is not State.REQUESTED:
        return None
    return next((i for i in timeline.at(planned.time) if i.action is not planned.action), None)


def _given_up(run: Compaction, planned: Instant, rival: Instant) -> str | None:
    """Delete a plan whose planner was about to, since another has its time; why it stays.

    Who sees that another has requested its time gives it up (``transactions/instants.py``). The
    ``rival`` went on, so it saw no plan, and the planner saw it. To run the plan would give one
    instant to two commits.
    """
    if rival.state is State.REQUESTED:
        return f"the {rival.action.value} {rival.time} has the same instant, and may give it up"
    return unschedule(run.writer, planned.time, bool(run.instants), planned.action)


def _planned_by(table: Table, step: CompactionStep, rules: CompactionRules) -> Collection[Action]:
    """Whose plans a step looks at.

    Before a compaction is planned, log compactions are run that nobody runs, or their groups would
    wait for them.
    """
    if step is CompactionStep.SCHEDULE_AND_RUN and _lone_logs(table) is None:
        return COMPACTING
    return (rules.action,)


def _is_asked(run: Compaction, instant: Instant) -> bool:
    return not run.instants or instant.time in run.instants


def _refuse(table: Table, rules: CompactionRules, unschedules: bool = False) -> None:
    """The errors of ``compacted`` about the table; plans may be taken back from more of them."""
    config = table.config
    if config.table_type is not TableType.MERGE_ON_READ:
        raise UnsupportedTable(
            f"{config.name} is a copy-on-write table, which has no logs to compact. Nothing was "
            "changed. To put small files together, cluster it.",
            feature="compaction of a copy-on-write table",
        )
    refuse_kind_of(table)
    feature = unmergeable(config)
    if feature is not None:
        feature = f"a table with {feature}"
    elif not rules.merges_logs and not unschedules:
        feature = unlogged(config)
        if config.cdc_enabled and unfollowed(config) is not None:
            feature = "a table of partial updates with change logs"
    remedy = f"Let Apache Hudi compact {config.name}."
    if feature is None and rules.merges_logs and not unschedules:
        feature = _lone_logs(table)
        remedy = f"Compact {config.name} into base files instead."
    if feature is None:
        return
    raise UnsupportedTable(
        f"pyhudi cannot compact {feature} yet. Nothing was changed. {remedy}", feature=feature
    )


def _lone_logs(table: Table) -> str | None:
    """What a table is of which the logs cannot be merged alone; None if they can."""
    if table.config.layout == 1:
        return "the logs alone of a table of version 6"
    if is_pessimistic(table.config):
        return "the logs alone of a table of pessimistic writers"
    if unfollowed(table.config) is not None:
        return "the logs alone of a table of partial updates"
    return None


def _proposed(run: Compaction, now: Timeline, rules: CompactionRules) -> list[CompactedSlice]:
    """What a new plan would have."""
    planned = slices_to_compact(run.table, now, rules)
    return [_row(p, CompactionFate.WOULD_BE if p.taken else CompactionFate.LEFT) for p in planned]


def _scheduled(run: Compaction, rules: CompactionRules, runs: bool) -> list[CompactedSlice]:
    """Make a plan if there is something to compact, and run it if ``runs``."""
    planned = slices_to_compact(run.table, run.table.timeline(), rules)
    instant: InstantTime | None = None
    if any(p.taken for p in planned):  # most often nothing is due: then the lock is not taken
        planned, instant = requested_compaction(run.writer, rules)
    if instant is not None and runs:
        own = {p.group for p in planned if p.taken}
        rows = [_row(p, CompactionFate.LEFT) for p in planned if p.group not in own]
        plan = compaction_plan(planned, rules.file_bytes)
        requested = Instant(instant, rules.action, State.REQUESTED)
        try:
            return [*rows, *_carried_out(run, requested, plan)]
        except UnsupportedTable:
            # A machine that cannot reach the files: nobody has to know the plan.
            with suppress(HudiError):
                unschedule(run.writer, instant, takes_over=False, action=rules.action)
            raise
    return [
        _row(p, CompactionFate.PLANNED, instant) if p.taken else _row(p, CompactionFate.LEFT)
        for p in planned
    ]


# --- runs ---------------------------------------------------------------------------------------


#: how each kind of plan is run, and what is told of its slices
_RUNNING: dict[Action, tuple[type[RunningCompaction], str]] = {
    Action.COMPACTION: (RunningCompaction, "its logs are in its new base file"),
    Action.LOGCOMPACTION: (RunningLogCompaction, "its logs are in one new log"),
}


def _carried_out(run: Compaction, planned: Instant, plan: CompactionPlan) -> list[CompactedSlice]:
    """Run a pending plan, unless another program does; an entry for each slice."""
    time, (kind, told) = planned.time, _RUNNING[planned.action]
    running, why = kind.claimed(run.writer, time, time in run.instants)
    if running is None:
        return [_entry(o, CompactionFate.LEFT, why, time) for o in plan.operations]
    running.quiet = partial(run.tasks.ended, time)
    with running:
        view = run.table.view(running.timeline)
        columns = written_columns(run.table, run.place, running.timeline, time)
        tasks, left = tasks_of(view, plan, planned, columns)
        misfits = [why for group, why in left.items() if not view.is_gone(*group, None)]
        if misfits and running.timeline.layout == 1:
            why = misfits[0]
            raise WriteFailed(
                f"The plan of the compaction {time} does not fit the table: {why}. Nothing was "
                "changed. Logs may name it, so it cannot run in part. Let Apache Hudi repair it.",
                instant=time,
            )
        stats: list[WriteStat] = []
        if tasks:
            schema = columns.schema
            spec, order = _spec(run, running, schema), _order(run, view, schema, time)
            stats = run.tasks.compact(spec, order, tasks)
        running.seal(partial(run.tasks.ended, time), files_in(stats))
        written = {(s.partition_path, s.file_id) for s in stats}
        asked = {(t.plan.partition_path, FileId(t.plan.file_id)) for t in tasks.values()}
        left |= dict.fromkeys(asked - written, "no block of its logs counts")
        _, more = running.complete(stats, columns.schema, columns.version)
    left |= more
    done = [stat for stat in stats if (stat.partition_path, stat.file_id) not in left]
    run.tasks.committed(run.options, tasks.values(), done)
    return [
        _entry(o, CompactionFate.LEFT, left[group], time)
        if (group := (o.partition_path, o.file_id)) in left
        else _entry(o, CompactionFate.COMPACTED, told, time)
        for o in plan.operations
    ]


def _order(
    run: Compaction, view: FileSystemView, schema: SparkSchema, time: InstantTime
) -> MergeSpec:
    counted = counted_instants(view, time)
    return merge_spec(run.table.config, run.place, schema.columns, counted, SparkSchema())


def _spec(run: Compaction, running: RunningCompaction, schema: SparkSchema) -> WriteSpec:
    """How the workers write the files."""
    time, nonce = running.instant, running.nonce
    config = run.table.config
    spec = rewrite_spec(run.options, config, run.place, time, schema, nonce)
    if running.ACTION is Action.LOGCOMPACTION:
        return spec
    return replace(spec, change_log=change_log_spec(config, schema))


# --- entries ------------------------------------------------------------------------------------


def _row(
    planned: PlannedSlice, fate: CompactionFate, time: InstantTime | None = None
) -> CompactedSlice:
    of = planned.slice
    return CompactedSlice(
        of.partition_path,
        of.file_id,
        of.base.name if of.base is not None else None,
        len(of.logs),
        planned.log_bytes,
        fate,
        planned.why,
        time,
    )


def _entry(
    of: CompactionOperation, fate: CompactionFate, why: str, time: InstantTime
) -> CompactedSlice:
    return CompactedSlice(
        of.partition_path,
        of.file_id,
        of.data_file_path,
        len(of.delta_file_paths),
        int(of.metrics.get("TOTAL_LOG_FILES_SIZE", 0)),
        fate,
        why,
        time,
    )


def _pending(instant: Instant, plan: CompactionPlan) -> list[CompactedSlice]:
    """What a run of a pending plan would do."""
    why = f"the plan of the pending {NAMES[instant.action]} {instant.time} has it"
    return [_entry(o, CompactionFate.WOULD_BE, why, instant.time) for o in plan.operations]


def _unscheduled(
    instant: Instant, plan: CompactionPlan, why: str | None, dry_run: bool
) -> Sequence[CompactedSlice]:
    fate = CompactionFate.UNSCHEDULED if why is None else CompactionFate.LEFT
    told = "its logs stay, until they are planned again" if why is None else why
    if dry_run:
        told = "its plan would be deleted, unless a program runs it"
    return [_entry(o, fate, told, instant.time) for o in plan.operations]
