"""What logs leave of a base file, against a merge row by row as Apache Hudi 1.2.0 does it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.rows import slice_merge
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_parts import LogPart, parts_of
from pyhudi.rows.log_spec import Merged, MergeSpec
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.spec import KEY_COLUMN
from tests.format.test_delete_block import several, wrapped
from tests.rows import logs
from tests.rows.logs import LOG, T1, T2, avro_block, delete_block, positions

COLUMNS = {"a": "int", "b": "double", "v": "string", "_hoodie_is_deleted": "boolean"}
KINDS = pa.struct(
    [(KEY_COLUMN, pa.string()), ("a", pa.int32()), ("b", pa.float64()), ("v", pa.string())]
)
ORDERINGS: list[tuple[str, ...]] = [(), ("a",), ("b",), ("a", "b"), ("b", "a")]
KEYS = "abc"

INTS = st.none() | st.integers(-1, 1)
REALS = st.none() | st.sampled_from([-0.0, 0.0, 1.5, math.nan, -math.nan])


@dataclass(frozen=True)
class Event:
    """A row of the base file or of a log, or a delete; ``name`` tells it from others.

    ``ordered``: a delete of a delete block that has ordering values.
    """

    name: str
    key: str
    a: int | None
    b: float | None
    soft: bool = False
    delete: bool = False
    ordered: bool = True

    @property
    def gone(self) -> bool:
        return self.soft or self.delete


def draws(number: int, **kinds: Any) -> st.SearchStrategy[list[Event]]:
    facts = {"key": st.sampled_from(KEYS), "a": INTS, "b": REALS, **kinds}
    each = st.builds(Event, name=st.just(""), **facts)
    return st.lists(each, max_size=number)


BASES = st.none() | draws(6)
BLOCKS = st.lists(
    draws(6, soft=st.booleans()) | draws(4, delete=st.just(True), ordered=st.booleans()),
    min_size=1,
    max_size=6,
)


# ---- the oracle


def rank(value: float | None) -> tuple[int, float, float]:
    """As Java compares numbers: -0.0 is less than 0.0, NaN larger than all; null is least."""
    if value is None:
        return (0, 0.0, 0.0)
    if value != value:
        return (2, 0.0, 0.0)
    return (1, value, math.copysign(1, value))


class Oracle:
    """The merge of one event after the other."""

    def __init__(self, ordering: tuple[str, ...]) -> None:
        self.ordering = ordering
        self.found: dict[Any, Event] = {}

    def values(self, event: Event) -> list[float | None]:
        """Its ordering values; null in the column of ints is 0."""
        held = [(name, getattr(event, name)) for name in self.ordering]
        return [0 if name == "a" and value is None else value for name, value in held]

    def order(self, event: Event) -> list[tuple[int, float, float]]:
        return [rank(value) for value in self.values(event)]

    def always(self, event: Event) -> bool:
        """Whether it deletes without an ordering value, which null is, and an int 0 alone."""
        if not event.gone:
            return False
        given = [getattr(event, name) for name in self.ordering]
        if event.delete and (not event.ordered or all(value is None for value in given)):
            return True
        values = self.values(event)
        return all(value is None for value in values) or (self.ordering == ("a",) and values == [0])

    def log(self, place: Any, event: Event) -> None:
        known = self.found.get(place)
        if known is None or not self.ordering or self.wins(event, known):
            self.found[place] = event

    def wins(self, event: Event, known: Event) -> bool:
        if event.delete and self.always(known):
            return False
        if self.always(event) or self.always(known):
            return True
        return self.order(event) >= self.order(known)

    def base(self, place: Any, row: Event) -> str | None:
        """The name of the row that stays; the log's event is used up."""
        event = self.found.pop(place, None)
        if event is None:
            return row.name
        if not self.ordering or self.always(event) or self.order(event) >= self.order(row):
            return None if event.gone else event.name
        return row.name


def expected(
    ordering: tuple[str, ...], base: Sequence[Event], events: Sequence[tuple[Any, Event]], by: str
) -> list[str]:
    oracle = Oracle(ordering)
    for place, event in events:
        oracle.log(place, event)
    stays = [oracle.base(row.key if by == "key" else at, row) for at, row in enumerate(base)]
    rest = [event.name for event in oracle.found.values() if not event.gone]
    return sorted([*(name for name in stays if name is not None), *rest])


