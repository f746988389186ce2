"""What a writer does about earlier ones: roll back dead writers, finish rollbacks, clean up.

Invariants: a writer whose heartbeat is fresh, by the storage's clock, is left alone, unless it has
given up, or was a process of this machine that has ended; a file is deleted only if the timeline
says that its instant has settled, since a file of an unknown instant may be archived data.
"""

from __future__ import annotations

import logging
from collections.abc import Container

from pyhudi.clock import Clock
from pyhudi.config import FailedWrites
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import FOLDER as MARKERS
from pyhudi.locks.cancelling import pause
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import Work, work_of
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import (
    GIVEN_UP,
    PROBE,
    HeartbeatPolicy,
    ended_process,
    has_passed,
    last_beat_ms,
    last_words,
    storage_now_ms,
)
from pyhudi.transactions.markers.failed_logs import staying_logs
from pyhudi.transactions.markers.markers import delete_files, delete_markers, marked_files
from pyhudi.transactions.recovery.rollback import (
    WRITES,
    delete_history,
    finish_rollback,
    roll_back,
    was_rolled_back,
)
from pyhudi.transactions.recovery.spools import sweep_spools
from pyhudi.transactions.recovery.temporaries import sweep_temporaries
from pyhudi.transactions.recovery.undoing import check_undoing, pending_restore
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

POLL_S = 0.1
#: what the JVM and the workers of a killed driver take to notice it and to end
DYING_S = 5
#: milliseconds that a writer may take from its first file to its first beat
FIRST_BEAT_MS = 2_000


def settle_failed_writes(writer: Writer, forced: Container[InstantTime] = ()) -> Timeline | None:
    """Roll back what dead writers left, and finish incomplete rollbacks.

    EAGER: an instant without a heartbeat at once, also one that was given up, or whose process on
    this machine has ended; one with a heartbeat when that is stale, and this waits until the
    heartbeat is either stale or renewed. LAZY: only what is already stale, what was given up, and
    ended processes.
    NEVER: nothing. Those of ``forced`` count as dead, whatever their heartbeats say. Returns the
    timeline if it was listed just now and nothing was pending.
    """
    table = writer.table
    if writer.policy.failed_writes is FailedWrites.NEVER:
        return None
    timeline = table.timeline()
    if (restore := pending_restore(table, timeline)) is not None:
        # Its rollbacks look like those of failed writes.
        log.warning("restore %s is pending: failed writes are left to it", restore.time)
        return None
    half_done = [i for i in timeline.pending if i.action is Action.ROLLBACK]
    for rollback in half_done:
        finish_rollback(writer, rollback.time)
    if half_done:
        timeline = table.timeline()
    for instant in timeline.pending:
        if is_write(table, timeline, instant) and (
            instant.time in forced or _is_dead(writer, instant)
        ):
            roll_back(writer, instant.time)
    sweep(writer)
    return None if half_done or timeline.pending else timeline


def settled_timeline(writer: Writer, who: str) -> Timeline:
    """The timeline on which the write ``who`` may begin, listed after failed writes were settled.

    ``CommitConflict`` if a completed commit is about to be undone.
    """
    timeline = settle_failed_writes(writer) or writer.table.timeline()
    check_undoing(writer.table, timeline, who, None)
    return timeline


