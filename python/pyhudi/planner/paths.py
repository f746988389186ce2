"""Partition paths that come from data or options: checked before they become folders."""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.errors import InvalidRecord

RESERVED = ".hoodie"


def check_partition_paths(paths: Iterable[str]) -> None:
    """``InvalidRecord`` for a path that would leave the table or hide in its metadata."""
    for path in paths:
        if path == "":
            continue
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or parts[0] == RESERVED or "\0" in path:
            raise InvalidRecord(
                f"The partition path '{path}' made from the data is no folder inside the table. "
                "Correct the partition column, or make the table with "
                "hoodie.datasource.write.partitionpath.urlencode=true.",
                column="_hoodie_partition_path",
            )


def delete_pattern_matches(pattern: str, partition: str) -> bool:
    """Whether ``hoodie.datasource.write.partitions.to.delete`` names ``partition``."""
    if pattern.endswith("*"):
        return partition.startswith(pattern[:-1])
    return partition == pattern
