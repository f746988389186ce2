"""Filters on columns of rows: the same answers as SQL's, null included, or none."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.reads.conditions import (
    AllOf,
    Among,
    AnyOf,
    Bytes,
    Compare,
    Comparison,
    Day,
    Exact,
    Filter,
    Flag,
    HasText,
    IsNotNull,
    IsNull,
    Literal,
    LocalMoment,
    Moment,
    Not,
    Null,
    Real,
    Text,
    TextPart,
    Unknown,
    Whole,
)
from pyhudi.reads.row_filters import columns_of, evaluated, parts_of

NUMBERS = pa.array([None, -1, 0, 1, 2], pa.int32())
TEXTS = pa.array([None, "", "a", "ab", "é"], pa.string())
COLUMNS = {"n": NUMBERS, "t": TEXTS}
COMPARE: Mapping[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQUAL: lambda a, b: a == b,
    Comparison.GREATER: lambda a, b: a > b,
    Comparison.AT_LEAST: lambda a, b: a >= b,
    Comparison.LESS: lambda a, b: a < b,
    Comparison.AT_MOST: lambda a, b: a <= b,
}


def plain(literal: Literal) -> Any:
    return None if literal == Null() else literal.value  # type: ignore[union-attr]


def judged(condition: Filter, row: Mapping[str, Any]) -> bool | None:
    """SQL's value of a filter on a row."""
    match condition:
        case AllOf(filters):
            found = [judged(each, row) for each in filters]
            return False if False in found else None if None in found else True
        case AnyOf(filters):
            found = [judged(each, row) for each in filters]
            return True if True in found else None if None in found else False
        case Not(child):
            inner = judged(child, row)
            return None if inner is None else not inner
        case IsNull(name):
            return row[name] is None
        case IsNotNull(name):
            return row[name] is not None
        case Compare(Comparison.SAME, name, literal):
            return bool(row[name] == plain(literal))
        case Compare(by, name, literal):
            value = plain(literal)
            return None if None in (row[name], value) else COMPARE[by](row[name], value)
        case Among(name, literals):
            values = [plain(each) for each in literals]
            if row[name] is None:
                return None
            return True if row[name] in values else None if None in values else False
        case HasText(part, name, text):
            held = row[name]
            if held is None:
                return None
            find = {TextPart.START: held.startswith, TextPart.END: held.endswith}
            return bool(find[part](text)) if part in find else text in held
    raise AssertionError(condition)


def leaves() -> st.SearchStrategy[Filter]:
    numbers = st.integers(-1, 3).map(Whole)
    texts = st.sampled_from(["", "a", "b", "ab", "é"])
    by = st.sampled_from(Comparison)
    return st.one_of(
        st.builds(Compare, by, st.just("n"), numbers),
        st.builds(Compare, by, st.just("t"), texts.map(Text)),
        st.builds(Compare, st.just(Comparison.SAME), st.sampled_from("nt"), st.just(Null())),
        st.builds(
            Among,
            st.just("n"),
            st.lists(st.one_of(numbers, st.just(Null())), min_size=1, max_size=3).map(tuple),
        ),
        st.builds(HasText, st.sampled_from(TextPart), st.just("t"), texts),
        st.builds(IsNull, st.sampled_from("nt")),
        st.builds(IsNotNull, st.sampled_from("nt")),
    )


def conditions() -> st.SearchStrategy[Filter]:
    def whole(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
        several = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.one_of(
            st.builds(AllOf, several), st.builds(AnyOf, several), st.builds(Not, inner)
        )

    return st.recursive(leaves(), whole, max_leaves=6)


@given(conditions())
def test_each_row_has_sqls_answer(condition: Filter) -> None:
    rows = [{"n": n, "t": t} for n, t in zip(NUMBERS.to_pylist(), TEXTS.to_pylist(), strict=True)]
    found = evaluated(condition, COLUMNS)
    assert found is not None
    assert found.to_pylist() == [judged(condition, row) for row in rows]


DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.timezone.utc)
MICROS = int(MOMENT.timestamp()) * 1_000_000
KINDS: list[tuple[pa.Array, Literal]] = [
    (pa.array([True, False, None]), Flag(True)),
    (pa.array([7, 8, None], pa.int8()), Whole(7)),
    (pa.array([1 << 40, 8, None], pa.int64()), Whole(1 << 40)),
    (pa.array(["a", "b", None]), Text("a")),
    (pa.array([DAY, datetime.date(1, 1, 1), None]), Day((DAY - datetime.date(1970, 1, 1)).days)),
    (pa.array([MICROS, 0, None], pa.timestamp("us", "UTC")), Moment(MICROS)),
    (pa.array([MICROS, 0, None], pa.timestamp("us")), LocalMoment(MICROS)),
    (pa.array([Decimal("1.50"), Decimal(0), None], pa.decimal128(12, 2)), Exact("1.5")),
]


@pytest.mark.parametrize(("column", "literal"), KINDS, ids=lambda each: type(each).__name__)
def test_values_of_each_type_compare(column: pa.Array, literal: Literal) -> None:
    def answer(condition: Filter) -> list[bool | None] | None:
        found = evaluated(condition, {"c": column})
        return None if found is None else found.to_pylist()

    assert answer(Compare(Comparison.EQUAL, "c", literal)) == [True, False, None]
    assert answer(Among("c", (literal,))) == [True, False, None]
    at_most = [True, column[1].as_py() <= column[0].as_py(), None]
    assert answer(Compare(Comparison.AT_MOST, "c", literal)) == at_most


UNTOLD: list[tuple[pa.Array, Filter]] = [
    (pa.array([0.0]), Compare(Comparison.EQUAL, "c", Real("-0.0"))),
    (pa.array([1]), Compare(Comparison.EQUAL, "c", Text("1"))),
    (pa.array([b"x"]), Compare(Comparison.EQUAL, "c", Bytes("eA=="))),
    (pa.array([1]), Compare(Comparison.EQUAL, "other", Whole(1))),
    (pa.array([1]), Unknown()),
    (pa.array([1]), Not(Unknown())),
    (pa.array([1]), AnyOf((Unknown(), Compare(Comparison.EQUAL, "c", Whole(1))))),
    (
        pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
        Compare(Comparison.EQUAL, "c", Exact("1.55")),
    ),
    (pa.array([0], pa.timestamp("us")), Compare(Comparison.EQUAL, "c", Moment(0))),
]


@pytest.mark.parametrize(("column", "condition"), UNTOLD, ids=lambda each: type(each).__name__)
def test_what_spark_alone_can_tell_has_no_answer(column: pa.Array, condition: Filter) -> None:
    assert evaluated(condition, {"c": column}) is None


def test_a_filter_names_its_columns_and_and_falls_into_parts() -> None:
    one, two = Compare(Comparison.EQUAL, "n", Whole(1)), IsNull("t")
    both = AllOf((one, AllOf((two, Unknown()))))
    assert list(parts_of([both, one])) == [one, two, Unknown(), one]
    assert columns_of(AnyOf((one, Not(two)))) == {"n", "t"}
