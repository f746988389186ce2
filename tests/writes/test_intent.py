from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyhudi.config import Operation, WriteOptions, resolve_write
from pyhudi.errors import ConfigError, TableExists
from pyhudi.format.instants import Action
from pyhudi.format.table_config import parse_table_config
from pyhudi.writes.intent import (
    Intent,
    Overwrite,
    Route,
    action_of,
    decide,
    heeded,
    save_intent,
    settled,
    without_overwriting,
)
from tests.reads.conditions import compare

OPERATION = "hoodie.datasource.write.operation"
MODE = "hoodie.datasource.overwrite.mode"
KEYED = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "k"}
KEYLESS = {"hoodie.table.name": "t"}
SAVE, SQL = Intent(Route.SAVE), Intent(Route.SQL)


def options(base: Mapping[str, str], **more: str) -> WriteOptions:
    given = {**base, **({OPERATION: more["operation"]} if "operation" in more else {})}
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


PARTITIONED = {**KEYLESS, "hoodie.datasource.write.partitionpath.field": "a,b"}
SPARK = "spark.sql.sources.partitionOverwriteMode"
CLAUSE = (compare("a", "<=>", "x"),)
WHOLE_CLAUSE = (*CLAUSE, compare("b", "<=>", "1"))
CONDITION = (compare("a", "=", "x"),)


def overwriting(
    intent: Intent, session: Mapping[str, str], base: Mapping[str, str] = PARTITIONED, **more: str
) -> tuple[Overwrite, Operation]:
    """What a write replaces and how, its options and the session's settings heard."""
    given = {**base, **more}
    found = resolve_write(given, None, heeded(intent, session))
    intent = settled(intent, found, session)
    return intent.overwrite, decide(intent, found)


TABLE = (Overwrite.ALL, Operation.INSERT_OVERWRITE_TABLE)
WRITTEN = (Overwrite.DYNAMIC, Operation.INSERT_OVERWRITE)
NAMED = (Overwrite.FILTER, Operation.INSERT_OVERWRITE)

#: settings of a session, and what then replaces INSERT OVERWRITE, with PARTITION (a = 'x', b), and
#: with both columns named
ASKED: tuple[tuple[dict[str, str], tuple[object, object, object]], ...] = (
    ({}, (TABLE, NAMED, NAMED)),
    ({MODE: "static"}, (TABLE, NAMED, NAMED)),
    ({MODE: "dynamic"}, (WRITTEN, WRITTEN, WRITTEN)),
    ({MODE: "dynamic", SPARK: "static"}, (WRITTEN, WRITTEN, WRITTEN)),
    ({OPERATION: "upsert"}, (TABLE, NAMED, NAMED)),
    ({OPERATION: "insert_overwrite"}, (WRITTEN, WRITTEN, WRITTEN)),
    ({OPERATION: "insert_overwrite", MODE: "static"}, (WRITTEN, WRITTEN, WRITTEN)),
    ({OPERATION: "insert_overwrite_table"}, (TABLE, TABLE, TABLE)),
    ({OPERATION: "insert_overwrite_table", MODE: "dynamic"}, (TABLE, TABLE, TABLE)),
)


@pytest.mark.parametrize(("session", "replaced"), ASKED)
def test_a_statement_replaces_what_operation_and_mode_say(
    session: dict[str, str], replaced: tuple[object, object, object]
) -> None:
    asked = (
        Intent(Route.SQL, Overwrite.ALL),
        Intent(Route.SQL, Overwrite.FILTER, CLAUSE),
        Intent(Route.SQL, Overwrite.FILTER, WHOLE_CLAUSE),
    )
    assert tuple(overwriting(intent, session) for intent in asked) == replaced


@pytest.mark.parametrize(
    ("session", "options", "replaced"),
    [
        ({}, {}, TABLE),
        ({SPARK: "DYNAMIC"}, {}, WRITTEN),
        ({SPARK: "dynamic"}, {"partitionOverwriteMode": "static"}, TABLE),
        ({SPARK: "dynamic", MODE: "static"}, {}, TABLE),
        ({SPARK: "static", MODE: "dynamic"}, {}, WRITTEN),
        ({}, {"partitionOverwriteMode": "Dynamic"}, WRITTEN),
        ({}, {"PARTITIONOVERWRITEMODE": "dynamic"}, WRITTEN),
        ({MODE: "static"}, {"partitionOverwriteMode": "dynamic"}, WRITTEN),
        ({}, {MODE: "dynamic"}, WRITTEN),
        ({}, {OPERATION: "upsert", MODE: "dynamic"}, WRITTEN),
        ({}, {OPERATION: "insert_overwrite"}, WRITTEN),
        ({SPARK: "dynamic"}, {OPERATION: "insert_overwrite_table"}, TABLE),
    ],
)
def test_mode_overwrite_spares_partitions_where_dynamic_is_asked_for(
    session: dict[str, str], options: dict[str, str], replaced: object
) -> None:
    assert overwriting(Intent(Route.SAVE, Overwrite.ALL), session, **options) == replaced


def test_two_modes_of_overwriting_in_one_call_must_agree() -> None:
    asked = Intent(Route.SAVE, Overwrite.ALL)
    with pytest.raises(ConfigError, match="two names of one option"):
        overwriting(asked, {}, **{MODE: "static", "partitionOverwriteMode": "dynamic"})


