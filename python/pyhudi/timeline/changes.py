"""What changed in a table between two of its states, by partition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyhudi.slices.files import BaseFile


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """One partition whose files differ; rows are None if only the files themselves have them."""

    partition: str
    files_added: int
    files_removed: int
    rows_before: int | None
    rows_after: int | None
    bytes_before: int
    bytes_after: int


def partition_changes(
    before: Iterable[BaseFile], after: Iterable[BaseFile]
) -> list[PartitionChange]:
    """The partitions whose base files are not the same, in the order of their paths."""
    old, new = _by_partition(before), _by_partition(after)
    found = []
    for partition in sorted(old.keys() | new.keys()):
        was, now = old.get(partition, {}), new.get(partition, {})
        if was.keys() != now.keys():
            found.append(
                PartitionChange(
                    partition,
                    len(now.keys() - was.keys()),
                    len(was.keys() - now.keys()),
                    rows_of(was.values()),
                    rows_of(now.values()),
                    sum(file.size_bytes for file in was.values()),
                    sum(file.size_bytes for file in now.values()),
                )
            )
    return found


def rows_of(files: Iterable[BaseFile]) -> int | None:
    """The number of rows in ``files``; None if a file's is not known."""
    counts = [file.rows for file in files]
    return None if any(count < 0 for count in counts) else sum(counts)


def _by_partition(files: Iterable[BaseFile]) -> dict[str, dict[str, BaseFile]]:
    found: dict[str, dict[str, BaseFile]] = {}
    for file in files:
        found.setdefault(file.partition_path, {})[file.path] = file
    return found
