"""What the simulated processes run: writers as the planner has them, a cleaner, a reader.

A base file is the JSON of its rows: key to the list of those who changed it, oldest first. A
write adds its name to the rows that it changes, so that the rows tell which writes they have seen
and in which order. Everything else is the product's own code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from pyhudi.clock import Clock
from pyhudi.errors import CommitConflict, CommitUnknown, HistoryExpired, HudiError, TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId, bucket_file_id
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    RequestedReplace,
    render_requested_replace,
)
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.slices.files import BaseFile
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.states import adding_action
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.time_travel import check_history
from pyhudi.transactions.conflicts.comparison import Footprint, buckets_of
from pyhudi.transactions.conflicts.judgement import TheirCheck
from pyhudi.transactions.instants import take_time
from pyhudi.transactions.markers.marker_log import Batching
from pyhudi.transactions.markers.marker_service import MarkerService
from pyhudi.transactions.markers.markers import delete_markers
from pyhudi.transactions.recovery.settle import settle_failed_writes
from pyhudi.transactions.times.times import next_time
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.simulation.data_files import Mark, put_marked, token_of
from tests.simulation.logs import snapshot

PARTITION = "p"
BACKOFF_S = 0.05
MOST_WAITS = 20

Rows = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Machine:
    """What a process has: its way to the table, its lock handle, its clock.

    ``groups`` gives a hand for locks of file groups, where the table is one of pessimistic writers.
    ``markers`` are those of all writes of the process; without them each file has a direct one.
    ``wait_for`` returns when no process of that name lives.
    """

    storage: Storage
    lock: TableLock
    clock: Clock
    step: Callable[[], int]
    wait_for: Callable[[str], None]
    groups: Callable[[], GroupLocks] | None = None
    markers: MarkerService | None = None

    def alone(self, path: str, time: InstantTime, data: bytes) -> None:
        """Put a file of an instant whose time nothing has at that moment; ``FileExists``."""
        self.storage.put_alone(path, time, data)  # type: ignore[attr-defined]

    def writer(self, table: Table, policy: WriterPolicy) -> Writer:
        """The process as a writer of ``table``."""
        return Writer(table, self.lock, self.clock, policy)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Rows that were read from the table, and the state in which they were."""

    rows: Rows
    since: Timeline


class Program(Protocol):
    """What one process does; its result is kept with how it ended."""

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> object: ...


