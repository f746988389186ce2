"""The content of the lock file: the keys of Hudi's ``LockInfo``, and ours beside them.

Hudi writes a JSON of ``lockCreateTime`` (text in the JVM's zone), ``lockThreadName`` and
``lockStacksInfo``, or, in some 1.x versions, nothing at all; it never parses the file. Ours has
the same three keys, for people who look there, and the facts that we use under ``pyhudi``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pyhudi.locks.base import LockOwner
from pyhudi.locks.owner_text import owner_facts, owner_of


@dataclass(frozen=True, slots=True)
class LockFile:
    """The content of a lock file; ``owner`` and ``lease_s`` are None in another program's.

    ``token`` is new at each attempt to take the lock, ``beat`` counts the renewals since;
    ``raw`` holds the bytes as they were read.
    """

    token: str
    owner: LockOwner | None
    since_ms: int | None
    lease_s: float | None
    beat: int = 0
    what: str = ""
    raw: bytes = b""


def render_lock_file(file: LockFile) -> bytes:
    """The bytes of one of our own lock files."""
    owner = file.owner
    if owner is None or file.since_ms is None:
        raise ValueError("only our own lock files are written")
    since = datetime.fromtimestamp(file.since_ms / 1_000, tz=timezone.utc)
    content = {
        "lockCreateTime": since.strftime("%Y-%m-%d %H:%M:%S.") + f"{file.since_ms % 1_000:03}",
        "lockThreadName": f"pyhudi {owner.instant} on {owner.host}, process {owner.pid}",
        "lockStacksInfo": [],
        "pyhudi": {
            "token": file.token,
            "beat": file.beat,
            "leaseSeconds": file.lease_s,
            **owner_facts(owner, file.since_ms),
        },
    }
    return json.dumps(content, indent=2).encode()


def parse_lock_file(raw: bytes) -> LockFile:
    """Read any program's lock file; one that we cannot parse is somebody else's lock."""
    try:
        content = json.loads(raw)
        ours = content["pyhudi"]
        owner, since_ms = owner_of(ours)
        return LockFile(
            token=str(ours["token"]),
            owner=owner,
            since_ms=since_ms,
            lease_s=float(ours["leaseSeconds"]),
            beat=int(ours["beat"]),
            raw=raw,
        )
    except (ValueError, KeyError, TypeError):
        return LockFile("", None, None, None, what=_foreign(raw), raw=raw)


def _foreign(raw: bytes) -> str:
    try:
        content: Any = json.loads(raw)
        thread = content["lockThreadName"]
    except (ValueError, KeyError, TypeError):
        return "another program, probably Apache Hudi,"
    return f"Apache Hudi (thread '{thread}')"
