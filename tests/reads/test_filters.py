from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from pyhudi.errors import ConfigError
from pyhudi.format.keys import DEFAULT_PARTITION
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableConfig, parse_table_config
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
    HasText,
    IsNotNull,
    IsNull,
    Literal,
    LocalMoment,
    Moment,
    Not,
    Null,
    Real,
    TextPart,
    Unknown,
    Whole,
)
from pyhudi.reads.filters import (
    decided_by_partition,
    decided_filters,
    kept_partitions,
    matching_partitions,
    may_match,
    or_null,
    require_whole_partitions,
    typed_values,
)
from tests.reads.conditions import among, compare

DAY = datetime.date(2024, 5, 1)
MAY = Day(19_844)
ROW: dict[str, Any] = {"n": 3, "s": "abc", "d": MAY, "b": True, "z": None}


def op(name: str, column: str, value: Any = None) -> Filter:
    return compare(column, name, value)


def config(
    *fields: str,
    generator: KeyGenerator = KeyGenerator.SIMPLE,
    hive_style: bool = False,
    url_encode: bool = False,
) -> TableConfig:
    properties = new_table_properties(
        name="t",
        version=9,
        record_key_fields=["k"],
        partition_fields=fields,
        ordering_fields=[],
        merge_mode=MergeMode.COMMIT_TIME_ORDERING,
        key_generator=generator,
        hive_style=hive_style,
        url_encode=url_encode,
    )
    return parse_table_config(render_properties(properties), "t")


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (op("=", "n", 3), True),
        (op("=", "n", 4), False),
        (op(">", "n", 3), False),
        (op(">=", "n", 3), True),
        (op("<", "n", 4), True),
        (op("<=", "n", 2), False),
        (op("=", "n", "3"), None),
        (op("=", "n", True), None),
        (op("=", "b", True), True),
        (op("=", "b", 1), None),
        (op("=", "d", DAY), True),
        (op(">", "d", DAY + datetime.timedelta(1)), False),
        (op("=", "d", "2024-05-01"), None),
        (Compare(Comparison.GREATER, "d", Day(3_000_000)), False),
        (Compare(Comparison.GREATER, "d", Moment(0)), None),
        (Compare(Comparison.EQUAL, "n", Exact("3")), None),
        (Compare(Comparison.EQUAL, "s", Bytes("YWJj")), None),
        (HasText(TextPart.START, "d", "2024"), None),
        (HasText(TextPart.START, "s", "ab"), True),
        (HasText(TextPart.END, "s", "ab"), False),
        (HasText(TextPart.ANYWHERE, "s", "b"), True),
        (among("n", 1, 3), True),
        (among("n", 1, 2), False),
        (among("n", 1, None), None),
        (IsNull("n"), False),
        (IsNotNull("n"), True),
        (IsNull("z"), True),
        (IsNotNull("z"), False),
        (op("=", "z", 1), False),
        (among("z", 1), False),
        (op("<=>", "n", 3), True),
        (op("<=>", "n", 4), False),
        (op("<=>", "n", None), False),
        (op("<=>", "z", None), True),
        (op("<=>", "z", 3), False),
        (op("=", "unheard of", 1), None),
        (Unknown(), None),
    ],
)
def test_a_filter_over_partition_values_is_true_false_or_open(
    condition: Filter, answer: bool | None
) -> None:
    assert may_match(condition, ROW) is answer


@pytest.mark.parametrize(
    ("kind", "text", "own", "other"),
    [
        ("timestamp", "1704103200000000", Moment(1704103200000000), Moment(1)),
        ("timestamp_ntz", "0", LocalMoment(0), LocalMoment(5)),
        ("timestamp_ntz", "-500000000000000", LocalMoment(-5 * 10**14), LocalMoment(5)),
        ("decimal(10,2)", "1.50", Exact("1.5"), Exact("2.50")),
        ("date", "2024-05-01", Day(19_844), Day(19_845)),
        ("date", "+10000-01-01", Day(2_932_897), Day(0)),
        ("date", "-0001-01-01", Day(-719_893), Day(0)),
        ("double", "0.1", Real("0.1"), Real("0.10000000149011612")),
        ("float", "0.1", Real("0.10000000149011612"), Real("0.1")),
        ("double", "-0.0", Real("0.0"), Real("4.9E-324")),
        ("double", "NaN", Real("NaN"), Real("Infinity")),
        ("float", "-Infinity", Real("-Infinity"), Real("NaN")),
        ("double", "1.0E10", Real("1.0E10"), Real("NaN")),
    ],
)
def test_a_folder_of_a_number_or_a_time_has_its_value(
    kind: str, text: str, own: Literal, other: Literal
) -> None:
    values = typed_values(config("p"), {"p": kind}, text)
    assert may_match(Compare(Comparison.SAME, "p", own), values) is True
    assert may_match(Compare(Comparison.EQUAL, "p", other), values) is False
    assert may_match(Among("p", (other, own)), values) is True


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamp", "2024-01-01 10%3A00%3A00"),
        ("timestamp", "01"),
        ("timestamp", "1704067200000"),  # milliseconds, as key generators write timestamp-millis
        ("timestamp_ntz", "-5"),
        ("decimal(4,1)", "NaN"),
        ("date", "20240501"),
        ("date", "2024-02-30"),
        ("double", "nan"),
        ("float", "1_0"),
    ],
)
def test_a_folder_whose_text_is_no_such_value_decides_nothing(kind: str, text: str) -> None:
    assert typed_values(config("p"), {"p": kind}, text) == {}