# ---- the same events as files


def named(base: Sequence[Event], blocks: Sequence[Sequence[Event]]) -> Iterator[list[Event]]:
    """The rows of the base file and of each block with names."""
    for number, rows in enumerate([base, *blocks]):
        yield [Event(**{**vars(row), "name": f"{number}.{at}"}) for at, row in enumerate(rows)]


def base_file(rows: Sequence[Event]) -> SliceFile:
    table = pa.table(
        {
            KEY_COLUMN: pa.array([row.key for row in rows], pa.string()),
            "a": pa.array([row.a for row in rows], pa.int32()),
            "b": pa.array([row.b for row in rows], pa.float64()),
            "v": pa.array([row.name for row in rows], pa.string()),
        }
    )
    sink = BytesIO()
    pq.write_table(table, sink, row_group_size=2)
    return SliceFile(pa.BufferReader(sink.getvalue()), Slice("base.parquet"))


def values_of(event: Event, ordering: tuple[str, ...]) -> tuple[str, Any] | None:
    if not event.ordered or not ordering:
        return None
    kinds = {"a": "Int", "b": "Double"}
    held = [(name, getattr(event, name)) for name in ordering]
    each = [None if value is None else wrapped(kinds[name], value) for name, value in held]
    return each[0] if len(each) == 1 else several(*each)


def log_of(
    blocks: Sequence[Sequence[Event]], ordering: tuple[str, ...], places: Sequence[Sequence[int]]
) -> bytes:
    data = b""
    for number, rows in enumerate(blocks):
        header = positions(T1, places[number]) if places else {}
        if any(row.delete for row in rows):
            pairs = [(row.key, values_of(row, ordering)) for row in rows]
            data += delete_block(T2, *pairs, **header)
        else:
            held = [
                {"key": row.key, "a": row.a, "b": row.b, "v": row.name,
                 "_hoodie_is_deleted": row.soft}
                for row in rows
            ]  # fmt: skip
            data += avro_block(T2, held, COLUMNS, **header)
    return data


#: rows that are merged at once, and whether the log is held in memory
BOUNDS = st.sampled_from([(slice_merge.EVENTS_AT_ONCE, True), (1, True), (3, False)])


def parts_in(spec: MergeSpec, data: bytes, in_memory: bool = True) -> list[LogPart]:
    return parts_of(spec, [(LOG, data if in_memory else pa.BufferReader(data))], {})


def left(
    spec: MergeSpec,
    data: bytes,
    base: Sequence[Event] | None,
    bounds: tuple[int, bool] = (slice_merge.EVENTS_AT_ONCE, True),
) -> list[str]:
    """The names of the rows that a merge leaves."""
    at_once, in_memory = bounds
    parts = parts_in(spec, data, in_memory)
    file = None if base is None else base_file(base)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slice_merge, "EVENTS_AT_ONCE", at_once)
        found = merge(spec, parts, file, T1 if base is not None else "")
    rows = [] if base is None else base
    names = [row.name for at, row in enumerate(rows) if at not in set(found.masked.tolist())]
    assert (np.diff(found.masked) > 0).all()
    assert len(found.kept) == len(parts)
    from_logs = []
    for part, kept in zip(parts, found.kept, strict=True):
        assert (np.diff(kept) > 0).all()
        if len(kept):
            from_logs += part.images(kept, spec.rows).field("v").to_pylist()
    assert found.rows == len(from_logs)
    return sorted([*names, *from_logs])


@settings(max_examples=400, deadline=None)
@given(BASES, BLOCKS, st.sampled_from(ORDERINGS), BOUNDS)
def test_a_merge_by_key_leaves_what_apache_hudi_leaves(
    base: list[Event] | None,
    blocks: list[list[Event]],
    ordering: tuple[str, ...],
    bounds: tuple[int, bool],
) -> None:
    first, *rest = named(base or [], blocks)
    events = [(event.key, event) for block in rest for event in block]
    spec = logs.spec(*ordering, kinds=KINDS)
    data = log_of(rest, ordering, ())
    found = left(spec, data, first if base is not None else None, bounds)
    assert found == expected(ordering, first, events, "key")


