"""The life of one write as a table.

A transaction moves along these arrows and no others; each step's effect on storage is in the
comment beside it. Only ``FAILED`` may delete data files: an ``UNKNOWN`` outcome may have landed.
"""

from __future__ import annotations

from enum import Enum


class Phase(str, Enum):
    """Where a transaction stands."""

    NEW = "new"
    REQUESTED = "requested"
    INFLIGHT = "inflight"
    SEALED = "sealed"
    COMMITTED = "committed"
    FAILED = "failed"
    UNKNOWN = "unknown"


#: phase -> the phases that may follow
TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.NEW: frozenset({Phase.REQUESTED, Phase.FAILED}),  # put T.requested, heartbeat
    Phase.REQUESTED: frozenset({Phase.INFLIGHT, Phase.FAILED}),  # put T.inflight
    Phase.INFLIGHT: frozenset({Phase.SEALED, Phase.FAILED}),  # data written, strays deleted
    Phase.SEALED: frozenset({Phase.COMMITTED, Phase.FAILED, Phase.UNKNOWN}),  # put completed
    Phase.COMMITTED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.UNKNOWN: frozenset({Phase.COMMITTED, Phase.FAILED}),  # settled by a look at storage
}
