"""What commits say of streams: the last epoch of each, in their extra metadata.

``pyhudi.streams`` is a JSON object by the stream's name. ``_hudi_streaming_sink_checkpoint`` is
Apache Hudi's own: batch numbers by identifier (docs/decisions/stream_epochs.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.format.instants import InstantTime

STREAMS_KEY: Final = "pyhudi.streams"
HUDI_KEY: Final = "_hudi_streaming_sink_checkpoint"
#: a table remembers so many streams
MOST_STREAMS: Final = 100
#: a mark says of so many writes of its batch what they were
MOST_WRITES: Final = 32


@dataclass(frozen=True, slots=True)
class Epoch:
    """A micro-batch's write to a table.

    ``query`` is the id in the stream's checkpoint, ``batch`` the batch's number, and ``ordinal``
    counts the batch's writes to this table, from 0. ``replaces`` is the query that the user says
    this one takes the stream over from, or ``*``. ``made`` is as in ``Mark``, up to this write.
    """

    stream: str
    query: str
    batch: int
    ordinal: int = 0
    replaces: str | None = None
    made: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        """The epoch's name in messages."""
        return f"batch {self.batch} of query {self.query}"


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a stream is in: ``writes`` of the batch ``batch``, the last of them at ``instant``.

    ``query`` is None if Apache Hudi's sink wrote the batch: it records none. ``made`` says what the
    first writes of the batch to the table were, also those without a commit: "append", "delete";
    ``""`` if that is not known. It is empty in marks that do not tell it.
    """

    query: str | None
    batch: int
    writes: int
    instant: InstantTime
    made: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        """The batch's name in messages."""
        writer = "Apache Hudi's sink" if self.query is None else f"query {self.query}"
        return f"batch {self.batch} of {writer}"


Marks = Mapping[str, Mark]


def own_marks(extra: Mapping[str, str]) -> dict[str, Mark] | None:
    """What ``pyhudi.streams`` says; None if a commit does not have it, or it cannot be read."""
    told = _object(extra.get(STREAMS_KEY))
    if told is None:
        return None
    try:
        return {
            name: Mark(
                None if said["query"] is None else str(said["query"]),
                int(said["batch"]),
                int(said["writes"]),
                InstantTime(str(said["instant"])),
                _made(said.get("made")),
            )
            for name, said in told.items()
        }
    except (TypeError, LookupError, ValueError, OverflowError):
        return None


def hudi_batches(extra: Mapping[str, str]) -> dict[str, int] | None:
    """What Apache Hudi's key says: the last batch by identifier; None without a readable key."""
    told = _object(extra.get(HUDI_KEY))
    if told is None:
        return None
    try:
        return {name: int(batch) for name, batch in told.items()}
    except (TypeError, ValueError, OverflowError):
        return None


def with_mark(marks: Marks, epoch: Epoch, instant: InstantTime) -> dict[str, Mark]:
    """``marks`` after the commit ``instant`` of ``epoch``; the oldest goes if they are too many."""
    mark = Mark(epoch.query, epoch.batch, epoch.ordinal + 1, instant, epoch.made)
    newest = sorted(
        (each for each in marks.items() if each[0] != epoch.stream),
        key=lambda each: each[1].instant,
    )[-(MOST_STREAMS - 1) :]
    return {**dict(newest), epoch.stream: mark}


def render_marks(marks: Marks, told: Marks) -> dict[str, str]:
    """The entries of the extra metadata for ``marks``; Apache Hudi's key has ``told`` of them."""
    own = {
        name: {
            "query": mark.query,
            "batch": mark.batch,
            "writes": mark.writes,
            "instant": mark.instant,
            **({"made": mark.made} if mark.made else {}),
        }
        for name, mark in sorted(marks.items())
    }
    extra = {STREAMS_KEY: json.dumps(own, separators=(",", ":"))}
    if hudis := {name: str(mark.batch) for name, mark in sorted(told.items())}:
        extra[HUDI_KEY] = json.dumps(hudis, separators=(",", ":"))
    return extra


def _made(told: object) -> tuple[str, ...]:
    """What a mark says of its writes; nothing if it is not a list of texts."""
    if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
        return ()
    return tuple(told[:MOST_WRITES])


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) else None
