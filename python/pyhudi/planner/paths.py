"""Partition paths that come from data or options."""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.format.keys import check_partition_path


def check_partition_paths(paths: Iterable[str]) -> None:
    """``InvalidRecord`` for a path that would leave the table or hide in its metadata."""
    for path in paths:
        check_partition_path(path)


def delete_pattern_matches(pattern: str, partition: str) -> bool:
    """Whether ``hoodie.datasource.write.partitions.to.delete`` names ``partition``."""
    if pattern.endswith("*"):
        return partition.startswith(pattern[:-1])
    return partition == pattern