YES, NO, OPEN = op("=", "n", 3), op("=", "n", 4), Unknown()


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (YES, YES, True, True),
        (YES, NO, False, True),
        (NO, NO, False, False),
        (YES, OPEN, None, True),
        (NO, OPEN, False, None),
        (OPEN, OPEN, None, None),
    ],
)
def test_and_and_or_have_three_values(
    left: Filter, right: Filter, both: bool | None, either: bool | None
) -> None:
    for one, other in ((left, right), (right, left)):
        assert may_match(AllOf((one, other)), ROW) is both
        assert may_match(AnyOf((one, other)), ROW) is either


@pytest.mark.parametrize(
    ("child", "answer"),
    [
        (YES, False),
        (NO, True),
        (OPEN, None),
        (op("=", "z", 1), None),  # SQL: NOT of null is null, and null is not true
        (among("z", 1), None),
        (AnyOf((NO, op("=", "z", 1))), None),
        (Not(op("=", "z", 1)), None),
        (IsNull("z"), False),
        (op("<=>", "z", 1), True),
    ],
)
def test_not_leaves_open_what_a_null_decides(child: Filter, answer: bool | None) -> None:
    assert may_match(Not(child), ROW) is answer


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        (op("=", "p", "a"), False),
        (op("<=>", "p", "a"), False),
        (op("=", "p", ""), None),
        (op("<=>", "p", None), None),
        (IsNull("p"), None),
        (IsNotNull("p"), None),
        (among("p", "a", "b"), False),
        (among("p", "a", ""), None),
        (HasText(TextPart.START, "p", "a"), False),
        (HasText(TextPart.START, "p", ""), None),
        (op(">", "p", "a"), False),
        (op("<", "p", "a"), None),
        (Not(op("=", "p", "a")), None),
        (op("=", "p", DEFAULT_PARTITION), None),
        (among("p", "a", DEFAULT_PARTITION), None),
        (HasText(TextPart.START, "p", "__"), None),
        (op(">", "p", "A"), None),
        (op(">", "p", "z"), False),
    ],
)
def test_null_the_empty_text_and_the_name_of_their_folder_share_it_and_each_may_be_meant(
    condition: Filter, answer: bool | None
) -> None:
    values = typed_values(config("p"), {"p": "string"}, DEFAULT_PARTITION)
    assert may_match(condition, values) is answer


@pytest.mark.parametrize(
    ("kind", "path", "values"),
    [
        ("string", "a b", {"p": "a b"}),
        ("integer", "7", {"p": 7}),
        ("long", "-7", {"p": -7}),
        ("integer", "seven", {}),
        ("integer", "007", {}),
        ("integer", "1_0", {}),
        ("date", "2024-05-01", {"p": MAY}),
        ("boolean", "true", {"p": True}),
        ("boolean", "yes", {}),
        ("double", "1.0", {"p": 1.0}),
        ("double", "one", {}),
        ("timestamp", "2024-05-01 00%3A00", {}),
        (None, "a", {}),
        ("integer", DEFAULT_PARTITION, {"p": None}),
    ],
)
def test_folders_are_read_only_as_types_that_turn_back_surely(
    kind: str | None, path: str, values: dict[str, Any]
) -> None:
    assert typed_values(config("p"), {"p": kind}, path) == values


def test_the_folder_of_a_field_of_a_struct_has_its_value() -> None:
    inner = {"name": "n", "type": "integer"}
    text = {"name": "x", "type": "string"}
    struct = {"type": "struct", "fields": [text, {"name": "z", "type": {"fields": [inner]}}]}
    assert typed_values(config("s.x"), {"s": struct}, "a") == {"s.x": "a"}
    assert typed_values(config("s.z.n"), {"s": struct}, "7") == {"s.z.n": 7}
    for field in ("s.y", "s.x.n", "t.x"):
        assert typed_values(config(field), {"s": struct}, "a") == {}
    shared = typed_values(config("s.x"), {"s": struct}, DEFAULT_PARTITION)
    assert may_match(IsNull("s.x"), shared) is None, "a row may have the empty text"
    unknown = typed_values(config("t.x"), {"s": struct}, DEFAULT_PARTITION)
    assert may_match(IsNotNull("t.x"), unknown) is None, "of an unknown type"


