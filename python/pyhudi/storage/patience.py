"""How long a request is repeated: the pauses between its attempts, and when to give up.

Why not botocore's own retry modes: their budget of retries is shared by all requests of a client,
so that under a throttling store many requests beside each other give up after one or two attempts;
neither knows of a time limit, and neither runs on the clock of a test.
"""

from __future__ import annotations

from typing import Final

from pyhudi.clock import Clock

ATTEMPTS_UNANSWERED: Final = 5
_FIRST_MS: Final = 100
_MOST_MS: Final = 3_000


class Patience:
    """The attempts at one request; none begins later than ``limit_s`` after the first.

    Being told to slow down is an answer: such a request goes on until the time is up. One that
    gets no answer, or an internal error, is sent five times at most.
    """

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._begun = clock.monotonic()
        self._limit_s = limit_s
        self.attempts = 1
        self.throttled = 0

    def again(self, throttled: bool) -> bool:
        """Pause after a failed attempt; False, without a pause, where it was the last.

        Pauses double up to three seconds; half of each is random, so that requests which were
        refused together do not come back together.
        """
        self.throttled += throttled
        if self.attempts - self.throttled >= ATTEMPTS_UNANSWERED:
            return False
        pause_ms = min(_MOST_MS, _FIRST_MS << min(self.attempts - 1, 10))
        pause_s = (pause_ms - self._clock.random_int(pause_ms // 2)) / 1_000
        if self.elapsed_s() + pause_s >= self._limit_s:
            return False
        self._clock.sleep(pause_s)
        if self.elapsed_s() >= self._limit_s:  # a process that stood still slept longer
            return False
        self.attempts += 1
        return True

    def elapsed_s(self) -> float:
        """Seconds since the first attempt began."""
        return self._clock.monotonic() - self._begun

    def __str__(self) -> str:
        if self.attempts == 1:
            return ""
        return f", after {self.attempts} attempts in {self.elapsed_s():.0f} s"