@dataclass(frozen=True, slots=True)
class Upsert:
    """Change ``keys``, those that are nowhere being added; ``buckets`` make a bucket table.

    ``checks_keys``: compare new keys with those of commits that came between, at the place where
    ``writes/key_conflicts.py`` does it with Spark; ``comparing_s`` is how long one takes.
    """

    keys: tuple[str, ...]
    retries: int = 1
    buckets: int = 0
    checks_keys: bool = True
    comparing_s: float = 0.0

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> Committed:
        """The loop of ``writes/write.py``: a lost race is written again as a new instant.

        A pessimistic write that only waited its turn goes on with its locks in hand.
        """
        lost = 0
        with hand_of(machine) as groups:
            for _ in range(self.retries + MOST_WAITS + 1):
                try:
                    return self._attempt(machine, who, policy, groups)
                except CommitConflict as conflict:
                    if conflict.before_data:
                        continue
                    if lost == self.retries:
                        raise
                except HistoryExpired as expired:
                    # As ``writes/write.py`` has it: the table moved on while it was listed.
                    if lost == self.retries or not expired.moved:
                        raise
                machine.clock.sleep(BACKOFF_S * 2**lost)
                lost += 1
        raise AssertionError("unreachable")

    def _attempt(
        self, machine: Machine, who: str, policy: WriterPolicy, groups: GroupLocks | None
    ) -> Committed:
        table = open_table(machine.storage)
        read = self._evaluated(machine)
        since = read.since if read is not None else None
        transaction = Transaction.begin(
            machine.writer(table, policy),
            adding_action(table.config),
            "upsert",
            groups,
            since,
        )
        mark = _marking(transaction, machine)
        with transaction:
            stats = self._write(transaction, machine, who, mark, read)
            transaction.seal(lambda timeout_s: True, [s.path for s in stats])
            metadata = CommitMetadata(operation="UPSERT", stats=stats, extra={"writer": who})
            ours = self._footprint(transaction, metadata)
            return self._commit(transaction, machine, metadata, ours)

    def _footprint(self, transaction: Transaction, metadata: CommitMetadata) -> Footprint:
        """What the write has changed, to be compared with others."""
        return footprint_of(transaction, metadata.stats, self.buckets > 0)

    def _commit(
        self,
        transaction: Transaction,
        machine: Machine,
        metadata: CommitMetadata,
        ours: Footprint,
    ) -> Committed:
        return transaction.commit(metadata, ours, self._check(transaction, machine, metadata))

    def _check(
        self, transaction: Transaction, machine: Machine, metadata: CommitMetadata
    ) -> TheirCheck | None:
        """What compares new keys, where that is asked for."""
        if not self.checks_keys or self.buckets:
            return None
        return _key_check(transaction, machine, metadata.stats, self.comparing_s)

    def _evaluated(self, machine: Machine) -> Evaluated | None:
        """What the rows are computed from, where that is the table itself."""
        return None

    def _write(
        self,
        transaction: Transaction,
        machine: Machine,
        who: str,
        mark: Mark | None,
        read: Evaluated | None,
    ) -> tuple[WriteStat, ...]:
        """Tag, assign, merge, mark and write, as the planner and its workers do."""
        view = transaction.table.view(transaction.timeline)
        view.check()
        files = view.latest(partitions=[PARTITION])
        transaction.check_targets(files)
        rows = {f: rows_of_file(machine.storage, f) for f in files}
        homes = {key: f for f in files for key in rows[f]}
        changed: dict[BaseFile, list[str]] = {}
        fresh: dict[FileId, list[str]] = {}
        for key in self.keys:
            if key in homes:
                changed.setdefault(homes[key], []).append(key)
        for key in self.keys:
            if key not in homes:
                home = self._new_home(key, files, changed, fresh, machine.clock)
                if isinstance(home, BaseFile):
                    changed.setdefault(home, []).append(key)
                else:
                    fresh.setdefault(home, []).append(key)
        transaction.check_updates(
            [(f.partition_path, f.file_id) for f in changed],
            [(PARTITION, file_id) for file_id in fresh] if self.buckets else (),
        )
        transaction.inflight(None)
        stats = []
        place = transaction.instant, machine.storage, machine.clock
        for file, keys in changed.items():
            merged = dict(rows[file])
            old = merged if read is None else read.rows
            merged.update({key: [*old.get(key, []), who] for key in keys})
            added = len(merged) - len(rows[file])
            stats.append(put_file(*place, file.file_id, merged, added, file, mark))
        for file_id, keys in fresh.items():
            new = {key: [who] for key in keys}
            stats.append(put_file(*place, file_id, new, len(new), mark=mark))
        return tuple(stats)

    def _new_home(
        self,
        key: str,
        files: list[BaseFile],
        changed: Mapping[BaseFile, list[str]],
        fresh: Mapping[FileId, list[str]],
        clock: Clock,
    ) -> BaseFile | FileId:
        """A group that is written anyway, else a new one; a bucket table's are its buckets."""
        if self.buckets:
            bucket = sum(key.encode()) % self.buckets
            number = f"{bucket:08d}"
            old = next((f for f in files if f.file_id.startswith(number)), None)
            new = next((f for f in fresh if f.startswith(number)), None)
            return old or new or bucket_file_id(bucket, clock.uuid())
        if changed:
            return next(iter(changed))
        return next(iter(fresh)) if fresh else FileId(f"{clock.uuid()}-0")


