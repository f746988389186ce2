"""Types: what Spark hands over, what is stored, and base files of other schemas."""

from __future__ import annotations

import datetime
import decimal
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import InvalidRecord, TableCorrupt
from pyhudi.rows.spec import DELETE, KEY_COLUMN, META_COLUMNS
from pyhudi.rows.stored_types import converted, incoming_rows, stored_schema, stored_type
from tests.rows.workers import T1, T2, content, insert, rows_of, spec, upsert, values

GOLDEN = Path(__file__).parent.parent / "golden"
UTC = datetime.timezone.utc
WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("flag", pa.bool_()),
        ("small", pa.decimal128(5, 2)),
        ("large", pa.decimal128(38, 10)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("lists", pa.list_(pa.list_(pa.string()))),
        ("map", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("struct", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])),
    ]
)
FULL: dict[str, Any] = {
    "byte": -128,
    "short": 32767,
    "long": 2**62,
    "float": 0.5,
    "flag": True,
    "small": decimal.Decimal("-123.45"),
    "large": decimal.Decimal("1234567890123456789012345678.0123456789"),
    "day": datetime.date(1969, 12, 31),
    "at": datetime.datetime(2024, 2, 3, 4, 5, 6, 789123, UTC),
    "local": datetime.datetime(1950, 1, 1, 0, 0, 0, 1),
    "raw": b"\x00\xff",
    "list": [1, 2, 3],
    "lists": [["x"], [], ["y", "z"]],
    "map": [("k", [1]), ("l", []), ("m", None)],
    "struct": {"a": 1, "b": {"c": "d"}},
}
PARTLY: dict[str, Any] = {"list": None, "lists": [[]], "map": [], "struct": {"a": None, "b": None}}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in META_COLUMNS}


def test_every_type_survives_an_insert_and_a_merge(tmp_path: Path) -> None:
    nothing = dict.fromkeys(FULL)
    rows = [{"id": "a", **FULL}, {"id": "b", **nothing}, {"id": "c", **nothing, **PARTLY}]
    first = insert(spec(tmp_path, schema=WIDE), rows_of(rows, WIDE))
    assert [plain(row) for row in content(tmp_path, first)] == rows
    incoming = [{"id": "b", **FULL}, {"id": "d", **nothing, **PARTLY}]
    second = upsert(spec(tmp_path, T2, WIDE), first, rows_of(incoming, WIDE))
    merged = [rows[0], incoming[0], rows[2], incoming[1]]
    assert [plain(row) for row in content(tmp_path, second)] == merged


def test_the_stored_types_are_those_that_hudi_can_merge(tmp_path: Path) -> None:
    stat = insert(spec(tmp_path, schema=WIDE), rows_of([{"id": "a", **FULL}], WIDE))
    columns = {column.path: column for column in pq.ParquetFile(tmp_path / stat["path"]).schema}
    physical = {name: column.physical_type for name, column in columns.items()}
    assert physical["byte"] == physical["short"] == "INT32"
    assert physical["small"] == physical["large"] == "FIXED_LEN_BYTE_ARRAY"
    assert (columns["small"].length, columns["large"].length) == (3, 16)
    assert physical["at"] == physical["local"] == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(columns["at"].logical_type)
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(columns["local"].logical_type)
    assert "list.list.element" in columns
    assert "map.key_value.value.list.element" in columns
    assert str(columns["byte"].logical_type) == "None"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("list", [1, None]),
        ("lists", [["x"], None]),
        ("lists", [["x", None]]),
        ("map", [("k", [1, None])]),
    ],
)
def test_a_null_list_element_is_refused_with_its_column(
    tmp_path: Path, column: str, value: Any
) -> None:
    rows = [{"id": "a", **FULL}, {"id": "b", **FULL, column: value}]
    with pytest.raises(InvalidRecord, match=f"column '{column}' has a null element") as caught:
        insert(spec(tmp_path, schema=WIDE), rows_of(rows, WIDE))
    assert caught.value.column == column


def test_a_null_element_outside_of_the_rows_at_hand_is_no_fault() -> None:
    lists = pa.array([[None], [1], None, [2]], pa.list_(pa.int32())).slice(1)
    batch = pa.record_batch([lists], names=["list"])
    kind = pa.schema([("list", pa.list_(pa.field("element", pa.int32())))])
    assert incoming_rows(batch, kind)[0].to_pylist() == [[1], None, [2]]


