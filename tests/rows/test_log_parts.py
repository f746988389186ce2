"""The blocks of logs: which of them count, in which order, and what they hold."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from pyhudi.errors import TableCorrupt, UnsupportedTable
from pyhudi.format.log_blocks import LENGTH_BYTES, BlockType
from pyhudi.rows.log_parts import LogPart, every, parts_of
from pyhudi.rows.log_spec import LANDMARK, CountedInstants, MergeSpec
from pyhudi.rows.slice_reader import LargeLog
from pyhudi.rows.spec import KEY_COLUMN
from tests.format.test_delete_block import several, wrapped
from tests.rows import logs
from tests.rows.logs import (
    LOG,
    ROWS,
    T1,
    T2,
    T3,
    T4,
    T5,
    T6,
    avro_block,
    delete_block,
    parquet_block,
    positions,
    rollback_block,
)


def parts(*files: bytes, spec: MergeSpec | None = None, names: Any = None) -> list[LogPart]:
    paths = [LOG.replace(".log.1", f".log.{n}") for n in range(1, len(files) + 1)]
    return parts_of(spec or logs.spec(), list(zip(paths, files, strict=True)), names or {})


def row(key: str, ts: int | None = 1, v: str | None = None, **more: Any) -> dict[str, Any]:
    return {"key": key, "ts": ts, "v": v, **more}


def block(instant: str, *keys: str, **header: str) -> bytes:
    return avro_block(instant, [row(key) for key in keys], **header)


def keys(found: list[LogPart]) -> list[list[str]]:
    return [part.keys().to_pylist() for part in found]


# ---- which blocks count


def test_blocks_come_in_the_order_of_the_files_and_of_their_places() -> None:
    found = parts(block(T1, "a") + delete_block(T1, "b"), block(T2, "c", "d"))
    assert keys(found) == [["a"], ["b"], ["c", "d"]]
    assert [part.deletes for part in found] == [False, True, False]
    assert [part.size for part in found] == [1, 1, 2]


def test_landmarks_are_where_records_begin_once_the_block_was_read() -> None:
    names = [f"key {number}" for number in range(2 * LANDMARK + 1)]
    content = block(T1, *names)
    (part,) = parts(content)
    assert not len(part.place.landmarks)
    assert part.keys().to_pylist() == names
    place = part.place
    held = content[place.at : place.at + place.length]
    for at, number in zip(place.landmarks, (0, LANDMARK, 2 * LANDMARK), strict=True):
        size = int.from_bytes(held[at : at + LENGTH_BYTES], "big")
        assert names[number].encode() in held[at + LENGTH_BYTES : at + LENGTH_BYTES + size]


def test_blocks_of_one_instant_are_merged_where_its_first_stands() -> None:
    assert keys(parts(block(T2, "a"), block(T1, "b") + block(T2, "c"))) == [["a"], ["c"], ["b"]]


def test_a_rollback_takes_the_blocks_before_it_but_none_that_a_retry_writes_later() -> None:
    rolled = block(T1, "a") + block(T2, "gone") + block(T3, "b") + rollback_block(T4, T2)
    assert keys(parts(rolled)) == [["a"], ["b"]]
    assert keys(parts(rolled + block(T2, "again"))) == [["a"], ["b"], ["again"]]
    assert keys(parts(block(T2, "gone"), rollback_block(T4, T2) + block(T5, "c"))) == [["c"]]
    assert keys(parts(rollback_block(T4, T2) + block(T1, "a"))) == [["a"]]


def test_only_blocks_of_completed_and_of_older_instants_count() -> None:
    counted = CountedInstants(frozenset({T3, T5}), T2)
    files = [block(each, each) for each in (T1, T2, T3, T4, T5)]
    assert keys(parts(*files, spec=logs.spec(counted=counted))) == [[T1], [T3], [T5]]
    until = CountedInstants(frozenset({T3, T5}), T2, T4)
    assert keys(parts(*files, spec=logs.spec(counted=until))) == [[T1], [T3]]
    assert keys(parts(*files, spec=logs.spec(counted=CountedInstants(frozenset(), "")))) == []


def test_a_rollback_after_the_instant_of_the_query_counts_too() -> None:
    spec = logs.spec(counted=CountedInstants(frozenset({T1, T2}), T1, T3))
    assert keys(parts(block(T1, "a") + block(T2, "b") + rollback_block(T5, T2), spec=spec)) == [
        ["a"]
    ]


def test_a_block_torn_by_a_crash_does_not_hide_the_next() -> None:
    whole = block(T2, "torn")
    for cut in (1, 6, 20, len(whole) // 2, len(whole) - 1):
        assert keys(parts(block(T1, "a") + whole[:cut] + block(T3, "b"))) == [["a"], ["b"]]


def test_empty_files_and_marks_of_corrupt_blocks_and_changes_hold_no_rows() -> None:
    mark = logs.rendered(BlockType.CORRUPT, T1, b"")
    changes = logs.rendered(BlockType.CDC_DATA, T1, b"")
    assert keys(parts(b"", mark + changes + block(T1, "a"), b"no block")) == [["a"]]


def test_a_block_without_an_instant_is_a_corrupt_table() -> None:
    with pytest.raises(TableCorrupt, match="instant"):
        parts(logs.render_block(BlockType.DELETE, {}, b""))


# ---- log compaction


def compacted(instant: str, times: tuple[str, ...], *keys: str) -> bytes:
    return block(instant, *keys, COMPACTED_BLOCK_TIMES=",".join(times))


def test_a_log_compaction_stands_where_the_last_of_what_it_replaced_stood() -> None:
    files = [block(T1, "a"), block(T2, "b"), block(T3, "c"), compacted(T4, (T1, T2), "ab")]
    assert keys(parts(*files)) == [["ab"], ["c"]]
    apart = [block(T1, "a"), block(T2, "b"), block(T3, "c"), compacted(T4, (T1, T3), "ac")]
    assert keys(parts(*apart)) == [["b"], ["ac"]]


def test_a_log_compaction_of_log_compactions_replaces_all_of_them() -> None:
    files = [
        block(T1, "a"),
        block(T2, "b"),
        compacted(T4, (T1, T2), "ab"),
        block(T3, "c"),
        compacted(T5, (T4, T3), "abc"),
        block(T6, "d"),
    ]
    assert keys(parts(*files)) == [["abc"], ["d"]]


def test_a_log_compaction_that_does_not_count_replaces_nothing() -> None:
    files = [block(T1, "a"), block(T2, "b"), compacted(T4, (T1, T2), "ab")]
    assert keys(parts(*files, spec=logs.spec(completed=(T1, T2)))) == [["a"], ["b"]]
    assert keys(parts(*files, rollback_block(T5, T4))) == [["a"], ["b"]]


def test_a_log_compaction_has_all_its_blocks() -> None:
    one = compacted(T4, (T1,), "a") + delete_block(T4, "b", COMPACTED_BLOCK_TIMES=T1)
    assert keys(parts(block(T1, "x"), one)) == [["a"], ["b"]]


# ---- what is refused


@pytest.mark.parametrize(
    ("data", "feature"),
    [
        (logs.rendered(BlockType.HFILE_DATA, T1, b"x"), "log blocks of the type HFILE_DATA"),
        (logs.block_of_type(7, T1), "log blocks of the type UNKNOWN"),
    ],
    ids=["HFile", "unknown"],
)
def test_what_pyhudi_cannot_merge_is_refused_by_name(data: bytes, feature: str) -> None:
    with pytest.raises(UnsupportedTable, match=feature) as caught:
        parts(data)
    assert caught.value.feature == feature
    assert LOG in str(caught.value)
    # Neither counts if its instant does not.
    assert parts(data, spec=logs.spec(counted=CountedInstants(frozenset({T2}), T1))) == []


@pytest.mark.parametrize(("text", "partial"), [("true", True), ("TRUE", True), ("false", False)])
def test_a_block_says_whether_it_is_partial(text: str, partial: bool) -> None:
    (part,) = parts(block(T1, "a", IS_PARTIAL=text))
    assert part.partial is partial
    # Executors decode blocks whose place has a schema, and these give whole rows.
    assert (part.place.schema == "") is partial


# ---- rows


def images(part: LogPart, kind: pa.StructType = ROWS) -> list[dict[str, Any]]:
    found = part.images(np.arange(part.size), kind)
    assert found.type == kind
    return found.to_pylist()


def test_rows_of_avro_and_of_parquet_blocks_are_alike() -> None:
    rows = [row("a", 1, "x"), row("b", None, None), row("c", 3, "ü")]
    table = pa.table(
        {
            KEY_COLUMN: ["a", "b", "c"],
            "ts": pa.array([1, None, 3], pa.int64()),
            "v": ["x", None, "ü"],
        }
    )
    ours, theirs = parts(avro_block(T1, rows), parquet_block(T2, table))
    assert ours.size == theirs.size == 3
    assert (
        images(ours)
        == images(theirs)
        == [{KEY_COLUMN: each["key"], "ts": each["ts"], "v": each["v"]} for each in rows]
    )
    assert ours.keys().to_pylist() == theirs.keys().to_pylist() == ["a", "b", "c"]
    some = ours.images(np.array([2, 0]), ROWS).to_pylist()
    assert [each["v"] for each in some] == ["ü", "x"]


def test_a_parquet_block_may_have_no_rows_and_several_row_groups() -> None:
    table = pa.table({KEY_COLUMN: ["a", "b", "c"], "ts": [1, 2, 3], "v": ["x", "y", "z"]})
    assert [part.size for part in parts(parquet_block(T1, table.slice(0, 0)))] == [0]
    (part,) = parts(parquet_block(T1, table, row_group_size=1))
    assert [each["ts"] for each in images(part)] == [1, 2, 3]


def test_times_of_a_parquet_block_in_the_form_of_impala_are_read() -> None:
    when = datetime.datetime(1066, 10, 14, 9, 0, 0, 7)
    table = pa.table({KEY_COLUMN: ["a"], "at": pa.array([when], pa.timestamp("us"))})
    (part,) = parts(parquet_block(T1, table, int96=True))
    kind = pa.struct([("at", pa.timestamp("us"))])
    assert images(part, kind) == [{"at": when}]


def test_days_of_a_parquet_block_in_the_old_calendar_are_turned() -> None:
    table = pa.table({KEY_COLUMN: ["a"], "day": pa.array([-141_428], pa.int32()).view(pa.date32())})
    table = table.replace_schema_metadata(
        {b"org.apache.spark.version": b"3.5.9", b"org.apache.spark.legacyDateTime": b""}
    )
    (part,) = parts(parquet_block(T1, table))
    # The last day of the old calendar, which today's calls the 14th.
    assert images(part, pa.struct([("day", pa.date32())])) == [{"day": datetime.date(1582, 10, 4)}]


def test_rows_of_older_schemas_come_in_todays_columns() -> None:
    older = {"ts": "int", "v": "string"}
    today = pa.struct([(KEY_COLUMN, pa.string()), ("ts", pa.int64()), ("v", pa.string()),
                       ("added", pa.float64())])  # fmt: skip
    (part,) = parts(avro_block(T1, [row("a", 5, "x")], older))
    assert images(part, today) == [{KEY_COLUMN: "a", "ts": 5, "v": "x", "added": None}]
    held, _ = part.ordering(logs.spec("ts", kinds=today))
    assert [each.type for each in held] == [pa.int64()]
    (without,) = parts(avro_block(T1, [{"key": "a", "v": "x"}], {"v": "string"}))
    held, forced = without.ordering(logs.spec("ts"))
    assert held[0].to_pylist() == [None]
    assert forced.to_pylist() == [False]


def test_rows_of_a_renamed_column_are_found_by_the_names_of_their_instant() -> None:
    old = {"ts": "long", "old": "string"}
    files = [
        avro_block(T1, [{"key": "a", "ts": 1, "old": "x"}], old),
        avro_block(T2, [row("b", 2, "y")]),
    ]
    first, second = parts(*files, names={T1: {"v": ("old", None)}})
    assert [each["v"] for each in images(first)] == ["x"]
    assert [each["v"] for each in images(second)] == ["y"]
    names = {T1: {"ts": ("old", None)}}
    (renamed,) = parts(avro_block(T1, [{"key": "a", "old": 7}], {"old": "long"}), names=names)
    held, _ = renamed.ordering(logs.spec("ts"))
    assert held[0].to_pylist() == [7]


@pytest.mark.parametrize("kind", ["avro", "parquet"])
def test_a_value_that_does_not_fit_todays_column_is_a_corrupt_table(kind: str) -> None:
    table = pa.table({KEY_COLUMN: ["a"], "ts": ["no number"], "v": ["x"]})
    columns = {"ts": "string", "v": "string"}
    data = parquet_block(T1, table, columns)
    if kind == "avro":
        data = avro_block(T1, [row("a", "no number", "x")], columns)  # type: ignore[arg-type]
    (part,) = parts(data)
    with pytest.raises(TableCorrupt):
        images(part)
    with pytest.raises(TableCorrupt):
        part.ordering(logs.spec("ts"))


CUT = avro_block(T1, [row("a", 1, "x"), row("b", 2, "y")])


@pytest.mark.parametrize(
    "data",
    [
        logs.rendered(BlockType.AVRO_DATA, T1, b"", SCHEMA=logs.schema()),
        logs.rendered(BlockType.AVRO_DATA, T1, b"\0\0\0\3\0\0\0\2\0\0\0\1\0", SCHEMA=logs.schema()),
        logs.rendered(BlockType.AVRO_DATA, T1, b"\0\0\0\3\xff\xff\xff\xfe", SCHEMA=logs.schema()),
        logs.rendered(BlockType.AVRO_DATA, T1, b"\0\0\0\3\0\0\0\1\0\0\0\1\0", SCHEMA="no JSON"),
        logs.rendered(BlockType.AVRO_DATA, T1, b"\0\0\0\3\0\0\0\1\0\0\0\1\0"),
        logs.rendered(BlockType.AVRO_DATA, T1, b"\0\0\0\3\0\0\0\1\0\0\0\1\0", SCHEMA=logs.schema()),
        logs.rendered(BlockType.PARQUET_DATA, T1, b"PAR1no file", SCHEMA=logs.schema()),
        avro_block(T1, [{"key": None, "ts": 1}]),
    ],
    ids=["empty", "fewer", "negative", "schema", "no schema", "record", "Parquet", "key"],
)
def test_a_block_that_does_not_decode_is_a_corrupt_table(data: bytes) -> None:
    (part,) = parts(data)
    with pytest.raises(TableCorrupt) as caught:
        assert part.size == len(part.keys())
    assert caught.value.path == LOG


# ---- deletes


def gone(part: LogPart, **changes: Any) -> list[bool]:
    found: list[bool] = part.taken_away(logs.spec(**changes)).tolist()
    return found


def test_soft_deletes_and_operations_take_rows_away() -> None:
    soft = {"_hoodie_is_deleted": "boolean"}
    rows = [{"key": "a", "_hoodie_is_deleted": each} for each in (True, False, None)]
    (part,) = parts(avro_block(T1, rows, soft))
    assert gone(part) == [True, False, False]
    operations = ["I", "U", "D", "-U", None]
    rows = [{"key": "a", "_hoodie_operation": each} for each in operations]
    (part,) = parts(avro_block(T1, rows, {"_hoodie_operation": "string"}))
    assert gone(part) == [False, False, True, True, False]
    (part,) = parts(avro_block(T1, [{"key": "a", "_hoodie_is_deleted": "x"}],
                               {"_hoodie_is_deleted": "string"}))  # fmt: skip
    assert gone(part) == [False]


def test_a_marker_of_the_table_takes_rows_away() -> None:
    rows = [{"key": "a", "op": each} for each in ("d", "u", None, "D")]
    (part,) = parts(avro_block(T1, rows, {"op": "string"}))
    assert gone(part, marker=("op", "d")) == [True, False, False, False]
    assert gone(part) == [False] * 4
    (number,) = parts(avro_block(T1, [{"key": "a", "op": 1}, {"key": "b", "op": 2}], {"op": "int"}))
    assert gone(number, marker=("op", "2")) == [False, True]
    (without,) = parts(block(T1, "a"))
    assert gone(without, marker=("op", "d")) == [False]


def test_every_row_of_a_delete_block_is_taken_away() -> None:
    (part,) = parts(delete_block(T1, "a", ("b", wrapped("Long", 3))))
    assert gone(part) == [True, True]


# ---- ordering values


def order_of(kind: pa.DataType, value: tuple[str, Any] | None) -> tuple[Any, bool]:
    """(a delete's ordering value in a column of ``kind``, whether it wins in any case)."""
    kinds = pa.struct([(KEY_COLUMN, pa.string()), ("ts", kind)])
    (part,) = parts(delete_block(T1, ("a", value)))
    (held,), forced = part.ordering(logs.spec("ts", kinds=kinds))
    assert held.type == kind
    return held.cast(pa.int64()) if pa.types.is_temporal(kind) else held, forced[0].as_py()


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (pa.bool_(), wrapped("Boolean", True), True),
        (pa.int32(), wrapped("Int", -3), -3),
        (pa.int64(), wrapped("Int", 3), 3),
        (pa.int64(), wrapped("Long", 1 << 60), 1 << 60),
        (pa.float32(), wrapped("Float", 0.5), 0.5),
        (pa.float64(), wrapped("Double", -0.5), -0.5),
        (pa.binary(), wrapped("Bytes", b"\x01"), b"\x01"),
        (pa.string(), wrapped("String", "x"), "x"),
        (pa.decimal128(9, 2), wrapped("Decimal", Decimal("-7.500000000000000")), Decimal("-7.50")),
    ],
    ids=str,
)  # fmt: skip
def test_an_ordering_value_compares_in_the_type_of_its_column(
    kind: pa.DataType, value: tuple[str, Any], wanted: object
) -> None:
    held, forced = order_of(kind, value)
    assert held.to_pylist() == [wanted]
    assert forced is False


