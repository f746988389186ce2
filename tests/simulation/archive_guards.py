"""The guards around pyhudi's archive, each with the anomaly that it is there for.

Also those of a writer that stood still until the name that it was about to put was archived away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyhudi.format.instants import Instant, State, parse_instant
from pyhudi.services import archiver
from pyhudi.services.archive_history import add_to_history
from pyhudi.storage.base import Files
from pyhudi.timeline.active import InstantKey, instant_key
from pyhudi.timeline.archived import history_version
from pyhudi.transactions.writer import Writer
from tests.simulation.explore import Bound
from tests.simulation.guards import GUARDS, LIVE, LOST, ONE_ROW, Case, Guards, nothing
from tests.simulation.own_services import OwnArchive, ReadLong
from tests.simulation.programs import Upsert
from tests.simulation.residuals import timeline_entry
from tests.simulation.scheduler import FaultKind, Kind, Task
from tests.simulation.service_guards import SERIAL, SERVICE_GUARDS, TWO_ROWS
from tests.simulation.statements import Update
from tests.simulation.world import Scenario

ARCHIVER: Final = "pyhudi.services.archiver"
THREE_ROWS: Final = (("k1",), ("k2",), ("k3",))

Order = Callable[[list[tuple[Instant, str]]], list[str]]


def _moved(order: Order, deleted_first: bool = False) -> Callable[..., None]:
    """An archive that deletes the files of its instants in another ``order``, or too early."""

    def move(writer: Writer, doomed: Sequence[Instant], files: Files) -> None:
        storage, layout = writer.table.storage, writer.table.config.layout
        found: dict[InstantKey, list[archiver.TimelineFile]] = {}
        for file in files:
            if instant := parse_instant(file.name, layout):
                found.setdefault(instant_key(instant), []).append((instant, file))
        rows = [archiver._row(storage, found[instant_key(each)], each) for each in doomed]
        gone = order([(i, f.path) for each in doomed for i, f in found[instant_key(each)]])
        if deleted_first:
            storage.delete(gone)
        add_to_history(writer, rows)
        for path in gone:
            storage.delete([path])

    return move


def _done(instant: Instant) -> bool:
    return instant.state is State.COMPLETED


def _completed_first(found: list[tuple[Instant, str]]) -> list[str]:
    return [path for _, path in sorted(found, key=lambda one: not _done(one[0]))]


def _newest_first(found: list[tuple[Instant, str]]) -> list[str]:
    done = sorted((instant.time, path) for instant, path in found if _done(instant))
    return [path for instant, path in found if not _done(instant)] + [p for _, p in done[::-1]]


def _no_floor(*_: Any) -> None:
    return None


ARCHIVE_GUARDS: Final[Guards] = {
    "the archive has it before it goes": {f"{ARCHIVER}._move": _moved(_newest_first, True)},
    "the completed file goes last": {f"{ARCHIVER}._move": _moved(_completed_first)},
    "the oldest instant goes first": {f"{ARCHIVER}._move": _moved(_newest_first)},
    "leases hold the archive back": {f"{ARCHIVER}._floor_of_leases": _no_floor},
    "commits that our archive took are judged": SERVICE_GUARDS["archived commits are judged"],
    "a name that was archived away, at begin": GUARDS["merge target newer than own instant"],
    "a name that was archived away, at publish": {
        "pyhudi.transactions.publish.FinalPut._look_again": nothing,
        "pyhudi.transactions.publish.FinalPut._look_back": nothing,
    },
    "manifests above the newest one": {"pyhudi.timeline.archived.whole_history": history_version},
}


def _begins(task: Task) -> bool:
    """Whether a write has looked at the timeline, and has not sent its first beat."""
    return task.op.kind is Kind.CLOCK and task.last is not None and task.last.what == "list"


def _publishes(task: Task) -> bool:
    """Whether the next step is the last put of a write, or the look whether that has landed."""
    return task.op.what in ("put_if_absent", "exists") and _state(task) is State.COMPLETED


def _state(task: Task) -> State | None:
    instant = timeline_entry(task.op.paths[0]) if task.op.paths else None
    return instant.state if instant is not None else None


def _names_the_version(task: Task) -> bool:
    return task.op.what == "replace" and task.op.paths[0].endswith("_version_")


STANDS_STILL: Final = (FaultKind.PAUSE,)
ONE_WRITE: Final = {"w1": Upsert(("k1",)), "archive": OwnArchive()}
#: the name that w1 is about to put is w2's by then, and archived behind w3's
OVERTAKEN: Final = Scenario(
    {
        "w1": Upsert(("new",)),
        "w2": Upsert(("k1", "k2")),
        "w3": Upsert(("k1", "k3")),
        "archive": OwnArchive(pause_s=2.0),
    },
    THREE_ROWS,
)
#: one order alone: each runs as far as it can
IN_ORDER: Final = -1

ARCHIVE_CASES: Final = (
    Case(
        "the archive has it before it goes",
        Scenario(ONE_WRITE, ONE_ROW),
        Bound(0, 1, (FaultKind.CRASH,), struck=frozenset({"archive"})),
        LOST,
        stops="an archiver that dies leaves a commit that is nowhere",
        mutant="completed files go before the archive has them",
    ),
    Case(
        "the completed file goes last",
        Scenario(ONE_WRITE, TWO_ROWS),
        Bound(0, 1, (FaultKind.CRASH,), struck=frozenset({"archive"})),
        LIVE,
        stops="an archiver that dies leaves a commit that looks pending, and is rolled back",
        mutant="the completed file goes before the others",
    ),
    Case(
        "the oldest instant goes first",
        Scenario({"w1": Upsert(("k1",)), "w2": Upsert(("k2",)), "archive": OwnArchive()}, TWO_ROWS),
        Bound(IN_ORDER),
        SERIAL,
        stops="a commit that has left the timeline above an older one counts as failed",
        mutant="the newest instants go first",
    ),
    Case(
        "leases hold the archive back",
        Scenario(
            {
                "w1": Upsert(("k1",)),
                "w2": Upsert(("k2",)),
                "reader": ReadLong(),
                "w3": Upsert(("k3",)),
                "archive": OwnArchive(pause_s=1.0),
            },
            THREE_ROWS,
        ),
        Bound(),
        LIVE,
        seeds=400,
        stops="a query sees a commit that completed after it had begun",
        mutant="instants are archived past a savepoint, a pending instant or a query",
    ),
    Case(
        "commits that our archive took are judged",
        Scenario(
            {
                "w1": Update(("k1",)),
                "w2": Upsert(("k1",)),
                "w3": Upsert(("k2",)),
                "archive": OwnArchive(),
            },
            TWO_ROWS,
        ),
        Bound(),
        LOST,
        seeds=400,
        stops="an UPDATE overwrites a commit that came after its scan and was archived at once",
        mutant="the archive is not asked",
        known_seed=291,
    ),
    Case(
        "a name that was archived away, at begin",
        OVERTAKEN,
        Bound(IN_ORDER, 1, STANDS_STILL, struck=frozenset({"w1"}), amid=_begins),
        LOST,
        stops="two writes have one instant, of which the second hides what was archived after it",
        mutant="a time is kept though a commit overtook it",
    ),
    Case(
        "a name that was archived away, at publish",
        OVERTAKEN,
        Bound(
            IN_ORDER,
            2,
            (FaultKind.LOSE_REPLY, FaultKind.PAUSE),
            struck=frozenset({"w1"}),
            amid=_publishes,
        ),
        LOST,
        stops="a commit is put again below those that were archived with it, and hides them",
        mutant="no look before the put comes again",
    ),
    Case(
        "manifests above the newest one",
        Scenario(
            {
                "w1": Upsert(("k1",)),
                "archive": OwnArchive(),
                "w2": Upsert(("k1",)),
                "archive-2": OwnArchive(),
            },
            ONE_ROW,
        ),
        Bound(0, 1, STANDS_STILL, struck=frozenset({"archive"}), amid=_names_the_version),
        LOST,
        stops="an archiver that stood still before its last put hides what others archived",
        mutant="readers take the newest manifest alone",
    ),
)