@pytest.mark.parametrize(
    ("kind", "wanted", "value"),
    [
        (pa.int64(), pa.int32(), 2**31),
        (pa.float64(), pa.int64(), 1.5),
        (pa.decimal128(12, 2), pa.decimal128(5, 2), decimal.Decimal("12345678.90")),
        (pa.string(), pa.int32(), "twelve"),
        (pa.list_(pa.int64()), pa.list_(pa.int32()), [2**40]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_column(
    tmp_path: Path, kind: pa.DataType, wanted: pa.DataType, value: Any
) -> None:
    asked = pa.schema([("id", pa.string()), ("x", wanted)])
    given = pa.schema([("id", pa.string()), ("x", kind)])
    with pytest.raises(InvalidRecord, match="column 'x' does not fit") as caught:
        insert(spec(tmp_path, schema=asked), rows_of([{"id": "a", "x": value}], given))
    assert caught.value.column == "x"


def test_a_null_in_a_column_that_must_have_values_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), pa.field("x", pa.int32(), nullable=False)])
    with pytest.raises(InvalidRecord, match="column 'x' is null") as caught:
        insert(spec(tmp_path, schema=schema), rows_of([{"id": "a"}], schema.remove(1)))
    assert caught.value.column == "x"
    first = insert(spec(tmp_path, schema=schema), rows_of([{"id": "a", "x": 1}], schema))
    gone = rows_of([{"id": "a"}], schema.remove(1), **{DELETE: pa.array([True])})
    assert upsert(spec(tmp_path, T2, schema), first, gone)["num_deletes"] == 1


def test_columns_that_the_rows_lack_become_null(tmp_path: Path) -> None:
    narrow = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    stat = insert(spec(tmp_path), rows_of([{"id": "a", "ts": 1}], narrow))
    assert values(tmp_path, stat, "id", "name", "ts") == [("a", None, 1)]


def test_a_base_file_of_an_older_schema_is_widened_and_filled(tmp_path: Path) -> None:
    old = pa.schema(
        [("gone", pa.int32()), ("id", pa.string()), ("n", pa.int32()), ("x", pa.float32()),
         ("s", pa.struct([("a", pa.int32())])), ("d", pa.decimal128(6, 2)), ("m", pa.int32())]
    )  # fmt: skip
    new = pa.schema(
        [("id", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("extra", pa.string()),
         ("s", pa.struct([("b", pa.string()), ("a", pa.int64())])), ("d", pa.decimal128(9, 2)),
         ("m", pa.float64())]
    )  # fmt: skip
    row = {"gone": 1, "n": 7, "x": 0.5, "s": {"a": 5}, "d": decimal.Decimal("1.50"), "m": 3}
    first = insert(spec(tmp_path, schema=old), rows_of([{"id": k, **row} for k in "ab"], old))
    fresh = {"id": "b", "n": 2**40, "x": 0.1, "extra": "e", "s": {"b": "t", "a": 2**40}}
    second = upsert(spec(tmp_path, T2, new), first, rows_of([fresh], new))
    rows = [plain(row) for row in content(tmp_path, second)]
    assert rows == [
        {"id": "a", "n": 7, "x": 0.5, "extra": None, "s": {"b": None, "a": 5},
         "d": decimal.Decimal("1.50"), "m": 3.0},
        {**fresh, "d": None, "m": None},
    ]  # fmt: skip
    assert pq.read_schema(tmp_path / second["path"]).names[5:] == new.names


@pytest.mark.parametrize(
    ("old", "kind", "new"),
    [
        (pa.array([1, None], pa.int32()), pa.string(), ["1", None]),
        (pa.array([7, 10**15], pa.int64()), pa.decimal128(12, 2), [decimal.Decimal("7.00"), None]),
        (
            pa.array([1.005, float("nan"), -2.5, None]),
            pa.decimal128(4, 2),
            [decimal.Decimal("1.01"), None, decimal.Decimal("-2.50"), None],
        ),
        (pa.array([decimal.Decimal("1.50")], pa.decimal128(4, 2)), pa.string(), ["1.50"]),
        (
            pa.array([decimal.Decimal("0E-8"), decimal.Decimal("0.00000012")], pa.decimal128(9, 8)),
            pa.string(),
            ["0E-8", "1.2E-7"],
        ),
        (
            pa.array([" 2.345", "x", "1_0", "\u0663", "1e1", ".5"]),
            pa.decimal128(4, 2),
            [
                decimal.Decimal("2.35"),
                None,
                None,
                None,
                decimal.Decimal("10"),
                decimal.Decimal(".5"),
            ],
        ),
        (pa.array(["\u0662024-01-01"]), pa.date32(), [None]),
        (
            pa.array(["2024-01-31", "2024-2", "2024-13-01", "no", None]),
            pa.date32(),
            [datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), None, None, None],
        ),
        (pa.array([datetime.date(2024, 1, 31)]), pa.string(), ["2024-01-31"]),
        (pa.array([7.0, None, 1e10, -0.0]), pa.string(), ["7.0", None, "1.0E10", "-0.0"]),
        (
            pa.array([0.1, 9999999.0, 1e7, 0.001, 1.25e-4, float("nan"), float("-inf")]),
            pa.string(),
            ["0.1", "9999999.0", "1.0E7", "0.001", "1.25E-4", "NaN", "-Infinity"],
        ),
        (
            pa.array([0.1, 16777216.0, None, 0.001], pa.float32()),
            pa.string(),
            ["0.1", "1.6777216E7", None, "0.001"],
        ),
    ],
)
def test_values_of_old_files_are_cast_as_spark_casts_them(
    old: pa.Array, kind: pa.DataType, new: list[Any]
) -> None:
    assert converted(old, kind, exact=False).to_pylist() == new


