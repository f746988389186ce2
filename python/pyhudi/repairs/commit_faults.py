"""Faults of completed commits: empty, torn, or with data files that are gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import HudiError
from pyhudi.format.commit_metadata import (
    SCHEMA_KEY,
    CommitMetadata,
    WriteStat,
    parse_commit,
    render_commit,
)
from pyhudi.format.filenames import BaseFileName
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.log_promises import missing_logs
from pyhudi.timeline.promises import LostFile

META = "_hoodie_"
AVRO_SCHEMA = b"parquet.avro.schema"
BY_HAND = "Bring its completed file back from a backup, or restore the table to an earlier commit."


class _UnexplainedError(Exception):
    """Why a commit cannot be made again from its files."""


def _empty(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.commits:
        path = patient.timeline.file_of(instant)
        if patient.read(path) != b"":
            continue
        if patient.has_data_of(instant.time):
            yield _made_again(patient, instant, "The file is empty, though its instant has files.")
        elif patient.is_merge_on_read and not patient.config.logs_name_their_write:
            text = "The file is empty, and the names of logs do not tell whether it wrote some."
            yield TableFault(path, text, BY_HAND)


def _torn(patient: Patient) -> Iterator[TableFault]:
    for instant in patient.commits:
        path = patient.timeline.file_of(instant)
        data = patient.read(path)
        if not data or patient.commit(instant) is not None:
            continue
        try:
            parse_commit(data, path)
        except HudiError as e:
            yield _made_again(patient, instant, str(e))


def _made_again(patient: Patient, instant: Instant, evidence: str) -> TableFault:
    path = patient.timeline.file_of(instant)
    try:
        metadata = _from_files(patient, instant)
    except _UnexplainedError as e:
        return TableFault(path, f"{evidence} {e}", BY_HAND)
    return TableFault(
        path,
        f"{evidence} {len(metadata.stats)} data files of {instant.time} tell what it wrote.",
        "Make it again from the footers of its data files.",
        (Edit(path, render_commit(metadata, patient.timeline.layout)),),
    )


def _from_files(patient: Patient, instant: Instant) -> CommitMetadata:
    """What a commit must have said, by its files; ``_UnexplainedError`` if they do not tell."""
    if patient.is_merge_on_read:
        raise _UnexplainedError("Its files do not tell which logs it wrote or merged.")
    if instant.action is not Action.COMMIT:
        raise _UnexplainedError("Its files do not tell which file groups it replaced.")
    found = patient.base_files_of(instant.time)
    groups = [(_folder(file), name.file_id) for file, name in found]
    if len(set(groups)) < len(groups):
        raise _UnexplainedError("Two of its data files are of one file group.")
    stats, own = [], SparkSchema()
    for file, name in found:
        try:
            footer = pq.read_metadata(pa.BufferReader(patient.storage.read(file.path)))
        except (OSError, pa.ArrowException) as e:
            raise _UnexplainedError(f"{file.path} cannot be read: {e}.") from e
        own = _columns(SparkSchema.of_arrow(footer.schema.to_arrow_schema()))
        if AVRO_SCHEMA in (footer.metadata or {}):
            own = _columns(SparkSchema.of_avro(json.loads(footer.metadata[AVRO_SCHEMA])))
        stats.append(_stat(patient, file, name, footer.num_rows))
    return CommitMetadata(_operation(patient, instant), tuple(stats), _extra(patient, own))


def _stat(patient: Patient, file: StoredFile, name: BaseFileName, rows: int) -> WriteStat:
    folder = _folder(file)
    older = [
        other.instant
        for path, other in patient.base_files
        if (_folder(path), other.file_id) == (folder, name.file_id)
        and other.instant < name.instant
        and patient.is_committed(other.instant)
    ]
    previous = max(older, default=None)
    return WriteStat(
        file_id=name.file_id,
        path=file.path,
        partition_path=folder,
        prev_commit=previous,
        num_writes=rows,
        num_inserts=0 if previous else rows,
        total_write_bytes=file.size_bytes,
        file_size_bytes=file.size_bytes,
    )


def _folder(file: StoredFile) -> str:
    return file.path[: -len(file.name)].rstrip("/")


def _operation(patient: Patient, instant: Instant) -> str:
    """As the inflight file has it, else an upsert: its effect is the same."""
    path = patient.timeline.file_of(Instant(instant.time, instant.action, State.INFLIGHT))
    try:
        said = parse_commit(patient.read(path) or b"", path).operation
    except HudiError:
        said = "UNKNOWN"
    return "UPSERT" if said == "UNKNOWN" else said


def _columns(schema: SparkSchema) -> SparkSchema:
    """The columns without Hudi's own."""
    return SparkSchema(tuple(c for c in schema.columns if not c.name.startswith(META)))