@pytest.mark.parametrize("days", [0, 19_000, -800_000, 5_000_000])
@pytest.mark.parametrize("name", ["Date", "Int"])
def test_dates_compare_also_beyond_the_years_of_python(name: str, days: int) -> None:
    kinds = pa.struct([("day", pa.date32()), ("ts", pa.int64())])
    (part,) = parts(delete_block(T1, ("a", several(wrapped(name, days), wrapped("Long", 1)))))
    (held, _), forced = part.ordering(logs.spec("day", "ts", kinds=kinds))
    assert held.cast(pa.int32()).to_pylist() == [days]
    assert forced.to_pylist() == [False]


@pytest.mark.parametrize("micros", [0, 1_700_000_000_000_001, -(1 << 60), 1 << 60])
@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("name", ["TimestampMicros", "Long"])
def test_times_compare_also_beyond_the_years_of_python(
    name: str, zone: str | None, micros: int
) -> None:
    held, forced = order_of(pa.timestamp("us", zone), wrapped(name, micros))
    assert held.to_pylist() == [micros]
    assert forced is False


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), None),
        (pa.int64(), wrapped("Int", 0)),
        (pa.int64(), wrapped("String", "x")),
        (pa.int64(), wrapped("Double", 1.0)),
        (pa.int32(), wrapped("Long", 1 << 40)),
        (pa.string(), wrapped("Long", 1)),
        (pa.float64(), wrapped("Long", 1)),
        (pa.bool_(), wrapped("Int", 1)),
        (pa.decimal128(4, 2), wrapped("Decimal", Decimal(1234567))),
        (pa.int64(), several(wrapped("Long", 1), wrapped("Long", 2))),
    ],
    ids=str,
)
def test_a_delete_whose_ordering_value_does_not_compare_wins_in_any_case(
    kind: pa.DataType, value: tuple[str, Any] | None
) -> None:
    held, forced = order_of(kind, value)
    assert forced is True
    assert held.null_count == 1