def test_folders_of_made_up_values_tell_nothing() -> None:
    made_up = config("p", generator=KeyGenerator.TIMESTAMP)
    assert typed_values(made_up, {"p": "string"}, "2024/05") == {}
    unknown = replace(config("p"), key_generator=KeyGenerator.USER_PROVIDED)
    assert typed_values(unknown, {"p": "string"}, "a") == {}
    dropped = replace(config("p"), drop_partition_columns=True)
    assert typed_values(dropped, {"p": "string"}, "a") == {}, "the files' rows have no value"
    several = config("p", "q", generator=KeyGenerator.COMPLEX)
    assert typed_values(several, {"p": "string", "q": "string"}, "a/b/c") == {}
    assert typed_values(several, {"p": "string", "q": "integer"}, "a/1") == {"p": "a", "q": 1}


def test_a_folder_of_slashes_tells_a_text_only_where_it_is_a_date() -> None:
    slashed = replace(config("p"), slash_separated_dates=True)
    assert typed_values(slashed, {"p": "string"}, "2024/05/01") == {"p": "2024-05-01"}
    assert typed_values(slashed, {"p": "date"}, "2024/05/01") == {"p": MAY}
    assert typed_values(slashed, {"p": "string"}, "a/b") == {}
    assert typed_values(config("p"), {"p": "string"}, "a/b") == {"p": "a/b"}


TYPES = {"p": "integer"}


def test_partitions_are_kept_unless_a_filter_is_certainly_false() -> None:
    partitions = ["1", "2", "x", DEFAULT_PARTITION]

    assert kept_partitions(config("p"), TYPES, partitions, [op("=", "p", 1)]) == ["1", "x"]
    assert kept_partitions(config("p"), TYPES, partitions, [op(">", "other", 1)]) == partitions
    assert kept_partitions(config("p"), TYPES, partitions, []) == partitions


def test_null_among_the_values_of_a_running_query_keeps_the_partition_of_null() -> None:
    partitions = ["1", "2", "x", DEFAULT_PARTITION]
    for values, kept in (
        ((Whole(1), Null()), ["1", "x", DEFAULT_PARTITION]),
        ((Null(),), ["x", DEFAULT_PARTITION]),
        ((Whole(1),), ["1", "x"]),
    ):
        found = or_null(Among("p", values))
        assert kept_partitions(config("p"), TYPES, partitions, [found]) == kept, values


def test_a_count_is_decided_only_where_every_filter_is_decided_everywhere() -> None:
    assert decided_by_partition(config("p"), TYPES, ["1", "2"], [op("=", "p", 1)])
    assert not decided_by_partition(config("p"), TYPES, ["1", "x"], [op("=", "p", 1)])
    assert not decided_by_partition(config("p"), TYPES, ["1"], [op("=", "other", 1)])


def test_each_filter_is_decided_by_itself() -> None:
    filters = [op("=", "p", 1), op("=", "other", 1), op("<", "p", 9)]
    assert decided_filters(config("p"), TYPES, ["1", "2"], filters) == [True, False, True]
    assert decided_filters(config("p"), TYPES, ["1", "x"], filters) == [False] * 3
    assert decided_filters(config("p"), TYPES, [], filters) == [True] * 3


def test_an_overwrite_by_filter_takes_exactly_the_partitions_it_names() -> None:
    """Spark asks for a static partition with ``<=>``."""
    chosen = op("<=>", "p", "a")
    partitions, texts = ["a", "b", DEFAULT_PARTITION], {"p": "string"}

    assert matching_partitions(config("p"), texts, partitions, [chosen]) == ["a"]
    both = [IsNotNull("p"), chosen]
    assert matching_partitions(config("p"), texts, partitions, both) == ["a"]
    numbered = config("p", hive_style=True)
    assert matching_partitions(numbered, TYPES, ["p=7", "p=8"], [op("<=>", "p", 7)]) == ["p=7"]


def test_a_filter_without_a_value_takes_the_partitions_that_it_is_true_of() -> None:
    partitions = ["7", "8", DEFAULT_PARTITION]
    there, not_there = IsNotNull("p"), IsNull("p")

    assert matching_partitions(config("p"), TYPES, partitions, [there]) == ["7", "8"]
    assert matching_partitions(config("p"), TYPES, partitions, [not_there]) == [DEFAULT_PARTITION]
    negated = Not(not_there)
    assert matching_partitions(config("p"), TYPES, partitions, [negated]) == ["7", "8"]


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (op("=", "other", "x"), "does not choose whole partitions"),
        (Unknown(), "does not choose whole partitions"),
        (Compare(Comparison.EQUAL, "p", Moment(1)), "The folder '-5' does not say for sure"),
        (IsNull("s"), f"The folder '{DEFAULT_PARTITION}' does not say for sure"),
    ],
)
def test_an_overwrite_that_leaves_a_partition_open_is_refused(condition: Filter, why: str) -> None:
    """Passed over, the partition would keep rows that should go."""
    field = "s" if condition == IsNull("s") else "p"
    types = {"p": "timestamp", "other": "string", "s": "string"}
    folders = ["0", DEFAULT_PARTITION if field == "s" else "-5"]
    with pytest.raises(ConfigError, match=why):
        require_whole_partitions(config(field), types, folders, [condition])
    require_whole_partitions(config("p"), TYPES, ["1", "2"], [op("<=>", "p", 1)])
