"""Which columns a table may have, and which of them a name means."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyhudi.errors import ConfigError, SchemaConflict
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.tables.columns import check_distinct, check_names, own_spelling


def struct(*names: str, **more: StructType) -> StructType:
    plain = [StructField(name, LongType()) for name in names]
    return StructType(plain + [StructField(name, kind) for name, kind in more.items()])


def test_columns_of_different_names_pass() -> None:
    check_distinct(struct("a", "b", c=struct("a", "b")))


@pytest.mark.parametrize(
    ("schema", "column"),
    [
        (struct("id", "v", "id"), "id"),
        (struct("a", "A"), "a"),
        (struct("a", s=struct("b", "B")), "s.b"),
        (StructType([StructField("l", ArrayType(struct("b", "b")))]), "l.b"),
        (StructType([StructField("m", MapType(StringType(), struct("b", "b")))]), "m.b"),
    ],
)
def test_two_columns_of_one_name_are_refused(schema: StructType, column: str) -> None:
    with pytest.raises(SchemaConflict, match=f"Column '{column}' exists 2 times") as refused:
        check_distinct(schema)
    assert refused.value.facts["column"] == column


@pytest.mark.parametrize(
    "name",
    ["a", "_", "A1", "größe", "名前", "имя", "_metadata", "select", "x٣"],
)
def test_a_name_that_avro_allows_passes(name: str) -> None:
    check_names(SparkSchema((Column(name, "string"),)))


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a.b", "a-b", "1a", "٣x", "e\u0301", "नाम", "x²", "ⅷ", "a·b", "𝒜", "🙂"],
)
def test_a_name_that_avro_of_java_forbids_is_refused(name: str) -> None:
    with pytest.raises(SchemaConflict, match="has a name that Hudi cannot store"):
        check_names(SparkSchema((Column(name, "string"),)))


@pytest.mark.parametrize(
    "name",
    ["_pyhudi_home", "_PyHudi_change", "_tmp_metadata_row_index", "_HOODIE_COMMIT_TIME"],
)
def test_a_name_of_a_column_that_others_add_is_refused(name: str) -> None:
    inside = {"type": "struct", "fields": [{"name": name, "type": "long", "nullable": True}]}
    for column in (Column(name, "string"), Column("s", inside)):
        with pytest.raises(
            SchemaConflict, match="has a name of a column that Hudi, pyhudi or Spark adds"
        ):
            check_names(SparkSchema((column,)))


def test_a_mark_of_deletes_is_boolean() -> None:
    check_names(SparkSchema((Column("_hoodie_is_deleted", "boolean"),)))
    with pytest.raises(SchemaConflict, match="'_hoodie_is_deleted' is int, .* must be boolean"):
        check_names(SparkSchema((Column("_hoodie_is_deleted", "integer"),)))


def test_a_struct_without_fields_is_refused() -> None:
    with pytest.raises(SchemaConflict, match="The data has no columns"):
        check_distinct(StructType())
    with pytest.raises(SchemaConflict, match="Column 's' has no fields"):
        check_distinct(struct("a", s=StructType()))


def test_a_name_means_the_only_column_that_differs_in_case_alone() -> None:
    schema = struct("Id", "a", "A", Event=struct("At"))
    assert own_spelling(schema, ("id", "a", "A"), "key") == ("Id", "a", "A")
    assert own_spelling(schema, ("event.at",), "ordering column") == ("Event.At",)
    assert own_spelling(schema, ("ID:SIMPLE",), "partition column") == ("Id:SIMPLE",)


@pytest.mark.parametrize("name", ["x", "Event.x", "id.x", "Aa"])
def test_a_name_that_means_no_column_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"The ordering column '{name}' is not a column"):
        own_spelling(struct("Id", Event=struct("At")), (name,), "ordering column")


def test_a_name_that_could_mean_two_columns_is_refused() -> None:
    with pytest.raises(ConfigError, match="'aa' is not a column"):
        own_spelling(struct("aA", "Aa"), ("aa",), "ordering column")


def test_a_column_that_is_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="The partition column 'p' is named twice"):
        own_spelling(struct("p"), ("p", "P"), "partition column")