def test_each_day_has_the_text_that_spark_s_cast_gives() -> None:
    days = {
        -719_893: "-0001-01-01", -719_528: "0000-01-01", -719_162: "0001-01-01", 0: "1970-01-01",
        2_932_896: "9999-12-31", 2_932_897: "+10000-01-01", 107_000_000: "+294926-01-19",
    }  # fmt: skip
    array = pa.array([*days, None], pa.int32()).cast(pa.date32())
    assert converted(array, pa.string(), exact=False).to_pylist() == [*days.values(), None]
    plain = converted(array.slice(1, 4), pa.string(), exact=False).to_pylist()
    assert plain == [*days.values()][1:5]


def test_dates_that_python_has_not_are_days_all_the_same() -> None:
    texts = ["12024-02-29", "9999-12-31", "-0044-03-15", "0001-01-01", "2023-02-29"]
    days = converted(pa.array(texts), pa.date32(), exact=False).cast(pa.int32())
    # As java.time.LocalDate gives them.
    assert days.to_pylist() == [3672207, 2932896, -735525, -719162, None]


def test_a_base_file_whose_column_cannot_become_the_tables_type_is_corruption(
    tmp_path: Path,
) -> None:
    old = pa.schema([("id", pa.string()), ("n", pa.string())])
    new = pa.schema([("id", pa.string()), ("n", pa.int32())])
    first = insert(spec(tmp_path, schema=old), rows_of([{"id": "a", "n": "text"}], old))
    with pytest.raises(TableCorrupt, match="column 'n' is string"):
        upsert(spec(tmp_path, T2, new), first, rows_of([{"id": "b", "n": 1}], new))


def test_a_base_file_without_meta_columns_is_corruption(tmp_path: Path) -> None:
    path = f"f-0_0-0-0_{T1}.parquet"
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / path)
    stat = {"file_id": "f-0", "partition_path": "", "path": path}
    with pytest.raises(TableCorrupt, match="lacks _hoodie_commit_time"):
        upsert(spec(tmp_path, T2), stat, rows_of([{"id": "b", "ts": 1}]))


@pytest.mark.parametrize("name", ["h0150_v6-cow_types", "h120_v9-mor_types"])
def test_a_file_of_hudi_with_two_level_lists_is_merged_right(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    path = sorted(file.name for file in tmp_path.glob("*.parquet"))[-1]
    stored = pq.ParquetFile(tmp_path / path).read()
    schema = stored_schema(stored.select(stored.column_names[5:]).schema)
    before = stored.to_pylist()
    changed = plain(before[-1]) | {"ar": [7], "ars": [], "mp": [], "ts": 10**6, "f": None}
    write = spec(tmp_path, "99990101000000000", schema)
    key = before[-1]["_hoodie_record_key"]
    incoming = rows_of([changed], schema)
    incoming = incoming.drop_columns([KEY_COLUMN]).append_column(KEY_COLUMN, pa.array([key]))
    stat = upsert(write, {"file_id": path[:38], "partition_path": "", "path": path}, incoming)
    after = content(tmp_path, stat)
    assert [plain(row) for row in after[:-1]] == [plain(row) for row in before[:-1]]
    assert plain(after[-1]) == changed
    assert [row["_hoodie_commit_seqno"] for row in after[:-1]] == [
        row["_hoodie_commit_seqno"] for row in before[:-1]
    ]
    expected = json.loads((GOLDEN / f"{name}.expected.json").read_text())
    assert {row["_hoodie_record_key"] for row in expected} >= {
        row["_hoodie_record_key"] for row in after
    }


def test_conversions_of_nested_slices_keep_rows_and_nulls() -> None:
    kind = pa.list_(pa.struct([("a", pa.int32()), ("m", pa.map_(pa.string(), pa.int32()))]))
    rows = [[{"a": n, "m": [("k", n)]}] if n % 3 else None for n in range(10)]
    array = pa.array(rows, kind).slice(2, 6)
    wanted = stored_type(
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.int64())), ("a", pa.int64())]))
    )
    got = converted(array, wanted, exact=True)
    assert got.type == wanted
    got.validate(full=True)
    assert got.to_pylist() == [
        None if row is None else [{"m": row[0]["m"], "a": row[0]["a"]}] for row in rows[2:8]
    ]
