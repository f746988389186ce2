"""What waits or was left in a table: pending instants and their owners, locks, markers.

It only reads: even the storage's clock is not asked, since that puts a file. So ages are by this
machine's clock, and a line that warns is to be looked at, not acted on by a program.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.clock import Clock
from pyhudi.diagnosis.measure import (
    CLEAN,
    COMPACT,
    FAILED_WRITES,
    LOG_COMPACT,
    RESTORE,
    Measure,
    by_hudi,
    judged,
)
from pyhudi.errors import HudiError, StorageError
from pyhudi.format.instants import Action, Instant, InstantTime, parse_time
from pyhudi.format.markers import FOLDER as MARKERS
from pyhudi.locks.filesystem import LOCK_PATH
from pyhudi.locks.lock_file import parse_lock_file
from pyhudi.locks.storage_lock import PATH as CONDITIONAL_LOCK
from pyhudi.locks.storage_lock import StorageRegister
from pyhudi.storage.base import VersionedStorage
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.timeline.pending import Work, work_of
from pyhudi.timeline.table import Table
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import GIVEN_UP, HeartbeatPolicy, ended_process
from pyhudi.transactions.metadata_table import FOLDER as METADATA_TABLE
from pyhudi.transactions.processes import parse_process

#: a service's plan that nobody has carried out for so long, and a lock that is held for so long
LATE_PLAN_S, LONG_HELD_S = 3_600, 600
#: pending instants that get a line each
MOST_LISTED = 20

_MENDS = {
    Action.CLEAN: CLEAN,
    Action.CLUSTERING: by_hudi("CALL run_clustering(table => 'TABLE', op => 'execute')"),
    Action.COMPACTION: COMPACT,
    Action.LOGCOMPACTION: LOG_COMPACT,
    Action.INDEXING: by_hudi("its indexer finishes or drops the plan"),
    Action.RESTORE: RESTORE,
    Action.ROLLBACK: FAILED_WRITES,
    Action.SAVEPOINT: by_hudi("CALL create_savepoint(table => 'TABLE', commit_time => '...')"),
}


def pending(
    table: Table, timeline: Timeline, clock: Clock, policy: HeartbeatPolicy
) -> Iterator[Measure]:
    """The number of pending instants, then a line for each of the oldest: its owner, its age."""
    found = timeline.pending
    detail = f"{len(found)} instants are requested or inflight." if found else "Nothing waits."
    if len(found) > MOST_LISTED:
        detail += f" The oldest {MOST_LISTED} are listed."
    yield judged("pending instants", len(found), "instants", False, detail, "")
    signs = _signs_ms(table)
    for instant in found[:MOST_LISTED]:
        yield _pending(table, timeline, instant, signs.get(instant.time), clock, policy)


def _signs_ms(table: Table) -> dict[str, int]:
    """When each instant was last heard of: its heartbeat, or the newest of its files."""
    found: dict[str, int] = {}
    for file in table.storage.list(table.config.timeline_folder):
        time = file.name.partition(".")[0].partition("_")[0]
        found[time] = max(found.get(time, 0), file.modified_ms)
    for file in table.storage.list(HEARTBEATS):
        found[file.name] = max(found.get(file.name, 0), file.modified_ms)
    return found


def _pending(
    table: Table,
    timeline: Timeline,
    instant: Instant,
    sign_ms: int | None,
    clock: Clock,
    policy: HeartbeatPolicy,
) -> Measure:
    work = work_of(table, timeline, instant)
    action = Action.CLUSTERING if work is Work.CLUSTERING else instant.action
    silent_s = None if sign_ms is None else max(0, clock.now_ms() - sign_ms) / 1_000
    owner, ended = _owner(table, instant.time, policy)
    is_service = action in _MENDS
    late_s = LATE_PLAN_S if is_service else policy.lapse_ms / 1_000
    warn = ended or (silent_s is not None and silent_s > late_s)
    detail = f"{instant.time} is {instant.state.value}; {owner}."
    mend = _MENDS.get(action, FAILED_WRITES)
    if action is Action.LOGCOMPACTION and table.config.layout == 1:
        mend = by_hudi("its writer finishes log compactions")
    return judged(f"pending {action.value}", silent_s, "s silent", warn, detail, mend)


def _owner(table: Table, time: InstantTime, policy: HeartbeatPolicy) -> tuple[str, bool]:
    """Who has an instant in hand, and whether that process has ended or given the instant up."""
    try:
        words = table.storage.read(f"{HEARTBEATS}/{time}")
    except (FileNotFoundError, StorageError):
        return "no heartbeat names its owner", False
    if words == GIVEN_UP:
        return "its owner has given it up, and could not roll it back", True
    process = parse_process(words)
    if process is None:
        return "its owner's heartbeat is there, without a name, as Apache Hudi leaves it", False
    ended = ended_process(words, policy) is not None
    state = ", which has ended" if ended else ""
    return f"its owner is process {process.pid} on {process.host}{state}", ended


def lock(table: Table, clock: Clock) -> Iterator[Measure]:
    """Who holds the table's lock, if it is a file; lock services are not asked."""
    held = [*_lock_file(table), *_conditional_lock(table)]
    if not held:
        detail = "No lock file is held. Locks in ZooKeeper, DynamoDB and metastores are not asked."
        yield judged("lock", 0, "s held", False, detail, "")
    for path, who, since_ms in held:
        age_s = None if since_ms is None else max(0, clock.now_ms() - since_ms) / 1_000
        warn = age_s is None or age_s > LONG_HELD_S
        mend = f"Look for the holder. If it is dead and no writer runs, delete {path}."
        yield judged("lock", age_s, "s held", warn, f"{path} is held by {who}.", mend)


