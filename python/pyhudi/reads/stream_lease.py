"""The lease of a stream: what it has not read yet stays in the table.

Invariant: the next place is held before the last one is given up. A stream that cannot put its
lease, since it may only read the table, runs without one.
"""

from __future__ import annotations

import logging

from pyhudi.clock import Clock
from pyhudi.storage.base import Storage
from pyhudi.timeline.read_states import ReadState
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy
from pyhudi.transactions.leases import lease

log = logging.getLogger(__name__)


class StreamLease:
    """The lease of one stream on the state after what it has read."""

    def __init__(self, storage: Storage, clock: Clock, policy: HeartbeatPolicy | None = None):
        self._storage, self._clock = storage, clock
        self._policy = policy or HeartbeatPolicy()
        self._held: tuple[ReadState, Heartbeat | None] | None = None

    @property
    def held(self) -> bool:
        """Whether a place is held, or could not be."""
        return self._held is not None

    def move(self, state: ReadState) -> None:
        """Hold ``state`` and all that comes after it, and nothing that came before."""
        if self._held is not None and self._held[0] == state:
            return
        made: Heartbeat | None = lease(
            self._storage, self._clock, state, self._policy, follows=True
        )
        try:
            assert made is not None
            made.start()
        except Exception as e:
            log.info("a stream of %s runs without a lease: %s", self._storage.root, e)
            made = None
        before, self._held = self._held, (state, made)
        self._stop(before)

    def end(self) -> None:
        """Hold nothing."""
        before, self._held = self._held, None
        self._stop(before)

    def _stop(self, held: tuple[ReadState, Heartbeat | None] | None) -> None:
        if held is None or held[1] is None:
            return
        try:
            held[1].stop()
        except Exception as e:
            log.info("a lease stays until it is stale: %s", e)
