"""Guards switched off one at a time, by replacing the product's code from outside.

The product has no such switches. ``off(name)`` lasts while its block runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.simulation.explore import Bound, Finding
from tests.simulation.programs import Upsert
from tests.simulation.world import Scenario

TRANSACTION = "pyhudi.transactions.transaction"


def _nothing(*_: Any, **__: Any) -> None:
    """The guard looks away."""


GUARDS: dict[str, dict[str, Callable[..., Any]]] = {
    "conflict check": {f"{TRANSACTION}.check_conflicts": _nothing},
    "merge target": {f"{TRANSACTION}.Transaction.check_targets": _nothing},
}


@dataclass(frozen=True, slots=True)
class Case:
    """Where a guard's anomaly shows: a scenario, how far to look, and which invariant breaks."""

    guard: str
    scenario: Scenario
    bound: Bound
    broken: str

    def is_it(self, finding: Finding) -> bool:
        return self.broken in finding.broken


LOST = "nothing committed is lost"
CASES = (
    Case(
        "conflict check",
        Scenario({"w1": Upsert(("k1",)), "w2": Upsert(("k1",))}, (("k1",),)),
        Bound(preemptions=1),
        LOST,
    ),
    Case(
        "merge target",
        Scenario({"w1": Upsert(("k1",)), "w2": Upsert(("k1",))}, (("k1",),), skews={"w2": 5.0}),
        Bound(preemptions=1),
        LOST,
    ),
)


@contextmanager
def off(name: str) -> Iterator[None]:
    """Without this guard."""
    with ExitStack() as stack:
        for place, instead in GUARDS[name].items():
            stack.enter_context(patch(place, instead))
        yield
