"""Faults of plans and of what services record: cleans, savepoints, clusterings, rollbacks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from pyhudi.errors import HudiError
from pyhudi.format.filenames import parse_data_file_name, path_in
from pyhudi.format.instants import Action, Instant, State, format_time
from pyhudi.format.plans import (
    CleanerPlan,
    CleanFile,
    SavepointMetadata,
    SavepointPartition,
    parse_clean_metadata,
    parse_cleaner_plan,
    parse_compaction_plan,
    parse_requested_replace,
    parse_rollback_metadata,
    parse_rollback_plan,
    parse_savepoint,
    render_cleaner_plan,
    render_savepoint,
)
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit

DAY_MS = 86_400_000
Parse = Callable[[bytes, str], object]
#: the plan of a pending instant, by its action; the requested file has it
PLANS: Mapping[Action, Parse] = {
    Action.CLEAN: parse_cleaner_plan,
    Action.CLUSTERING: parse_requested_replace,
    Action.ROLLBACK: parse_rollback_plan,
    Action.COMPACTION: parse_compaction_plan,
    Action.LOGCOMPACTION: parse_compaction_plan,
}
#: what a completed service has recorded, which nobody needs any more
RECORDS: Mapping[Action, Parse] = {
    Action.CLEAN: parse_clean_metadata,
    Action.ROLLBACK: parse_rollback_metadata,
}


def _requested(patient: Patient, instant: Instant) -> str:
    return patient.timeline.file_of(Instant(instant.time, instant.action, State.REQUESTED))


def _all_files(patient: Patient, instant: Instant) -> tuple[Edit, ...]:
    """The removal of each file of an instant of its action, the furthest state first."""
    files = [f.path for f in patient.files_of(instant.time) if f".{instant.action.value}" in f.name]
    return tuple(Edit(path, None) for path in sorted(files, key=_is_request))


def _is_request(path: str) -> bool:
    return path.endswith(".requested")


def _is_quiet(patient: Patient, instant: Instant) -> bool:
    """Whether an instant has no heartbeat, no young file and no data file."""
    files = patient.files_of(instant.time)
    old = all(patient.is_old(file) for file in files)
    return old and instant.time not in patient.beating and not patient.has_data_of(instant.time)


def _unreadable_plans(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.timeline.pending:
        parse = PLANS.get(instant.action)
        if parse is None:
            continue
        path = _requested(patient, instant)
        data = patient.read(path)
        wrong = "The plan is gone." if data is None else _wrong(parse, data, path)
        if not wrong:
            continue
        if instant.action in (Action.COMPACTION, Action.LOGCOMPACTION):
            text = (
                "Bring the file back from a backup, or restore the table to a commit before it. "
                "It stays, since logs may count by its instant."
            )
            yield TableFault(path, wrong, text)
        elif _is_quiet(patient, instant):
            text = "Move the instant to the bin: nobody can carry it out. It is planned again."
            yield TableFault(path, wrong, text, _all_files(patient, instant))
        else:
            text = "It may be at work, or has data files: wait, and look again."
            yield TableFault(path, wrong, text)


def _wrong(parse: Parse, data: bytes, path: str) -> str:
    try:
        parse(data, path)
    except HudiError as e:
        return str(e)
    return ""


def _idle_clusterings(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.timeline.pending:
        if instant.action is not Action.CLUSTERING or instant.state is not State.REQUESTED:
            continue
        path = _requested(patient, instant)
        readable = not _wrong(parse_requested_replace, patient.read(path) or b"", path)
        if readable and _is_quiet(patient, instant):
            yield TableFault(
                path,
                "Nobody has carried the plan out since it was made, and it has no data file.",
                "Move the plan to the bin, so that writers may change its file groups.",
                _all_files(patient, instant),
            )


def _unreadable_records(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.timeline.completed:
        parse = RECORDS.get(instant.action)
        if parse is None:
            continue
        path = patient.timeline.file_of(instant)
        wrong = _wrong(parse, patient.read(path) or b"", path)
        if wrong and instant.action is Action.ROLLBACK and patient.is_merge_on_read:
            text = "Bring the file back from a backup: it tells which blocks of logs are undone."
            yield TableFault(path, wrong, text)
        elif wrong:
            yield TableFault(
                path,
                wrong,
                f"Move the instant to the bin. The {instant.action.value} was done, and its record "
                "is needed by nobody: the next clean looks at the whole table.",
                _all_files(patient, instant),
            )


def _foreign_paths(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.timeline.pending:
        if instant.action is not Action.CLEAN:
            continue
        path = _requested(patient, instant)
        data = patient.read(path)
        if data is None or _wrong(parse_cleaner_plan, data, path):
            continue
        plan = parse_cleaner_plan(data, path)
        strange = _strange(patient, plan)
        if strange is None:
            continue
        evidence = f"The plan names {strange}, but the table is at {patient.storage.root}."
        moved = _here(patient, plan)
        if moved is None:
            yield TableFault(path, evidence, "Not each path ends with a partition and a data file.")
            continue
        rendered = render_cleaner_plan(moved)
        begun = patient.timeline.file_of(Instant(instant.time, Action.CLEAN, State.INFLIGHT))
        paths = [path, *([begun] if patient.read(begun) else [])]
        text = "Name the same files below the table's own path."
        yield TableFault(path, evidence, text, tuple(Edit(each, rendered) for each in paths))


def _plain(path: str) -> str:
    """A path as programs compare it: without the scheme's spelling and doubled slashes."""
    return re.sub(r"^(file|s3a|s3n|s3):/*", "/", path)


