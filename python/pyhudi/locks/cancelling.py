"""Waits that end when the client cancels the write that waits: for a lock, a heartbeat, a retry.

Invariant: only a wait before the commit ends early. What undoes a write waits to its end, so code
that undoes runs in ``to_its_end``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyhudi.clock import Clock, SystemClock
from pyhudi.errors import WriteFailed

#: how often a wait asks whether the write was cancelled
_SLICE_S: Final = 0.1
_thread = threading.local()


class CancellableClock(SystemClock):
    """The machine's clock; ``cancelled`` says whether this thread's statement was cancelled."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``; ``WriteFailed`` if the statement is cancelled meanwhile."""
        end = self.monotonic() + seconds
        while (rest := end - self.monotonic()) > 0:
            if not getattr(_thread, "undoes", False) and self._cancelled():
                raise WriteFailed(
                    "The write was cancelled by its client while it waited for another writer. "
                    "Nothing of it is visible."
                )
            self.sleep(min(rest, _SLICE_S))


def pause(clock: Clock, seconds: float) -> None:
    """Wait for ``seconds``; ``WriteFailed`` if the write is cancelled, and ``clock`` can tell."""
    if isinstance(clock, CancellableClock):
        clock.pause(seconds)
    else:
        clock.sleep(seconds)


@contextmanager
def to_its_end() -> Iterator[None]:
    """Within, no wait of this thread ends early."""
    before = getattr(_thread, "undoes", False)
    _thread.undoes = True
    try:
        yield
    finally:
        _thread.undoes = before
