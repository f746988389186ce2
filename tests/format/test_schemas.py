from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import SchemaConflict, UnsupportedTable
from pyhudi.format import schemas

scalars = st.sampled_from(
    ["boolean", "integer", "long", "float", "double", "string", "binary", "date", "timestamp",
     "timestamp_ntz"]
) | st.integers(1, 38).flatmap(
    lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})")
)  # fmt: skip
names = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)


def structs(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    field = st.fixed_dictionaries(
        {"name": names, "type": kinds, "nullable": st.booleans(), "metadata": st.just({})}
    )
    fields = st.lists(field, max_size=4, unique_by=lambda f: str(f["name"]))
    return st.fixed_dictionaries({"type": st.just("struct"), "fields": fields})


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.fixed_dictionaries(
        {"type": st.just("array"), "elementType": inner, "containsNull": st.booleans()}
    )
    maps = st.fixed_dictionaries(
        {"type": st.just("map"), "keyType": st.just("string"), "valueType": inner,
         "valueContainsNull": st.booleans()}
    )  # fmt: skip
    return arrays | maps | structs(inner)


spark_structs = structs(st.recursive(scalars, nested, max_leaves=6))


@given(spark_structs)
def test_a_spark_struct_survives_the_way_through_avro(struct: dict[str, Any]) -> None:
    avro = schemas.spark_to_avro(struct, "t")

    assert schemas.avro_to_spark(json.loads(schemas.canonical_json(avro))) == struct
    assert schemas.avro_to_arrow(avro) == schemas.spark_to_arrow(struct)


@given(spark_structs)
def test_the_avro_of_a_spark_struct_is_valid_avro(struct: dict[str, Any]) -> None:
    import fastavro

    assert fastavro.parse_schema(schemas.spark_to_avro(struct, "my-table 1")) is not None


def column(kind: Any, nullable: bool = True) -> dict[str, Any]:
    field = {"name": "c", "type": kind, "nullable": nullable, "metadata": {}}
    return {"type": "struct", "fields": [field]}


def avro_of(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]}


def test_names_and_sizes_are_hudi_s() -> None:
    avro = schemas.spark_to_avro(column("decimal(10,2)"), "cow_types")

    assert (avro["name"], avro["namespace"]) == ("cow_types_record", "hoodie.cow_types")
    assert avro["fields"][0]["default"] is None
    assert avro["fields"][0]["type"][1] == {
        "type": "fixed", "name": "fixed", "namespace": "hoodie.cow_types.cow_types_record.c",
        "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2,
    }  # fmt: skip
    thirty = schemas.spark_to_avro(column("decimal(30,3)", False), "t")["fields"][0]
    assert thirty["type"]["size"] == 13
    assert "default" not in thirty


def test_small_integers_become_int_as_in_hudi() -> None:
    assert schemas.spark_to_avro(column("byte", False), "t")["fields"][0]["type"] == "int"
    assert schemas.spark_to_arrow(column("short")).field("c").type == pa.int16()


@pytest.mark.parametrize(
    ("avro", "spark"),
    [
        (["long", "null"], "long"),
        (["null", "int", "long"], "long"),
        (["float", "double"], "double"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}, "decimal(5,1)"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ({"type": "string", "avro.java.string": "String"}, "string"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "f", "size": 4}, "binary"),
    ],
)
def test_avro_of_other_writers_is_read(avro: Any, spark: str) -> None:
    assert schemas.avro_to_spark(avro_of(avro))["fields"][0]["type"] == spark


def test_named_types_are_found_again_by_their_names() -> None:
    point = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "int"}]}
    avro = {
        "type": "record", "name": "r", "namespace": "n",
        "fields": [{"name": "a", "type": point}, {"name": "b", "type": ["null", "p"]},
                   {"name": "c", "type": "n.p"}],
    }  # fmt: skip

    a, b, c = schemas.avro_to_spark(avro)["fields"]

    assert a["type"] == b["type"] == c["type"]
    assert (a["nullable"], b["nullable"]) == (False, True)


