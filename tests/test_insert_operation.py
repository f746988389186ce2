"""What INSERT and CREATE TABLE AS SELECT do, by the rules of Apache Hudi 1.2.0."""

from __future__ import annotations

import pytest

from pyhudi.config import (
    Operation,
    new_table_operation,
    resolve_write,
    sql_insert_operation,
)
from pyhudi.errors import ConfigError


# hoodie.properties of a table by Hudi 1.2.0, as far as options are concerned.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Operation.INSERT),
        ({"primaryKey": "id"}, Operation.INSERT),
        ({"primaryKey": "id", "preCombineField": "ts"}, Operation.INSERT),
        (
            {
                "primaryKey": "id",
                "preCombineField": "ts",
                "hoodie.spark.sql.insert.into.operation": "bulk_insert",
            },
            Operation.BULK_INSERT,
        ),
        (
            {"primaryKey": "id", "preCombineField": "ts", "hoodie.sql.insert.mode": "non-strict"},
            Operation.INSERT,
        ),
        ({"hoodie.spark.sql.insert.into.operation": "upsert"}, Operation.INSERT),
        ({"primaryKey": "id", "hoodie.sql.insert.mode": "upsert"}, Operation.INSERT),
        (
            {
                "primaryKey": "id",
                "hoodie.sql.insert.mode": "strict",
                "hoodie.combine.before.insert": "true",
            },
            Operation.UPSERT,
        ),
        (
            {
                "primaryKey": "id",
                "hoodie.sql.insert.mode": "upsert",
                "hoodie.datasource.write.insert.drop.duplicates": "true",
            },
            Operation.INSERT,
        ),
        (
            {"hoodie.sql.insert.mode": "upsert", "hoodie.combine.before.insert": "true"},
            Operation.INSERT,
        ),
        ({"hoodie.datasource.write.operation": "bulk_insert"}, Operation.BULK_INSERT),
        ({"primaryKey": "id", "hoodie.sql.bulk.insert.enable": "true"}, Operation.INSERT),
        (
            {
                "primaryKey": "id",
                "hoodie.sql.bulk.insert.enable": "true",
                "hoodie.sql.insert.mode": "non-strict",
            },
            Operation.BULK_INSERT,
        ),
    ],
)
def test_insert_into_chooses_as_hudi_does(options: dict[str, str], expected: Operation) -> None:
    assert sql_insert_operation(resolve_write(options)) is expected


@pytest.mark.parametrize(
    "more",
    [
        {"hoodie.sql.insert.mode": "strict"},
        {
            "hoodie.sql.insert.mode": "non-strict",
            "hoodie.datasource.write.insert.drop.duplicates": "true",
        },
    ],
)
def test_a_bulk_insert_that_shall_look_up_keys_is_refused_as_in_hudi(more: dict[str, str]) -> None:
    options = resolve_write({"primaryKey": "id", "hoodie.sql.bulk.insert.enable": "true", **more})
    with pytest.raises(ConfigError, match="looks up no keys"):
        sql_insert_operation(options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"primaryKey": "id", "preCombineField": "ts"}, Operation.BULK_INSERT),
        (
            {"primaryKey": "id", "hoodie.spark.sql.insert.into.operation": "upsert"},
            Operation.UPSERT,
        ),
        ({"hoodie.spark.sql.insert.into.operation": "upsert"}, Operation.INSERT),
        ({"hoodie.datasource.write.operation": "insert"}, Operation.INSERT),
        ({"hoodie.datasource.insert.dup.policy": "drop"}, Operation.INSERT),
    ],
)
def test_a_table_as_select_is_filled_as_hudi_does(
    options: dict[str, str], expected: Operation
) -> None:
    assert new_table_operation(resolve_write(options)) is expected
