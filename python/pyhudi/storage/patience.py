"""How long a request is repeated: the pauses between its attempts, and when to give up.

botocore's own retry modes do not fit. All requests of a client share one budget of retries, so
under a throttling store many parallel requests give up after one or two attempts. They have no time
limit, and they do not run on the clock of a test.
"""

from __future__ import annotations

from typing import Final

from pyhudi.clock import Clock

ATTEMPTS_UNANSWERED: Final = 5
_FIRST_MS: Final = 100
_MOST_MS: Final = 3_000


class Patience:
    """The attempts at one request; none begins later than ``limit_s`` after the first.

    If the store answers "slow down", the request is repeated until the time is up. A request that
    gets no answer, or an internal error, is sent at most five times.
    """

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._begun = clock.monotonic()
        self._limit_s = limit_s
        self.attempts = 1
        self.throttled = 0

    def again(self, throttled: bool) -> bool:
        """Pause after a failed attempt; False, without a pause, after the last one.

        Pauses double up to three seconds; half of each is random, so that requests that were
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
        if self.elapsed_s() >= self._limit_s:  # the process may have been stopped meanwhile
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
