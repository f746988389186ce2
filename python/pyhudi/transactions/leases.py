"""Leases of readers: a query that takes long keeps the files of its snapshot from the cleaner.

Invariant: while a lease lives, no clean of pyhudi deletes a file of its snapshot, nor, if a stream
holds it, one that was written later. A lease lives as a heartbeat does: until it is stale by the
storage's clock, or its process has certainly ended.
Layout: spec/other_files.md O8.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pyhudi.clock import Clock
from pyhudi.errors import StorageError
from pyhudi.format.instants import InstantTime
from pyhudi.storage.base import Storage
from pyhudi.timeline.read_states import ReadState
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy, ended_process, has_passed
from pyhudi.transactions.processes import Process, parse_process

FOLDER = ".hoodie/.leases"
#: how leases beat, whatever the options of a writer say of its own heartbeat
LEASES = HeartbeatPolicy()
#: a lease that says more is not ours
MAX_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Lease:
    """A query that is running: the ``state`` that it reads, and its process.

    ``saves``: it has a savepoint besides, or is about to make one. ``follows``: it is a stream,
    which will also read each commit after that state.
    """

    name: str
    state: ReadState
    process: Process | None
    saves: bool = False
    follows: bool = False

    @property
    def who(self) -> str:
        """Its process, for messages."""
        process = self.process
        return f"process {process.pid} on {process.host}" if process else "a process"


def lease(
    storage: Storage,
    clock: Clock,
    state: ReadState,
    policy: HeartbeatPolicy,
    saves: bool = False,
    follows: bool = False,
) -> Heartbeat:
    """A new lease; it begins with ``start`` and ends with ``stop``."""
    process = policy.processes.this()
    owner = json.loads(process.render()) if process else {}
    said = {**asdict(state), "saves": saves, "follows": follows, **owner}
    content = json.dumps(said).encode()
    return Heartbeat(storage, clock, clock.uuid(), policy, FOLDER, content)


def living_leases(storage: Storage, clock: Clock, policy: HeartbeatPolicy = LEASES) -> list[Lease]:
    """The leases of the queries that run; the files of those that have ended are deleted."""
    found, dead = list[Lease](), list[str]()
    for file in storage.list(FOLDER):
        path = f"{FOLDER}/{file.name}"
        try:
            words = storage.read(path) if file.size_bytes <= MAX_BYTES else b""
        except (FileNotFoundError, StorageError):
            continue
        ended = ended_process(words, policy) is not None
        if ended or has_passed(storage, clock, file.modified_ms, policy.lapse_ms):
            dead.append(path)
        elif (told := _parsed(file.name, words)) is not None:
            found.append(told)
    if dead:
        storage.delete(dead)
    return found


def _parsed(name: str, words: bytes) -> Lease | None:
    try:
        said = json.loads(words)
        instant, layout = InstantTime(str(said["instant"])), int(said["layout"])
        state = ReadState(instant, layout, str(said["last"]))
        saves, follows = (said.get(key) is True for key in ("saves", "follows"))
        return Lease(name, state, parse_process(words), saves, follows)
    except (ValueError, TypeError, LookupError):
        return None