def _extra(patient: Patient, own: SparkSchema) -> dict[str, str]:
    """The schema of the newest other commit with the columns of the files, else that of a file."""
    names = [column.name for column in own.columns]
    for instant in reversed(patient.commits):
        metadata = patient.commit(instant)
        text = metadata.extra.get(SCHEMA_KEY) if metadata is not None else None
        if metadata is None or not text:
            continue
        if [column.name for column in SparkSchema.of_avro(json.loads(text)).columns] == names:
            kept = (SCHEMA_KEY, LATEST_SCHEMA_KEY)
            return {key: metadata.extra[key] for key in kept if key in metadata.extra}
    if not names:
        raise _UnexplainedError("It has no data file, so its schema is not known.")
    return {SCHEMA_KEY: json.dumps(own.avro(patient.config.name))}


def _lost(patient: Patient) -> Iterator[TableFault]:
    for lost in (*patient.view.missing(), *missing_logs(patient.view)):
        yield _forgotten(patient, lost)


def _forgotten(patient: Patient, lost: LostFile) -> TableFault:
    commit = next((i for i in patient.commits if i.time == lost.instant), None)
    if not lost.path or commit is None:
        text = f"The slice of {lost.instant} of group {lost.file_id} is gone."
        return TableFault(lost.file_id, text, "Bring the file back from a backup.")
    how = "gone" if lost.found_bytes is None else f"cut off at {lost.found_bytes} bytes"
    evidence = f"Commit {lost.instant} names it with {lost.size_bytes} bytes; it is {how}."
    found = patient.from_bins(lost.path, lost.size_bytes)
    if found is not None:
        return TableFault(
            lost.path, evidence, "Put back what a bin has.", (Edit(lost.path, found),)
        )
    if patient.is_merge_on_read:
        return TableFault(
            lost.path,
            evidence,
            "Bring the file back from a backup, or restore to an earlier commit. A commit of a "
            "merge-on-read table cannot forget a file: what is left may be older rows, or rows "
            "that were deleted.",
        )
    metadata = patient.commit(commit)
    if not patient.wishes.forget_lost or metadata is None:
        return TableFault(
            lost.path,
            evidence,
            "Bring the file back from a backup, or restore to an earlier commit. Only if its rows "
            "may be lost: forget_lost=True (--forget-lost) lets the commit forget the file.",
        )
    kept = tuple(stat for stat in metadata.stats if stat.path != lost.path)
    told = replace(metadata, stats=kept)
    path = patient.timeline.file_of(commit)
    edits = [Edit(path, render_commit(told, patient.timeline.layout))]
    edits += [Edit(lost.path, None)] * (lost.found_bytes is not None)
    text = "Let the commit forget the file. The rows that it added to the group are lost."
    return TableFault(lost.path, evidence, text, tuple(edits))


COMMIT_KINDS = (
    Kind(
        "empty commit",
        "spec/timeline.md T5",
        "all read its rows, hudi-rs not beside logs; what it says of schema and files is gone",
        _empty,
    ),
    Kind(
        "torn commit",
        "spec/timeline.md T5",
        "pyhudi fails; Apache Hudi and hudi-rs fail if it is the newest commit",
        _torn,
    ),
    Kind(
        "commit that names lost files",
        "spec/file_slices.md F7",
        "pyhudi fails; others read fewer rows or older ones, or fail on a file that is cut off",
        _lost,
    ),
)