def is_write(table: Table, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending instant is a write; a clustering of layout 1 only looks like one."""
    return instant.action in WRITES and work_of(table, timeline, instant) is Work.WRITE


def _is_dead(writer: Writer, instant: Instant) -> bool:
    table, clock, policy = writer.table, writer.clock, writer.policy
    beat = last_beat_ms(table.storage, instant.time)
    if beat is None:
        requested = _requested_ms(table, instant)
        if policy.failed_writes is FailedWrites.LAZY:
            return has_passed(table.storage, clock, requested, policy.heartbeat.lapse_ms)
        return _never_beats(table, clock, instant, requested)
    words = last_words(table.storage, instant.time)
    if words == GIVEN_UP:
        return True
    if (ended := ended_process(words, policy.heartbeat)) is not None:
        log.warning(
            "%s %s is pending and its writer, process %d on this host, has ended: it is rolled "
            "back in %d s",
            instant.action.value,
            instant.time,
            ended.pid,
            DYING_S,
        )
        pause(clock, DYING_S)
        return True
    if has_passed(table.storage, clock, beat, policy.heartbeat.lapse_ms):
        return True
    if policy.failed_writes is FailedWrites.LAZY:
        return False
    return _falls_silent(table, clock, policy.heartbeat, instant, beat)


def _never_beats(table: Table, clock: Clock, instant: Instant, requested_ms: int) -> bool:
    """Whether no first beat comes: a writer that has just begun gets a moment for it."""
    young_ms = FIRST_BEAT_MS - (storage_now_ms(table.storage, clock) - requested_ms)
    give_up = clock.monotonic() + min(young_ms, FIRST_BEAT_MS) / 1000
    while clock.monotonic() < give_up:
        pause(clock, POLL_S)
        if last_beat_ms(table.storage, instant.time) is not None:
            return False
    return True


def _falls_silent(
    table: Table, clock: Clock, policy: HeartbeatPolicy, instant: Instant, beat: int
) -> bool:
    """Whether a writer whose last beat was at ``beat`` stays silent for a whole lapse."""
    silent_ms = max(0, storage_now_ms(table.storage, clock) - beat)
    give_up = clock.monotonic() + (policy.lapse_ms - silent_ms) / 1000
    log.warning(
        "%s %s is pending and its writer last beat %d ms ago: waiting until it beats again (then "
        "it lives and is left alone) or until %d ms of silence (then it is rolled back)",
        instant.action.value,
        instant.time,
        silent_ms,
        policy.lapse_ms,
    )
    while clock.monotonic() < give_up:
        pause(clock, POLL_S)
        now = last_beat_ms(table.storage, instant.time)
        if now is None:
            # It has settled by itself, which the rollback will see, or it lost its heartbeat.
            return True
        if now != beat:
            return False
    return True


def _requested_ms(table: Table, instant: Instant) -> int:
    """When the instant's newest file was written: the beat of a writer that has none yet."""
    files = table.storage.list(table.config.timeline_folder)
    return max((f.modified_ms for f in files if f.name.startswith(instant.time)), default=0)


def last_sign_ms(table: Table, instant: Instant) -> int:
    """When the writer of a pending instant was last heard of, by the storage's clock."""
    beat = last_beat_ms(table.storage, instant.time)
    return max(beat or 0, _requested_ms(table, instant))


def sweep(writer: Writer) -> None:
    """Delete what settled instants left: markers, heartbeats, and files of late attempts; the
    spools of dead statements; and files that never got their names.

    An attempt of a rolled-back write may still have been uploading; its marker shows that. Its file
    must be deleted before the archive passes its instant, or readers take it for data
    (spec/file_slices.md F3).
    """
    table, clock, policy = writer.table, writer.clock, writer.policy.heartbeat
    storage = table.storage
    folders = storage.list_folders(MARKERS)
    sweep_spools(storage, clock, policy, folders)
    left = {folder.rsplit("/", 1)[-1] for folder in folders}
    beats = {file.name: file.modified_ms for file in storage.list(HEARTBEATS)}
    left |= beats.keys()
    sweep_temporaries(table, clock)
    if probes := sorted(name for name in beats if name.startswith(PROBE)):
        storage.delete([f"{HEARTBEATS}/{name}" for name in probes])
    times = sorted(InstantTime(name) for name in left if name.isdecimal())
    if not times:
        return
    # Listed after the markers: a writer requests its instant before it has markers.
    timeline, silent = table.timeline(), list[InstantTime]()
    for time in times:
        known = timeline.at(time)
        if any(i.state is not State.COMPLETED for i in known):
            continue
        if not known:
            if not was_rolled_back(table, timeline, time):
                # Its writer took another time or died before its request; or archived.
                silent += [time] if time in beats else []
                continue
            marked = marked_files(storage, time) or []
            delete_files(storage, set(marked) - staying_logs(table, marked, time))
            delete_history(storage, time)
        delete_markers(storage, time)
        storage.delete([f"{HEARTBEATS}/{time}"])
    gone = [
        t for t in silent
        if has_passed(storage, clock, beats[t], policy.lapse_ms)
        or ended_process(last_words(storage, t), policy) is not None
    ]  # fmt: skip
    storage.delete([f"{HEARTBEATS}/{time}" for time in gone])
