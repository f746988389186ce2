"""A column that places rows must be there and keep the texts of its values."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from pyhudi.config import Operation, resolve_write
from pyhudi.errors import ConfigError, SchemaConflict
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.properties import render_properties
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableConfig, parse_table_config
from pyhudi.writes.keys.key_columns import with_key_columns


def schema(**columns: str) -> StructType:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns.items()]
    return StructType.fromJson({"type": "struct", "fields": fields})


def config(key: str = "id", partition: str = "p") -> TableConfig:
    properties = new_table_properties(
        name="t",
        version=9,
        record_key_fields=[key],
        partition_fields=[partition] if partition else [],
        ordering_fields=[],
        merge_mode=MergeMode.COMMIT_TIME_ORDERING,
        key_generator=KeyGenerator.SIMPLE,
    )
    return parse_table_config(render_properties(properties), "/t")


def checked(
    stored: StructType,
    incoming: StructType,
    operation: Operation = Operation.UPSERT,
    **options: str,
) -> SparkSchema:
    given = {key.replace("__", "."): value for key, value in options.items()}
    current = SparkSchema.parse(stored.jsonValue())
    resolved = resolve_write(given)
    return with_key_columns(current, incoming, current, config(), operation, resolved)


@pytest.mark.parametrize(
    ("stored", "incoming"),
    [
        ("integer", "double"), ("double", "integer"), ("long", "float"), ("float", "double"),
        ("decimal(5,2)", "decimal(10,4)"), ("string", "integer"), ("date", "timestamp"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("role", ["id", "p"])
@pytest.mark.parametrize("operation", [Operation.UPSERT, Operation.DELETE])
def test_a_type_with_other_texts_is_refused(
    stored: str, incoming: str, role: str, operation: Operation
) -> None:
    both = {"id": "integer", "p": "string"}
    with pytest.raises(SchemaConflict, match=f"'{role}'") as caught:
        checked(schema(**{**both, role: stored}), schema(**{**both, role: incoming}), operation)
    assert caught.value.facts["column"] == role


@pytest.mark.parametrize("narrow", ["byte", "short", "integer"])
def test_whole_numbers_of_any_width_have_one_text(narrow: str) -> None:
    wide, small = schema(id="long", p="string"), schema(id=narrow, p="string")
    assert checked(wide, small) == SparkSchema.parse(wide.jsonValue())
    # An upsert's schema holds the wider type by then; a delete's is the table's own.
    assert checked(small, wide, Operation.DELETE).types["id"] == "long"


@pytest.mark.parametrize("missing", ["id", "p"])
def test_a_delete_needs_key_and_partition(missing: str) -> None:
    stored = schema(id="long", p="string")
    data = schema(**{n: t for n, t in {"id": "long", "p": "string"}.items() if n != missing})
    with pytest.raises(ConfigError, match=f"'{missing}' is not a column of the data"):
        checked(stored, data, Operation.DELETE)


def test_a_global_index_finds_what_to_delete_without_the_partition() -> None:
    stored = schema(id="long", p="string")
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    assert checked(stored, schema(id="long"), Operation.DELETE, **options)
    with pytest.raises(ConfigError):
        checked(stored, schema(id="long"), Operation.UPSERT, **options)
