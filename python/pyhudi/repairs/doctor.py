"""``pyhudi.doctor``: what is wrong with a table, and its repair, without Spark.

Invariants: by default nothing changes. A repair is planned and carried out under the table's lock,
while nobody writes, and what it changes can be put back (services/bin.py). A fault that cannot be
explained is told and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from pyhudi.clock import HOUR_MS, Clock, SystemClock
from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict, HudiError, TableNotFound
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableConfig, parse_table_config
from pyhudi.listing import Listing
from pyhudi.lock_options import LockOptions
from pyhudi.locks.base import TableLock
from pyhudi.locks.open import LockOpener
from pyhudi.repairs.all_kinds import KINDS
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.leftover_faults import lock_faults
from pyhudi.repairs.patient import FOLDERS, Patient, Wishes
from pyhudi.services.bin import Edit, carried_out
from pyhudi.services.orphans import OLDER_THAN_HOURS
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import timeline_of
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table, open_table
from pyhudi.transactions.heartbeat import storage_now_ms
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.recovery.settle import is_write
from pyhudi.transactions.recovery.undoing import check_undoing
from pyhudi.transactions.writer import Writer

BY: Final = "doctor"
#: a repair may show a fault that another one hid
ROUNDS: Final = 20
EXPIRE: Final = "hoodie.write.lock.filesystem.expire"
EXPIRE_MINUTES: Final = "60"
LOCK: Final = next(kind for kind in KINDS if kind.find is lock_faults)

Opener = Callable[[LockOptions, Table], TableLock]


class Treatment(str, Enum):
    """What the doctor does about a fault."""

    REPAIRED = "repaired"
    WOULD_BE = "would be repaired"
    LEFT = "not repaired"
    UNJUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A fault of a table, its evidence, what readers see, and its repair.

    ``about`` is a file or an instant, ``rule`` the rule of the format that is broken. If
    ``treatment`` is ``LEFT``, ``repair`` says what people can do; with ``UNJUDGED`` nothing tells
    whether there is a fault, and ``evidence`` says why. ``bin`` is what to give to ``put_back``.
    """

    kind: str
    about: str
    evidence: str
    reads: str
    rule: str
    treatment: Treatment
    repair: str
    bin: str = ""


def doctor(
    path: str,
    *,
    dry_run: bool = True,
    read_files: bool = False,
    forget_lost: bool = False,
    older_than_hours: float = OLDER_THAN_HOURS,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Diagnosis]:
    """What is wrong with the table at ``path``, and with ``dry_run=False`` its repair.

    Without Spark. ``read_files`` looks into the data files as well. ``forget_lost`` lets commits
    forget data files that are gone for good: their rows are lost, and readers see that no more.
    What is younger than ``older_than_hours`` may be somebody's work and stays. ``put_back`` undoes
    a repair. ``options`` must name the lock of the table's writers; ``hadoop_options`` are
    ``fs.s3a.*`` settings. Errors: ``TableNotFound``, ``UnsupportedTable``, ``LockTimeout``,
    ``CommitConflict`` for a repair while others write.
    """
    clock = SystemClock()

    def storage(root: str) -> Storage:
        return open_storage(root, hadoop_options or {}, clock)

    def lock(said: LockOptions, table: Table) -> TableLock:
        return LockOpener(clock, storage).open(said, table.config.name, table.storage)

    wishes = Wishes(read_files, forget_lost, int(older_than_hours * HOUR_MS), options or {})
    return Visit(storage(path), clock, lock, wishes).diagnoses(dry_run)