def test_several_ordering_values_pair_with_their_columns() -> None:
    kinds = pa.struct([("ts", pa.int64()), ("s", pa.struct([("v", pa.string())]))])
    spec = logs.spec("ts", "s.v", kinds=kinds)
    values = [
        several(wrapped("Long", 5), wrapped("String", "x")),
        several(wrapped("Int", 0), wrapped("String", "y")),
        several(wrapped("Long", 5), None),
        several(None, None),
        wrapped("Long", 5),
        several(wrapped("Long", 5), wrapped("Long", 5)),
    ]
    (part,) = parts(delete_block(T1, *((str(n), each) for n, each in enumerate(values))))
    (first, second), forced = part.ordering(spec)
    assert first.to_pylist() == [5, 0, 5, None, None, None]
    assert second.to_pylist() == ["x", "y", None, None, None, None]
    assert forced.to_pylist() == [False, False, False, True, True, True]


def test_an_ordering_value_may_be_a_field_of_a_struct() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "ts", "type": "long"}]}
    kinds = pa.struct([("s", pa.struct([("ts", pa.int64())]))])
    rows = [{"key": "a", "s": {"ts": 7}}, {"key": "b", "s": None}]
    (part,) = parts(avro_block(T1, rows, {"s": inner}))
    (held,), _ = part.ordering(logs.spec("s.ts", kinds=kinds))
    assert held.to_pylist() == [7, None]


