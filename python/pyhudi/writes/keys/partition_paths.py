"""Partition paths that come from data or options."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyhudi.format.keys import check_partition_path


def check_partition_paths(paths: Iterable[str]) -> None:
    """``InvalidRecord`` for a path that would leave the table or hide in its metadata."""
    for path in paths:
        check_partition_path(path)


def delete_pattern_matches(pattern: str, partition: str) -> bool:
    """Whether ``hoodie.datasource.write.partitions.to.delete`` names ``partition``.

    A ``*`` anywhere stands for any text, also with slashes; all else for itself, as in Hudi.
    """
    wanted = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(wanted, partition, re.DOTALL) is not None
