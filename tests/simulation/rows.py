"""A line of the published table: a configuration, and what cannot be kept there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulation.explore import Explored, Finding, Weather, search_seeds
from tests.simulation.world import Scenario

STORM: Final = Weather()


@dataclass(frozen=True, slots=True)
class Row:
    """A configuration of the published table.

    ``broken`` are the invariants that cannot be kept there, and ``because`` says why.
    """

    name: str
    scenario: Scenario
    weather: Weather = STORM
    broken: frozenset[str] = frozenset()
    because: str = ""

    def search(self, seeds: range) -> Explored:
        """Every seed of these; what is found of ``broken`` ends it only once all of it is."""
        missing = set(self.broken)

        def stop(finding: Finding) -> bool:
            missing.difference_update(finding.broken)
            return bool(finding.broken - self.broken) or (bool(self.broken) and not missing)

        return search_seeds(self.scenario, seeds, self.weather, stop)
