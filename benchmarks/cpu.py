"""CPU time of a whole process tree, from /proc.

Invariant: a process counts once, alive (its own ticks) or reaped (in its parent's ``cutime``), so
the sum over the living tree never runs back while the tree's root lives.
"""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def tree_seconds(root: int) -> float:
    """User and system CPU seconds of process ``root``, its descendants, living and reaped.

    A walk may miss a process that ends meanwhile, and counts none too much: so it is the larger of
    two walks.
    """
    return max(_walk(root), _walk(root))


def _walk(root: int) -> float:
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command name may hold spaces and brackets: fields start after the last one.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(int(field) for field in fields[11:15])
    return sum(ticks[pid] for pid in ticks if _descends(pid, root, parents)) / _TICKS_PER_SECOND


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root
