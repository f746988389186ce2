"""What dead programs left behind: heartbeats, markers, locks, and files that no commit names."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import StorageError
from pyhudi.format.filenames import BaseFileName
from pyhudi.format.instants import InstantTime, State
from pyhudi.format.markers import FOLDER as MARKERS
from pyhudi.locks.filesystem import LOCK_PATH
from pyhudi.locks.lock_file import parse_lock_file
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit
from pyhudi.services.orphans import judged_files
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.strays import rolled_back
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS


def _heartbeats(patient: Patient) -> Iterator[TableFault]:
    pending = {i.time for i in patient.timeline.pending}
    for file in patient.storage.list(HEARTBEATS):
        stale = file.name not in patient.beating
        if file.name.isdecimal() and file.name not in pending and stale:
            yield TableFault(
                file.path,
                f"Instant {file.name} is not pending, and its last beat is old.",
                "Move it to the bin.",
                (Edit(file.path, None),),
            )


def _settled(patient: Patient) -> frozenset[InstantTime]:
    """The instants that have certainly ended: completed, archived or rolled back."""
    done = {i.time for i in patient.timeline.instants if i.state is State.COMPLETED}
    done -= {i.time for i in patient.timeline.pending}
    archived = {e.instant.time for e in archived_instants(patient.storage, patient.config)}
    return frozenset(done | archived | rolled_back(patient.storage, patient.timeline))


def _markers(patient: Patient) -> Iterator[TableFault]:
    folders = {f.rsplit("/", 1)[-1]: f for f in patient.storage.list_folders(MARKERS)}
    pending = {i.time for i in patient.timeline.pending}
    doubtful = [InstantTime(n) for n in folders if n.isdecimal() and n not in pending]
    settled = _settled(patient) if doubtful else frozenset()
    for time in sorted(doubtful):
        files = patient.storage.walk(folders[time])
        if not files:
            continue  # Apache Hudi leaves empty folders
        if time in settled:
            edits = tuple(Edit(file.path, None) for file in files)
            yield TableFault(
                folders[time], f"Instant {time} has ended.", "Move the markers to the bin.", edits
            )
        else:
            yield TableFault(
                folders[time],
                f"Neither the timeline nor the archive knows instant {time}.",
                "They name the files of a write that nobody settled. Look at these files first: "
                "pyhudi orphans.",
            )


def lock_faults(patient: Patient) -> Iterator[TableFault]:
    """The lock file, if it is another program's, and old; a dead pyhudi's lock ends by itself."""
    try:
        data = patient.read(LOCK_PATH)
    except StorageError:
        return
    found = parse_lock_file(data) if data is not None else None
    if found is None or found.owner is not None:
        return
    files = patient.storage.list(LOCK_PATH.rpartition("/")[0])
    stored = next((file for file in files if file.path == LOCK_PATH), None)
    if stored is None or not patient.is_old(stored):
        return
    hours = (patient.now_ms - stored.modified_ms) / 3_600_000
    yield TableFault(
        LOCK_PATH,
        f"It is held by {found.what.rstrip(',')} since {hours:.0f} h; no lock is held for so long.",
        "Take it over, and release it.",
        (Edit(LOCK_PATH, None),),
    )


def _orphans(patient: Patient, seen: bool) -> Iterator[TableFault]:
    for judged in judged_files(patient.writer, patient.now_ms, patient.wishes.older_than_ms):
        if judged.goes and judged.seen is seen:
            path = judged.file.path
            text = f"{judged.why[0].upper()}{judged.why[1:]}."
            edit = Edit(path, None, judged.why)
            yield TableFault(path, text, "Move it to the bin.", (edit,))


def _doubled(patient: Patient) -> Iterator[TableFault]:
    groups: dict[tuple[str, str, InstantTime], list[tuple[StoredFile, BaseFileName]]] = {}
    for file, name in patient.base_files:
        folder = file.path[: -len(file.name)]
        groups.setdefault((folder, name.file_id, name.instant), []).append((file, name))
    for (_, file_id, time), found in sorted(groups.items()):
        if len(found) < 2 or not patient.is_committed(time):
            continue
        paths = sorted(file.path for file, _ in found)
        named = _named(patient, time)
        ours = [path for path in paths if path in named]
        evidence = f"Group {file_id} has {len(paths)} files of instant {time}: {', '.join(paths)}."
        if len(ours) == 1:
            edits = tuple(Edit(path, None) for path in paths if path not in ours)
            text = f"Its commit names {ours[0]}: move the others to the bin."
            yield TableFault(paths[0], evidence, text, edits)
        else:
            text = f"Its commit names {len(ours)} of them, so nothing tells which one counts."
            yield TableFault(paths[0], evidence, text)


def _named(patient: Patient, time: InstantTime) -> frozenset[str]:
    """The paths that the commit of an instant names, active or archived."""
    for instant in patient.commits:
        if instant.time == time:
            metadata = patient.commit(instant)
            return frozenset(stat.path for stat in metadata.stats) if metadata else frozenset()
    for each in archived_instants(patient.storage, patient.config):
        if each.instant.time == time and each.contents is not None:
            return frozenset(stat.path for stat in each.commit().stats)
    return frozenset()


LEFTOVER_KINDS = (
    Kind(
        "heartbeat left behind",
        "spec/other_files.md O1",
        "all read the table",
        _heartbeats,
    ),
    Kind(
        "markers left behind",
        "spec/markers.md M1",
        "all read the table",
        _markers,
    ),
    Kind(
        "lock that nobody owns",
        "spec/other_files.md O2",
        "all read the table; writers wait until they give up",
        lock_faults,
    ),
    Kind(
        "two files of one group and instant",
        "spec/file_slices.md F2",
        "pyhudi reads the one that the commit names; Apache Hudi may take the other; hudi-rs fails",
        _doubled,
    ),
    Kind(
        "orphan below the timeline",
        "spec/file_slices.md F3",
        "Apache Hudi and hudi-rs read its rows as data; pyhudi may",
        lambda patient: _orphans(patient, seen=True),
    ),
    Kind(
        "orphan",
        "spec/file_slices.md F2",
        "nobody reads it",
        lambda patient: _orphans(patient, seen=False),
    ),
)
