"""Faults of the schema history: columns have ids, and the file that names them is gone or torn."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pyhudi.errors import HudiError
from pyhudi.format.column_ids import first_ids, version_of
from pyhudi.format.commit_metadata import SCHEMA_KEY
from pyhudi.format.instants import Instant
from pyhudi.format.schema_history import (
    LATEST_SCHEMA_KEY,
    SCHEMA_FOLDER,
    SchemaVersion,
    history_file,
    history_time,
    parse_history,
    parse_version,
    render_history,
)
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit

Versions = dict[int, SchemaVersion]


def _declared(patient: Patient) -> tuple[Versions, list[Instant]]:
    """The versions that commits record, by their ids, and these commits, oldest first."""
    found: Versions = {}
    commits = []
    for instant in patient.commits:
        metadata = patient.commit(instant)
        text = metadata.extra.get(LATEST_SCHEMA_KEY) if metadata is not None else None
        if text:
            version = parse_version(text, patient.timeline.file_of(instant))
            found[version.version_id] = version
            commits.append(instant)
    return found, commits


def _saved(patient: Patient, path: str) -> tuple[Versions, str]:
    """The versions in a history file, and what is wrong with it."""
    try:
        text = (patient.read(path) or b"").decode()
        return {v.version_id: v for v in parse_history(text, path)}, ""
    except (HudiError, UnicodeDecodeError) as e:
        return {}, str(e)


def _lost_head(patient: Patient) -> Iterator[TableFault]:
    declared, commits = _declared(patient)
    if not declared:
        return
    known = {i.time for i in patient.commits}
    times = ((history_time(f.name), f.path) for f in patient.storage.list(SCHEMA_FOLDER))
    files = sorted(((t, p) for t, p in times if t in known), key=lambda each: str(each[0]))
    newest, wrong = _saved(patient, files[-1][1]) if files else ({}, "There is no history file.")
    lacking = sorted(declared.keys() - newest.keys())
    if not wrong and not lacking:
        return
    evidence = wrong or f"It lacks the versions {lacking}, which commits record."
    last = commits[-1]
    layout = patient.timeline.layout
    path = files[-1][1] if files else history_file(last.time, last.completion_time, layout)
    versions = dict(declared)
    for _, each in files:
        versions |= _saved(patient, each)[0]
    if 0 not in versions:
        first = _first(patient, commits[0], versions[min(versions)])
        if first is None:
            yield TableFault(
                path,
                f"{evidence} Nothing tells the columns before the first change.",
                "Bring the file back from a backup.",
            )
            return
        versions[0] = first
    newest_first = [versions[number] for number in sorted(versions, reverse=True)]
    text = f"Make it again from the {len(declared)} versions that commits record, and older files."
    yield TableFault(path, evidence, text, (Edit(path, render_history(newest_first).encode()),))


def _first(patient: Patient, change: Instant, next_one: SchemaVersion) -> SchemaVersion | None:
    """The version before the first change, if its columns have the ids that the next one knows."""
    for instant in reversed([i for i in patient.commits if i.time < change.time]):
        metadata = patient.commit(instant)
        text = metadata.extra.get(SCHEMA_KEY) if metadata is not None else None
        if text:
            schema = SparkSchema.of_avro(json.loads(text))
            found = version_of(first_ids(schema), 0, None, patient.timeline.layout)
            names = {name: number for number, name in next_one.paths()}
            same = all(names.get(name, number) == number for number, name in found.paths())
            return found if same else None
    return None


SCHEMA_KINDS = (
    Kind(
        "schema history that lost its head",
        "spec/schema_evolution.md S5",
        "all read the newest files; pyhudi fails on files from before a change of columns",
        _lost_head,
    ),
)
