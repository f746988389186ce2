"""The conflict check at commit: every instant that completed since the write loaded the timeline.

The check is a set difference, whatever the instants' times (DESIGN.md, "The conflict check").
Where nothing has completed, nothing is read.
"""

from __future__ import annotations

import json

from pyhudi.errors import CommitConflict, WriteFailed
from pyhudi.format.commit_metadata import SCHEMA_KEY
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import parse_requested_replace
from pyhudi.format.schemas import avro_to_spark
from pyhudi.timeline.active import COMMITS, InstantKey, Timeline, instant_key
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts import Footprint, Group, footprint_of, judge

RETRY = "Nothing of this write is visible. Run it again: it then starts from the new state."


def check_conflicts(
    table: Table,
    loaded: Timeline,
    now: Timeline,
    instant: InstantTime,
    ours: Footprint,
    schema: str | None = None,
) -> None:
    """``CommitConflict`` (ours, theirs, overlap) where a commit since ``loaded`` overlaps.

    ``schema`` is the table schema (Avro JSON) that our commit would declare. ``WriteFailed``
    where a pending clustering is about to rewrite a group that we changed.
    """
    check_clustering(table, now, instant, ours)
    before, after = loaded.keys(), now.keys()
    _check_vanished(before - after, now, instant)
    new = [i for i in now.completed if instant_key(i) not in before]
    for theirs in new:
        if theirs.action is Action.RESTORE:
            raise CommitConflict(
                f"{ours.who} and restore {theirs.time} conflict: the table was set back while "
                f"this write ran. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=("table",),
            )
        if theirs.action not in COMMIT_ACTIONS:
            continue
        metadata = COMMITS.get(table.storage, now, theirs)
        verdict = judge(ours, footprint_of(theirs, metadata, bool(ours.buckets)))
        if verdict.conflict:
            raise CommitConflict(
                f"{verdict.explain()}. {theirs.time} was first. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=verdict.overlap,
            )
        _check_schema(instant, ours, schema, theirs, metadata.extra.get(SCHEMA_KEY))
    if now.layout == 1:
        _check_newest(now, instant, ours)


def _check_vanished(gone: frozenset[InstantKey], now: Timeline, instant: InstantTime) -> None:
    """A completed instant that vanished was rolled back, unless it is old enough for archival."""
    first = now.first_time
    undone = sorted(
        t for t, action in gone if action in COMMIT_ACTIONS and (not first or t > first)
    )
    if undone:
        raise CommitConflict(
            f"Commit {undone[0]}, on which write {instant} was built, was rolled back meanwhile. "
            f"{RETRY}",
            ours=instant,
            theirs=undone[0],
            overlap=tuple(undone),
        )


def _check_schema(
    instant: InstantTime, ours: Footprint, mine: str | None, theirs: Instant, other: str | None
) -> None:
    """The schema of the commit with the greatest time is the table's: it must hold both."""
    if mine is None or other is None or mine == other:
        return
    kept, dropped = _columns(mine), _columns(other)
    if theirs.time > instant:
        kept, dropped = dropped, kept
    changed = tuple(name for name, kind in dropped.items() if kept.get(name) != kind)
    if changed:
        raise CommitConflict(
            f"{ours.who} and commit {theirs.time}, which was first, declare different schemas: "
            f"{', '.join(changed)}. {RETRY}",
            ours=instant,
            theirs=theirs.time,
            overlap=changed,
        )


def _columns(schema: str) -> dict[str, object]:
    return {f["name"]: f["type"] for f in avro_to_spark(json.loads(schema))["fields"]}


def check_clustering(table: Table, now: Timeline, instant: InstantTime, ours: Footprint) -> None:
    """``WriteFailed`` where a clustering is pending over a group that we changed.

    Its result replaces the group as it was when it was planned, so the change would be lost;
    Hudi's writers refuse such an update as well.
    """
    for pending in now.pending:
        if pending.action not in (Action.CLUSTERING, Action.REPLACECOMMIT):
            continue
        if pending.time == instant:
            continue
        planned = _clustered_groups(table, now, pending)
        both = sorted(ours.updated & planned)
        if both:
            raise WriteFailed(
                f"{ours.who} changed file groups that the pending clustering {pending.time} is "
                f"about to rewrite: {', '.join(f'{p}/{g}' for p, g in both[:5])}. Nothing of this "
                "write is visible. Let Apache Hudi complete or roll back the clustering, then "
                "run it again.",
                ours=instant,
                theirs=pending.time,
                overlap=tuple(both),
            )


def _clustered_groups(table: Table, now: Timeline, pending: Instant) -> frozenset[Group]:
    path = now.file_of(Instant(pending.time, pending.action, State.REQUESTED))
    try:
        plan = parse_requested_replace(table.storage.read(path), path).clustering_plan
    except FileNotFoundError:  # it has settled since the listing, or lost its plan
        return frozenset()
    groups = plan.input_groups if plan is not None else ()
    return frozenset((s.partition_path, s.file_id) for g in groups for s in g.slices)


def _check_newest(now: Timeline, instant: InstantTime, ours: Footprint) -> None:
    """Layout 1 orders by requested time alone: an older instant must not complete late."""
    later = [i.time for i in now.commits if i.time > instant]
    if later:
        raise CommitConflict(
            f"{ours.who} is older than commit {later[0]}, which has completed; in a version 6 "
            f"table, readers that follow instant times would miss it. {RETRY}",
            ours=instant,
            theirs=later[0],
            overlap=(later[0],),
        )
