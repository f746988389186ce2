"""The noun for a table's columns: it says what Spark's JSON says, and answers what callers ask."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings

from pyhudi.format import schemas
from pyhudi.format.spark_schema import Column, SparkSchema
from tests.format.test_schemas import spark_structs

POINT = {
    "type": "struct",
    "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}],
}
POINTS = {"type": "array", "elementType": POINT, "containsNull": True}
BY_NAME = {
    "type": "map", "keyType": "string", "valueType": POINTS, "valueContainsNull": True,
}  # fmt: skip


@settings(max_examples=30)
@given(spark_structs)
def test_a_schema_says_what_it_was_made_of(struct: dict[str, Any]) -> None:
    schema = SparkSchema.parse(struct)

    assert schema.json() == struct
    assert SparkSchema.of_avro(schema.avro("t")) == schema
    assert schema.with_meta_columns().json() == schemas.with_meta_columns(struct)


def test_a_path_is_spelled_as_the_columns_spell_it() -> None:
    schema = SparkSchema((Column("Id", "long"), Column("At", POINT), Column("a", "long")))
    found = [schema.own_spelling(path) for path in ("id", "AT.X", "at", "Id", "at.y", "b")]
    assert found == ["Id", "At.x", "At", "Id", "at.y", "b"]


def test_its_text_is_that_of_spark() -> None:
    text = (
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"long",'
        '"containsNull":true},"nullable":false,"metadata":{"comment":"c"}}]}'
    )
    assert schemas.canonical_json(SparkSchema.parse(json.loads(text)).json()) == text


def test_a_field_without_metadata_has_none() -> None:
    fields = [{"name": "a", "type": "long", "nullable": False}]
    assert SparkSchema.parse({"fields": fields}).columns == (Column("a", "long", False),)


def test_a_stored_short_is_an_int() -> None:
    stored = SparkSchema((Column("a", "short", False), Column("b", "long"))).as_stored("t")
    assert stored == SparkSchema((Column("a", "integer", False), Column("b", "long")))


def test_columns_are_found_and_put_last_by_their_names_in_any_case() -> None:
    schema = SparkSchema((Column("Day", "date"), Column("Id", "long"), Column("v", "string")))

    assert schema.by_lower_name()["id"] is schema.columns[1]
    assert schema.with_last(["DAY", "other"]).names == ("Id", "v", "Day")
    assert schema.types == {"Day": "date", "Id": "long", "v": "string"}


def test_paths_name_what_is_inside_of_structs_lists_and_maps() -> None:
    schema = SparkSchema((Column("a", POINTS), Column("m", BY_NAME), Column("z", "long")))
    assert list(schema.paths()) == [
        ("a", "a"), ("a.x", "x"), ("m", "m"), ("m.x", "x"), ("z", "z"),
    ]  # fmt: skip


def test_a_comment_comes_and_goes_and_the_rest_stays() -> None:
    column = Column("a", "string", metadata={"comment": "old", "__CHAR_VARCHAR_TYPE_STRING": "c"})

    other = column.with_comment("new")

    assert list(other.metadata.items()) == [("comment", "new"), ("__CHAR_VARCHAR_TYPE_STRING", "c")]
    assert other.with_comment(None).metadata == {"__CHAR_VARCHAR_TYPE_STRING": "c"}
    assert (column.comment, other.comment) == ("old", "new")