def _strange(patient: Patient, plan: CleanerPlan) -> str | None:
    start = _plain(patient.storage.root).rstrip("/") + "/"
    files = (f.file_path for fs in plan.file_paths_to_be_deleted_per_partition.values() for f in fs)
    return next((path for path in files if not _plain(path).startswith(start)), None)


def _here(patient: Patient, plan: CleanerPlan) -> CleanerPlan | None:
    """The plan with the table's own root; None if a path is not of its partition."""
    found = {}
    for partition, files in plan.file_paths_to_be_deleted_per_partition.items():
        inside = f"{partition}/" if partition else ""
        names = [file.file_path.rsplit("/", 1)[-1] for file in files]
        ends = (f.file_path.endswith(f"/{inside}{n}") for f, n in zip(files, names, strict=True))
        if not all(ends) or not all(map(parse_data_file_name, names)):
            return None
        root = patient.storage.root
        found[partition] = tuple(CleanFile(f"{root}/{inside}{name}") for name in names)
    return replace(plan, file_paths_to_be_deleted_per_partition=found)


def _savepoints(patient: Patient) -> Iterator[tuple[Instant, str, SavepointMetadata | None]]:
    for instant in patient.timeline.completed:
        if instant.action is Action.SAVEPOINT:
            path = patient.timeline.file_of(instant)
            data = patient.read(path) or b""
            wrong = _wrong(parse_savepoint, data, path)
            yield instant, path, None if wrong else parse_savepoint(data, path)


def _lost_savepoints(patient: Patient) -> Iterator[TableFault]:
    for instant, path, saved in _savepoints(patient):
        parts = saved.partition_metadata.values() if saved is not None else ()
        names = [path_in(p.partition_path, n) for p in parts for n in p.savepoint_data_file]
        gone = [name for name in names if name not in patient.sizes]
        if not gone:
            continue
        evidence = f"{len(gone)} of the {len(names)} files that it keeps are gone, as {gone[0]}."
        held = {name: patient.from_bins(name) for name in gone}
        found = {name: data for name, data in held.items() if data is not None}
        if len(found) == len(gone):
            edits = tuple(Edit(name, data) for name, data in sorted(found.items()))
            yield TableFault(path, evidence, "Put back what a bin has.", edits)
            continue
        # The completed file first: an inflight file alone keeps nothing.
        yield TableFault(
            path,
            evidence,
            f"Move the savepoint of {instant.time} to the bin: nothing can be restored from it. "
            "Its other files stay until a clean.",
            _all_files(patient, instant),
        )


