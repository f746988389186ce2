"""Nothing live is deleted: every file that a reader needs is there.

Without cleaners that is every file that a completed commit names, and with them the newest of each
file group and what a savepoint keeps. What a query's lease keeps, the query itself misses.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.plans import parse_savepoint
from pyhudi.timeline.table import open_table
from tests.simulation.logs import named_log
from tests.simulation.world import Run


def nothing_live_is_deleted(run: Run) -> Iterator[str]:
    for observation in run.observations:
        if observation.error:
            yield f"a reader failed: {observation.error}"
            return
    for path, time in _needed(run):
        if not run.files.exists(path):
            yield f"{path} of commit {time} is gone"
    for path, time in _saved(run):
        if not run.files.exists(path):
            yield f"{path} is gone, which savepoint {time} keeps"


def _needed(run: Run) -> Iterator[tuple[str, InstantTime]]:
    newest: dict[tuple[str, str], tuple[str, InstantTime]] = {}
    for fact in run.truth.live:
        for stat in fact.metadata.stats:
            if not run.scenario.services:
                yield stat.path, fact.time
            if named_log(stat.path) is None:
                newest[stat.partition_path, stat.file_id] = stat.path, fact.time
    if not run.scenario.services:
        return
    replaced = {
        (partition, file_id)
        for fact in run.truth.live
        for partition, ids in (fact.metadata.replaced or {}).items()
        for file_id in ids
    }
    yield from (found for group, found in newest.items() if group not in replaced)
    for fact in run.truth.live:
        for stat in fact.metadata.stats:
            log, group = named_log(stat.path), (stat.partition_path, stat.file_id)
            if log is None or group in replaced:
                continue
            # In layout 1 the name of a log says its slice, else the completion of its commit.
            end = fact.completed if log.instant == fact.time else log.instant
            if end >= newest.get(group, ("", ""))[1]:
                yield stat.path, fact.time


def _saved(run: Run) -> Iterator[tuple[str, InstantTime]]:
    timeline = open_table(run.files).timeline()
    for instant in timeline.completed:
        if instant.action is Action.SAVEPOINT:
            path = timeline.file_of(instant)
            saved = parse_savepoint(run.files.read(path), path)
            for partition, kept in saved.partition_metadata.items():
                for name in kept.savepoint_data_file:
                    yield f"{partition}/{name}", instant.time
