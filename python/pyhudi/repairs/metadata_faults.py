"""Faults of the metadata table: it lags behind the commits, or is gone."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import HudiError
from pyhudi.format.instants import InstantTime
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import without_metadata_table
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit
from pyhudi.timeline.active import timeline_of
from pyhudi.timeline.table import PROPERTIES
from pyhudi.transactions.metadata_table import FOLDER


def _switched_off(patient: Patient, evidence: str) -> TableFault:
    raw = without_metadata_table(patient.config.raw)
    files = patient.storage.walk(FOLDER)
    # The properties first: they tell readers that there is one.
    edits = [Edit(PROPERTIES, render_properties(raw)), *(Edit(f.path, None) for f in files)]
    text = "Switch it off, and move it to the bin. Apache Hudi makes it again when it next writes."
    return TableFault(FOLDER, evidence, text, tuple(edits))


def _is_on(patient: Patient) -> bool:
    return bool(patient.config.metadata_partitions)


def _known(patient: Patient) -> set[InstantTime]:
    layout = patient.config.layout
    folder = f"{FOLDER}/.hoodie" + ("/timeline" if layout == 2 else "")
    return {i.time for i in timeline_of(patient.storage.list(folder), layout, folder).completed}


def _lags(patient: Patient) -> Iterator[TableFault]:
    if not _is_on(patient) or not patient.storage.walk(FOLDER):
        return
    try:
        newest = max(_known(patient), default=InstantTime(""))
    except HudiError as e:
        yield _switched_off(patient, f"Its timeline cannot be read: {e}")
        return
    behind = [i.time for i in patient.commits if i.time > newest]
    if behind:
        last = f"Its newest instant is {newest}" if newest else "It has no completed instant"
        yield _switched_off(patient, f"{last}; {len(behind)} commits are newer, as {behind[-1]}.")


def _lost(patient: Patient) -> Iterator[TableFault]:
    if _is_on(patient) and not patient.storage.walk(FOLDER):
        named = ", ".join(patient.config.metadata_partitions)
        yield _switched_off(patient, f"The properties name its partitions {named}; it is gone.")


METADATA_KINDS = (
    Kind(
        "metadata table that lags behind",
        "spec/metadata_table.md MT3",
        "pyhudi reads all rows; Apache Hudi and hudi-rs read an older state",
        _lags,
    ),
    Kind(
        "metadata table that is gone",
        "spec/metadata_table.md MT3",
        "all read the table; others than pyhudi look for it first",
        _lost,
    ),
)
