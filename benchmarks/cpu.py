"""CPU time of a whole process tree, from /proc.

Invariant: a process counts once, alive (its own ticks) or reaped (in its parent's ``cutime``), so
the sum over the living tree never runs back while the tree's root lives.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


def tree_seconds(root: int) -> float:
    """User and system CPU seconds of process ``root``, its descendants, living and reaped.

    A walk may miss a process that ends meanwhile, and counts none too much: so it is the larger of
    two walks.
    """
    return max(_walk(root), _walk(root))


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its parent, when it was born, its CPU ticks and those of what it reaped."""

    parent: int
    born: int
    own: int
    reaped: int

    @property
    def ticks(self) -> int:
        return self.own + self.reaped


def tree(root: int) -> dict[int, Process]:
    """The root and its living descendants by their numbers."""
    found: dict[int, Process] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The command name may hold spaces and brackets: fields start after the last one.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        user, system, reaped_user, reaped_system = map(int, fields[11:15])
        found[int(entry.name)] = Process(
            int(fields[1]), int(fields[19]), user + system, reaped_user + reaped_system
        )
    parents = {pid: process.parent for pid, process in found.items()}
    return {pid: process for pid, process in found.items() if _descends(pid, root, parents)}


class TreeClock:
    """CPU seconds of a tree whose processes may be lost: nobody reaps a child of a killed parent.

    What a process took by the last look counts on after it is gone. So looks must be frequent
    beside the life of such a process.
    """

    def __init__(self, root: int, tree: Callable[[int], Mapping[int, Process]] = tree) -> None:
        self._root, self._tree, self._ticks = root, tree, 0
        self._known: Mapping[int, Process] = {}
        self.look()

    def look(self) -> float:
        """The seconds of all processes that were ever seen, and of those that they reaped."""
        now = self._tree(self._root)
        for pid, process in now.items():
            before = self._known.get(pid)
            same = before is not None and before.born == process.born
            self._ticks += process.ticks - (before.ticks if same and before else 0)
        for pid, process in self._known.items():
            parent = now.get(process.parent)
            if parent is None or (pid in now and now[pid].born == process.born):
                continue
            # Its parent has reaped it, and counts it now.
            known = self._known.get(process.parent)
            reaped = parent.reaped - (known.reaped if known else 0)
            if reaped >= process.ticks:
                self._ticks -= process.ticks
        self._known = now
        return self._ticks / TICKS_PER_SECOND


def _walk(root: int) -> float:
    return sum(process.ticks for process in tree(root).values()) / TICKS_PER_SECOND


def _descends(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root
