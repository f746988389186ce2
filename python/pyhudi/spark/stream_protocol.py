"""The questions of a stream, a part of the bridge's contract (``protocol.py``).

Each names the ``stream``, an id that the shim makes once per running query and table, and the state
in which the table was described at its start. A place is the text of an offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.reads.incremental import RowsOfCommits
from pyhudi.reads.scan_plan import ScanPlan
from pyhudi.spark.wire import Tree


@dataclass(frozen=True, slots=True)
class BeginStream:
    """The place at which a stream without a checkpoint begins; checks its options and table."""

    stream: str
    pin: str
    instant: str | None


@dataclass(frozen=True, slots=True)
class Begun:
    """That place, whether options limit a batch, and the table's newest place."""

    place: str
    limited: bool
    newest: str


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The end of the batch after ``start``, by the limits if ``limited``, not beyond ``until``."""

    stream: str
    pin: str
    instant: str | None
    start: str
    limited: bool
    until: str | None


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The end, None if the table has no commit yet; its newest place; and what will be left."""

    end: str | None
    newest: str | None
    backlog: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlanBatch:
    """What the batch reads, in the columns of ``schema``; a DataFrame of what workers read."""

    stream: str
    pin: str
    instant: str | None
    start: str
    end: str
    schema: Tree


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Files, None if there are none or if workers read all; ``rows``, None if all count.

    With ``logs`` the DataFrame has rows of logs beside the files; all of them count.
    """

    files: ScanPlan | None
    rows: RowsOfCommits | None
    logs: bool


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """A batch has been read and written."""

    stream: str
    pin: str
    instant: str | None
    end: str


@dataclass(frozen=True, slots=True)
class EndStream:
    """The query has stopped."""

    stream: str


#: name, question, answer, and whether a DataFrame comes back; none of them changes rows
STREAM_QUESTIONS: Final[tuple[tuple[str, Any, Any, bool], ...]] = (
    ("begin_stream", BeginStream, Begun, False),
    ("next_batch", NextBatch, BatchEnd, False),
    ("plan_batch", PlanBatch, BatchPlan, True),
    ("read_up_to", ReadUpTo, type(None), False),
    ("end_stream", EndStream, type(None), False),
)