@dataclass(frozen=True, slots=True)
class Clean:
    """Roll back what dead writers left, ``times`` times, as each write does when it begins."""

    times: int = 1

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        for _ in range(self.times):
            settle_failed_writes(machine.writer(open_table(machine.storage), policy))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Rewrite all groups into one: planned under the lock, or, with that guard off, beside it.

    The services themselves are not there yet: the steps are this program's, their parts the
    product's (``take_time``, the plan, the view, the lock, and the writers' check of the plan).
    """

    locked: bool = True

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        table = open_table(machine.storage)
        owner = LockOwner.this_process(who)
        if self.locked:
            machine.lock.acquire(policy.lock_timeout_s, owner)
        try:
            files = table.view(table.timeline()).latest()
            plan = _clustering_of(files, machine.storage.root)
            time, _ = take_time(machine.writer(table, policy), Action.CLUSTERING, plan)
        finally:
            if self.locked:
                machine.lock.release()
        rows: dict[str, list[str]] = {}
        for file in files:
            rows |= rows_of_file(machine.storage, file)
        _put_instant(table, Instant(time, Action.CLUSTERING, State.INFLIGHT), b"")
        group = FileId(f"{machine.clock.uuid()}-0")
        stat = put_file(time, machine.storage, machine.clock, group, rows)
        replaced = {PARTITION: tuple(f.file_id for f in files)}
        metadata = CommitMetadata("CLUSTER", (stat,), {}, replaced)
        machine.lock.acquire(policy.lock_timeout_s, owner)
        try:
            completion = next_time(machine.clock, table.timeline(), table.config.utc)
            machine.lock.check(machine.storage.put_timeout_s)
            done = Instant(time, Action.REPLACECOMMIT, State.COMPLETED, completion)
            _put_instant(table, done, render_commit(metadata, table.config.layout))
        finally:
            machine.lock.release()
        delete_markers(machine.storage, time)


@dataclass(frozen=True, slots=True)
class ReadOnce:
    """What one read saw, and between which steps it did."""

    began: int
    ended: int
    seen: dict[str, list[list[str]]]
    error: str = ""
    refused: str = ""
    as_of: InstantTime | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Read the whole table ``times`` times, file by file.

    ``cleaned``: others delete old slices, so that a query may come too late for its files, which
    the planner tells by name (``HistoryExpired``).
    """

    times: int = 1
    cleaned: bool = False

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> list[ReadOnce]:
        return [self._once(machine) for _ in range(self.times)]

    def _once(self, machine: Machine) -> ReadOnce:
        began, error, refused = machine.step(), "", ""
        seen: dict[str, list[list[str]]] = {}
        try:
            seen = read_table(open_table(machine.storage))
        except FileNotFoundError as gone:
            if self.cleaned:
                refused = "the query's files have been cleaned"
            else:
                error = f"{gone} is not there"
        except HistoryExpired as told:
            refused = told.code()
        except TableCorrupt as told:
            error, refused = ("", told.code()) if self.cleaned else (str(told), "")
        return ReadOnce(began, machine.step(), seen, error, refused)


@dataclass(frozen=True, slots=True)
class ReadAsOf:
    """Read the table as of its ``nth`` commit before the run, ``times`` times."""

    nth: int = 1
    times: int = 1

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> list[ReadOnce]:
        table = open_table(machine.storage)
        as_of = table.timeline().commits[self.nth - 1].time
        return [self._once(machine, table, as_of) for _ in range(self.times)]

    def _once(self, machine: Machine, table: Table, as_of: InstantTime) -> ReadOnce:
        """As the planner does it: the history is looked at before and after the files."""
        began = machine.step()
        try:
            timeline = table.timeline()
            check_history(table, timeline, as_of)
            files = table.view(timeline).latest(as_of)
            seen = rows_of(machine.storage, files)
        except (HistoryExpired, TableCorrupt) as told:
            return ReadOnce(began, machine.step(), {}, refused=told.code(), as_of=as_of)
        except FileNotFoundError:
            return ReadOnce(began, machine.step(), {}, refused="cleaned", as_of=as_of)
        return ReadOnce(began, machine.step(), seen, as_of=as_of)


def read_table(table: Table) -> dict[str, list[list[str]]]:
    """Key to the values of every row that has it: one, unless the key has two homes."""
    return _by_key(table.now(snapshot).rows(table.storage))


def rows_of(storage: Storage, files: list[BaseFile]) -> dict[str, list[list[str]]]:
    """The same of base files without logs."""
    return _by_key([rows_of_file(storage, file) for file in files])


