"""One write from its first file on the timeline to its last (DESIGN.md, "One write").

Invariants: the instant time exceeds all that was loaded and is this write's alone; nothing is
published without the lock, a live heartbeat, an instant that nobody rolled back and a timeline
without conflicts; data files are deleted only when the write is known to have failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyhudi.clock import Clock
from pyhudi.config import FailedWrites
from pyhudi.errors import (
    CommitConflict,
    CommitUnknown,
    FileExists,
    HudiError,
    StorageError,
    WriteFailed,
    WriterFenced,
)
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
    instant_file_name,
)
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.states import completed_action
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import BaseFile
from pyhudi.transactions.conflicts import Footprint
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy
from pyhudi.transactions.judgement import check_conflicts
from pyhudi.transactions.markers import delete_files, delete_markers, marked_files
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.phases import TRANSITIONS, Phase
from pyhudi.transactions.rollback import roll_back, settle_failed_writes
from pyhudi.transactions.times import next_time

log = logging.getLogger(__name__)

BEGIN_ATTEMPTS = 100
PUBLISH_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class WriterPolicy:
    """How a writer behaves beside others; times in the units of their names."""

    heartbeat: HeartbeatPolicy = field(default_factory=HeartbeatPolicy)
    failed_writes: FailedWrites = FailedWrites.EAGER
    lock_timeout_s: float = 60.0
    seal_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Committed:
    """An acknowledged commit."""

    instant: InstantTime
    completion_time: InstantTime
    metadata: CommitMetadata


class Transaction:
    """A write in progress; use ``begin`` to start one."""

    def __init__(
        self,
        table: Table,
        action: Action,
        operation: str,
        lock: TableLock,
        clock: Clock,
        policy: WriterPolicy,
    ) -> None:
        self.table = table
        self.operation = operation
        self._action = action
        self._lock = lock
        self._clock = clock
        self._policy = policy
        self.phase = Phase.NEW
        self.instant = InstantTime("")
        self.timeline: Timeline
        self._heartbeat: Heartbeat

    # -- begin ---------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls,
        table: Table,
        action: Action,
        operation: str,
        lock: TableLock,
        clock: Clock,
        policy: WriterPolicy,
    ) -> Transaction:
        """Settle failed writers, take an instant time, announce it and start the heartbeat."""
        self = cls(table, action, operation, lock, clock, policy)
        settle_failed_writes(table, lock, clock, policy)
        for _ in range(BEGIN_ATTEMPTS):
            if self._request():
                self._move(Phase.REQUESTED)
                self._heartbeat = Heartbeat(table.storage, clock, self.instant, policy.heartbeat)
                self._heartbeat.start()
                return self
        raise WriteFailed(
            f"No unused instant time was found in {BEGIN_ATTEMPTS} attempts: other writers took "
            "each of them first. Nothing was written. Try again.",
            path=table.storage.root,
        )

    def _request(self) -> bool:
        """Try one instant time; False where another writer has the same."""
        storage, config = self.table.storage, self.table.config
        before = self.table.timeline()
        self.instant = next_time(self._clock, before, config.utc)
        requested = self._name(State.REQUESTED)
        replace_action = self._action is Action.REPLACECOMMIT
        content = render_requested_replace(RequestedReplace()) if replace_action else b""
        try:
            storage.put_if_absent(requested, content)
        except FileExists:
            return False
        self.timeline = self.table.timeline()
        if len(self.timeline.at(self.instant)) > 1:
            # Another action took the same T between the two listings: both give it up.
            storage.delete([requested])
            self._clock.sleep((1 + self._clock.random_int(20)) / 1000)
            return False
        return True

    # -- write ---------------------------------------------------------------------------------

    def inflight(self, profile: CommitMetadata | None) -> None:
        """Publish the workload profile; None (a single pass) leaves the file empty."""
        data = b""
        if profile is not None:
            data = render_commit(profile, self.table.config.layout)
        self.table.storage.put_if_absent(self._name(State.INFLIGHT), data)
        self._move(Phase.INFLIGHT)

    def check_targets(self, targets: Iterable[BaseFile]) -> None:
        """``CommitConflict`` where a merge target is newer than this instant.

        A slice is read by its instant, so a merge into a newer one would be hidden by it.
        """
        newer = sorted({f.instant for f in targets if f.instant > self.instant})
        if newer:
            raise CommitConflict(
                f"{self.operation} {self.instant} would change file groups that commit "
                f"{newer[0]} has changed meanwhile with a later instant time. Nothing of this "
                "write is visible. Run it again: it then starts after that commit.",
                ours=self.instant,
                theirs=newer[0],
                overlap=tuple(newer),
            )

    def seal(self, attempts_ended: Callable[[float], bool], named: Iterable[str]) -> None:
        """Wait until no attempt writes any more, then delete marked files that nobody names.

        ``attempts_ended(timeout_s)`` tells whether every started attempt of the write stage has
        ended; ``named`` are the files of the write statistics, relative to the table.
        """
        if not attempts_ended(self._policy.seal_timeout_s):
            raise WriteFailed(
                f"Some task attempts of {self.operation} {self.instant} had not ended after "
                f"{self._policy.seal_timeout_s:.0f} s and could still write. The write was given "
                "up. Run it again; see the executors' logs for what holds them.",
                instant=self.instant,
            )
        marked = marked_files(self.table.storage, self.instant) or []
        stray = sorted(set(marked) - set(named))
        if stray:
            log.info("%s: deleting %d files of other attempts", self.instant, len(stray))
            delete_files(self.table.storage, stray)
        self._move(Phase.SEALED)

    # -- end -----------------------------------------------------------------------------------

    def commit(self, metadata: CommitMetadata, footprint: Footprint) -> Committed:
        """Resolve conflicts and publish; the outcome is committed, an error, or unknown."""
        owner = LockOwner.this_process(self.instant)
        self._lock.acquire(self._policy.lock_timeout_s, owner)
        try:
            now = self.table.timeline()
            self._check_fences(now)
            check_conflicts(self.table, self.timeline, now, self.instant, footprint)
            completion = next_time(self._clock, now, self.table.config.utc)
            self.table = drop_metadata_table(self.table)
            self._lock.check(self.table.storage.put_timeout_s)
            self._publish(completion, metadata)
        finally:
            self._release()
        self._move(Phase.COMMITTED)
        self._clean_up()
        return Committed(self.instant, completion, metadata)

    def _check_fences(self, now: Timeline) -> None:
        mine = [i for i in now.at(self.instant) if completed_action(i.action) is self._action]
        if not any(i.state is State.INFLIGHT for i in mine):
            raise WriterFenced(
                f"{self.operation} {self.instant} was rolled back by another writer, which took "
                "it for dead: its instant is gone from the timeline. Nothing of it is visible. "
                "Run the write again; raise hoodie.client.heartbeat.interval_in_ms if this "
                "writer was only slow.",
                instant=self.instant,
            )
        if self._heartbeat.lapsed():
            raise WriterFenced(
                f"{self.operation} {self.instant} has not reached the storage with a heartbeat "
                f"for {self._policy.heartbeat.lapse_ms} ms, so other writers may take it for "
                "dead. It gives up. Nothing of it is visible. Run it again.",
                instant=self.instant,
            )

    def _publish(self, completion: InstantTime, metadata: CommitMetadata) -> None:
        """Put the completed file; one name for all tries, so that a retry cannot commit twice."""
        storage = self.table.storage
        done = Instant(self.instant, self._action, State.COMPLETED, completion)
        path = f"{self.table.config.timeline_folder}/" + instant_file_name(
            done, self.table.config.layout
        )
        data = render_commit(metadata, self.table.config.layout)
        for attempt in range(PUBLISH_ATTEMPTS):
            try:
                storage.put_if_absent(path, data)
                return
            except FileExists:
                # Only this writer knows this name: an earlier try of its own had landed.
                return
            except StorageError as e:
                if e.facts.get("outcome") != "unknown":
                    raise
                log.warning("%s: no answer to the final put (try %d)", self.instant, attempt + 1)
        self._move(Phase.UNKNOWN)
        raise CommitUnknown(
            f"The final put of {self.operation} {self.instant} got no answer "
            f"{PUBLISH_ATTEMPTS} times: it may or may not have landed. Nothing was deleted. Look "
            f"for {path}: where it exists the write is committed, else the next writer rolls it "
            "back.",
            instant=self.instant,
            path=path,
        )

    def _release(self) -> None:
        try:
            self._lock.release()
        except HudiError as e:
            # The commit has been decided by the put; a lock that cannot be released expires.
            log.warning("%s: the lock could not be released: %s", self.instant, e)

    def _clean_up(self) -> None:
        try:
            delete_markers(self.table.storage, self.instant)
            self._heartbeat.stop()
        except StorageError as e:
            log.warning("%s: committed, but markers or heartbeat remain: %s", self.instant, e)

    def abort(self) -> None:
        """Undo a write that is known to have failed; never called on an unknown outcome."""
        if self.phase in (Phase.COMMITTED, Phase.UNKNOWN, Phase.NEW):
            return
        self._move(Phase.FAILED)
        try:
            roll_back(self.table, self._lock, self._clock, self._policy, self.instant)
        except HudiError as e:
            log.warning(
                "%s could not be rolled back now; the next writer will do it: %s", self.instant, e
            )
        try:
            self._heartbeat.stop()
        except StorageError as e:
            log.warning("%s: its heartbeat file remains: %s", self.instant, e)

    # -- helpers -------------------------------------------------------------------------------

    def _move(self, to: Phase) -> None:
        if to not in TRANSITIONS[self.phase]:
            raise RuntimeError(f"a transaction cannot go from {self.phase} to {to}")
        self.phase = to

    def _name(self, state: State) -> str:
        instant = Instant(self.instant, self._action, state)
        name = instant_file_name(instant, self.table.config.layout)
        return f"{self.table.config.timeline_folder}/{name}"
