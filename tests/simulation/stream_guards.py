"""The guards around epochs of streams, each with the anomaly that it is there for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyhudi.application.batches import MicroBatch, Ordinals, Turn
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import Epoch, Marks, render_marks, with_mark
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.transactions.epochs import EpochDone
from tests.simulation.explore import Bound
from tests.simulation.guards import ONE_ROW, Case, Guards, nothing
from tests.simulation.own_clustering import OwnCluster
from tests.simulation.own_services import OwnArchive
from tests.simulation.scheduler import FaultKind, Task
from tests.simulation.streams import CHECKPOINTS, ENDS, Stream
from tests.simulation.world import Scenario

EPOCHS: Final = "pyhudi.transactions.epochs"
TRANSACTION: Final = "pyhudi.transactions.transaction"

ONCE: Final = "an epoch is committed once"
ROWS: Final = "the rows of a batch are there once"
MARKS: Final = "marks never go back"


def _own_mark_alone(
    table: Table,
    now: Timeline,
    metadata: CommitMetadata,
    epoch: Epoch | None,
    instant: InstantTime,
) -> CommitMetadata:
    """A commit that tells of its own epoch only."""
    if epoch is None:
        return metadata
    marks = with_mark({}, epoch, instant)
    return replace(metadata, extra=metadata.extra | render_marks(marks, marks))


def _by_number_alone(epoch: Epoch, marks: Marks) -> None:
    """As Apache Hudi's sink judges: what is not above the last number is skipped."""
    mark = marks.get(epoch.stream)
    if mark is not None and (epoch.batch, epoch.ordinal) < (mark.batch, mark.writes):
        raise EpochDone(epoch, mark)


@contextmanager
def _first_write(
    self: Ordinals, place: str, batch: MicroBatch | None, kind: str = ""
) -> Iterator[Turn]:
    assert batch is not None
    yield Turn(batch, 0)


def _no_marks(*_: object) -> Marks:
    return {}


STREAM_GUARDS: Final[Guards] = {
    "the epoch is judged again under the lock": {f"{TRANSACTION}.fence_epoch": nothing},
    "a commit carries the marks of all streams": {f"{TRANSACTION}.with_marks": _own_mark_alone},
    "the archive is asked for marks": {f"{EPOCHS}._archived": _no_marks},
    "an epoch belongs to its query": {f"{EPOCHS}.judge_epoch": _by_number_alone},
    "the writes of a batch are counted": {
        "pyhudi.application.batches.Ordinals.turn": _first_write,
    },
}

INSERTS: Final = Stream("a", "a", batches=1)
#: its driver is started again while the old one may still run
AGAIN: Final = {"a": INSERTS, "a-2": INSERTS}
CRASH: Final = (FaultKind.CRASH,)


def ends_a_batch(task: Task) -> bool:
    """Whether Spark is about to log the end of a batch, which the table has by now."""
    return task.op.paths[:1] != () and _is_end(task.op.paths[0])


def _is_end(path: str) -> bool:
    return path.startswith(CHECKPOINTS) and f"/{ENDS}/" in path


STREAM_CASES: Final = (
    Case(
        "the epoch is judged again under the lock",
        Scenario(AGAIN, ONE_ROW),
        Bound(preemptions=1),
        ONCE,
        stops="a stale driver commits a batch that another driver has committed meanwhile",
        mutant="an epoch is not judged under the lock",
    ),
    Case(
        "a commit carries the marks of all streams",
        Scenario({"a": INSERTS, "b": Stream("b", "b", batches=1), "a-2": INSERTS}, ONE_ROW),
        Bound(0, 1, CRASH, struck=frozenset({"a"}), amid=ends_a_batch),
        ONCE,
        stops="another stream's commit hides how far this one is, and its last batch comes twice",
        mutant="a commit forgets the marks before it",
    ),
    Case(
        "the archive is asked for marks",
        Scenario(
            {"a": INSERTS, "cluster": OwnCluster(), "archive": OwnArchive(), "a-2": INSERTS},
            ONE_ROW,
        ),
        Bound(0, 1, CRASH, struck=frozenset({"a"}), amid=ends_a_batch),
        ONCE,
        stops="a batch comes twice, whose commit was archived behind one that tells of no stream",
        mutant="the archive is not asked for marks",
    ),
    Case(
        "an epoch belongs to its query",
        Scenario({"a": INSERTS, "b": Stream("a", "b", batches=1)}, ONE_ROW),
        Bound(preemptions=0),
        ROWS,
        stops="the first batches of a second query of one name are skipped as if they were there",
        mutant="a batch's number says all, whichever query has it",
    ),
    Case(
        "the writes of a batch are counted",
        Scenario({"a": replace(INSERTS, writes=2)}, ONE_ROW),
        Bound(preemptions=0),
        ROWS,
        stops="the second write of a batch to a table is skipped as if it were the first",
        mutant="each write of a batch is its first",
    ),
)
