"""Which process a heartbeat belongs to, and whether that process has certainly ended.

Invariant: a living writer is never called dead. Only a process of the same boot, the same pid
namespace and the same time namespace is judged, since only there its number and its start time
mean what they meant to it. Containers share a host's name, but not these. Of all others nothing is
known, and the age of the heartbeat decides.

Layout: spec/other_files.md O1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

PROC: Final = Path("/proc")
#: of ``/proc/<pid>/stat``, after the name in brackets: the state, and the start in clock ticks
_STATE, _STARTED = 0, 19
_TEXTS: Final = ("host", "boot", "pid_namespace", "time_namespace")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its number and start time, and the kernel and namespaces in which they count."""

    host: str
    boot: str
    pid_namespace: str
    time_namespace: str
    pid: int
    started: int

    def render(self) -> bytes:
        """What the process writes into its heartbeats."""
        return json.dumps(asdict(self)).encode()


def parse_process(data: bytes) -> Process | None:
    """The process that wrote a heartbeat; None if it does not say, as Apache Hudi's do not."""
    try:
        found = json.loads(data)
        host, boot, pids, times = (str(found[name]) for name in _TEXTS)
        return Process(host, boot, pids, times, int(found["pid"]), int(found["started"]))
    except (ValueError, TypeError, LookupError):
        return None


class Processes(Protocol):
    """What a machine knows of its processes."""

    def this(self) -> Process | None:
        """This process; None if the machine does not tell all that identifies it."""

    def has_ended(self, process: Process) -> bool:
        """Whether ``process`` has certainly ended. False if it lives, or if nobody knows."""


class LinuxProcesses:
    """The processes that Linux shows under ``/proc``; elsewhere nothing is known of any.

    ``signal`` sends a signal to a process, by default ``os.kill``.
    """

    def __init__(self, proc: Path = PROC, signal: Callable[[int, int], Any] = os.kill) -> None:
        self._proc = proc
        self._signal = signal

    def this(self) -> Process | None:
        own = self._proc / "self"
        try:
            if os.readlink(own) != str(os.getpid()):
                return None  # this /proc is that of another pid namespace
            times = own / "ns" / "time"
            return Process(
                os.uname().nodename,
                (self._proc / "sys/kernel/random/boot_id").read_text().strip(),
                os.readlink(own / "ns" / "pid"),
                os.readlink(times) if times.is_symlink() else "",
                os.getpid(),
                int(_stat(own)[_STARTED]),
            )
        except (OSError, ValueError, LookupError, AttributeError):
            return None

    def has_ended(self, process: Process) -> bool:
        ours = self.this()
        if ours is None or _place(ours) != _place(process):
            return False
        try:
            self._signal(process.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it is another user's: /proc may still show it
        folder = self._proc / str(process.pid)
        try:
            stat = _stat(folder)
            if int(stat[_STARTED]) != process.started:
                return True  # another process has its number now
            # A process that nobody has waited for. Its first thread may end before the others.
            return stat[_STATE] in "ZX" and len(os.listdir(folder / "task")) == 1
        except (OSError, ValueError, LookupError):
            return False


def _place(process: Process) -> tuple[str, str, str]:
    return process.boot, process.pid_namespace, process.time_namespace


def _stat(folder: Path) -> list[str]:
    return (folder / "stat").read_text().rpartition(")")[2].split()


LINUX: Final = LinuxProcesses()
