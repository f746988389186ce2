"""Faults of logs: damaged blocks, plans whose files are gone, and logs of no known slice."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import HudiError, TableCorrupt
from pyhudi.format.filenames import path_in
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.log_blocks import InMemory, find_blocks
from pyhudi.format.plans import CompactionOperation, CompactionPlan, parse_compaction_plan
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.slice_merging import completed_slices


def _damaged(patient: Patient) -> Iterator[TableFault]:
    if not patient.wishes.read_files or not patient.is_merge_on_read or not patient.log_files:
        return
    if not patient.config.logs_name_their_write:
        yield TableFault(
            patient.storage.root,
            "A log has blocks of several writes here, and one that has failed may leave half of a "
            "block, so a damaged block looks like one of these.",
            "Compare the rows with their source, or compact the table as long as they are right.",
            judged=False,
        )
        return
    logs = (log for each in completed_slices(patient.view) for log in each.logs)
    for log in logs:
        data = patient.storage.read(log.path)
        try:
            for _ in find_blocks(InMemory(data), log.path):
                pass
        except TableCorrupt as e:
            yield TableFault(
                log.path,
                str(e),
                "Bring the file back from a backup, or restore to a commit before it.",
            )


def _plans(patient: Patient) -> Iterator[tuple[str, Instant, CompactionPlan]]:
    """The pending compactions and log compactions whose plans can be read, with their paths."""
    for instant in patient.timeline.pending:
        if instant.action in (Action.COMPACTION, Action.LOGCOMPACTION):
            requested = Instant(instant.time, instant.action, State.REQUESTED)
            path = patient.timeline.file_of(requested)
            try:
                yield path, instant, parse_compaction_plan(patient.read(path) or b"", path)
            except HudiError:
                continue  # a fault of its own


def _unfit_plans(patient: Patient) -> Iterator[TableFault]:
    for path, _, plan in _plans(patient):
        for each in plan.operations:
            gone = [name for name in _files(each) if name not in patient.sizes]
            if not gone:
                continue
            evidence = f"Its plan names {gone[0]}, which is gone."
            if patient.view.is_gone(each.partition_path, each.file_id, None):
                evidence += " The file group was replaced meanwhile."
                text = (
                    "Run the compaction with pyhudi (pyhudi compact --run): it leaves that group "
                    "out. Apache Hudi fails on it."
                )
            else:
                text = "Bring the file back from a backup, or restore to a commit before it."
            yield TableFault(path, evidence, text)


def _files(of: CompactionOperation) -> list[str]:
    """The paths of the files that a compaction reads."""
    base = (of.data_file_path or "").rpartition("/")[2]
    return [*([path_in(of.partition_path, base)] if base else []), *of.log_paths]


def _of_no_slice(patient: Patient) -> Iterator[TableFault]:
    """Logs of layout 1 above all base files of their group, by a name that nothing explains."""
    if not patient.is_merge_on_read or patient.timeline.layout > 1 or not patient.log_files:
        return
    planned = {
        (instant.time, each.partition_path, each.file_id)
        for _, instant, plan in _plans(patient)
        for each in plan.operations
    }
    begun: dict[tuple[str, str], InstantTime] = {}
    for file, name in patient.base_files:
        place = file.path[: -len(file.name)].rstrip("/"), name.file_id
        begun[place] = max(name.instant, begun.get(place, name.instant))
    for file, log in patient.log_files:
        place = file.path[: -len(file.name)].rstrip("/"), log.file_id
        newest = begun.get(place)
        known = newest is None or log.instant <= newest or log.cdc
        if known or (log.instant, *place) in planned or patient.view.is_gone(*place, None):
            continue
        yield TableFault(
            file.path,
            f"Its slice would begin at {log.instant}, but the group's newest base file is of "
            f"{newest}, and no plan of a compaction that can be read has the group then.",
            "Bring back the base file or the plan of that instant. If there is none any more, "
            "compact the table with pyhudi as long as its rows are right: that takes the log up.",
        )


LOG_KINDS = (
    Kind(
        "damaged log",
        "spec/log_files.md L1",
        "pyhudi fails; Apache Hudi and hudi-rs may pass over the block, and give older rows",
        _damaged,
    ),
    Kind(
        "compaction whose files are gone",
        "spec/log_files.md L9",
        "all read the table; the compaction fails each time it is run",
        _unfit_plans,
    ),
    Kind(
        "log of a slice that nothing begins",
        "spec/file_slices.md F1",
        "pyhudi reads it over the older base file; Apache Hudi may lose the rows below it",
        _of_no_slice,
    ),
)
