"""What Apache Hudi's services have in common: locks, instants, slices, and the undoing of a commit.

The order of the steps is that of Apache Hudi 1.2.0: of ``CleanActionExecutor``,
``BaseRollbackActionExecutor``, ``BaseRestoreActionExecutor``, ``SavepointActionExecutor`` and
``TimelineArchiverV1`` and ``V2``. Files and their contents are those of docs/spec. None of it is
pyhudi's own protocol: Hudi looks at no lease once it has a lock, and lists a table but once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pyhudi.errors import FileExists, StorageError
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    parse_rollback_plan,
    parse_savepoint,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.locks.base import LockOwner
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.markers.markers import delete_markers
from pyhudi.transactions.times.times import next_time
from tests.simulation.programs import Machine

HEARTBEATS = ".hoodie/.heartbeat"
WRITES = frozenset({Action.COMMIT, Action.REPLACECOMMIT, Action.CLUSTERING})
#: of these Hudi's cleaner and archiver mind what is pending
MINDED = WRITES | {Action.DELTACOMMIT, Action.COMPACTION}
Group = tuple[str, FileId]
#: how the name of a service ends that is run once more
AGAIN = " again"


@dataclass(frozen=True, slots=True)
class Slice:
    """A base file of a group, as a listing shows it."""

    group: Group
    path: str
    time: InstantTime

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(slots=True)
class Steps:
    """One run of a service on one table.

    ``locked``: whether Hudi was given a lock provider; without one it takes none.
    ``whole_puts``: the store shows a file whole or not at all, which HDFS and local disk do not.
    """

    machine: Machine
    who: str
    lock_timeout_s: float
    locked: bool = True
    whole_puts: bool = True
    table: Table = field(init=False)

    def __post_init__(self) -> None:
        self.table = open_table(self.machine.storage)

    @property
    def label(self) -> str:
        """Who this is, be it run for the first time or again."""
        return self.who.removesuffix(AGAIN)

    # -- the timeline --------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hudi's transaction: the lock is held, and never looked at again."""
        if not self.locked:
            yield
            return
        self.machine.lock.acquire(self.lock_timeout_s, LockOwner.this_process(self.who))
        try:
            yield
        finally:
            self.machine.lock.release()

    def path(self, instant: Instant) -> str:
        name = instant_file_name(instant, self.table.config.layout)
        return f"{self.table.config.timeline_folder}/{name}"

    def put(self, instant: Instant, data: bytes) -> None:
        """The instant's next file, which must not be there yet."""
        self.create(self.path(instant), data)

    def create(self, path: str, data: bytes) -> None:
        storage = self.machine.storage
        if self.whole_puts:
            storage.put_if_absent(path, data)
            return
        storage.put_if_absent(path, b"")
        if data:
            storage.replace(path, data)

    def request(self, action: Action, data: bytes) -> InstantTime:
        """A new instant; its time comes from the clock, and lies above what was listed.

        A real clock has moved on since; here time stands still while nobody waits, so a time that
        another action has taken meanwhile is given up, too.
        """
        for _ in range(10):
            time = self.now(self.table.timeline())
            with suppress(FileExists):
                self.machine.alone(self.path(Instant(time, action, State.REQUESTED)), time, data)
                return time
        raise AssertionError("no instant time is free")

    def now(self, timeline: Timeline) -> InstantTime:
        return next_time(self.machine.clock, timeline, self.table.config.utc)

    def complete(self, time: InstantTime, action: Action, data: bytes) -> None:
        """The completed file; the completion time is drawn as it is written."""
        completion = self.now(self.table.timeline())
        self.put(Instant(time, action, State.COMPLETED, completion), data)

    def delete(self, instant: Instant) -> None:
        self.machine.storage.delete([self.path(instant)])

    # -- files ---------------------------------------------------------------------------------

    def slices(self, timeline: Timeline) -> dict[Group, list[Slice]]:
        """The visible slices of each group, newest first: the listing comes after the timeline."""
        done = {i.time for i in timeline.commits}
        first = timeline.first_time
        found: dict[Group, list[Slice]] = {}
        for one in self._files():
            if one.time in done or (first is not None and one.time < first):
                found.setdefault(one.group, []).append(one)
        return {g: sorted(s, key=lambda one: one.time, reverse=True) for g, s in found.items()}

    def files_at(self, time: InstantTime) -> list[Slice]:
        """Every base file that bears this instant."""
        return [one for one in self._files() if one.time == time]

    def _files(self) -> Iterator[Slice]:
        for file in self.machine.storage.walk(""):
            name = parse_base_file_name(file.path.rsplit("/", 1)[-1])
            if name is not None and not file.path.startswith(".hoodie/"):
                partition = file.path.rpartition("/")[0]
                yield Slice((partition, name.file_id), file.path, name.instant)

    def replaced(self, timeline: Timeline) -> dict[Group, InstantTime]:
        """Which completed replacecommit took a group away."""
        found: dict[Group, InstantTime] = {}
        for instant in timeline.commits:
            metadata = COMMITS.get(self.machine.storage, timeline, instant)
            for partition, ids in (metadata.replaced or {}).items():
                found |= dict.fromkeys(((partition, i) for i in ids), instant.time)
        return found

    def saved_files(self, timeline: Timeline) -> set[str]:
        """Names of the files that savepoints keep."""
        found: set[str] = set()
        for instant in timeline.completed:
            if instant.action is Action.SAVEPOINT:
                path = timeline.file_of(instant)
                saved = parse_savepoint(self.machine.storage.read(path), path)
                for partition in saved.partition_metadata.values():
                    found.update(partition.savepoint_data_file)
        return found

    # -- undoing -------------------------------------------------------------------------------

    def plan_rollback(self, target: Instant) -> tuple[InstantTime, RollbackPlan]:
        """``rollback.requested`` with what a listing shows of the target, whatever its state."""
        root = self.machine.storage.root
        found = [] if target.state is State.REQUESTED else self.files_at(target.time)
        requests = tuple(
            RollbackRequest(one.group[0], one.group[1], target.time, (f"{root}/{one.path}",))
            for one in found
        )
        plan = RollbackPlan(InstantInfo(target.time, target.action.value), requests)
        return self.request(Action.ROLLBACK, render_rollback_plan(plan)), plan

    def undo(self, time: InstantTime, plan: RollbackPlan, publish: bool) -> None:
        """Carry a planned rollback out; a restore does not publish its own.

        The target's completed file goes first, so that it is pending while its files go.
        """
        storage = self.machine.storage
        info = plan.instant_to_rollback
        assert info is not None
        if not self.has(Instant(time, Action.ROLLBACK, State.INFLIGHT)):
            self.put(Instant(time, Action.ROLLBACK, State.INFLIGHT), b"")
        targets = [i for i in self.table.timeline().at(info.commit_time) if i.action in WRITES]
        for target in targets:
            if target.state is State.COMPLETED:
                self._revert_to_inflight(target)
        doomed = [uri.rsplit("/", 1)[-1] for r in plan.requests for uri in r.files_to_be_deleted]
        for request in plan.requests:
            for uri in request.files_to_be_deleted:
                storage.delete([f"{request.partition_path}/{uri.rsplit('/', 1)[-1]}"])
        # An earlier run of it may have deleted the target already.
        if publish:
            with self.lock():
                if targets:
                    self._delete_pending(info)
                self.complete(time, Action.ROLLBACK, _told(time, info, len(doomed)))
        elif targets:
            self._delete_pending(info)
        delete_markers(storage, info.commit_time)

    def _revert_to_inflight(self, target: Instant) -> None:
        for state in (State.REQUESTED, State.INFLIGHT):
            if not self.has(Instant(target.time, target.action, state)):
                self.put(Instant(target.time, target.action, state), b"")
        self.delete(target)

    def _delete_pending(self, info: InstantInfo) -> None:
        """Delete the target's last files; an error where another has done so meanwhile."""
        action = Action(info.action)
        mine = [i for i in self.table.timeline().at(info.commit_time) if i.action is action]
        if not mine:
            raise StorageError(f"Could not delete instant {info.commit_time}.")
        for state in (State.INFLIGHT, State.REQUESTED):
            self.delete(Instant(info.commit_time, action, state))

    def has(self, instant: Instant) -> bool:
        return self.machine.storage.exists(self.path(instant))

    def pending(self, timeline: Timeline, action: Action) -> list[Instant]:
        return [i for i in timeline.pending if i.action is action]

    def rollback_plan(self, rollback: Instant) -> RollbackPlan | None:
        """What a pending rollback is about; None where its plan is torn or gone."""
        path = self.path(Instant(rollback.time, Action.ROLLBACK, State.REQUESTED))
        try:
            data = self.machine.storage.read(path)
        except FileNotFoundError:
            return None
        return parse_rollback_plan(data, path) if data else None


def _told(time: InstantTime, info: InstantInfo, deleted: int) -> bytes:
    return render_rollback_metadata(
        RollbackMetadata(
            start_rollback_time=time,
            time_taken_in_millis=0,
            total_files_deleted=deleted,
            commits_rollback=(info.commit_time,),
            partition_metadata={},
            instants_rollback=(info,),
        )
    )
