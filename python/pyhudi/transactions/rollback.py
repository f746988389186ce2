"""Rolling back writes that failed: an instant of its own, under the lock, restartable by anyone.

Invariants: a completed instant is never rolled back here; a writer whose heartbeat lives is left
alone; data files go first, then the failed instant's own files, and the rollback completes last,
so that a crash in between leaves a pending rollback which the next writer finishes. A failed file
must be gone before its instant is, or readers would take it for archived data (FORMAT.md 2.4).
"""

from __future__ import annotations

import logging
from typing import Protocol

from pyhudi.clock import Clock
from pyhudi.config import FailedWrites
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import (
    Action,
    Instant,
    InstantTime,
    State,
    instant_file_name,
)
from pyhudi.format.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    parse_requested_replace,
    parse_rollback_plan,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import HeartbeatPolicy, last_beat_ms
from pyhudi.transactions.markers import delete_files, delete_markers, files_of
from pyhudi.transactions.times import next_time

log = logging.getLogger(__name__)

POLL_S = 0.1
#: actions whose pending instants a writer may roll back; services have their own rules
WRITES = frozenset({Action.COMMIT, Action.REPLACECOMMIT})


class Policy(Protocol):
    """The part of a writer's policy that rollback needs."""

    @property
    def heartbeat(self) -> HeartbeatPolicy: ...
    @property
    def failed_writes(self) -> FailedWrites: ...
    @property
    def lock_timeout_s(self) -> float: ...


def settle_failed_writes(table: Table, lock: TableLock, clock: Clock, policy: Policy) -> None:
    """Roll back what dead writers left, and finish rollbacks that were left half done.

    EAGER: an instant without a heartbeat at once, one with a heartbeat once that is stale; this
    waits until the heartbeat is either stale or renewed. LAZY: only what is stale already.
    """
    if policy.failed_writes is FailedWrites.NEVER:
        return
    timeline = table.timeline()
    for instant in timeline.pending:
        if instant.action is Action.ROLLBACK:
            _finish(table, lock, clock, policy, instant)
    for instant in timeline.pending:
        if _is_write(table, timeline, instant) and _is_dead(table, clock, policy, instant):
            log.warning("rolling back %s %s, which failed", instant.action.value, instant.time)
            roll_back(table, lock, clock, policy, instant.time)


