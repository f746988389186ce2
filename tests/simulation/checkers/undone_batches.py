"""A restore that undoes batches of a stream is no silent loss, and stops no other stream.

Batches have an order, and a query commits none before those below it are there. So a commit of a
batch tells that all below it were there then: if one of them had been undone, its rows would be
lost without a word. A driver that is told so ends, but only if a batch of its query was undone. How
often a function writes, nobody knows but who has made its writes: so a new driver of such a query
asks after each restore that came after its last batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.errors import StreamConflict
from tests.simulation.streams import Stream
from tests.simulation.truth import Fact
from tests.simulation.world import Run

#: who stands against an epoch where batches were undone: a restore, or a table that was made again
UNDOERS = ("restore ", "a table that was set back")


def no_undone_batch_is_passed_over(run: Run) -> Iterator[str]:
    for epochs in _by_query(run).values():
        places = {epoch: place for place, epoch in enumerate(epochs)}
        for fact in run.truth.published.values():
            for below in epochs[: places.get(fact.writer, 0)]:
                if not _was_there(run, below, fact):
                    yield f"{fact.writer} was committed as {fact.time}, but {below} was not there"
                    return


def no_stream_is_stopped_in_vain(run: Run) -> Iterator[str]:
    undone = {undoing.fact.writer for undoing in run.truth.undone.values()}
    queries = _by_query(run)
    for who, error in run.outcomes.items():
        if not isinstance(error, StreamConflict) or not str(error.theirs).startswith(UNDOERS):
            continue
        stream = run.scenario.streams[who.removesuffix(" again")]
        if stream.writes == 1 and undone.isdisjoint(queries[stream.query]):
            yield f"{who} was told that its batches were undone, but none was: {error}"


def _by_query(run: Run) -> dict[str, list[str]]:
    """The epochs of each query in their order, whichever driver writes them."""
    longest: dict[str, Stream] = {}
    for stream in run.scenario.streams.values():
        known = longest.setdefault(stream.query, stream)
        if stream.batches > known.batches:
            longest[stream.query] = stream
    return {
        query: [epoch for number in range(stream.batches) for epoch in stream.epochs(number)]
        for query, stream in longest.items()
    }


def _was_there(run: Run, epoch: str, then: Fact) -> bool:
    """Whether the rows of an epoch were in the table when a commit was published."""
    for fact in run.truth.published.values():
        undoing = run.truth.undone.get(fact.time)
        stays = undoing is None or undoing.step > then.step
        if fact.writer == epoch and fact.step < then.step and stays:
            return True
    return False
