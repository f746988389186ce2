from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyhudi.config import Operation, WriteOptions, resolve_write
from pyhudi.errors import ConfigError, TableExists
from pyhudi.format.instants import Action
from pyhudi.planner.intent import Intent, Overwrite, Route, action_of, decide, save_intent

OPERATION = "hoodie.datasource.write.operation"
KEYED = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "k"}
KEYLESS = {"hoodie.table.name": "t"}
SAVE, SQL = Intent(Route.SAVE), Intent(Route.SQL)


def options(base: Mapping[str, str], **more: str) -> WriteOptions:
    given = {**base, **({OPERATION: more["operation"]} if "operation" in more else {})}
    if "overwrite_mode" in more:
        given["hoodie.datasource.overwrite.mode"] = more["overwrite_mode"]
    return resolve_write(given, None, {})


@pytest.mark.parametrize(
    ("mode", "exists", "overwrite"),
    [
        ("append", True, Overwrite.NONE),
        ("append", False, Overwrite.NONE),
        ("overwrite", True, Overwrite.ALL),
        ("overwrite", False, Overwrite.ALL),
        ("error", False, Overwrite.NONE),
        ("errorifexists", False, Overwrite.NONE),
        ("ignore", False, Overwrite.NONE),
    ],
)
def test_save_modes_say_what_becomes_of_old_rows(
    mode: str, exists: bool, overwrite: Overwrite
) -> None:
    assert save_intent(mode, exists, "/t") == Intent(Route.SAVE, overwrite)


@pytest.mark.parametrize("mode", ["error", "errorifexists", "default"])
def test_errorifexists_refuses_a_table_that_exists(mode: str) -> None:
    with pytest.raises(TableExists, match="/t already"):
        save_intent(mode, True, "/t")


def test_ignore_does_nothing_to_a_table_that_exists() -> None:
    assert save_intent("ignore", True, "/t") is None


def test_a_save_upserts_where_there_is_a_key_and_inserts_where_there_is_none() -> None:
    assert decide(SAVE, options(KEYED)) is Operation.UPSERT
    assert decide(SAVE, options(KEYLESS)) is Operation.INSERT


@pytest.mark.parametrize("operation", ["bulk_insert", "insert", "upsert", "delete"])
def test_a_named_operation_is_done_on_a_save(operation: str) -> None:
    assert decide(SAVE, options(KEYED, operation=operation)) is Operation(operation)


@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_what_needs_a_key_is_refused_without_one(operation: str) -> None:
    with pytest.raises(ConfigError, match="needs a record key") as refused:
        decide(SAVE, options(KEYLESS, operation=operation))
    assert refused.value.facts["key"] == OPERATION


@pytest.mark.parametrize("route", Route)
@pytest.mark.parametrize(
    ("given", "operation"),
    [
        ({}, Operation.INSERT_OVERWRITE_TABLE),
        ({"operation": "upsert"}, Operation.INSERT_OVERWRITE_TABLE),
        ({"operation": "insert_overwrite"}, Operation.INSERT_OVERWRITE),
        ({"operation": "insert_overwrite_table"}, Operation.INSERT_OVERWRITE_TABLE),
        ({"overwrite_mode": "dynamic"}, Operation.INSERT_OVERWRITE),
        ({"operation": "delete_partition"}, Operation.DELETE_PARTITION),
    ],
)
def test_overwriting_all_replaces_the_table_or_the_partitions_at_hand(
    route: Route, given: dict[str, str], operation: Operation
) -> None:
    intent = Intent(route, Overwrite.ALL)
    assert decide(intent, options(KEYLESS, **given)) is operation


@pytest.mark.parametrize("overwrite", [Overwrite.FILTER, Overwrite.DYNAMIC])
def test_overwriting_partitions_is_an_insert_overwrite(overwrite: Overwrite) -> None:
    assert decide(Intent(Route.SQL, overwrite), options(KEYED)) is Operation.INSERT_OVERWRITE


@pytest.mark.parametrize("operation", Operation)
def test_what_replaces_groups_is_a_replacecommit(operation: Operation) -> None:
    replaces = operation.value in ("insert_overwrite", "insert_overwrite_table", "delete_partition")
    assert action_of(operation) is (Action.REPLACECOMMIT if replaces else Action.COMMIT)


DROP = "hoodie.datasource.write.insert.drop.duplicates"
POLICY = "hoodie.datasource.insert.dup.policy"


@pytest.mark.parametrize("given", [{DROP: "true"}, {POLICY: "drop"}, {POLICY: "fail"}])
def test_an_upsert_that_shall_not_touch_what_is_there_is_an_insert(given: dict[str, str]) -> None:
    for intent in (SAVE, SQL):
        found = decide(intent, options({**KEYED, **given}, operation="upsert"))
        assert found is Operation.INSERT
    assert decide(SAVE, options({**KEYED, **given}, operation="delete")) is Operation.DELETE


def test_a_bulk_insert_looks_no_duplicates_up_and_says_so() -> None:
    with pytest.raises(ConfigError, match=DROP):
        decide(SAVE, options({**KEYED, DROP: "true"}, operation="bulk_insert"))