@settings(max_examples=400, deadline=None)
@given(st.data(), draws(8), BLOCKS, st.sampled_from(ORDERINGS), st.booleans(), BOUNDS)
def test_a_merge_by_position_leaves_what_apache_hudi_leaves(
    data: st.DataObject,
    base: list[Event],
    blocks: list[list[Event]],
    ordering: tuple[str, ...],
    doubled: bool,
    bounds: tuple[int, bool],
) -> None:
    if not doubled:
        base = list({row.key: row for row in base}.values())
    first, *rest = named(base, blocks)
    placed, places = [], []
    for block in rest:
        size = min(len(block), len(first))
        if not size:
            continue
        # A block has its rows in the order of their places, each once.
        held = data.draw(st.sets(st.integers(0, len(first) - 1), min_size=size, max_size=size))
        places.append(sorted(held))
        pairs = zip(block[:size], places[-1], strict=True)
        placed.append([Event(**{**vars(row), "key": first[at].key}) for row, at in pairs])
    events = [
        (at, event)
        for rows, held in zip(placed, places, strict=True)
        for event, at in zip(rows, held, strict=True)
    ]
    spec = logs.spec(*ordering, kinds=KINDS)
    found = left(spec, log_of(placed, ordering, places), first, bounds)
    assert found == expected(ordering, first, events, "position")
    if not doubled:
        assert left(spec, log_of(placed, ordering, ()), first) == found


# ---- cases by name


def row(name: str, key: str, a: int | None, **more: Any) -> Event:
    return Event(name, key, a, None, **more)


def merged(
    base: list[Event] | None, *blocks: list[Event], by: tuple[str, ...] = ("a",)
) -> list[str]:
    return left(logs.spec(*by, kinds=KINDS), log_of(blocks, by, ()), base)


def test_the_first_row_of_a_doubled_key_meets_the_log_and_the_second_stays() -> None:
    base = [row("first", "k", 1), row("second", "k", 1)]
    assert merged(base, [row("new", "k", 2)]) == ["new", "second"]
    assert merged(base, [row("gone", "k", None, delete=True)]) == ["second"]
    assert merged(base, [row("old", "k", 0)]) == ["first", "second"]


def test_logs_meet_each_other_before_the_base_file() -> None:
    # A delete without an ordering value forgets what came before, the base row's place too.
    base = [row("base", "k", 5)]
    gone = [row("gone", "k", None, delete=True)]
    assert merged(base, gone, [row("late", "k", 1)]) == ["base"]
    assert merged(base, [row("high", "k", 9)], gone, [row("late", "k", 1)]) == ["base"]
    assert merged(None, [row("high", "k", 9)], gone, [row("late", "k", 1)]) == ["late"]


def test_a_delete_with_an_ordering_value_does_not_take_the_place_of_one_without() -> None:
    base = [row("base", "k", 5)]
    gone, older = row("gone", "k", None, delete=True), row("older", "k", 1, delete=True)
    assert merged(base, [older]) == ["base"]
    assert merged(base, [gone], [older]) == []
    # Among rows that say so themselves the later one stands for both.
    assert merged(base, [gone], [row("soft", "k", 1, soft=True)]) == ["base"]


def test_a_row_marked_as_deleted_with_the_int_0_deletes_in_any_case() -> None:
    base = [row("base", "k", 5)]
    assert merged(base, [row("soft", "k", 0, soft=True)]) == []
    assert merged(base, [row("soft", "k", 1, soft=True)]) == ["base"]
    assert merged(base, [row("soft", "k", None, soft=True)]) == []
    assert merged(base, [row("soft", "k", 0, soft=True)], by=("a", "b")) == ["base"]
    assert merged(base, [row("soft", "k", None, soft=True)], by=("a", "b")) == ["base"]
    assert merged(base, [row("soft", "k", None, soft=True)], by=("b",)) == []


