from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import ConfigError
from pyhudi.format.instants import (
    NAMES,
    Action,
    Instant,
    InstantTime,
    State,
    format_time,
    instant_file_name,
    parse_as_of,
    parse_instant,
    parse_time,
)

T = InstantTime("20260102030405678")
C = InstantTime("20260102030407000")

# A completed compaction, log compaction or clustering bears the name of what it amounts to.
READ_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("state", list(State))
def test_every_name_reads_back_as_its_instant(layout: int, action: Action, state: State) -> None:
    if action is Action.SAVEPOINT and state is State.REQUESTED:
        pytest.skip("a savepoint is never requested")
    completed = state is State.COMPLETED
    instant = Instant(T, action, state, C if layout == 2 and completed else None)

    read = parse_instant(instant_file_name(instant, layout), layout)

    renamed = completed or (layout == 1 and action is Action.CLUSTERING)
    expected = READ_AS.get(action, action) if renamed else action
    assert read == Instant(T, expected, state, instant.completion_time)


def test_the_names_are_those_of_the_format() -> None:
    def name(action: Action, state: State, layout: int) -> str:
        done = layout == 2 and state is State.COMPLETED
        return instant_file_name(Instant(T, action, state, C if done else None), layout)

    assert name(Action.COMMIT, State.REQUESTED, 1) == f"{T}.commit.requested"
    assert name(Action.COMMIT, State.INFLIGHT, 2) == f"{T}.inflight"
    assert name(Action.COMMIT, State.COMPLETED, 1) == f"{T}.commit"
    assert name(Action.COMPACTION, State.COMPLETED, 2) == f"{T}_{C}.commit"
    assert name(Action.CLUSTERING, State.REQUESTED, 1) == f"{T}.replacecommit.requested"
    assert name(Action.CLUSTERING, State.REQUESTED, 2) == f"{T}.clustering.requested"
    assert name(Action.CLUSTERING, State.COMPLETED, 2) == f"{T}_{C}.replacecommit"
    assert name(Action.SAVEPOINT, State.INFLIGHT, 1) == f"{T}.savepoint.inflight"


@pytest.mark.parametrize("layout", sorted(NAMES))
@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        f".{T}.commit.crc",
        f"{T}.commit.3f7c2f0e-6a61-4cf9-a1f3-2b8b1a3a1c55",
        f"{T}.commit.tmp",
        f"{T}.savepoint.requested",
        f"{T}_{C}.commit.requested",
        "history",
        f"{T}",
        "123.commit",
        f"{T}.commit\n",
    ],
)
def test_other_files_of_the_folder_are_no_instants(layout: int, name: str) -> None:
    assert parse_instant(name, layout) is None


def test_a_completion_time_in_a_name_belongs_to_layout_2_alone() -> None:
    assert parse_instant(f"{T}_{C}.commit", 1) is None
    assert parse_instant(f"{T}_{C}.commit", 2) == Instant(T, Action.COMMIT, State.COMPLETED, C)


def test_names_that_the_format_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="savepoint has no requested file"):
        instant_file_name(Instant(T, Action.SAVEPOINT, State.REQUESTED), 1)
    with pytest.raises(ValueError, match="lacks its completion time"):
        instant_file_name(Instant(T, Action.COMMIT, State.COMPLETED), 2)


@given(st.integers(min_value=0, max_value=4_102_444_800_000))
def test_parsing_a_rendered_time_gives_the_time(epoch_ms: int) -> None:
    assert parse_time(format_time(epoch_ms, utc=True), utc=True) == epoch_ms


def test_times_are_digits_in_the_asked_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert format_time(1_627_481_400_123, utc=True) == "20210728141000123"
        assert format_time(1_627_481_400_123, utc=False) == "20210728194000123"
        assert parse_time(InstantTime("20210728194000123"), utc=False) == 1_627_481_400_123
        assert parse_as_of("2021-07-28T14:10:00Z", utc=False) == "20210728194000999"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_fourteen_digits_mean_the_end_of_their_second_and_zeros_the_beginning() -> None:
    assert parse_time(InstantTime("20210728141000"), utc=True) == 1_627_481_400_999
    assert parse_time(InstantTime("20210728141000123001"), utc=True) == 1_627_481_400_123
    assert parse_time(InstantTime("00000000000000010"), utc=True) == 0
    for wrong in ("20211328141000123", "2021", "2021072814100012x"):
        with pytest.raises(ValueError, match="is not an instant time"):
            parse_time(InstantTime(wrong), utc=True)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("20210728141000123", "20210728141000123"),
        ("20210728141000", "20210728141000999"),
        ("2021-07-28", "20210728000000000"),
        ("2021-07-28 14:10:00", "20210728141000999"),
        ("2021-07-28 14:10:00.123", "20210728141000123"),
        (" 2021-07-28 14:10:00.5 ", "20210728141000500"),
        ("2021-07-28T14:10:00", "20210728141000999"),
        ("2021-07-28T14:10:00.123456", "20210728141000123"),
        ("2021-07-28T14:10:00Z", "20210728141000999"),
        ("2021-07-28T14:10:00.000+05:30", "20210728084000000"),
    ],
)
def test_as_of_takes_each_form_that_hudi_takes(text: str, instant: str) -> None:
    assert parse_as_of(text, utc=True) == instant


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2021-02-30", "20211328141000", "2021-07-28 25:00:00", "202107281"]
)
def test_as_of_refuses_what_is_no_time(text: str) -> None:
    with pytest.raises(ConfigError, match="not a point in time") as error:
        parse_as_of(text, utc=True)
    assert error.value.facts["key"] == "as.of.instant"


@pytest.mark.parametrize("utc", [True, False])
@pytest.mark.parametrize("epoch_ms", [253402300800000 + 86_400_000, -(10**15), 10**30])
def test_a_time_that_seventeen_digits_cannot_hold_is_refused(epoch_ms: int, utc: bool) -> None:
    with pytest.raises(ConfigError, match="outside the years 1 to 9999"):
        format_time(epoch_ms, utc)
