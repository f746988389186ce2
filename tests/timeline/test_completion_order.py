from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.choices import Order
from pyhudi.errors import UnsupportedTable
from pyhudi.format.instants import Action, InstantTime, format_time, parse_time
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.timeline.completion_order import (
    completion_ordered,
    completion_time,
    default_order,
    fence,
    fenced,
    follow,
    safe_checkpoint,
)

NOW = 1_700_000_000_000


def t(n: int) -> InstantTime:
    return InstantTime(f"202401010000{n:05d}")


def timeline(*names: str, layout: int = 2) -> Timeline:
    """A listing of these files, each modified a second after the one before it."""
    files = [StoredFile(f".hoodie/{name}", 0, NOW + 1000 * at) for at, name in enumerate(names)]
    return timeline_of(files, layout, ".hoodie")


def crossed() -> Timeline:
    """1 began first and ended last; 3 is still pending; 4 began after it and has ended."""
    return timeline(
        f"{t(1)}_{t(9)}.commit",
        f"{t(2)}_{t(5)}.commit",
        f"{t(3)}.commit.requested",
        f"{t(4)}_{t(7)}.replacecommit",
    )


def times(instants: Iterable[object]) -> list[InstantTime]:
    return [i.time for i in instants]  # type: ignore[attr-defined]


def test_commits_come_in_the_order_in_which_they_completed() -> None:
    assert times(completion_ordered(crossed(), True)) == [t(2), t(4), t(1)]


def test_layout_1_takes_the_completion_time_from_the_file() -> None:
    found = timeline(f"{t(2)}.commit", f"{t(1)}.commit", layout=1)
    assert times(completion_ordered(found, True)) == [t(2), t(1)]
    first = found.commits[0]
    assert completion_time(found, first, True) == format_time(NOW + 1000, True)


def test_what_an_upgrade_carried_over_takes_it_from_the_file_too() -> None:
    found = timeline(f"{t(1)}.commit", f"{t(2)}_{t(3)}.commit")
    assert completion_time(found, found.commits[0], True) == format_time(NOW, True)
    assert completion_time(found, found.commits[1], True) == t(3)


def test_the_fence_is_the_first_pending_write() -> None:
    assert fence(crossed()) == t(3)
    assert times(fenced(crossed())) == [t(1), t(2)]
    settled = timeline(f"{t(1)}_{t(9)}.commit")
    assert fence(settled) is None
    assert times(fenced(settled)) == [t(1)]


@pytest.mark.parametrize("action", [Action.CLUSTERING, Action.COMPACTION, Action.CLEAN])
def test_a_pending_service_fences_nothing(action: Action) -> None:
    found = timeline(f"{t(1)}.{action.value}.requested", f"{t(2)}_{t(3)}.commit")
    assert fence(found) is None


def test_a_clustering_of_layout_1_fences_unless_it_is_known_as_one() -> None:
    found = timeline(f"{t(1)}.replacecommit.requested", f"{t(2)}.commit", layout=1)
    assert fence(found) == t(1)
    assert fence(found, {t(1)}) is None


def test_by_completion_the_checkpoint_passes_writers_in_flight() -> None:
    found = crossed()
    assert safe_checkpoint(found, found, Order.COMPLETED, True) == t(9)
    assert safe_checkpoint(found, found, Order.FENCED, True) == t(2)
    assert safe_checkpoint(found, found, Order.REQUESTED, True) == t(2)


def test_an_empty_table_has_no_checkpoint() -> None:
    empty = timeline()
    for order in Order:
        assert safe_checkpoint(empty, empty, order, True) is None
        assert follow(empty, empty, None, order, True).checkpoint is None


def test_layout_1_gives_no_checkpoint_by_completion() -> None:
    found = timeline(f"{t(1)}.commit", layout=1)
    with pytest.raises(UnsupportedTable, match="'fenced' or 'requested'"):
        safe_checkpoint(found, found, Order.COMPLETED, True)
    assert default_order(1) is Order.FENCED
    assert default_order(2) is Order.COMPLETED


def test_by_request_what_lies_behind_a_pending_write_comes_again() -> None:
    found = crossed()
    first = follow(found, found, None, Order.REQUESTED, True)
    assert times(first.commits) == [t(1), t(2), t(4)]
    assert (first.checkpoint, first.fence) == (t(2), t(3))
    again = follow(found, found, first.checkpoint, Order.REQUESTED, True)
    assert times(again.commits) == [t(4)]


def test_a_checkpoint_never_goes_back() -> None:
    found = crossed()
    for order in Order:
        assert follow(found, found, t(50), order, True).checkpoint == t(50)
        assert follow(found, found, t(50), order, True).commits == ()


