"""Facts from footers: exact ones, and none where statistics may mislead."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.reads.conditions import (
    Among,
    Day,
    Flag,
    Literal,
    LocalMoment,
    Moment,
    Null,
    Text,
    Unknown,
    Whole,
)
from pyhudi.reads.footers import (
    ColumnFacts,
    FileFacts,
    Footers,
    facts_of,
    may_hold,
    wanted_numbers,
)

DAY = dt.date(1970, 1, 3)
MOMENT = dt.datetime(1970, 1, 1, 0, 0, 1)


def facts(folder: Path, statistics: bool = True, **columns: pa.Array) -> FileFacts:
    """What is known of a file of two row groups."""
    path = folder / "f.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2, write_statistics=statistics)
    return facts_of(pq.ParquetFile(path))


def test_whole_numbers_days_and_times_have_bounds(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        n=pa.array([3, None, -7, 5], pa.int32()),
        b=pa.array([1 << 40, 1, None, None], pa.int64()),
        day=pa.array([DAY] * 4),
        at=pa.array([MOMENT] * 4, pa.timestamp("us", "UTC")),
    )
    assert found == {
        "n": ColumnFacts("integer", 4, 1, (-7, 5)),
        "b": ColumnFacts("long", 4, 2, (1, 1 << 40)),
        "day": ColumnFacts("date", 4, 0, (2, 2)),
        "at": ColumnFacts("timestamp", 4, 0, (1_000_000, 1_000_000)),
    }


def test_texts_floats_and_other_units_have_counts_alone(tmp_path: Path) -> None:
    found = facts(
        tmp_path,
        s=pa.array(["a", None, "b", "c"]),
        d=pa.array([1.0, float("nan"), 2.0, None]),
        at=pa.array([MOMENT] * 4, pa.timestamp("ms")),
    )
    assert [(name, each.nulls, each.bounds) for name, each in found.items()] == [
        ("s", 1, None), ("d", 1, None), ("at", 0, None)
    ]  # fmt: skip


def test_nulls_only_and_files_without_statistics(tmp_path: Path) -> None:
    assert facts(tmp_path, n=pa.nulls(3, pa.int32()))["n"] == ColumnFacts("integer", 3, 3, None)
    unknown = facts(tmp_path, False, n=pa.array([1], pa.int32()))
    assert unknown["n"] == ColumnFacts("integer", 1, None, None)


def test_a_join_looks_for_whole_numbers_of_columns_that_are_no_partitions() -> None:
    types = {"n": "long", "day": "date", "p": "integer", "s": "string"}
    types |= {"at": "timestamp", "local": "timestamp_ntz"}

    def wanted(column: str, *values: Literal) -> dict[str, list[int]]:
        return wanted_numbers([Among(column, values)], types, ["p"])

    assert wanted("n", Whole(7), Null(), Whole(-3)) == {"n": [-3, 7]}
    assert wanted("day", Day(2), Day(-1)) == {"day": [-1, 2]}
    assert wanted("day", Day(3_000_000)) == {"day": [3_000_000]}, "a day after the year 9999"
    assert wanted("at", Moment(5), Null()) == {"at": [5]}
    assert wanted("local", LocalMoment(5)) == {"local": [5]}
    assert wanted("p", Whole(1)) == wanted("s", Text("a")) == wanted("gone", Whole(1)) == {}
    assert wanted("gone") == wanted("s", Null()) == {}
    assert wanted_numbers([Unknown()], types, []) == {}


def test_a_literal_of_another_type_than_its_column_leaves_no_file_out() -> None:
    types = {"n": "long", "day": "date", "at": "timestamp", "local": "timestamp_ntz"}
    others = [Whole(1), Day(1), Moment(1), LocalMoment(1)]
    for column, own in zip(types, others, strict=True):
        for other in [Flag(True), Text("1"), *others]:
            found = wanted_numbers([Among(column, (own, other))], types, [])
            assert found == ({column: [1, 1]} if other == own else {}), (column, other)


def test_a_file_is_left_out_where_its_bounds_deny_a_column_and_nowhere_else() -> None:
    file = {"n": ColumnFacts("long", 4, 0, (5, 9)), "b": ColumnFacts("long", 4, 0, None)}

    def held(column: str, *values: int, kind: str = "long") -> bool:
        return may_hold(file, {column: kind}, {column: sorted(values)})

    assert [held("n", 4), held("n", 5), held("n", 9), held("n", 10)] == [False, True, True, False]
    assert [held("n", 4, 10), held("n", 4, 7, 10), held("n")] == [False, True, False]
    assert held("n", 4, kind="integer"), "bounds of another type say nothing"
    assert held("b", 4)
    assert held("added later", 4)


def test_a_file_is_read_once_while_it_is_among_the_last_used() -> None:
    reads: list[str] = []
    footers = Footers(limit=2)

    def load(path: str) -> None:
        def read() -> FileFacts:
            reads.append(path)
            return {}

        footers.load(path, read)

    for path in ("a", "b", "a", "c", "a", "b"):
        load(path)
    assert reads == ["a", "b", "c", "b"]
