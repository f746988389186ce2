"""What both ways of a grouped write share: new file ids and the workload profile."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.writes.placement.assign import Assignment
from pyhudi.writes.write_context import Write


def new_file_id(write: Write) -> FileId:
    """A file id drawn on the driver."""
    return FileId(f"{write.runtime.clock.uuid()}-0")


def workload(
    write: Write, assignment: Assignment, updates: Mapping[int, int], inserts: Mapping[str, int]
) -> CommitMetadata:
    """The profile as Hudi leaves it in the inflight file (spec/timeline.md T5)."""
    stats = [
        WriteStat(FileId(""), "", partition, num_inserts=count)
        for partition, count in sorted(inserts.items())
    ]
    for ordinal, count in updates.items():
        group = assignment.groups[ordinal]
        if group.base_instant is not None:  # a new one has no file before
            stats.append(
                WriteStat(
                    FileId(group.file_id),
                    "",
                    group.partition_path,
                    prev_commit=group.base_instant,
                    num_updates=count,
                )
            )
    return CommitMetadata(operation=write.operation.value.upper(), stats=tuple(stats))
