"""What was undone stays undone: no later commit brings its changes back.

But for one of the same writer: a stream writes a batch again whose end was not logged.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.world import Run


def what_was_undone_stays_undone(run: Run) -> Iterator[str]:
    for undoing in run.truth.undone.values():
        who = undoing.fact.writer
        published = (fact for fact in run.truth.published.values() if fact.writer == who)
        again = min((f.step for f in published if f.step > undoing.step), default=None)
        for observation in run.observations:
            if observation.began < undoing.step or observation.as_of is not None:
                continue
            if again is not None and observation.step >= again:
                continue
            back = [k for k, vs in observation.seen.items() if any(who in v for v in vs)]
            if back:
                yield f"{undoing.fact.time} of {who} was undone, but {', '.join(back)} still has it"
                return
