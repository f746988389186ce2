"""The conflict check at commit: every instant that completed since the write loaded the timeline.

The check is a set difference, in which times do not count (ARCHITECTURE.md, "Where each guard
lives"). If nothing has completed, nothing is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyhudi.choices import ConflictRule, SchemaConflicts
from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import planned_clusterings
from pyhudi.timeline.schema import schema_of, table_schema
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.clustering_plans import groups_of, yields
from pyhudi.transactions.conflicts.comparison import (
    STRATEGIES,
    Footprint,
    Strategy,
    footprint_of,
)
from pyhudi.transactions.conflicts.meanwhile import RETRY, Meanwhile, conflict_if_gone
from pyhudi.transactions.conflicts.schema_conflicts import same_schema, settled
from pyhudi.transactions.recovery.undoing import check_undoing

#: looks at one commit that came between
TheirCheck = Callable[[Instant, CommitMetadata], None]


def check_conflicts(
    table: Table,
    loaded: Timeline,
    now: Timeline,
    instant: InstantTime,
    ours: Footprint,
    strategy: Strategy = STRATEGIES[ConflictRule.SIMPLE],
    check_theirs: TheirCheck | None = None,
) -> None:
    """``CommitConflict`` (ours, theirs, overlap) if a commit since ``loaded`` overlaps.

    Restores, and rollbacks of completed commits, conflict with every write, pending ones included.
    ``check_theirs`` sees each new commit that does not overlap, and may raise as well.
    So does a pending clustering that is about to rewrite a group that we changed.
    """
    if strategy.gives_way:
        check_clustering(table, now, instant, ours)
    check_undoing(table, now, ours.who, instant)
    meanwhile = Meanwhile(table, loaded, now)
    _check_restores(loaded, now, instant, ours)
    _check_undone(meanwhile, instant)
    for theirs, metadata in meanwhile.commits():
        verdict = strategy.compare(ours, footprint_of(theirs, metadata, bool(ours.buckets)))
        if verdict.conflict:
            raise CommitConflict(
                f"{verdict.explain()}. {theirs.time} was first. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=verdict.overlap,
            )
        if check_theirs is not None:
            check_theirs(theirs, metadata)
    if now.layout == 1:
        _check_newest(now, instant, ours)


def _check_restores(loaded: Timeline, now: Timeline, instant: InstantTime, ours: Footprint) -> None:
    gone = {i.time for i in loaded.pending} - {i.time for i in now.instants}
    vanished = [i for i in loaded.pending if i.time in gone]
    for theirs in (*now.since(loaded), *vanished):
        if theirs.action is Action.RESTORE:
            raise CommitConflict(
                f"{ours.who} and restore {theirs.time} conflict: the table was set back while "
                f"this write ran. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=("table",),
            )


def _check_undone(meanwhile: Meanwhile, instant: InstantTime) -> None:
    """A completed instant that vanished was rolled back, unless the archive has it."""
    undone = meanwhile.undone()
    if undone:
        raise CommitConflict(
            f"Commit {undone[0]}, on which write {instant} was built, was rolled back meanwhile. "
            f"{RETRY}",
            ours=instant,
            theirs=undone[0],
            overlap=tuple(undone),
        )


def declared_schema(
    table: Table,
    loaded: Timeline,
    now: Timeline,
    instant: InstantTime,
    schema: str | None,
    rule: SchemaConflicts,
) -> str | None:
    """The schema (Avro JSON) that our commit declares, for the ``schema`` that it was made with.

    ``SchemaConflict`` by ``rule``. ``CommitConflict`` if ours would not become the table's schema,
    since another commit has a greater instant time, and if the commit that declared the schema of
    ``loaded`` is archived by now.
    """
    if schema is None or loaded.keys() == now.keys():
        return schema
    ours = SparkSchema.of_avro(json.loads(schema))
    with conflict_if_gone():
        before, current = table_schema(table, loaded, None), table_schema(table, now, None)
    declared = settled(rule, before, current, ours)
    for theirs in now.commits:
        if theirs.time < instant:
            continue
        other = schema_of(table, now, theirs)
        if other is not None and not same_schema(other, declared):
            raise CommitConflict(
                f"Write {instant} and commit {theirs.time}, which was first, declare different "
                f"schemas, and readers follow the later instant. {RETRY}",
                ours=instant,
                theirs=theirs.time,
                overlap=("schema",),
            )
    if same_schema(declared, ours):
        return schema
    return declared.declaration(table.config.name)


def check_clustering(table: Table, now: Timeline, instant: InstantTime, ours: Footprint) -> None:
    """``CommitConflict`` if a clustering is pending over a group that we changed.

    Its result replaces the group as it was when it was planned, so the change would be lost;
    Hudi's writers refuse such an update as well. A retry helps once the clustering has ended. A
    clustering of pyhudi yields, and is no conflict.
    """
    for pending, requested in planned_clusterings(table, now, instant):
        both = sorted(ours.updated & groups_of(requested))
        if both and not yields(requested):
            raise CommitConflict(
                f"{ours.who} and clustering {pending.time} conflict: the clustering is pending, "
                f"and about to rewrite file groups that the write changed: "
                f"{', '.join(f'{p}/{g}' for p, g in both[:5])}. {RETRY} That helps once the "
                "clustering has ended. If the program that ran it is dead, let Apache Hudi run "
                "the clustering (run_clustering) or roll it back.",
                ours=instant,
                theirs=pending.time,
                overlap=tuple(both),
                pending=True,
            )


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
