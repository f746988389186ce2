"""Rows to tasks: which task writes which file group, and how Spark sends its rows there.

Spark sends a row to the partition ``pmod(murmur3(value), n)``. For each task we look for an
integer that hashes to just that partition, so that groups can be balanced over tasks by bytes and
every group still belongs to one task.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

SEED = 42
MASK = 0xFFFFFFFF


def balanced(sizes: Mapping[int, int], tasks: int) -> dict[int, int]:
    """Group ordinal -> task, the largest groups first, each to the task with the least bytes."""
    heap = [(0, task) for task in range(tasks)]
    placed: dict[int, int] = {}
    for ordinal, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        load, task = heapq.heappop(heap)
        placed[ordinal] = task
        heapq.heappush(heap, (load + size, task))
    return placed


def routes(tasks: int) -> list[int]:
    """For each task an integer that Spark's hash partitioning sends to it."""
    found: dict[int, int] = {}
    value = 0
    while len(found) < tasks:
        found.setdefault(spark_hash(value) % tasks, value)
        value += 1
    return [found[task] for task in range(tasks)]


def spark_hash(value: int) -> int:
    """Spark's Murmur3 of an int column with its fixed seed, as a signed 32-bit integer."""
    k = _rotate((value & MASK) * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    h = _rotate(SEED ^ k, 13) * 5 + 0xE6546B64 & MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & MASK


def task_count(groups: int, parallelism: int, waves: int = 3) -> int:
    """How many tasks write ``groups`` file groups on ``parallelism`` cores."""
    return max(1, min(groups, parallelism * waves))
