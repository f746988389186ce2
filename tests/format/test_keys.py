from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import InvalidRecord
from pyhudi.format import keys
from tests import golden_tables

# Surrogates on their own are no text; Arrow and Parquet cannot hold them.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(texts)
def test_unescaping_an_escaped_value_gives_the_value(value: str) -> None:
    escaped = keys.escape_path(value)

    assert keys.unescape_path(escaped) == value
    assert not set(escaped) - {"%"} & set(keys.ESCAPED_CHARACTERS)


def test_escaping_is_hive_s() -> None:
    # The list that Hudi 1.2.0 escapes, asked of its own classes for each character up to 260.
    asked = [*range(32), 34, 35, 37, 39, 42, 47, 58, 61, 63, 91, 92, 93, 94, 123, 127]

    assert sorted(map(ord, keys.ESCAPED_CHARACTERS)) == asked
    assert keys.escape_path("a/b c:d") == "a%2Fb c%3Ad"
    assert keys.unescape_path("%zz%2") == "%zz%2"
    assert keys.unescape_path("x%e9") == "xé"


@given(st.lists(st.none() | texts.filter(bool), min_size=1, max_size=3), st.booleans())
def test_an_encoded_partition_path_tells_its_values(
    values: list[str | None], hive_style: bool
) -> None:
    values = [None if v in (".", "..", keys.DEFAULT_PARTITION) else v for v in values]
    fields = [f"c{n}" for n in range(len(values))]

    path = keys.partition_path(fields, values, hive_style=hive_style, url_encode=True)

    assert keys.partition_values(fields, path, hive_style=hive_style, url_encode=True) == values


def test_partition_paths_are_hudi_s() -> None:
    path = keys.partition_path(["dt", "name"], ["a/b", None], hive_style=True, url_encode=True)
    plain = keys.partition_path(["dt"], ["2024/01"], hive_style=False, url_encode=False)
    dates = keys.partition_path(
        ["dt"], ["2024-01-02"], hive_style=False, url_encode=False, slash_separated_dates=True
    )

    assert path == "dt=a%2Fb/name=__HIVE_DEFAULT_PARTITION__"
    assert plain == "2024/01"
    assert dates == "2024/01/02"
    assert keys.partition_path([], [], hive_style=True, url_encode=True) == ""
    assert keys.partition_path(["a"], [""], hive_style=False, url_encode=False) == (
        keys.DEFAULT_PARTITION
    )


def test_a_path_that_does_not_tell_its_values_apart_gives_none() -> None:
    def values(fields: list[str], path: str, hive: bool) -> list[str | None] | None:
        return keys.partition_values(fields, path, hive_style=hive, url_encode=False)

    assert values(["a", "b"], "x/y/z", False) is None
    assert values(["a"], "x/y", False) == ["x/y"]
    assert values(["a"], "b=1", True) is None
    assert values([], "", False) == []
    assert keys.partition_values(
        ["a"], "2024/01/02", hive_style=False, url_encode=False, slash_separated_dates=True
    ) == ["2024-01-02"]


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "/etc", "a//b", "a/"])
def test_a_value_that_is_no_folder_is_refused_by_its_column(value: str) -> None:
    with pytest.raises(InvalidRecord, match="cannot be a folder name") as error:
        keys.partition_path(["dt"], [value], hive_style=False, url_encode=False)
    assert error.value.facts["column"] == "dt"


@given(st.lists(st.none() | texts, min_size=2, max_size=3))
def test_the_parts_of_a_composite_key_are_found_again(values: list[str | None]) -> None:
    fields = ["id", "ts", "x"][: len(values)]
    marks = (keys.NULL_KEY, keys.EMPTY_KEY)
    values = ["v" if v in marks or (v and ("," in v or ":" in v)) else v for v in values]
    values[0] = values[0] or "1"

    key = keys.composite_key(fields, values)

    assert keys.split_composite_key(key, fields) == values