@dataclass(frozen=True, slots=True)
class Visit:
    """One look at a table: its storage, the clock, and how its lock is opened."""

    storage: Storage
    clock: Clock
    opener: Opener
    wishes: Wishes

    def diagnoses(self, dry_run: bool) -> Listing[Diagnosis]:
        """``doctor`` of an open storage."""
        if dry_run:
            # The storage's clock is not asked, since that puts a file.
            patient = self._patient(self.clock.now_ms())
            return Listing(Diagnosis, (_told(*each) for each in _faults(patient)))
        done = self._lock_taken_over()
        for _ in range(ROUNDS):
            repaired, left = self._round()
            done += repaired
            if not repaired:
                break
        return Listing(Diagnosis, [*done, *left])

    def _lock_taken_over(self) -> list[Diagnosis]:
        """Take over and release a lock file that nobody owns; nothing of it is kept."""
        now_ms = storage_now_ms(self.storage, self.clock)
        found = [fault for fault in lock_faults(self._patient(now_ms)) if fault.edits]
        if not found:
            return []
        writer = self._patient(now_ms, expire=True).writer
        with writer.locked():
            return [replace(_told(LOCK, each), treatment=Treatment.REPAIRED) for each in found]

    def _round(self) -> tuple[list[Diagnosis], list[Diagnosis]]:
        """Repair what can be repaired now; that, and what is left."""
        writer = self._patient(0).writer
        with writer.locked():
            patient = self._patient(storage_now_ms(self.storage, self.clock), writer)
            faults = [each for each in _faults(patient) if each[0] is not LOCK]
            chosen = _apart(faults)
            if not chosen:
                return [], [_told(*each, left=True) for each in faults]
            edits = [edit for _, fault in chosen for edit in fault.edits]
            _refuse_pending(patient, edits)
            names = ", ".join(dict.fromkeys(kind.name for kind, _ in chosen))
            name = carried_out(patient.writer, f"{BY}: {names}", edits)
        done = [_told(kind, fault, name) for kind, fault in chosen]
        return done, [_told(*each, left=True) for each in faults if each not in chosen]

    def _patient(self, now_ms: int, writer: Writer | None = None, expire: bool = False) -> Patient:
        table, config = self._opened()
        writer = self._writer(table, expire) if writer is None else writer.on(table)
        return Patient(writer, config, now_ms, self.wishes)

    def _writer(self, table: Table, expire: bool) -> Writer:
        options = dict(self.wishes.options)
        if expire:
            options.setdefault(EXPIRE, EXPIRE_MINUTES)
        resolved = resolve_write(options, table.config.raw, {})
        policy = writer_policy(resolved, table, self.clock)
        return Writer(table, self.opener(resolved.lock, table), self.clock, policy)

    def _opened(self) -> tuple[Table, TableConfig | None]:
        """The table; without its facts if the properties cannot be read.

        ``TableNotFound`` if nothing here is a table.
        """
        try:
            table = open_table(self.storage)
            return table, table.config
        except TableNotFound:
            if not any(_commits(self.storage, layout) for layout in FOLDERS):
                raise
        except HudiError:
            if not any(map(self.storage.exists, (PROPERTIES, BACKUP))):
                raise
        return Table(self.storage, _assumed()), None


def _commits(storage: Storage, layout: int) -> int:
    folder = FOLDERS[layout]
    return len(timeline_of(storage.list(folder), layout, folder).commits)


def _assumed() -> TableConfig:
    """Facts of a table whose properties cannot be read: no more than the lock needs."""
    raw = new_table_properties(
        name="unknown",
        version=9,
        record_key_fields=[],
        partition_fields=[],
        ordering_fields=[],
        merge_mode=MergeMode.COMMIT_TIME_ORDERING,
        key_generator=KeyGenerator.NON_PARTITION,
        extra={},
    )
    return replace(parse_table_config(render_properties(raw), PROPERTIES), raw={})


def _faults(patient: Patient) -> list[tuple[Kind, TableFault]]:
    found = []
    for kind in KINDS:
        if not (kind.closed or patient.is_open):
            continue
        found += [(kind, fault) for fault in _looked(kind, patient)]
    return found


def _looked(kind: Kind, patient: Patient) -> Iterator[TableFault]:
    """The faults of a kind; one that says so if another fault keeps us from looking."""
    try:
        yield from kind.find(patient)
    except HudiError as e:
        text = "Repair the other faults first, then look again."
        yield TableFault(patient.storage.root, f"This was not looked for: {e}", text)


def _apart(faults: Iterable[tuple[Kind, TableFault]]) -> list[tuple[Kind, TableFault]]:
    """Those with edits of which no two change the same file: the later one waits for a round."""
    taken: set[str] = set()
    found = []
    for kind, fault in faults:
        paths = {edit.path for edit in fault.edits}
        if paths and not paths & taken:
            taken |= paths
            found.append((kind, fault))
    return found


def _refuse_pending(patient: Patient, edits: Iterable[Edit]) -> None:
    """``CommitConflict`` if a write or a restore is pending that ``edits`` do not take away."""
    if not patient.is_open:
        return
    table = patient.writer.table
    gone = {edit.path for edit in edits if edit.data is None}
    pending = [
        i
        for i in patient.timeline.pending
        if not {f.path for f in patient.files_of(i.time)} & gone
        and is_write(table, patient.timeline, i)
    ]
    if pending:
        named = ", ".join(f"{i.action.value} {i.time}" for i in pending)
        raise CommitConflict(
            f"The table {table.storage.root} cannot be repaired while writes are pending: {named}. "
            "Nothing was changed. Wait for them, or roll dead ones back with pyhudi clean "
            "--failed-writes, and repair again.",
            theirs=pending[0].time,
            overlap=tuple(i.time for i in pending),
        )
    with suppress(FileNotFoundError):
        check_undoing(table, patient.timeline, "A repair", None)


def _told(kind: Kind, fault: TableFault, name: str = "", left: bool = False) -> Diagnosis:
    treatment = Treatment.WOULD_BE if fault.edits and not left else Treatment.LEFT
    if name:
        treatment = Treatment.REPAIRED
    elif not fault.judged:
        treatment = Treatment.UNJUDGED
    told = (fault.about, fault.evidence, kind.reads, kind.rule)
    return Diagnosis(kind.name, *told, treatment, fault.repair, name)
