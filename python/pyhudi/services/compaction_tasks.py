"""The tasks of a compaction's plan: what each slice is merged from, and which no longer hold.

Invariant: a log is merged if a read of the plan's time counts it. The plans of Apache Hudi may also
name logs that a log compaction has left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyhudi.format.filenames import parse_log_file_name
from pyhudi.format.instants import Action, Instant
from pyhudi.format.plans import CompactionOperation, CompactionPlan
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_spec import CompactTask, LogSlice
from pyhudi.rows.spec import GroupPlan
from pyhudi.services.compaction_plan import Group
from pyhudi.services.log_compaction_run import unfit
from pyhudi.services.slice_merging import counted_instants
from pyhudi.services.written_columns import WrittenColumns, older_logs
from pyhudi.slices.files import BaseFile, LogFile, in_order
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.log_promises import owned_by
from pyhudi.timeline.view import FileSystemView


def tasks_of(
    view: FileSystemView, plan: CompactionPlan, planned: Instant, columns: WrittenColumns
) -> tuple[dict[int, CompactTask], dict[Group, str]]:
    """The tasks of a plan, and the groups for which it does not hold any more, with the reason."""
    time, layout = planned.time, view.timeline.layout
    counted, is_owned = counted_instants(view, time), _owned(view, plan)
    version = 1 if planned.action is Action.LOGCOMPACTION else None
    newest = {(f.partition_path, f.file_id): f for f in view.existing(time)}
    tasks: dict[int, CompactTask] = {}
    left: dict[Group, str] = {}
    if version is not None:
        of_groups = (((o.partition_path, o.file_id), _logs(o)) for o in plan.operations)
        left = older_logs(columns.files.history, of_groups) | unfit(view, plan, time)
    bases = (newest.get((each.partition_path, each.file_id)) for each in plan.operations)
    instants = (base.instant if base is not None else None for base in bases)
    slices = zip(instants, map(_logs, plan.operations), strict=True)
    names = columns.files.names_in_logs(columns.schema, list(slices))
    for number, each in enumerate(plan.operations):
        group = each.partition_path, each.file_id
        base = newest.get(group)
        if group in left:
            continue
        if why := _misfit(view, each, base):
            left[group] = why
        else:
            logs = [
                log
                for log in _logs(each)
                if layout == 1 or (log.instant in counted and is_owned(log))
            ]
            of, instant, old = None, None, None
            if base is not None:
                instant, old = base.instant, base.path
                of = Slice(old, columns.files.names_of(instant, old, columns.schema))
            paths = tuple(log.path for log in in_order(logs))
            tasks[number] = CompactTask(
                GroupPlan(
                    number, each.file_id, each.partition_path, old, instant, log_version=version
                ),
                LogSlice(of, instant or "", paths, names),
            )
    return tasks, left


def _misfit(view: FileSystemView, of: CompactionOperation, base: BaseFile | None) -> str | None:
    """Why the plan does not hold for a slice any more; None if it does.

    In layout 1 it holds for a replaced group, as long as its files are there: a log may name the
    plan, and time travel to before the replacement would miss the rows below that log.
    """
    named = (of.data_file_path or "").rpartition("/")[2]
    fits = named == (base.name if base is not None else "")
    if view.is_gone(of.partition_path, of.file_id, None):
        logs = view.logs.get(of.partition_path, {}).get(of.file_id, ())
        is_there = fits and {log.path for log in _logs(of)} <= {log.path for log in logs}
        if view.timeline.layout > 1 or not is_there:
            return "its file group was replaced meanwhile"
    if not fits:
        return f"its base file is {base.name if base else 'gone'}, not {named or 'none'}"
    return None


def _owned(view: FileSystemView, plan: CompactionPlan) -> Callable[[LogFile], bool]:
    """Tells the logs that count from those that a log compaction has left out."""
    named = {log.instant for each in plan.operations for log in _logs(each)}
    commits = (i for i in view.timeline.commits if i.time in named)
    told = {i.time: COMMITS.get(view.storage, view.timeline, i) for i in commits}
    return owned_by(told, view.own_logs)


def _logs(of: CompactionOperation) -> Iterator[LogFile]:
    for path in of.delta_file_paths:
        named = parse_log_file_name(path.rpartition("/")[2])
        if named is not None:
            yield LogFile(of.partition_path, named, 0)