def _lock_file(table: Table) -> Iterator[tuple[str, str, int | None]]:
    try:
        found = parse_lock_file(table.storage.read(LOCK_PATH))
    except (FileNotFoundError, StorageError):
        return
    since_ms = found.since_ms
    if found.owner is None:
        files = table.storage.list(LOCK_PATH.rpartition("/")[0])
        since_ms = next((f.modified_ms for f in files if f.path == LOCK_PATH), None)
    yield LOCK_PATH, str(found.owner or found.what.rstrip(",")), since_ms


def _conditional_lock(table: Table) -> Iterator[tuple[str, str, int | None]]:
    if isinstance(table.storage, VersionedStorage):
        try:
            found = StorageRegister(table.storage).read()
        except StorageError:
            return
        if found is not None and not found.free:
            yield CONDITIONAL_LOCK, str(found.owner or found.what), found.since_ms


def left_behind(
    table: Table, timeline: Timeline, clock: Clock, policy: HeartbeatPolicy
) -> Iterator[Measure]:
    """Markers and heartbeats of instants that are not pending any more."""
    running = {i.time for i in timeline.pending}
    folders = table.storage.list_folders(MARKERS)
    markers = [name for f in folders if _is_old(name := f.rpartition("/")[2], running)]
    now_ms, utc = clock.now_ms(), table.config.utc
    markers = [name for name in markers if now_ms - _begun_ms(name, utc) > policy.lapse_ms]
    beats = [
        file.name
        for file in table.storage.list(HEARTBEATS)
        if _is_old(file.name, running) and now_ms - file.modified_ms > policy.lapse_ms
    ]
    for what, names in (("marker folders", markers), ("heartbeats", beats)):
        some = ", ".join(sorted(names)[:3])
        detail = f"Of instants that have ended: {some}." if names else "None."
        yield judged(f"{what} left behind", len(names), "", bool(names), detail, FAILED_WRITES)


def _is_old(name: str, running: set[InstantTime]) -> bool:
    return name.isdecimal() and name not in running


def _begun_ms(time: str, utc: bool) -> int:
    try:
        return parse_time(InstantTime(time), utc)
    except ValueError:
        return 0


def metadata_table(table: Table, timeline: Timeline) -> Measure:
    """Whether Hudi's metadata table is on, and in step with the commits."""
    on = table.config.metadata_partitions
    if not on:
        detail = "off: readers list the folders, which no writer can leave stale."
        return judged("metadata table", None, "", False, detail, "")
    layout = table.config.layout
    folder = f"{METADATA_TABLE}/.hoodie" + ("/timeline" if layout == 2 else "")
    mend = (
        "The next commit of pyhudi switches it off, and one of Apache Hudi with "
        "hoodie.metadata.enable=true makes it again."
    )
    try:
        known = {i.time for i in timeline_of(table.storage.list(folder), layout, folder).completed}
    except HudiError as e:
        return judged("metadata table", None, "commits behind", True, str(e), mend)
    newest = max(known, default=InstantTime(""))
    behind = [i.time for i in timeline.commits if i.time > newest]
    detail = f"on, with {', '.join(on)}; its newest instant is {newest or 'none'}."
    if behind:
        detail += " Readers that use it miss the rows of later commits."
    return judged("metadata table", len(behind), "commits behind", bool(behind), detail, mend)
