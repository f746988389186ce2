"""``.hoodie_partition_metadata``: without it Spark reads no rows of a partition.

Rules: spec/data_files.md D5.

``render`` needs nothing of pyhudi, since workers also write this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pyhudi.format.instants import InstantTime

FILE_NAME = ".hoodie_partition_metadata"


def depth_of(partition_path: str) -> int:
    """Path levels of a partition; 0 for the table's root."""
    return partition_path.count("/") + 1 if partition_path else 0


def render(commit_time: str, depth: int) -> bytes:
    """The file's bytes for the instant that made the partition, ``depth`` levels down."""
    return f"#partition metadata\ncommitTime={commit_time}\npartitionDepth={depth}\n".encode()


def parse(data: bytes, path: str) -> tuple[InstantTime, int]:
    """(instant that made the partition, depth); ``TableCorrupt`` if either is missing."""
    from pyhudi.format.corruption import corrupt
    from pyhudi.format.properties import parse_properties

    pairs = parse_properties(data, path)
    depth = pairs.get("partitionDepth", "")
    if "commitTime" not in pairs or not depth.isdecimal():
        raise corrupt(path, "partition metadata has commitTime and partitionDepth", f"{pairs}")
    return cast("InstantTime", pairs["commitTime"]), int(depth)