def test_times_of_seconds_count_as_the_end_of_their_second() -> None:
    found = timeline("20240101000000.commit", "20240101000000500.commit.requested", layout=1)
    assert safe_checkpoint(found, found, Order.FENCED, True) is None
    later = timeline("20240101000000.commit", layout=1)
    assert safe_checkpoint(later, later, Order.FENCED, True) == "20240101000000999"


# -- readers beside writers, whatever the order of events


@dataclass
class Writers:
    """A folder that grows and shrinks; a listing reads it name by name, with events in between.

    Times are taken as pyhudi takes them: an instant's above all that has completed by the time
    its first file is there, a completion's above all that is there.
    """

    layout: int
    names: set[str] = field(default_factory=set)
    open: dict[InstantTime, str] = field(default_factory=dict)
    completed: list[InstantTime] = field(default_factory=list)

    def step(self, event: int) -> None:
        kind, which = event % 3, event // 3
        if kind == 0 or not self.open:
            # A slow writer's time is old by now, but above all that has completed.
            time = self._above(self.completed_times()) if which % 2 else self._above(self.all())
            if time not in self.open and not any(n.startswith(time) for n in self.names):
                self.open[time] = f"{time}.commit.requested"
                self.names.add(self.open[time])
            return
        time = sorted(self.open)[which % len(self.open)]
        requested = self.open.pop(time)
        if kind == 2:
            self.names.discard(requested)
            return
        if self.layout == 1 and any(time < other for other in self.completed_times()):
            self.names.discard(requested)  # refused at its commit, and rolled back
            return
        done = f"_{self._above(self.all())}" if self.layout == 2 else ""
        self.names.add(f"{time}{done}.commit")
        self.completed.append(time)

    def listing(self, events: list[int]) -> Timeline:
        """Names in their order, each looked at after one more event."""
        seen, last = [], ""
        pending = list(events)
        while True:
            ahead = sorted(n for n in self.names if n > last)
            if not ahead:
                break
            last = ahead[0]
            seen.append(last)
            if pending:
                self.step(pending.pop())
        return timeline(*seen, layout=self.layout)

    def all(self) -> list[InstantTime]:
        return [InstantTime(part) for n in self.names for part in n.split(".")[0].split("_")]

    def completed_times(self) -> list[InstantTime]:
        return [InstantTime(n.split("_")[0].split(".")[0]) for n in self.names if n.endswith("mit")]

    def _above(self, others: list[InstantTime]) -> InstantTime:
        return format_time(parse_time(max([*others, t(1)]), True) + 1, True)


events = st.lists(st.integers(0, 29), max_size=12)
polls = st.lists(st.tuples(events, events, events), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("layout", "order"),
    [(1, Order.FENCED), (1, Order.REQUESTED)] + [(2, order) for order in Order],
)
@settings(max_examples=150, deadline=None)
@given(rounds=polls)
def test_no_commit_is_passed_over_however_writers_and_listings_interleave(
    layout: int, order: Order, rounds: list[tuple[list[int], list[int], list[int]]]
) -> None:
    writers, checkpoint, told = Writers(layout), None, list[InstantTime]()
    for between, during, later in rounds:
        for event in between:
            writers.step(event)
        before = writers.listing(during)
        now = writers.listing(later)
        found = follow(before, now, checkpoint, order, True)
        checkpoint = found.checkpoint
        told += times(found.commits)
        if order is not Order.REQUESTED:
            assert len(told) == len(set(told))
    while writers.open:
        writers.step(1)
    last = writers.listing([])
    told += times(follow(last, last, checkpoint, order, True).commits)
    assert set(told) == set(writers.completed)


def test_one_torn_listing_would_pass_over_a_commit() -> None:
    """Why a checkpoint takes two: 1 ends behind the listing's back, then 2 ends before its eyes."""
    torn = timeline(f"{t(1)}.commit.requested", f"{t(2)}_{t(6)}.commit")
    whole = timeline(f"{t(1)}_{t(5)}.commit", f"{t(2)}_{t(6)}.commit")

    alone = follow(torn, torn, None, Order.COMPLETED, True)
    assert (times(alone.commits), alone.checkpoint) == ([t(2)], t(6))
    assert follow(whole, whole, alone.checkpoint, Order.COMPLETED, True).commits == ()

    assert times(follow(torn, whole, None, Order.COMPLETED, True).commits) == [t(1), t(2)]

    before = timeline(f"{t(1)}.commit.requested", f"{t(2)}.commit.requested")
    first = follow(before, torn, None, Order.COMPLETED, True)
    then = follow(whole, whole, first.checkpoint, Order.COMPLETED, True)
    assert t(1) in times((*first.commits, *then.commits))
