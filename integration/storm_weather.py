"""How hard a storm with Apache Hudi's services is, and what it came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from integration.storm_check import Told
from integration.storm_victims import Scale


@dataclass(frozen=True, slots=True)
class Weather:
    """How hard a storm with services is; a put takes up to ``put_s``, ``late`` of a thousand do."""

    scale: Scale = field(default_factory=lambda: Scale(8, 12, 3, 1, 2, 1, new_keys=True))
    put_s: float = 40.0
    late: int = 2
    pace_s: float = 4.0
    service_pause_s: float = 1.0
    #: how often each service comes at least, while writers write
    rounds: int = 1
    #: services that run; all of the type of table where none is named
    only: tuple[str, ...] = ()

    @property
    def lease_s(self) -> float:
        """A lock's lease has to outlast a put, and a look before it."""
        return max(8.0, 1.4 * self.put_s)


#: the name of a figure: looks after a restore that overlooked commits, and at commits that were
#: built on a clustering which is undone
DOUBLED = "looks at keys that Apache Hudi made double"
#: a storm for the tests: short, and with puts that are late by seconds
SAMPLE = Weather(Scale(4, 6, 1, 0, 1, 0, new_keys=True), 3.0, 4, 1.0, 0.2)
#: one that shows faults quickly
SMALL = Weather(Scale(8, 10, 1, 0, 1, 0, new_keys=True), 3.0, 4, 2.0, 0.2)


@dataclass(slots=True)
class Report:
    """What a storm did and what was wrong afterwards."""

    version: int
    weather: Weather
    seed: str
    told: Told
    struck: Counter[str] = field(default_factory=Counter)
    services: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    figures: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
