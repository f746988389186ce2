"""The guards of streams that meet Apache Hudi's sink, restores and functions that try again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyhudi.application.batches import MicroBatch, Ordinals, Turn
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import (
    STREAMS_KEY,
    Epoch,
    Mark,
    Marks,
    own_marks,
    render_marks,
    with_mark,
)
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions import epochs
from tests.simulation.explore import Bound
from tests.simulation.guards import ONE_ROW, Case, Guards, nothing
from tests.simulation.hudi_sink import HudiSink
from tests.simulation.logs import is_data
from tests.simulation.own_services import OwnUndo
from tests.simulation.scheduler import FaultKind, Task
from tests.simulation.stream_guards import (
    CRASH,
    EPOCHS,
    ONCE,
    ROWS,
    STREAM_CASES,
    STREAM_GUARDS,
    TRANSACTION,
    ends_a_batch,
)
from tests.simulation.streams import Stream
from tests.simulation.world import Scenario

PASSED_OVER: Final = "no undone batch is passed over"

_doubtful_since = epochs._doubtful_since


def _own_alone(extra: Mapping[str, str], time: InstantTime, since: dict[str, Mark]) -> Marks | None:
    """The marks of a commit; numbers of Hudi's sink count for nothing."""
    return own_marks(extra)


def _all_numbers(
    table: Table,
    now: Timeline,
    metadata: CommitMetadata,
    epoch: Epoch | None,
    instant: InstantTime,
) -> CommitMetadata:
    """A commit that tells Hudi's sink all numbers, whatever is pending."""
    marks, whole = epochs._look(table, now, archived=epoch is not None)
    if epoch is not None:
        marks = with_mark(marks, epoch, instant)
    if not (marks and whole):
        return metadata
    return replace(metadata, extra={**metadata.extra, **render_marks(marks, marks)})


def _for_us_alone(marks: Marks, told: Marks) -> dict[str, str]:
    return {STREAMS_KEY: render_marks(marks, {})[STREAMS_KEY]}


def _whole_batches(
    epoch: Epoch,
    own: Mark | None,
    seen: epochs._Seen | None,
    judged: InstantTime,
    empty_since: InstantTime,
) -> InstantTime | None:
    """The last batch of the table is taken for whole."""
    if own is not None and epoch.batch == own.batch + 1 and not epoch.ordinal:
        return None
    return _doubtful_since(epoch, own, seen, judged, empty_since)


@contextmanager
def _number_is_gone(
    self: Ordinals, place: str, batch: MicroBatch | None, kind: str = ""
) -> Iterator[Turn]:
    """A write that fails keeps its number."""
    assert batch is not None
    writes = self._writes(place, batch)
    writes.append(kind)
    yield Turn(batch, len(writes) - 1, tuple(writes) if any(writes) else ())


HAND_OVER_GUARDS: Final[Guards] = {
    "what Apache Hudi's sink has written counts": {f"{EPOCHS}._take": _own_alone},
    "Apache Hudi's sink is told our numbers": {f"{EPOCHS}.render_marks": _for_us_alone},
    "no number hides a pending batch from Apache Hudi's sink": {
        f"{TRANSACTION}.with_marks": _all_numbers
    },
    "a stream is asked for batches that a restore undid": {f"{EPOCHS}._restored_since": nothing},
    "a stream is asked for writes that a restore undid": {
        f"{EPOCHS}._doubtful_since": _whole_batches
    },
    "a write that fails gives its number back": {
        "pyhudi.application.batches.Ordinals.turn": _number_is_gone
    },
    "a repeated batch makes the same writes": {f"{EPOCHS}._check_writes": nothing},
}

HUDIS: Final = HudiSink("h", "h")
OURS: Final = Stream("a", "a", batches=1)
TWO: Final = replace(OURS, writes=2)
RESTORE: Final = OwnUndo(nth=1)
#: faults that strike files of rows
FAILS_AND_CRASHES: Final = (FaultKind.LOSE_REQUEST, FaultKind.CRASH)


def _writes_rows(task: Task) -> bool:
    return any(map(is_data, task.op.paths))


HAND_OVER_CASES: Final = (
    Case(
        "what Apache Hudi's sink has written counts",
        Scenario(
            {"h": HudiSink("a", "a"), "a": Stream("a", "a", batches=3, after=("h",))}, ONE_ROW
        ),
        Bound(0, 1, CRASH, struck=frozenset({"h"}), amid=ends_a_batch),
        ONCE,
        stops="a batch comes twice that Apache Hudi's sink has written before the hand-over",
        mutant="where Apache Hudi's sink went on does not count",
    ),
    Case(
        "Apache Hudi's sink is told our numbers",
        Scenario({"a": OURS, "h": HudiSink("a", "a", after=("a",))}, ONE_ROW),
        Bound(0, 1, CRASH, struck=frozenset({"a"}), amid=ends_a_batch),
        ONCE,
        stops="Apache Hudi's sink writes a batch again that we have written before the hand-over",
        mutant="Apache Hudi's sink is not told how far a stream is",
    ),
    Case(
        "no number hides a pending batch from Apache Hudi's sink",
        Scenario({"h": HUDIS, "a": OURS, "h-2": replace(HUDIS, after=("h",))}, ONE_ROW),
        Bound(1, 1, CRASH, struck=frozenset({"h"}), amid=ends_a_batch),
        ONCE,
        stops="a number that was old when it was published hides the last batch of Apache Hudi's "
        "sink, which writes it again",
        mutant="a number that hides a pending epoch from Apache Hudi's sink is told",
    ),
    Case(
        "a stream is asked for batches that a restore undid",
        Scenario({"a": OURS, "undo": RESTORE, "a-2": replace(OURS, batches=2)}, ONE_ROW),
        Bound(preemptions=0),
        PASSED_OVER,
        stops="a stream goes on after a restore has undone its last batch",
        mutant="a restore that undid all batches of a query is passed over",
    ),
    Case(
        "a stream is asked for writes that a restore undid",
        Scenario({"a": TWO, "undo": RESTORE, "a-2": replace(TWO, batches=2)}, ONE_ROW),
        Bound(preemptions=0),
        PASSED_OVER,
        stops="a stream goes on after a restore has undone the last of a batch's writes",
        mutant="a restore that undid the last write of a batch is passed over",
    ),
    Case(
        "a write that fails gives its number back",
        Scenario({"a": replace(TWO, tries=2), "a-2": TWO}, ONE_ROW),
        Bound(0, 2, FAILS_AND_CRASHES, struck=frozenset({"a"}), amid=_writes_rows),
        ROWS,
        stops="a write is skipped as if it were the repetition of the one before",
        mutant="a write that fails keeps its number",
    ),
    Case(
        "a repeated batch makes the same writes",
        Scenario({"a": replace(TWO, looks=True), "a-2": replace(TWO, looks=True)}, ONE_ROW),
        Bound(0, 1, CRASH, struck=frozenset({"a"}), amid=_writes_rows),
        ROWS,
        stops="a write is skipped because another one of the batch had its number",
        mutant="a batch that makes other writes than before is not noticed",
    ),
)
ALL_STREAM_GUARDS: Final = STREAM_GUARDS | HAND_OVER_GUARDS
ALL_STREAM_CASES: Final = (*STREAM_CASES, *HAND_OVER_CASES)
