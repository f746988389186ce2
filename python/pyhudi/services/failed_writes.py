"""Rolls failed writes back on demand, and reports the outcome of each.

Invariant: this makes no decisions of its own. It settles failed writes as a writer does when it
begins, and dead clusterings as the next clustering does; and it compares the timeline before and
after.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from enum import Enum

from pyhudi.clock import Clock, SystemClock
from pyhudi.config import FailedWrites, WriteOptions, resolve_write
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import RollbackMetadata
from pyhudi.locks.base import TableLock
from pyhudi.locks.open import LockOpener
from pyhudi.services.dead_clusterings import own_clusterings, roll_back_dead
from pyhudi.services.query_savepoints import end_query_savepoints
from pyhudi.storage.base import Storage
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.heartbeat import GIVEN_UP, ended_process, last_beat_ms, last_words
from pyhudi.transactions.leases import living_leases
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.recovery.rollback import read_metadata
from pyhudi.transactions.recovery.settle import is_write, last_sign_ms, settle_failed_writes
from pyhudi.transactions.recovery.temporaries import sweep_temporaries
from pyhudi.transactions.recovery.undoing import pending_restore
from pyhudi.transactions.writable import refuse_writes_to
from pyhudi.transactions.writer import Writer

POLICY_KEYS = ("hoodie.clean.failed.writes.policy", "hoodie.cleaner.policy.failed.writes")


class Outcome(str, Enum):
    """The outcome of a pending instant."""

    ROLLED_BACK = "rolled back"
    FINISHED = "rollback finished"
    COMMITTED = "committed meanwhile"
    ALIVE = "alive: left alone"
    NOT_OURS = "not a write of pyhudi's: left alone"
    NEVER = "policy NEVER: left alone"
    WOULD_GO = "would be rolled back"
    WOULD_END = "its rollback would be finished"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """An instant that was pending, and its outcome.

    ``silent_ms`` is the age of its heartbeat, None without a heartbeat. ``rollback`` is the instant
    that undid it, ``files_deleted`` the number of data files that this deleted. ``why`` is told of
    what would be done.
    """

    instant: InstantTime
    action: Action
    state: State
    outcome: Outcome
    silent_ms: int | None = None
    rollback: InstantTime | None = None
    files_deleted: int = 0
    why: str = ""


def settle_and_tell(
    writer: Writer, forced: Container[InstantTime] = ()
) -> tuple[PendingWrite, ...]:
    """Settle failed writes, those of ``forced`` though their writers may live; clusterings too.

    Returns one entry for each instant that was pending before.
    """
    table, clock, policy = writer.table, writer.clock, writer.policy
    before = table.timeline()
    silent = {i.time: _silent_ms(table, clock, i) for i in before.pending}
    writes = {i.time for i in before.pending if is_write(table, before, i)}
    writes |= set(own_clusterings(table, before))
    settle_failed_writes(writer, forced)
    if policy.failed_writes is not FailedWrites.NEVER:
        roll_back_dead(writer, forced)
        sweep_temporaries(table, clock, everywhere=True)
        end_query_savepoints(writer)
        living_leases(table.storage, clock)  # which deletes those of queries that died
    after = table.timeline()
    undone = _rollbacks(table, before, after)
    left = Outcome.NEVER if policy.failed_writes is FailedWrites.NEVER else Outcome.ALIVE
    found = []
    for instant in before.pending:
        outcome = _outcome(instant, after, left if instant.time in writes else Outcome.NOT_OURS)
        rollback, metadata = undone.get(instant.time, (None, None))
        found.append(
            PendingWrite(
                instant=instant.time,
                action=instant.action,
                state=instant.state,
                outcome=outcome,
                silent_ms=silent[instant.time],
                rollback=rollback,
                files_deleted=metadata.total_files_deleted if metadata else 0,
            )
        )
    return tuple(found)


def foreseen(writer: Writer, forced: Container[InstantTime] = ()) -> tuple[PendingWrite, ...]:
    """What ``settle_and_tell`` would do with each pending instant; nothing changes.

    Heartbeats are compared with the clock of this machine, since the storage's takes a put.
    """
    table = writer.table
    timeline = table.timeline()
    restore = pending_restore(table, timeline)
    own = set(own_clusterings(table, timeline))
    found = []
    for instant in timeline.pending:
        if restore is not None:
            outcome, why = Outcome.NOT_OURS, f"restore {restore.time} is pending and undoes it"
        elif instant.time in own or is_write(table, timeline, instant):
            outcome, why = _foreseen_of(writer, instant, instant.time in own)
            if outcome is Outcome.ALIVE and instant.time in forced:
                outcome, why = Outcome.WOULD_GO, f"by force, though {why}"
        elif instant.action is Action.ROLLBACK:
            never = writer.policy.failed_writes is FailedWrites.NEVER
            outcome, why = Outcome.NEVER if never else Outcome.WOULD_END, "it has not completed"
        else:
            outcome, why = Outcome.NOT_OURS, ""
        silent_ms = _silent_ms(table, writer.clock, instant)
        action, state = instant.action, instant.state
        found.append(PendingWrite(instant.time, action, state, outcome, silent_ms, why=why))
    return tuple(found)


def _foreseen_of(writer: Writer, instant: Instant, is_clustering: bool) -> tuple[Outcome, str]:
    """Whether a pending write, or clustering of ours, is dead, and how that is known."""
    storage, policy = writer.table.storage, writer.policy
    if policy.failed_writes is FailedWrites.NEVER:
        return Outcome.NEVER, ""
    words = last_words(storage, instant.time)
    if words == GIVEN_UP:
        return Outcome.WOULD_GO, "its writer has given up"
    if (ended := ended_process(words, policy.heartbeat)) is not None:
        return Outcome.WOULD_GO, f"its process {ended.pid} on this machine has ended"
    beat, lapse_s = last_beat_ms(storage, instant.time), policy.heartbeat.lapse_ms / 1000
    if beat is None and (is_clustering or policy.failed_writes is FailedWrites.EAGER):
        return Outcome.WOULD_GO, "it has no heartbeat"
    silent_s = (writer.clock.now_ms() - last_sign_ms(writer.table, instant)) / 1000
    why = f"its last sign of life is {max(0.0, silent_s):.0f} s old; {lapse_s:g} s are allowed"
    return Outcome.WOULD_GO if silent_s > lapse_s else Outcome.ALIVE, why


def _outcome(instant: Instant, after: Timeline, if_pending: Outcome) -> Outcome:
    is_rollback = instant.action is Action.ROLLBACK
    now = after.at(instant.time)
    if any(i.state is State.COMPLETED for i in now):
        return Outcome.FINISHED if is_rollback else Outcome.COMMITTED
    return if_pending if now else Outcome.ROLLED_BACK


def _silent_ms(table: Table, clock: Clock, instant: Instant) -> int | None:
    beat = last_beat_ms(table.storage, instant.time)
    return None if beat is None else max(0, clock.now_ms() - beat)


def _rollbacks(
    table: Table, before: Timeline, after: Timeline
) -> dict[InstantTime, tuple[InstantTime, RollbackMetadata]]:
    """The instants that were undone since ``before``, each with its rollback and metadata."""
    found = {}
    for instant in after.since(before):
        if instant.action is Action.ROLLBACK:
            metadata = read_metadata(table, after, instant)
            if metadata is not None:
                for target in metadata.commits_rollback:
                    found[InstantTime(target)] = (instant.time, metadata)
    return found


def clean_failed_writes(
    path: str,
    *,
    dry_run: bool = False,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
    force: Container[InstantTime] = (),
) -> tuple[PendingWrite, ...]:
    """Roll back the failed writes of the table at ``path``, without Spark.

    Returns one entry for each instant that was pending; living writers are left alone. The policy
    is LAZY unless ``options`` set another: EAGER waits until heartbeats are renewed or stale, NEVER
    only reports. With ``dry_run`` nothing changes. ``options`` are those of a write, and must name
    the lock that the table's writers use; ``hadoop_options`` are ``fs.s3a.*`` settings. The
    instants ``force`` are rolled back though their writers may live; such a writer fails with
    ``WriterFenced`` when it would commit. Errors: ``TableNotFound``, ``UnsupportedTable``,
    ``ConfigError``, ``LockTimeout``.
    """
    clock = SystemClock()

    def storage(root: str) -> Storage:
        return open_storage(root, hadoop_options or {}, clock)

    def lock(table: Table, resolved: WriteOptions) -> TableLock:
        opener = LockOpener(clock, storage)
        return opener.open(resolved.lock, table.config.name, table.storage)

    return settle_now(open_table(storage(path)), lock, clock, options or {}, {}, force, dry_run)


def lazy_unless_told(options: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """``options``, by which a service waits for no writer unless they name a policy."""
    given = dict(options)
    if not any(key.lower() in POLICY_KEYS for key in (*options, *session)):
        given[POLICY_KEYS[0]] = FailedWrites.LAZY.value
    return given


def settle_now(
    table: Table,
    lock: Callable[[Table, WriteOptions], TableLock],
    clock: Clock,
    options: Mapping[str, str],
    session: Mapping[str, str],
    force: Container[InstantTime] = (),
    dry_run: bool = False,
) -> tuple[PendingWrite, ...]:
    """``clean_failed_writes`` with the clock, the locks and the settings of an application."""
    refuse_writes_to(table)
    resolved = resolve_write(lazy_unless_told(options, session), table.config.raw, session)
    policy = writer_policy(resolved, table, clock)
    writer = Writer(table, lock(table, resolved), clock, policy)
    return foreseen(writer, force) if dry_run else settle_and_tell(writer, force)