def test_meta_columns_come_and_go() -> None:
    struct = schemas.with_meta_columns(column("long"))
    avro = schemas.spark_to_avro(struct, "t")

    assert [f["name"] for f in struct["fields"]] == [*schemas.META_COLUMNS, "c"]
    assert schemas.avro_to_spark(avro) == column("long")
    assert schemas.avro_to_spark(avro, with_meta_columns=True) == struct
    assert schemas.with_meta_columns(struct) == struct


def test_arrow_types_are_those_that_parquet_keeps_for_hudi() -> None:
    kinds = {
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
        "date": pa.date32(), "decimal(10,2)": pa.decimal128(10, 2), "decimal": pa.decimal128(10, 0),
    }  # fmt: skip
    for spark, arrow in kinds.items():
        assert schemas.spark_to_arrow(column(spark)).field("c").type == arrow


@pytest.mark.parametrize("avro", [["null", "string", "int"], "n.unknown", {"type": "record2"}])
def test_an_avro_type_without_counterpart_names_its_column(avro: Any) -> None:
    with pytest.raises(UnsupportedTable, match="Column 'c'") as error:
        schemas.avro_to_spark(avro_of(avro))
    assert error.value.facts["column"] == "c"


@pytest.mark.parametrize(
    ("logical", "avro"),
    [
        ("vector", {"type": "fixed", "name": "vector_float_3", "size": 12, "dimension": 3}),
        ("blob", {"type": "record", "name": "blob", "fields": []}),
        ("variant", {"type": "record", "name": "variant", "fields": []}),
    ],
)
def test_a_type_of_apache_hudis_own_names_its_column(logical: str, avro: Any) -> None:
    """As bytes, or a struct of them, a write would declare another column for good."""
    kind = ["null", {**avro, "logicalType": logical}]
    for each in (kind, {"type": "array", "items": kind}):
        with pytest.raises(UnsupportedTable, match=f"Column 'c.*own type {logical}"):
            schemas.avro_to_spark(avro_of(each))


@pytest.mark.parametrize(
    ("spark", "words"),
    [
        ("interval day to second", "the type interval day to second"),
        ({"type": "udt"}, "the type udt"),
        (
            {"type": "map", "keyType": "integer", "valueType": "long", "valueContainsNull": True},
            "the type map<int,bigint>",
        ),
        ("void", "no type: all its values are null. Cast it to a type"),
        ("string collate UTF8_LCASE", "a collation"),
    ],
)
def test_a_spark_type_without_counterpart_names_its_column(spark: Any, words: str) -> None:
    inside = {"type": "array", "elementType": spark, "containsNull": True}
    with pytest.raises(SchemaConflict, match=f"Column 'c.element' has {words}") as error:
        schemas.spark_to_avro(column(inside), "t")
    assert error.value.facts["column"] == "c.element"


def test_a_collation_that_the_type_does_not_show_is_refused_where_it_is() -> None:
    inside = {"type": "struct", **column("string")}
    inside["fields"][0]["metadata"] = {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}
    with pytest.raises(SchemaConflict, match=r"Column 'c\.c' has a collation"):
        schemas.spark_to_avro(column(inside), "t")


def test_the_collation_of_plain_text_is_none() -> None:
    plain = schemas.spark_to_avro(column("string"), "t")
    named = column("string")
    named["fields"][0]["metadata"] = {"__COLLATIONS": {"c": "spark.UTF8_BINARY"}}
    assert schemas.spark_to_avro(named, "t") == plain
    assert schemas.spark_to_avro(column("string collate UTF8_BINARY"), "t") == plain


def test_types_are_shown_as_sql_writes_them() -> None:
    array = {"type": "array", "elementType": "byte", "containsNull": True}
    fields = column(array)["fields"] + [{**column("decimal(9,2)")["fields"][0], "name": "d"}]
    assert schemas.type_text({"type": "struct", "fields": fields}) == (
        "struct<c:array<tinyint>,d:decimal(9,2)>"
    )
