"""How locks write down who holds them: a few facts as JSON, the same names in every service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyhudi.locks.base import LockOwner


def owner_facts(owner: LockOwner, since_ms: int) -> dict[str, Any]:
    """The facts of a holder since ``since_ms`` (epoch milliseconds by its clock)."""
    return {
        "instant": owner.instant,
        "host": owner.host,
        "pid": owner.pid,
        "application": owner.application,
        "sinceMs": since_ms,
    }


def owner_of(facts: Mapping[str, Any]) -> tuple[LockOwner, int]:
    """What ``owner_facts`` wrote; ``KeyError``, ``ValueError`` or ``TypeError`` for the rest."""
    owner = LockOwner(
        str(facts["instant"]), str(facts["host"]), int(facts["pid"]), str(facts["application"])
    )
    return owner, int(facts["sinceMs"])
