"""A key has one home: no reader ever finds a key in two file groups."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.world import Run


def a_key_has_one_home(run: Run) -> Iterator[str]:
    for observation in run.observations:
        for key, values in sorted(observation.seen.items()):
            if len(values) > 1:
                yield f"{key} is in {len(values)} file groups: {values}"
                return