def _by_key(slices: list[dict[str, list[str]]]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for rows in slices:
        for key, value in rows.items():
            found.setdefault(key, []).append(value)
    return found


def outcome_of(error: BaseException | None) -> str:
    """How a program ended: ``done``, ``unknown``, ``died`` or the error's name."""
    if error is None:
        return "done"
    if isinstance(error, CommitUnknown):
        return "unknown"
    return error.code() if isinstance(error, HudiError) else "died"


def hand_of(machine: Machine) -> AbstractContextManager[GroupLocks | None]:
    """The hand for locks of file groups that a write holds from its begin, if it is pessimistic."""
    return nullcontext() if machine.groups is None else machine.groups()


def rows_of_file(storage: Storage, file: BaseFile) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(storage.read(file.path))
    return found


def _marking(transaction: Transaction, machine: Machine) -> Mark | None:
    """How a write's markers come to be, where all writes of the process share a service."""
    if machine.markers is None:
        return None
    opened = machine.markers.open(machine.storage, transaction.instant, Batching(interval_ms=0))
    transaction.keep_markers(opened)
    return lambda path, kind: opened.ask([Marker(path, kind).render()]).result(0)


def put_file(
    time: InstantTime,
    storage: Storage,
    clock: Clock,
    file_id: FileId,
    rows: Rows,
    added: int = 0,
    old: BaseFile | None = None,
    mark: Mark | None = None,
    token: str = "",
) -> WriteStat:
    """One task writes one file: marker first, then the file under a token of its own."""
    path = f"{PARTITION}/{BaseFileName(file_id, token or token_of(clock), time).render()}"
    kind = MarkerKind.CREATE if old is None else MarkerKind.MERGE
    data = json.dumps(dict(rows)).encode()
    put_marked(time, storage, path, kind, data, mark)
    return WriteStat(
        file_id=file_id,
        path=path,
        partition_path=PARTITION,
        prev_commit=old.instant if old else None,
        num_writes=len(rows),
        num_inserts=added,
        file_size_bytes=len(data),
    )


def footprint_of(
    transaction: Transaction, stats: tuple[WriteStat, ...], bucketed: bool = False
) -> Footprint:
    """What a write has changed, and what it has added."""
    groups = {(s.partition_path, s.file_id) for s in stats}
    old = {(s.partition_path, s.file_id) for s in stats if s.prev_commit}
    return Footprint(
        who=f"upsert {transaction.instant}",
        updated=frozenset(old),
        created=frozenset(groups - old),
        buckets=buckets_of(groups) if bucketed else frozenset(),
    )


def _key_check(
    transaction: Transaction, machine: Machine, stats: tuple[WriteStat, ...], comparing_s: float
) -> TheirCheck:
    """``CommitConflict`` where a file that took new rows in has a key of one of theirs."""

    def keys_of(found: tuple[WriteStat, ...]) -> set[str]:
        files = [stat.path for stat in found if stat.num_inserts]
        return {key for path in files for key in json.loads(machine.storage.read(path))}

    def check(theirs: Instant, metadata: CommitMetadata) -> None:
        if comparing_s:
            machine.clock.sleep(comparing_s)
        both = sorted(keys_of(stats) & keys_of(metadata.stats))
        if both:
            raise CommitConflict(
                f"{transaction.instant} and {theirs.time} both brought {', '.join(both)}.",
                ours=transaction.instant,
                theirs=theirs.time,
                overlap=tuple(both),
            )

    return check


def _put_instant(table: Table, instant: Instant, data: bytes) -> None:
    name = instant_file_name(instant, table.config.layout)
    table.storage.put_if_absent(f"{table.config.timeline_folder}/{name}", data)


def _clustering_of(files: list[BaseFile], root: str) -> bytes:
    slices = tuple(
        ClusteringSlice(f"{root}/{f.path}", (), f.file_id, f.partition_path) for f in files
    )
    plan = ClusteringPlan((ClusteringGroup(slices),))
    return render_requested_replace(RequestedReplace("CLUSTER", plan))
