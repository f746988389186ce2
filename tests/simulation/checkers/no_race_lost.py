"""By event time a writer without coordination loses no race, as long as all are such writers."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import CommitConflict
from tests.simulation.programs import Upsert
from tests.simulation.shared_buckets import Share
from tests.simulation.world import Run


def no_race_is_lost(run: Run) -> Iterator[str]:
    writers = {n: p for n, p in run.scenario.programs.items() if isinstance(p, Upsert)}
    alike = all(type(p) is Share and not p.optimist for p in writers.values())
    if not (run.scenario.by_event and alike):
        return
    for who in writers:
        if isinstance(run.outcomes.get(who), CommitConflict):
            yield f"{who} lost a race: {run.outcomes[who]}"