def test_null_in_a_column_of_ints_is_0() -> None:
    assert merged([row("base", "k", 0)], [row("new", "k", None)]) == ["new"]
    assert merged([row("base", "k", -1)], [row("new", "k", None)]) == ["new"]
    assert merged([row("base", "k", 1)], [row("new", "k", None)]) == ["base"]
    assert merged([row("base", "k", None)], [row("new", "k", -1)]) == ["base"]
    days = pa.struct([(KEY_COLUMN, pa.string()), ("day", pa.date32()), ("v", pa.string())])
    kinds = {"day": {"type": "int", "logicalType": "date"}, "v": "string"}
    rows = [
        {"key": "k", "day": datetime.date(1969, 12, 31), "v": "older"},
        {"key": "k", "v": "new"},
    ]
    assert left(logs.spec("day", kinds=days), avro_block(T2, rows, kinds), None) == ["new"]


@pytest.mark.parametrize(
    ("older", "newer", "wins"),
    [
        (0.0, -0.0, "older"),
        (-0.0, 0.0, "newer"),
        (math.nan, -math.nan, "newer"),
        (-math.nan, math.nan, "newer"),
        (math.nan, math.inf, "older"),
        (-math.inf, -1.5, "newer"),
        (-1.5, -math.inf, "older"),
        (None, -math.inf, "newer"),
    ],
)
def test_floating_point_numbers_compare_as_in_java(
    older: float | None, newer: float, wins: str
) -> None:
    first, second = Event("older", "k", None, older), Event("newer", "k", None, newer)
    # The order in which the values come first must not matter.
    before = Event("other", "l", None, newer)
    assert merged(None, [before, first], [second], by=("b",)) == sorted([wins, "other"])
    assert merged([first], [second], by=("b",)) == [wins]


@pytest.mark.parametrize("by", ORDERINGS)
def test_blocks_without_rows_change_nothing(by: tuple[str, ...]) -> None:
    base = [row("base", "k", 5)]
    assert merged(base, [], by=by) == ["base"]
    assert merged(base, [], [], by=by) == ["base"]
    assert merged(None, [], by=by) == []
    assert merged([], [], by=by) == []
    spec = logs.spec(*by, kinds=KINDS)
    assert left(spec, delete_block(T2), base) == ["base"]


def test_no_parts_leave_the_base_file_as_it_is() -> None:
    found = merge(logs.spec("a", kinds=KINDS), [], base_file([row("base", "k", 5)]), T1)
    assert found == Merged(found.masked, ())
    assert found.masked.tolist() == []
    assert found.rows == 0


@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC"),
     pa.decimal128(10, 2), pa.float32(), pa.int64()],
    ids=str,
)  # fmt: skip
def test_a_table_may_order_by_a_column_of_nulls_of_each_type(kind: pa.DataType) -> None:
    kinds = pa.struct([(KEY_COLUMN, pa.string()), ("o", kind), ("v", pa.string())])
    data = avro_block(T2, [{"key": "k", "v": "old"}, {"key": "k", "v": "new"}], {"v": "string"})
    assert left(logs.spec("o", kinds=kinds), data, None) == ["new"]


def test_a_delete_that_does_not_compare_deletes() -> None:
    data = delete_block(T2, ("k", wrapped("String", "x")))
    assert left(logs.spec("a", kinds=KINDS), data, [row("base", "k", 5)]) == []


@pytest.mark.parametrize("by", ORDERINGS)
@pytest.mark.parametrize("kind", ["rows", "deletes"])
def test_positions_beyond_the_base_file_are_a_corrupt_table(kind: str, by: tuple[str, ...]) -> None:
    spec = logs.spec(*by, kinds=KINDS)
    event = row("new", "k", 9, delete=kind == "deletes")
    data = log_of([[event]], by, [[1]])
    with pytest.raises(TableCorrupt, match="position"):
        left(spec, data, [row("base", "k", 5)])


@pytest.mark.parametrize("by", ORDERINGS)
@pytest.mark.parametrize("at", [[0], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["rows", "deletes"])
def test_another_number_of_positions_than_rows_is_a_corrupt_table(
    kind: str, at: list[int], by: tuple[str, ...]
) -> None:
    base = [row(str(n), str(n), 1) for n in range(3)]
    events = [row(key, key, 5, delete=kind == "deletes") for key in "01"]
    if kind == "deletes" and not by:  # their number does not matter
        assert len(left(logs.spec(kinds=KINDS), log_of([events], by, [at]), base)) == 3 - len(at)
        return
    with pytest.raises(TableCorrupt, match="position"):
        left(logs.spec(*by, kinds=KINDS), log_of([events], by, [at]), base)