def _is_write(table: Table, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is a write; a clustering of layout 1 only looks like one."""
    if instant.action not in WRITES:
        return False
    if instant.action is Action.COMMIT or timeline.layout == 2:
        return True
    requested = Instant(instant.time, instant.action, State.REQUESTED)
    path = f"{timeline.folder}/{instant_file_name(requested, timeline.layout)}"
    try:
        return parse_requested_replace(table.storage.read(path), path).clustering_plan is None
    except FileNotFoundError:
        return True


def _is_dead(table: Table, clock: Clock, policy: Policy, instant: Instant) -> bool:
    beat = last_beat_ms(table.storage, instant.time)
    lapse_ms = policy.heartbeat.lapse_ms
    if beat is None:
        if policy.failed_writes is FailedWrites.EAGER:
            return True
        beat = _requested_ms(table, instant)
    if clock.now_ms() - beat >= lapse_ms:
        return True
    if policy.failed_writes is FailedWrites.LAZY:
        return False
    log.warning(
        "%s %s is pending and its writer last beat %d ms ago: waiting until it beats again (then "
        "it lives and is left alone) or until %d ms of silence (then it is rolled back)",
        instant.action.value,
        instant.time,
        clock.now_ms() - beat,
        lapse_ms,
    )
    give_up = clock.monotonic() + lapse_ms / 1000
    while clock.monotonic() < give_up:
        clock.sleep(POLL_S)
        now = last_beat_ms(table.storage, instant.time)
        if now is None:
            # The writer has settled by itself; if it has not, it is dead without a beat.
            return any(i.state is not State.COMPLETED for i in table.timeline().at(instant.time))
        if now != beat:
            return False
        if clock.now_ms() - beat >= lapse_ms:
            return True
    return True


def _requested_ms(table: Table, instant: Instant) -> int:
    """When the instant's newest file was written: the beat of a writer that has none yet."""
    files = table.storage.list(table.config.timeline_folder)
    return max((f.modified_ms for f in files if f.name.startswith(instant.time)), default=0)


def roll_back(
    table: Table, lock: TableLock, clock: Clock, policy: Policy, time: InstantTime
) -> None:
    """Roll back the pending write ``time``; nothing where it has settled meanwhile."""
    lock.acquire(policy.lock_timeout_s, LockOwner.this_process(time))
    try:
        timeline = table.timeline()
        target = [i for i in timeline.at(time) if i.action in WRITES]
        if not target or target[0].state is State.COMPLETED:
            return
        rollback = next_time(clock, timeline, table.config.utc)
        plan = _plan(table, target[0])
        _put(table, Instant(rollback, Action.ROLLBACK, State.REQUESTED), render_rollback_plan(plan))
        _put(table, Instant(rollback, Action.ROLLBACK, State.INFLIGHT), b"")
        _execute(table, clock, rollback, plan)
    finally:
        lock.release()


def _finish(table: Table, lock: TableLock, clock: Clock, policy: Policy, rollback: Instant) -> None:
    """Complete a rollback that its writer left pending."""
    lock.acquire(policy.lock_timeout_s, LockOwner.this_process(rollback.time))
    try:
        timeline = table.timeline()
        now = [i for i in timeline.at(rollback.time) if i.action is Action.ROLLBACK]
        if not now or now[0].state is State.COMPLETED:
            return
        requested = _path(table, Instant(rollback.time, Action.ROLLBACK, State.REQUESTED))
        plan = parse_rollback_plan(table.storage.read(requested), requested)
        target = plan.instant_to_rollback
        if target is None or target.action not in {a.value for a in WRITES}:
            return
        if any(i.state is State.COMPLETED for i in timeline.at(target.commit_time)):
            # Undoing a completed commit is a restore: another tool's work, left to it.
            return
        log.warning("finishing rollback %s of %s", rollback.time, target.commit_time)
        if now[0].state is State.REQUESTED:
            _put(table, Instant(rollback.time, Action.ROLLBACK, State.INFLIGHT), b"")
        _execute(table, clock, rollback.time, plan)
    finally:
        lock.release()


def _plan(table: Table, target: Instant) -> RollbackPlan:
    requests = []
    for path in files_of(table.storage, target.time):
        partition, _, name = path.rpartition("/")
        parsed = parse_base_file_name(name)
        requests.append(
            RollbackRequest(
                partition_path=partition,
                file_id=parsed.file_id if parsed else FileId(""),
                latest_base_instant=target.time,
                files_to_be_deleted=(f"{table.storage.root}/{path}",),
            )
        )
    info = InstantInfo(target.time, target.action.value)
    return RollbackPlan(instant_to_rollback=info, requests=tuple(requests))


def _execute(table: Table, clock: Clock, rollback: InstantTime, plan: RollbackPlan) -> None:
    """Delete, in this order: data files, markers, the failed instant; then complete."""
    target = plan.instant_to_rollback
    assert target is not None
    started = clock.monotonic()
    storage = table.storage
    by_partition: dict[str, list[str]] = {}
    for request in plan.requests:
        by_partition.setdefault(request.partition_path, []).extend(request.files_to_be_deleted)
    names = {p: [f.rsplit("/", 1)[-1] for f in files] for p, files in by_partition.items()}
    delete_files(storage, (f"{p}/{n}" if p else n for p, all_ in names.items() for n in all_))
    delete_markers(storage, target.commit_time)
    action = Action(target.action)
    for state in (State.INFLIGHT, State.REQUESTED):
        storage.delete([_path(table, Instant(target.commit_time, action, state))])
    storage.delete([f"{HEARTBEATS}/{target.commit_time}"])
    metadata = RollbackMetadata(
        start_rollback_time=rollback,
        time_taken_in_millis=int((clock.monotonic() - started) * 1000),
        total_files_deleted=sum(len(files) for files in by_partition.values()),
        commits_rollback=(target.commit_time,),
        partition_metadata={
            p: RolledBackPartition(p, tuple(files)) for p, files in by_partition.items()
        },
        instants_rollback=(target,),
    )
    completion = next_time(clock, table.timeline(), table.config.utc)
    done = Instant(rollback, Action.ROLLBACK, State.COMPLETED, completion)
    _put(table, done, render_rollback_metadata(metadata))


def _path(table: Table, instant: Instant) -> str:
    return f"{table.config.timeline_folder}/{instant_file_name(instant, table.config.layout)}"


def _put(table: Table, instant: Instant, data: bytes) -> None:
    table.storage.put_if_absent(_path(table, instant), data)
