"""The rows of a batch are in the table once: none is there twice, and none is lost.

A batch counts from the moment in which Spark has logged its end, since nobody repeats it then; and
if a driver has come to the end of its stream, each batch counts. But for a write that a restore has
undone: nobody may go on after it then (``undone_batches.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.hudi_steps import AGAIN
from tests.simulation.streams import ENDS, Checkpoint, Stream, keys_by_epoch
from tests.simulation.world import Run, Seen


def the_rows_of_a_batch_are_there_once(run: Run) -> Iterator[str]:
    epochs = keys_by_epoch(run.scenario.programs)
    for observation in run.observations:
        for epoch, keys in epochs.items():
            twice = [key for key in keys if _times(observation.seen, key, epoch) > 1]
            if twice:
                yield f"{', '.join(twice)} has the rows of epoch {epoch} twice"
                return
    last = run.observations[-1].seen
    undone = {undoing.fact.writer for undoing in run.truth.undone.values() if undoing.fair}
    undone -= {fact.writer for fact in run.truth.live}
    for who, stream in run.scenario.streams.items():
        for number in range(stream.batches):
            if not _ended(run, who, stream, number):
                continue
            for epoch in stream.epochs(number):
                lost = [key for key in epochs[epoch] if not _times(last, key, epoch)]
                if lost and epoch not in undone:
                    yield f"batch {number} of {stream.query} has ended, but {lost[0]} lacks {epoch}"
                    return


def _times(seen: Seen, key: str, epoch: str) -> int:
    return sum(value.count(epoch) for value in seen.get(key, []))


def _ended(run: Run, who: str, stream: Stream, number: int) -> bool:
    """Whether Spark would not run the batch again."""
    names = (who, f"{who}{AGAIN}")
    done = any(name in run.outcomes and run.outcomes[name] is None for name in names)
    return done or run.files.exists(Checkpoint(run.files, stream.query).path(ENDS, number))
