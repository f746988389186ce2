"""The only source of time, sleep and randomness.

All code that waits, reads the time or draws random numbers takes a ``Clock``, so the same code runs
under the simulation's scheduler. A test in ``tests/test_tidy.py`` bans the alternatives elsewhere.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Final, Protocol

HOUR_MS: Final = 3_600_000


class Clock(Protocol):
    """Time and random numbers as one process sees them."""

    def now_ms(self) -> int:
        """Wall clock in milliseconds since the epoch; it may jump either way."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences have a meaning."""

    def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``."""

    def uuid(self) -> str:
        """A fresh random UUID in its usual text form."""

    def random_int(self, bound: int) -> int:
        """A random integer in ``[0, bound)``."""


def cpu_seconds() -> float:
    """CPU seconds that this process has used so far, with all its threads."""
    return time.process_time()


class SystemClock:
    """The machine's own clock and random source."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def random_int(self, bound: int) -> int:
        return random.SystemRandom().randrange(bound)
