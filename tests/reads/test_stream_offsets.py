from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.choices import Order
from pyhudi.errors import ConfigError
from pyhudi.format.instants import InstantTime
from pyhudi.reads.stream_offsets import Beginning, Offset, StreamOffset, parse_offset

TIMES = st.one_of(st.just(""), st.integers(10**16, 10**17 - 1).map(str))
INSTANTS = st.integers(10**16, 10**17 - 1).map(lambda n: InstantTime(str(n)))
OFFSETS: st.SearchStrategy[Offset] = st.one_of(
    st.sampled_from(Beginning),
    st.builds(
        StreamOffset,
        st.sampled_from(Order),
        TIMES.map(InstantTime),
        st.none() | st.integers(0, 10**6),
        st.none() | st.text(),
        st.none() | INSTANTS,
        st.lists(INSTANTS, max_size=3).map(tuple),
    ),
)


@given(OFFSETS)
def test_an_offset_is_what_its_text_says(offset: Offset) -> None:
    assert parse_offset(offset.render()) == offset


@given(TIMES, TIMES, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_offsets_ascend_by_time_and_then_by_files_of_which_all_are_the_most(
    at: str, other: str, files: int | None, more: int | None
) -> None:
    one = StreamOffset(Order.COMPLETED, InstantTime(at), files)
    two = StreamOffset(Order.COMPLETED, InstantTime(other), more)
    if at != other:
        assert (one.rank < two.rank) == (at < other)
    elif files is not None:
        assert (one.rank < two.rank) == (more is None or files < more)


GOOD = json.loads(StreamOffset(Order.COMPLETED, InstantTime("20240101000000000"), 3).render())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("20240101000000000", "it is no object"),
        ("{", "it is no JSON"),
        ('{"commitTime": "20240101000000000"}', "its version is None"),
        (json.dumps({**GOOD, "version": 2}), "its version is 2, not 1"),
        (json.dumps({**GOOD, "more": 1}), "its keys are"),
        (json.dumps({k: v for k, v in GOOD.items() if k != "files"}), "its keys are"),
        (json.dumps({**GOOD, "order": "random"}), "its order is 'random'"),
        (json.dumps({**GOOD, "at": "2024"}), "'2024' is no time"),
        (json.dumps({**GOOD, "files": True}), "True is no number of files"),
        (json.dumps({**GOOD, "files": -1}), "-1 is no number of files"),
        (json.dumps({**GOOD, "snapshot": 1}), "1 is no digest"),
        (json.dumps({**GOOD, "commit": None}), "None is no instant"),
        (json.dumps({**GOOD, "commit": "2024"}), "'2024' is no instant"),
        (json.dumps({**GOOD, "recent": "2024"}), "'2024' is no list of instants"),
        (json.dumps({**GOOD, "recent": [1]}), "1 is no instant"),
        (json.dumps({**GOOD, "recent": ["2024"]}), "'2024' is no instant"),
        ('{"version": 1, "begin": "now"}', "it begins at 'now'"),
    ],
)
def test_a_text_of_another_form_is_refused_with_its_reason(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="a checkpoint location of its own") as refused:
        parse_offset(text)
    assert said in str(refused.value)