# ---- positions


def test_positions_count_only_for_the_base_file_that_they_mean() -> None:
    (part,) = parts(block(T2, "a", "b", **positions(T1, [3, 9])))
    found = part.positions(T1)
    assert found is not None
    assert found.tolist() == [3, 9]
    assert part.positions(T2) is None
    assert every([part], T2) is None


def test_one_block_without_positions_leaves_all_to_keys() -> None:
    placed, empty = positions(T1, [3]), positions(T1, [])
    assert every(parts(block(T2, "a", **placed), delete_block(T3, "a", **placed)), T1) is not None
    assert every(parts(block(T2, "a", **placed), block(T3, "b")), T1) is None
    assert every(parts(block(T2, **empty)), T1) is None
    only = {"BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": T1}
    assert every(parts(block(T2, "a", **only)), T1) is None


@pytest.mark.parametrize("text", ["AAAA", "no Base64!", "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAA"])
def test_positions_that_do_not_decode_are_a_corrupt_table(text: str) -> None:
    header = {"RECORD_POSITIONS": text, "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS": T1}
    (part,) = parts(block(T2, "a", **header))
    with pytest.raises(TableCorrupt, match="Roaring"):
        part.positions(T1)


def test_beyond_its_end_a_large_log_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(range(200)))
    log = LargeLog(LocalFileSystem(), str(tmp_path / "log"))
    assert log.size() == 200
    assert (log.read_at(5, 198), log.read_at(5, 200), log.read_at(5, 300)) == (
        b"\xc6\xc7",
        b"",
        b"",
    )
    assert log.read_at(2, 3) == b"\x03\x04"