def test_a_table_without_partitions_is_overwritten_whole() -> None:
    for route in Route:
        for how in (Overwrite.ALL, Overwrite.DYNAMIC):
            for mode in ("static", "dynamic"):
                session = {MODE: mode, SPARK: "dynamic"}
                assert overwriting(Intent(route, how), session, KEYLESS) == TABLE


@pytest.mark.parametrize("session", [asked for asked, _ in ASKED])
def test_a_table_that_is_replaced_keeps_parts_only_by_options_of_the_write(
    session: dict[str, str],
) -> None:
    replaced = Intent(Route.SQL, Overwrite.REPLACE)
    assert overwriting(replaced, session) == TABLE
    assert overwriting(replaced, session, **{MODE: "dynamic"}) == WRITTEN
    properties = {MODE: "dynamic", OPERATION: "insert_overwrite", "primaryKey": "k"}
    assert without_overwriting(properties, replaced, {}) == {"primaryKey": "k"}


def test_properties_of_the_table_name_no_operation_and_yield_to_the_sessions_mode() -> None:
    properties = {MODE: "dynamic", OPERATION: "insert_overwrite_table", "primaryKey": "k"}
    clause = Intent(Route.SQL, Overwrite.FILTER, CLAUSE)
    assert without_overwriting(properties, clause, {}) == {MODE: "dynamic", "primaryKey": "k"}
    assert without_overwriting(properties, clause, {MODE: "static"}) == {"primaryKey": "k"}


def test_rows_that_a_condition_names_are_replaced_whatever_the_mode() -> None:
    asked = Intent(Route.SQL, Overwrite.FILTER, CONDITION)
    for session in ({MODE: "dynamic"}, {OPERATION: "insert_overwrite"}, {SPARK: "dynamic"}):
        assert overwriting(asked, session) == NAMED
    with pytest.raises(ConfigError, match="it is not clear which old rows to replace"):
        overwriting(asked, {OPERATION: "insert_overwrite_table"})


def test_a_clause_that_spark_takes_for_dynamic_is_refused_where_hudi_says_static() -> None:
    asked = Intent(Route.SQL, Overwrite.DYNAMIC)
    assert overwriting(asked, {SPARK: "dynamic"}) == WRITTEN
    assert overwriting(asked, {MODE: "static"}) == WRITTEN, "overwritePartitions() by name"
    both = {SPARK: "dynamic", MODE: "static"}
    assert overwriting(asked, {**both, OPERATION: "insert_overwrite"}) == WRITTEN
    assert overwriting(asked, {**both, OPERATION: "insert_overwrite_table"}) == TABLE
    with pytest.raises(ConfigError, match="static.*is dynamic"):
        overwriting(asked, both)


def test_what_replaces_no_rows_replaces_none_whatever_mode_the_session_has() -> None:
    kept = (Overwrite.NONE, Operation.INSERT)
    assert overwriting(Intent(Route.SQL), {MODE: "dynamic"}) == kept


def test_delete_partition_overwrites_nothing() -> None:
    asked = Intent(Route.SAVE, Overwrite.ALL)
    _, found = overwriting(asked, {MODE: "dynamic"}, **{OPERATION: "delete_partition"})
    assert found is Operation.DELETE_PARTITION


@pytest.mark.parametrize("operation", Operation)
def test_what_replaces_groups_is_a_replacecommit(operation: Operation) -> None:
    replaces = operation.value in ("insert_overwrite", "insert_overwrite_table", "delete_partition")
    adds = {"COPY_ON_WRITE": Action.COMMIT, "MERGE_ON_READ": Action.DELTACOMMIT}
    for kind, added in adds.items():
        config = parse_table_config(
            f"hoodie.table.name=t\nhoodie.table.version=9\nhoodie.table.type={kind}\n"
            "hoodie.timeline.layout.version=2\n".encode(),
            "p",
        )
        assert action_of(operation, config) is (Action.REPLACECOMMIT if replaces else added)


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


@pytest.mark.parametrize("policy", ["drop", "fail"])
@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_a_bucket_index_looks_up_no_keys_so_it_cannot_drop_duplicates(
    policy: str, operation: str
) -> None:
    given = {**KEYED, OPERATION: operation, "hoodie.datasource.insert.dup.policy": policy}
    buckets = {"hoodie.index.type": "BUCKET"}
    with pytest.raises(ConfigError, match=f"dup.policy is {policy}, but the index is BUCKET"):
        decide(SAVE, resolve_write({**given, **buckets}))
    assert decide(SAVE, resolve_write(given)) is Operation.INSERT
    assert decide(SAVE, resolve_write({**given, **buckets, OPERATION: "delete"})) is (
        Operation.DELETE
    )
    with pytest.raises(ConfigError, match=f"{DROP} is true, but the index is BUCKET"):
        decide(SAVE, resolve_write({**KEYED, DROP: "true", **buckets}))


@pytest.mark.parametrize("session", [asked for asked, _ in ASKED])
def test_a_complete_batch_replaces_all_rows(session: dict[str, str]) -> None:
    complete = Intent(Route.SAVE, Overwrite.ALL, complete=True)
    assert overwriting(complete, session) == TABLE
    assert overwriting(complete, session, **{OPERATION: "upsert"}) == TABLE
    for kept in ({MODE: "dynamic"}, {OPERATION: "insert_overwrite"}):
        with pytest.raises(ConfigError, match="complete mode replaces all rows"):
            overwriting(complete, session, **kept)
