from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.instants import Action, Instant, InstantTime, State, format_time, parse_time
from pyhudi.format.plans import InstantInfo, RollbackPlan, render_rollback_plan
from pyhudi.storage.base import StoredFile
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.transactions.instants import take_time
from pyhudi.transactions.times.times import next_time
from tests.fakes import FakeClock
from tests.transactions.world import (
    LAPSE_S,
    NEVER,
    POLICY,
    World,
    dead_writer,
    finish,
    put_instant,
    settle,
    work,
)

NOW = 1_700_000_000_000


def timeline(*names: str) -> Timeline:
    folder = ".hoodie/timeline"
    return timeline_of([StoredFile(f"{folder}/{name}", 0, 0) for name in names], 2, folder)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_an_empty_timeline_gives_the_clocks_time() -> None:
    assert next_time(FakeClock(NOW), timeline(), True) == format_time(NOW, True)


@given(
    offset_ms=st.integers(-10_000_000_000, 10_000_000_000),
    length_ms=st.integers(1, 1_000_000),
)
def test_the_next_time_exceeds_every_request_and_completion(offset_ms: int, length_ms: int) -> None:
    request = format_time(NOW + offset_ms, True)
    completion = format_time(NOW + offset_ms + length_ms, True)
    for names in ([f"{request}_{completion}.commit"], [f"{completion}.clean.requested"]):
        found = next_time(FakeClock(NOW), timeline(*names), True)
        assert found > completion
        assert len(found) == 17
        assert parse_time(found, True) == max(NOW, NOW + offset_ms + length_ms + 1)


def test_times_of_seconds_and_hudis_special_times_are_passed() -> None:
    seconds = timeline("20990101000000.commit.requested")
    assert next_time(FakeClock(NOW), seconds, True) == "20990101000001000"
    special = timeline("00000000000000010_20200101000000000.commit")
    assert next_time(FakeClock(NOW), special, True) == format_time(NOW, True)


@pytest.mark.usefixtures("berlin")
def test_the_hour_that_local_time_shows_twice_does_not_run_back() -> None:
    """2023-10-29 in Berlin: 02:59:59.999 is followed by 02:00:00.000."""
    last = InstantTime("20231029025959999")
    clock = FakeClock(parse_time(InstantTime("20231029003000000"), True))
    assert format_time(clock.now_ms(), False) == "20231029023000000"

    found = next_time(clock, timeline(f"{last}.commit.requested"), False)

    assert found == "20231029030000000"


@pytest.mark.usefixtures("berlin")
def test_a_table_in_local_time_gets_local_times() -> None:
    assert next_time(FakeClock(NOW), timeline(), False) == "20231114231320000"
    assert Action.COMMIT.value == "commit"


# -- taking a time


def test_a_time_that_a_commit_overtook_is_given_up(world: World) -> None:
    """A reader that follows instant times may have passed it before its first file was there."""
    world.upsert({"k": "0"})
    ahead = FakeClock(world.clock.now_ms() + 5_000, seed=1)
    late: list[InstantTime] = []

    def other_commits(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith("requested") and not late:
            late.append(InstantTime(call.paths[0].rsplit("/", 1)[-1].split(".")[0]))
            world.upsert({"k": "1"}, clock=ahead)

    slow = world.begin(FaultyStorage(world.memory, before=other_commits))

    assert slow.instant > world.table().timeline().commits[-1].time > late[0]
    assert world.table().timeline().at(late[0]) == ()
    finish(slow, work(slow, {"k": "2"}))
    assert world.rows() == {"k": "2"}


@pytest.mark.parametrize("action", [Action.ROLLBACK, Action.RESTORE])
def test_a_time_that_an_undoing_overtook_is_given_up(world: World, action: Action) -> None:
    """Found by the explorer: the time may be that of a commit that was undone in between."""
    undoing = InstantTime("20991231000000000")

    def undo(call: Call) -> None:
        if call.paths[0].endswith(".commit.requested") and not world.table().timeline().instants:
            completion = None if world.version == 6 else InstantTime("20991231000000001")
            put_instant(world, Instant(undoing, action, State.COMPLETED, completion))

    table = world.table(FaultyStorage(world.memory, before=undo))
    time, _ = take_time(world.writer(table=table), Action.COMMIT, b"")

    assert time > undoing


def test_a_pending_instant_with_a_later_time_overtakes_nothing(world: World) -> None:
    world.begin(clock=FakeClock(world.clock.now_ms() + 5_000, seed=1))
    before = len(world.clock.slept)
    assert world.begin(policy=NEVER).instant > world.table().timeline().pending[0].time
    assert len(world.clock.slept) == before


class Counter:
    """A counter as a service keeps it: one step at a time, above all that it gave."""

    def __init__(self) -> None:
        self.last = 0
        self.asked: list[int] = []

    def next_ms(self, at_least: int) -> int:
        self.asked.append(at_least)
        self.last = max(self.last + 1, at_least)
        return self.last


def test_instants_and_completions_come_from_the_source(world: World) -> None:
    counter = Counter()
    counter.last = NOW + 10_000_000
    policy = replace(POLICY, times=counter)

    done = world.upsert({"k": "1"}, policy=policy)

    assert done.instant == format_time(NOW + 10_000_001, True)
    assert done.completion_time == format_time(NOW + 10_000_002, True)
    assert counter.asked[0] == NOW


def test_rollbacks_take_their_times_from_it_too(world: World) -> None:
    dead_writer(world)
    world.clock.advance(LAPSE_S)
    counter = Counter()
    counter.last = NOW + 10_000_000

    settle(world, replace(POLICY, times=counter))

    (rollback,) = world.table().timeline().instants
    assert rollback.time == format_time(NOW + 10_000_001, True)


@given(
    now=st.integers(0, 10_000),
    asks=st.lists(st.tuples(st.booleans(), st.integers(-10_000, 10_000)), max_size=30),
)
def test_writers_with_skewed_clocks_and_one_counter_get_ever_later_times(
    now: int, asks: list[tuple[bool, int]]
) -> None:
    """Neither sees the other's instants: the counter alone keeps them apart."""
    counter, empty = Counter(), timeline()
    clocks = FakeClock(NOW + now), FakeClock(NOW - now, seed=1)
    times = []
    for which, skew in asks:
        clocks[which].skew(skew / 1000)
        times.append(next_time(clocks[which], empty, True, counter))
    assert all(earlier < later for earlier, later in itertools.pairwise(times))


def test_a_rollback_that_another_has_begun_to_carry_out_is_not_taken_back(world: World) -> None:
    """Found by the explorer: its plan went, and what had begun stayed inflight for ever."""
    world.upsert({"k": "0"})
    begun: list[str] = []

    def others_go_on(call: Call) -> None:
        asked = [c.paths[0] for c in slow.calls if c.paths[0].endswith(".rollback.requested")]
        if call.method == "list" and asked and not begun:
            begun.append(asked[0])
            world.memory.put_if_absent(asked[0].replace(".requested", ".inflight"), b"")
            ahead = FakeClock(world.clock.now_ms() + 5_000, seed=1)
            world.upsert({"k": "1"}, clock=ahead, policy=NEVER)

    target = InstantInfo(InstantTime("20200101000000000"), "commit")
    plan = render_rollback_plan(RollbackPlan(target))
    slow = FaultyStorage(world.memory, before=others_go_on)
    time, _ = take_time(world.writer(slow), Action.ROLLBACK, plan)

    assert begun[0].rsplit("/", 1)[-1].split(".")[0] == time
    assert world.memory.read(begun[0]) == plan