# What Hudi 1.2.0's own KeyGenUtils makes of these keys.
@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("id:1,ts:2", ["1", "2"]),
        ("id:a:b,ts:2", ["a:b", "2"]),
        ("id:a,b,ts:2", ["a,b", "2"]),
        ("id:,ts:2", ["", "2"]),
        ("id:__null__,ts:__empty__", [None, ""]),
        ("id:http://x,ts:5", ["http://x", "5"]),
        ("a:b", None),
        ("1", None),
    ],
)
def test_composite_keys_are_split_as_hudi_splits_them(
    key: str, parts: list[str | None] | None
) -> None:
    assert keys.split_composite_key(key, ["id", "ts"]) == parts


def test_a_composite_key_without_any_value_is_refused() -> None:
    assert keys.composite_key(["id", "ts"], ["1", None]) == "id:1,ts:__null__"
    with pytest.raises(InvalidRecord, match="null or empty"):
        keys.composite_key(["id", "ts"], ["", None])


# Asked of Hudi 1.2.0's BucketIdentifier.
@pytest.mark.parametrize(
    ("key", "of_7", "of_256"),
    [
        ("a", 2, 128),
        ("1", 3, 80),
        ("id:1", 6, 177),
        ("", 3, 31),
        ("é😀", 2, 43),
        ("zzzzzzzzzzzzzzzzzzzz", 2, 159),
        ("20240101-xyz", 4, 45),
    ],
)
def test_buckets_are_hudi_s(key: str, of_7: int, of_256: int) -> None:
    assert keys.bucket_of([key], 7) == of_7
    assert keys.bucket_of([key], 256) == of_256


@given(
    st.lists(st.tuples(st.none() | texts, st.none() | texts), max_size=20),
    st.integers(1, 1000),
    st.integers(0, 3),
)
def test_whole_columns_hash_as_single_rows_do(
    rows: list[tuple[str | None, str | None]], buckets: int, offset: int
) -> None:
    first = pa.array([None, "é😀", "a"][:offset] + [row[0] for row in rows], pa.string())
    second = pa.chunked_array([pa.array([row[1] for row in rows], pa.string())])

    found = keys.buckets_of([first.slice(offset), second], buckets)

    assert found.tolist() == [keys.bucket_of(row, buckets) for row in rows]


def test_long_columns_of_any_string_type_hash_alike() -> None:
    values = [f"key-{n}-{'ü' * (n % 3)}" for n in range(70_000)]
    column = pa.array(values)

    hashes = keys.java_string_hashes(column)

    assert hashes[::9_999].tolist() == [keys.java_string_hash(v) for v in values[::9_999]]
    assert (keys.java_string_hashes(column.cast(pa.large_string())) == hashes).all()
    assert (keys.java_string_hashes(column.dictionary_encode()) == hashes).all()


def test_golden_bucket_tables_keep_each_key_in_its_bucket() -> None:
    checked = 0
    for table in golden_tables.ALL:
        if table.table not in ("cow_bucket", "mor_bucket"):
            continue
        for row in table.expected() or ():
            name = row["_hoodie_file_name"].removeprefix(".")
            assert int(name[:8]) == keys.bucket_of([row["_hoodie_record_key"]], 2), table.name
            checked += 1
    assert checked >= 20


def test_golden_partition_paths_and_keys_are_rebuilt_from_their_rows() -> None:
    for name in ("h0150_v6-cow_hive_cplx", "h102_v8-cow_hive_cplx", "h120_v9-cow_hive_cplx"):
        for row in golden_tables.BY_NAME[name].expected() or ():
            path = keys.partition_path(
                ["dt", "name"], [row.get("dt"), row.get("name")], hive_style=True, url_encode=True
            )
            key = keys.composite_key(["id", "ts"], [str(row["id"]), str(row["ts"])])
            assert (path, key) == (row["_hoodie_partition_path"], row["_hoodie_record_key"])