def _torn_savepoints(patient: Patient) -> Iterator[TableFault]:
    for instant, path, saved in _savepoints(patient):
        if saved is not None:
            continue
        wrong = _wrong(parse_savepoint, patient.read(path) or b"", path)
        if patient.is_merge_on_read:
            yield TableFault(
                path,
                wrong,
                "Bring the file back from a backup, or delete the savepoint: its file has named "
                "the logs to keep, and the table does not tell them any more.",
            )
            continue
        try:
            files = patient.view.latest(as_of=instant.time)
        except HudiError as e:
            yield TableFault(
                path, wrong, f"A part of the commit is gone ({e}): delete the savepoint."
            )
            continue
        parts: dict[str, list[str]] = {}
        for file in files:
            parts.setdefault(file.partition_path, []).append(file.name)
        made = SavepointMetadata(
            "unknown",
            patient.now_ms,
            "made again: its file was torn",
            {p: SavepointPartition(p, tuple(names)) for p, names in parts.items()},
        )
        text = f"Make it again from the {len(files)} files of the table as of {instant.time}."
        yield TableFault(path, wrong, text, (Edit(path, render_savepoint(made)),))


def _begun_savepoints(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.timeline.pending:
        if instant.action is Action.SAVEPOINT:
            files = patient.files_of(instant.time)
            path = patient.timeline.file_of(instant)
            if all(patient.is_old(file) for file in files if file.path == path):
                yield TableFault(
                    path,
                    "Its program died before it named the files to keep.",
                    "Move it to the bin: it keeps nothing, and archivers stop at it.",
                    (Edit(path, None),),
                )


def _future(patient: Patient) -> Iterator[TableFault]:
    limit = format_time(patient.now_ms + DAY_MS, patient.config.utc)
    for instant in patient.timeline.instants:
        if instant.time <= limit:
            continue
        path = patient.timeline.file_of(instant)
        evidence = f"The instant is more than a day ahead of the storage's clock ({limit[:8]})."
        metadata = patient.commit(instant) if instant in patient.commits else None
        empty = metadata is None or not (metadata.stats or metadata.replaced)
        held = patient.has_data_of(instant.time) or instant.time in patient.beating
        if patient.is_merge_on_read and metadata is None:
            text = (
                "Logs may have blocks of it, so it stays. Set the clock of its writer right, and "
                "restore the table to the commit before it."
            )
            yield TableFault(path, evidence, text)
        elif empty and not held and instant.action is not Action.RESTORE:
            text = "Move it to the bin: it has no data, and all later instants would follow it."
            yield TableFault(path, evidence, text, _of_time(patient, instant))
        else:
            yield TableFault(
                path,
                evidence,
                "It has data, and each row has its time. Later instants follow it, so the table "
                "can be used. Set the clock of its writer right; to be rid of it, restore the "
                "table to the commit before it.",
            )


def _of_time(patient: Patient, instant: Instant) -> tuple[Edit, ...]:
    files = sorted((f.path for f in patient.files_of(instant.time)), key=_is_request)
    return tuple(Edit(path, None) for path in files)


SERVICE_KINDS = (
    Kind(
        "plan that cannot be read",
        "spec/timeline.md T5",
        "all read the table, but Apache Hudi fails on the plan of a compaction; so do its services",
        _unreadable_plans,
    ),
    Kind(
        "clustering plan without an owner",
        "spec/timeline.md T5",
        "all read the table; writes to its file groups fail or wait",
        _idle_clusterings,
    ),
    Kind(
        "record of a service that cannot be read",
        "spec/timeline.md T5",
        "all read the table; Apache Hudi's cleaner may fail",
        _unreadable_records,
    ),
    Kind(
        "plan of another place",
        "spec/cleaning.md CL5",
        "all read the table; Apache Hudi's cleaner would delete where the table was before",
        _foreign_paths,
    ),
    Kind(
        "savepoint whose files are gone",
        "spec/timeline.md T9",
        "all read the newest state; nothing can be restored from it",
        _lost_savepoints,
    ),
    Kind(
        "torn savepoint",
        "spec/timeline.md T9",
        "all read the table; cleans fail",
        _torn_savepoints,
    ),
    Kind(
        "savepoint that was only begun",
        "spec/timeline.md T9",
        "all read the table; archivers stop at it",
        _begun_savepoints,
    ),
    Kind(
        "instant in the future",
        "spec/timeline.md T3",
        "all read the table; later instants follow it",
        _future,
    ),
)
