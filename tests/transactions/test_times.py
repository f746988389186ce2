from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.instants import Action, InstantTime, format_time, parse_time
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.transactions.times import next_time
from tests.fakes import FakeClock

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
