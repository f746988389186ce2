"""Early conflict detection: a look at the markers of running writes before data is written.

A write that finds a running write on its file groups gives up while that is cheap. The look proves
nothing, since the other's markers may come a moment later: the check at the commit decides.
"""

from __future__ import annotations

from pyhudi.clock import Clock
from pyhudi.errors import CommitConflict
from pyhudi.format.filenames import LogFileName, parse_data_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import Footprint, Group, group_names
from pyhudi.transactions.heartbeat import HeartbeatPolicy, last_beat_ms
from pyhudi.transactions.markers.markers import marked_files
from pyhudi.transactions.recovery.rollback import WRITES


def check_running(
    table: Table,
    clock: Clock,
    heartbeat: HeartbeatPolicy,
    now: Timeline,
    instant: InstantTime,
    ours: Footprint,
    logs_pass: bool = False,
) -> None:
    """``CommitConflict`` if a living write of ``now`` has a marker for one of our groups.

    Where ours only adds logs, their logs are none (``comparison.let_logs_pass``): ``logs_pass``.
    """
    for pending in now.pending:
        if pending.time == instant or pending.action not in WRITES:
            continue
        beat = last_beat_ms(table.storage, pending.time)
        if beat is None or clock.now_ms() - beat >= heartbeat.lapse_ms:
            continue
        logged = ours.logged if logs_pass else frozenset()
        both = ours.updated & _marked_groups(table.storage, pending.time, logged)
        if both:
            names = group_names(both)
            raise CommitConflict(
                f"{ours.who} and the running write {pending.time} change the same file groups: "
                f"{', '.join(names[:5])}. This one gave up before it wrote data "
                "(hoodie.write.concurrency.early.conflict.detection.enable). Nothing of it is "
                "visible. Run it again once the other has ended.",
                ours=instant,
                theirs=pending.time,
                overlap=names,
            )


def _marked_groups(
    storage: Storage, instant: InstantTime, logged: frozenset[Group]
) -> frozenset[Group]:
    """The groups of marked files, but for logs of the groups ``logged``."""
    found = set()
    for path in marked_files(storage, instant) or ():
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file_name(name)
        if parsed is None:
            continue
        group = partition, parsed.file_id
        if not (isinstance(parsed, LogFileName) and group in logged):
            found.add(group)
    return frozenset(found)
