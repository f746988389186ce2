"""An epoch is committed once: however many drivers write it, one commit has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.simulation.streams import keys_by_epoch
from tests.simulation.world import Run


def an_epoch_is_committed_once(run: Run) -> Iterator[str]:
    epochs = keys_by_epoch(run.scenario.programs)
    commits = Counter(fact.writer for fact in run.truth.live if fact.writer in epochs)
    for epoch, count in commits.items():
        if count > 1:
            times = [fact.time for fact in run.truth.live if fact.writer == epoch]
            yield f"epoch {epoch} is in {count} commits: {', '.join(times)}"
