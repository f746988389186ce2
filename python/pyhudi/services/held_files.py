"""The files that savepoints and pending plans keep, whatever their age."""

from __future__ import annotations

from pyhudi.format.instants import Action
from pyhudi.services.clean_plan import Hold
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.pending import COMPACTING, planned_clusterings, planned_compactions
from pyhudi.timeline.saved_files import saved_files
from pyhudi.timeline.table import Table


def held_files(table: Table, timeline: Timeline) -> dict[tuple[str, str], Hold]:
    """(partition path, name) of each such file, and what keeps it.

    A savepoint keeps the files that it names, and those that a query as of its commit reads: of a
    commit that began before, and completed after the savepoint was put. ``TableCorrupt`` if a
    savepoint cannot be read.
    """
    found: dict[tuple[str, str], Hold] = {}
    for time, partition, name in saved_files(table, timeline):
        found[partition, name] = Hold(time, f"savepoint {time} keeps it")
    for time in (i.time for i in timeline.completed if i.action is Action.SAVEPOINT):
        for file in (f for each in table.view(timeline).existing_slices(time) for f in each.files):
            if file.instant <= time:
                place = file.partition_path, file.name
                found.setdefault(place, Hold(time, f"savepoint {time} keeps it"))
    for instant, requested in planned_clusterings(table, timeline):
        plan = requested.clustering_plan
        groups = plan.input_groups if plan is not None else ()
        for slice_ in (each for group in groups for each in group.slices):
            why = f"clustering {instant.time} is to rewrite it"
            for path in (slice_.data_file_path, *slice_.delta_file_paths):
                place = slice_.partition_path, path.rpartition("/")[2]
                found.setdefault(place, Hold(instant.time, why))
    for instant, compaction in planned_compactions(table, timeline, COMPACTING):
        why = f"{instant.action.value} {instant.time} is to merge it"
        for operation in compaction.operations:
            for path in (operation.data_file_path or "", *operation.delta_file_paths):
                place = operation.partition_path, path.rpartition("/")[2]
                found.setdefault(place, Hold(instant.time, why))
    return found
