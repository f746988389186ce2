"""What a service may take before it stops in good order; the next run goes on.

Invariant: the first file, group or part always begins, so no budget keeps a service from ever
getting on. Nothing that has begun is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyhudi.clock import Clock, cpu_seconds
from pyhudi.errors import ConfigError


def check_most(name: str, most: int | None) -> None:
    """``ConfigError`` for a bound of a service's work that is below 1."""
    if most is not None and most < 1:
        raise ConfigError(f"'{name}' is {most}. Give at least 1, or leave it out.", key=name)


def check_above_zero(name: str, given: float | None, unit: str) -> None:
    """``ConfigError`` for a bound of a service's time that is not above zero."""
    if given is not None and not given > 0:
        raise ConfigError(f"'{name}' is {given:g}. Give {unit}, or leave it out.", key=name)


@dataclass(frozen=True, slots=True)
class Budget:
    """The files that a plan takes, None for no bound.

    After ``max_files`` files, or ``max_bytes`` bytes of files, no further one is taken. So the
    last file may lie partly above ``max_bytes``. Errors: ``ConfigError`` for less than 1.
    """

    max_files: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        check_most("max_files", self.max_files)
        check_most("max_bytes", self.max_bytes)

    @property
    def is_bounded(self) -> bool:
        return self.max_files is not None or self.max_bytes is not None

    def has_room(self, files: int, size_bytes: int) -> bool:
        """Whether a further file is taken after so many files of so many bytes."""
        within = self.max_files is None or files < self.max_files
        return within and (self.max_bytes is None or size_bytes < self.max_bytes)

    def first_of(self, sizes: Sequence[int]) -> int:
        """How many of the files of these sizes, in their order, are taken."""
        files = taken = 0
        for size_bytes in sizes:
            if not self.has_room(files, taken):
                break
            files, taken = files + 1, taken + size_bytes
        return files

    def rest(self, files: int, size_bytes: int) -> Budget | None:
        """What is left after so many files of so many bytes; None if that is nothing."""
        if not self.has_room(files, size_bytes):
            return None
        most, size = self.max_files, self.max_bytes
        return Budget(
            None if most is None else most - files, None if size is None else size - size_bytes
        )

    def at_most(self, files: int) -> Budget:
        """The same, but no more than so many files."""
        most = files if self.max_files is None else min(files, self.max_files)
        return Budget(most, self.max_bytes)


NO_BUDGET = Budget()


class Allowance:
    """The time of one run: ``budget_s`` seconds, and ``max_cpu_minutes`` of CPU; None for no bound.

    It begins now. CPU time is that of this process, with all its threads, and what workers
    elsewhere are told to have used. Errors: ``ConfigError`` for a time that is not above 0.
    """

    def __init__(
        self,
        clock: Clock,
        budget_s: float | None = None,
        max_cpu_minutes: float | None = None,
        cpu_s: Callable[[], float] = cpu_seconds,
    ) -> None:
        check_above_zero("budget_s", budget_s, "the seconds of a run")
        check_above_zero("max_cpu_minutes", max_cpu_minutes, "the minutes of CPU time of a run")
        self._clock, self._cpu_s = clock, cpu_s
        self._ends = None if budget_s is None else clock.monotonic() + budget_s
        self._most_cpu_s = None if max_cpu_minutes is None else 60 * max_cpu_minutes
        self._began_cpu_s = cpu_s()

    @property
    def is_bounded(self) -> bool:
        return self._ends is not None or self._most_cpu_s is not None

    def is_over(self, elsewhere_cpu_s: float = 0.0) -> bool:
        """Whether no new part may begin; ``elsewhere_cpu_s`` was used by other processes."""
        if self._ends is not None and self._clock.monotonic() >= self._ends:
            return True
        if self._most_cpu_s is None:
            return False
        return self._cpu_s() - self._began_cpu_s + elsewhere_cpu_s >= self._most_cpu_s
