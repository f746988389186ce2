"""Stand-ins for the seams that tests control: a clock that only moves when told to."""

from __future__ import annotations

import hashlib
import threading
import uuid


class FakeClock:
    """A ``pyhudi.clock.Clock`` without real time: equal seeds give equal runs.

    ``sleep`` returns at once and moves both clocks on, so code that polls ends without waiting.
    ``skew`` moves the wall clock alone, as an administrator or NTP would. Safe to share between
    threads. Two processes of one test get two clocks with different seeds.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000, seed: int = 0) -> None:
        """``now_ms`` is the first wall clock time, in milliseconds since the epoch."""
        self.slept: list[float] = []
        self._seed = seed
        self._now_ms = float(now_ms)
        self._monotonic = 1_000.0
        self._draws = 0
        self._guard = threading.Lock()

    def now_ms(self) -> int:
        with self._guard:
            return int(self._now_ms)

    def monotonic(self) -> float:
        with self._guard:
            return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def uuid(self) -> str:
        return str(uuid.UUID(bytes=self._draw()[:16], version=4))

    def random_int(self, bound: int) -> int:
        return int.from_bytes(self._draw(), "big") % bound

    def advance(self, seconds: float) -> None:
        """Let time pass: both clocks move on by ``seconds``."""
        with self._guard:
            self._now_ms += seconds * 1_000
            self._monotonic += seconds

    def skew(self, seconds: float) -> None:
        """Set the wall clock forward or (negative) back; monotonic time stands still."""
        with self._guard:
            self._now_ms += seconds * 1_000

    def _draw(self) -> bytes:
        with self._guard:
            self._draws += 1
            text = f"{self._seed}/{self._draws}"
        return hashlib.sha256(text.encode()).digest()
