"""What commits say of streams: their marks, in pyhudi's form and in Apache Hudi's."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.instants import InstantTime
from pyhudi.format.stream_marks import (
    HUDI_KEY,
    MOST_STREAMS,
    MOST_WRITES,
    STREAMS_KEY,
    Epoch,
    Mark,
    hudi_batches,
    own_marks,
    render_marks,
    with_mark,
)

T1, T2 = InstantTime("20260101000000001"), InstantTime("20260101000000002")

instants = st.integers(0, 10**17 - 1).map(lambda n: InstantTime(f"{n:017d}"))
numbers = st.integers(0, 2**63 - 1)
made = st.lists(st.text(), max_size=MOST_WRITES).map(tuple)
marks = st.builds(Mark, st.none() | st.text(), numbers, numbers, instants, made)


@given(st.dictionaries(st.text(), marks))
def test_marks_that_are_rendered_and_parsed_are_the_same(known: dict[str, Mark]) -> None:
    extra = render_marks(known, known)
    assert own_marks(extra) == known
    assert (hudi_batches(extra) or {}) == {name: mark.batch for name, mark in known.items()}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        '{"a": {"query": "q", "batch": 1, "wri',
        "[]",
        "7",
        '{"a": 7}',
        '{"a": []}',
        '{"a": {"query": "q", "batch": 1, "writes": 1}}',
        '{"a": {"query": "q", "batch": "one", "writes": 1, "instant": "1"}}',
        '{"a": {"query": "q", "batch": null, "writes": 1, "instant": "1"}}',
        '{"a": {"query": "q", "batch": Infinity, "writes": 1, "instant": "1"}}',
        '{"a": {"query": "q", "batch": NaN, "writes": 1, "instant": "1"}}',
        "[" * 100_000,
    ],
)
def test_marks_that_cannot_be_read_are_none(text: str | None) -> None:
    assert own_marks({} if text is None else {STREAMS_KEY: text}) is None


@pytest.mark.parametrize("text", [None, "{", "[]", '{"a": "x"}', '{"a": null}', '{"a": Infinity}'])
def test_apache_hudis_numbers_that_cannot_be_read_are_none(text: str | None) -> None:
    assert hudi_batches({} if text is None else {HUDI_KEY: text}) is None


def test_apache_hudi_writes_its_numbers_as_text() -> None:
    assert hudi_batches({HUDI_KEY: '{"default_single_writer":"12"}'}) == {
        "default_single_writer": 12
    }
    known = {"a": Mark("q", 12, 1, T1)}
    assert json.loads(render_marks(known, known)[HUDI_KEY]) == {"a": "12"}
    assert HUDI_KEY not in render_marks(known, {}), "an empty key would say that there is none"


def test_the_mark_of_an_epoch_counts_the_writes_of_its_batch_and_names_them() -> None:
    known = {"b": Mark("q2", 7, 1, T1, ("merge",))}
    assert with_mark(known, Epoch("a", "q", 3, ordinal=1, made=("delete", "insert")), T2) == {
        "b": Mark("q2", 7, 1, T1, ("merge",)),
        "a": Mark("q", 3, 2, T2, ("delete", "insert")),
    }


def test_a_mark_that_names_no_writes_is_as_older_releases_write_it() -> None:
    text = '{"a":{"query":"q","batch":3,"writes":2,"instant":"20260101000000001"}}'
    known = {"a": Mark("q", 3, 2, T1)}
    assert own_marks({STREAMS_KEY: text}) == known
    assert render_marks(known, {}) == {STREAMS_KEY: text}


@pytest.mark.parametrize("told", ["null", "7", '"delete"', "[7]", '{"0": "delete"}'])
def test_names_of_writes_that_cannot_be_read_are_passed_over(told: str) -> None:
    text = f'{{"a": {{"query": "q", "batch": 3, "writes": 2, "instant": "{T1}", "made": {told}}}}}'
    assert own_marks({STREAMS_KEY: text}) == {"a": Mark("q", 3, 2, T1)}


def test_a_mark_names_so_many_writes_at_most() -> None:
    many = json.dumps(["insert"] * (MOST_WRITES + 1))
    text = f'{{"a": {{"query": "q", "batch": 3, "writes": 99, "instant": "{T1}", "made": {many}}}}}'
    found = own_marks({STREAMS_KEY: text})
    assert found == {"a": Mark("q", 3, 99, T1, ("insert",) * MOST_WRITES)}


def test_a_field_that_is_not_known_is_passed_over() -> None:
    text = f'{{"a": {{"query": "q", "batch": 3, "writes": 2, "instant": "{T1}", "new": 1}}}}'
    assert own_marks({STREAMS_KEY: text}) == {"a": Mark("q", 3, 2, T1)}


def test_above_the_most_streams_the_one_that_was_written_first_goes() -> None:
    known = {
        f"s{n}": Mark("q", 0, 1, InstantTime(f"{n:017d}")) for n in reversed(range(MOST_STREAMS))
    }
    after = with_mark(known, Epoch("new", "q", 0), InstantTime(f"{MOST_STREAMS:017d}"))
    assert len(after) == MOST_STREAMS
    assert known.keys() - after.keys() == {"s0"}


def test_a_known_stream_drives_no_other_out() -> None:
    known = {f"s{n}": Mark("q", 0, 1, InstantTime(f"{n:017d}")) for n in range(MOST_STREAMS)}
    assert with_mark(known, Epoch("s5", "q", 1), T1).keys() == known.keys()
