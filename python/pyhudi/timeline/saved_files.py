"""The data files that a table's savepoints keep."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.instants import Action, InstantTime
from pyhudi.format.plans import parse_savepoint
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table


def saved_files(table: Table, timeline: Timeline) -> Iterator[tuple[InstantTime, str, str]]:
    """The savepoint, the partition and the name of each file that is kept.

    ``TableCorrupt`` if a savepoint cannot be read.
    """
    for instant in timeline.completed:
        if instant.action is Action.SAVEPOINT:
            path = timeline.file_of(instant)
            saved = parse_savepoint(table.storage.read(path), path)
            for part in saved.partition_metadata.values():
                for name in part.savepoint_data_file:
                    yield instant.time, part.partition_path, name
