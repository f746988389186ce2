"""Faults of ``hoodie.properties``, and of the timeline's place that it names."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import HudiError
from pyhudi.format.properties import parse_properties, render_properties, table_checksum
from pyhudi.format.table_config import LAYOUT_OF_VERSION
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import FOLDERS, Patient
from pyhudi.services.bin import Edit
from pyhudi.timeline.active import Timeline, instant_key, timeline_of
from pyhudi.timeline.table import BACKUP, OTHER_FOLDER, PROPERTIES

CHECKSUM = "hoodie.table.checksum"
LAYOUT = "hoodie.timeline.layout.version"
BY_HAND = "Bring the file back from a backup, or from a table of the same settings."


def _from_backup(patient: Patient, about: str, evidence: str) -> TableFault:
    if patient.backup is None:
        return TableFault(about, f"{evidence} There is no whole backup beside it.", BY_HAND)
    edits = (Edit(PROPERTIES, patient.backup), Edit(BACKUP, None))
    return TableFault(about, evidence, f"Put back what {BACKUP} has.", edits)


def _lost(patient: Patient) -> Iterator[TableFault]:
    if patient.raw is None:
        yield _from_backup(patient, PROPERTIES, "The file is gone.")


def _is_whole(data: bytes) -> bool:
    """Whether the text was written to its end: each line of Java's properties ends."""
    return CHECKSUM.encode() in data and data.endswith(b"\n")


def _cut_short(patient: Patient) -> Iterator[TableFault]:
    data = patient.raw
    if data is None or _is_whole(data):
        return
    wrong = patient.parses(data)
    if wrong is not None:
        yield _from_backup(patient, PROPERTIES, f"It ends after {len(data)} bytes: {wrong}")


def _known(patient: Patient) -> dict[str, str]:
    """The properties of a file that was written to its end; empty for another."""
    if patient.raw is None or not patient.raw.endswith(b"\n"):
        return {}
    try:
        return parse_properties(patient.raw, PROPERTIES)
    except HudiError:
        return {}


def _checksum(raw: dict[str, str]) -> str:
    return str(table_checksum(raw.get("hoodie.database.name", ""), raw["hoodie.table.name"]))


def _set(raw: dict[str, str], key: str, value: str) -> Edit:
    return Edit(PROPERTIES, render_properties({**raw, key: value}))


def _wrong_checksum(patient: Patient) -> Iterator[TableFault]:
    raw = _known(patient)
    if not raw.get("hoodie.table.name") or CHECKSUM not in raw:
        return
    right = _checksum(raw)
    if raw[CHECKSUM] != right:
        yield TableFault(
            PROPERTIES,
            f"{CHECKSUM} is {raw[CHECKSUM]}; that of the name '{raw['hoodie.table.name']}' is "
            f"{right}.",
            "Set the checksum of the database and the name that the file has.",
            (_set(raw, CHECKSUM, right),),
        )


def _no_checksum(patient: Patient) -> Iterator[TableFault]:
    raw = _known(patient)
    if not raw.get("hoodie.table.name") or CHECKSUM in raw:
        return
    if patient.parses(patient.raw or b"") is None:
        yield TableFault(
            PROPERTIES,
            f"It has no {CHECKSUM}, so nobody would notice if it were cut short.",
            "Set it.",
            (_set(raw, CHECKSUM, _checksum(raw)),),
        )


def _there(patient: Patient, layout: int) -> Timeline:
    folder = FOLDERS[layout]
    return timeline_of(patient.storage.list(folder), layout, folder)


def _wrong_layout(patient: Patient) -> Iterator[TableFault]:
    raw = _known(patient)
    version, said = raw.get("hoodie.table.version", ""), raw.get(LAYOUT)
    expected = LAYOUT_OF_VERSION.get(int(version)) if version.isdecimal() else None
    if expected is None or said in (None, str(expected)):
        return
    evidence = f"hoodie.table.version is {version}, and {LAYOUT} is {said}, not {expected}."
    here, elsewhere = _there(patient, expected), _there(patient, 3 - expected)
    if here.commits and not elsewhere.commits:
        yield TableFault(
            PROPERTIES,
            f"{evidence} All {len(here.commits)} commits are in {here.folder}, as in a table of "
            f"layout {expected}.",
            f"Set {LAYOUT} to {expected}.",
            (_set(raw, LAYOUT, str(expected)),),
        )
    else:
        yield TableFault(
            PROPERTIES,
            f"{evidence} {here.folder} has {len(here.commits)} commits, {elsewhere.folder} has "
            f"{len(elsewhere.commits)}.",
            "Nothing tells which of the two is right. An upgrade or downgrade may have died: let "
            "Apache Hudi finish it, or restore the file from a backup.",
        )


def _both_layouts(patient: Patient) -> Iterator[TableFault]:
    layout = patient.config.layout
    folder, other = OTHER_FOLDER[layout], 3 - layout
    found = timeline_of(patient.storage.list(folder), other, folder)
    if not found.commits:
        return
    known = {instant_key(i) for i in patient.timeline.completed}
    strange = [i.time for i in found.instants if instant_key(i) not in known]
    evidence = (
        f"{folder} has {len(found.instants)} instants with names of layout {other}, beside the "
        f"timeline of layout {layout} in {patient.timeline.folder}."
    )
    if strange:
        yield TableFault(
            folder,
            f"{evidence} {strange[0]} is not on the timeline.",
            "An upgrade or downgrade was interrupted: let Apache Hudi finish it.",
        )
        return
    starts = tuple(f"{i.time}." for i in found.instants)
    doomed = [f.path for f in patient.storage.list(folder) if f.name.startswith(starts)]
    yield TableFault(
        folder,
        f"{evidence} All of them are on the timeline, too.",
        "Move the second copies to the bin.",
        tuple(Edit(path, None) for path in doomed),
    )


def _backup_left(patient: Patient) -> Iterator[TableFault]:
    whole = patient.raw is not None and patient.parses(patient.raw) is None
    if whole and patient.read(BACKUP) is not None:
        yield TableFault(
            BACKUP,
            f"A change of the properties has left it, and {PROPERTIES} is whole.",
            "Move it to the bin.",
            (Edit(BACKUP, None),),
        )


PROPERTIES_KINDS = (
    Kind(
        "properties lost",
        "spec/properties.md P1",
        "pyhudi and Apache Hudi read by the backup, if there is one; hudi-rs finds no table",
        _lost,
        closed=True,
    ),
    Kind(
        "properties cut short",
        "spec/properties.md P1",
        "pyhudi and Apache Hudi read by the backup, if there is one; hudi-rs fails",
        _cut_short,
        closed=True,
    ),
    Kind(
        "wrong checksum",
        "spec/properties.md P3",
        "pyhudi and Apache Hudi refuse the table; hudi-rs reads it",
        _wrong_checksum,
        closed=True,
    ),
    Kind(
        "no checksum",
        "spec/properties.md P3",
        "all read it; a cut at the end of a line would not be noticed",
        _no_checksum,
        closed=True,
    ),
    Kind(
        "layout that the version contradicts",
        "spec/versions.md V1",
        "pyhudi and hudi-rs fail; Apache Hudi reads no rows in version 9, and fails in version 6",
        _wrong_layout,
        closed=True,
    ),
    Kind(
        "instants of both layouts",
        "spec/versions.md V1",
        "pyhudi refuses the table, as an upgrade may be running; others read it",
        _both_layouts,
    ),
    Kind(
        "backup of the properties left behind",
        "spec/properties.md P1",
        "all read the table",
        _backup_left,
    ),
)
