"""What a caller asked for, and which operation that is: Hudi's defaults as one decision.

Pure. Source: Hudi's documentation of INSERT INTO and of the save modes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pyhudi.config import (
    DuplicatePolicy,
    Operation,
    OverwriteMode,
    WriteOptions,
    new_table_operation,
    sql_insert_operation,
)
from pyhudi.errors import ConfigError, TableExists
from pyhudi.format.instants import Action
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import kind_of
from pyhudi.option_tables import SPARK_OVERWRITE_MODE
from pyhudi.reads.conditions import Compare, Comparison, Filter
from pyhudi.timeline.states import adding_action

OPERATION = "hoodie.datasource.write.operation"
MODE = "hoodie.datasource.overwrite.mode"
_SPARKS = frozenset({SPARK_OVERWRITE_MODE.lower()})
_OF_OVERWRITES = _SPARKS | {OPERATION, MODE, "partitionoverwritemode"}
DROP_DUPLICATES = "hoodie.datasource.write.insert.drop.duplicates"
POLICY = "hoodie.datasource.insert.dup.policy"


class SaveMode(Enum):
    """What ``df.write.save`` does with an existing table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    ERROR = "error"
    IGNORE = "ignore"


class Route(str, Enum):
    """Where a write comes from: ``df.write.save``, or SQL and the catalog."""

    SAVE = "save"
    SQL = "sql"


class Overwrite(str, Enum):
    """Which of the old rows a write replaces."""

    NONE = "none"
    #: there are none: the table is new, by CREATE TABLE AS SELECT or ``saveAsTable``
    NEW = "new"
    ALL = "all"
    FILTER = "filter"
    DYNAMIC = "dynamic"
    #: the table itself, by REPLACE TABLE or ``saveAsTable``: settings of the session do not count
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Intent:
    """A write as it was asked for; ``filters`` choose partitions where overwrite is FILTER.

    ``complete`` is a batch of a stream whose output mode replaces all rows: nothing keeps a part.
    ``adds`` is one of another mode: without rows it changes nothing, also by an overwrite.
    ``analysed``: Spark gave the rows the columns that the table had when it analysed the statement.
    """

    route: Route
    overwrite: Overwrite = Overwrite.NONE
    filters: Sequence[Filter] = ()
    may_exist: bool = True
    complete: bool = False
    adds: bool = False
    analysed: bool = False


REPLACING = frozenset(
    {
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
    }
)


def save_intent(mode: str, exists: bool, root: str) -> Intent | None:
    """The intent of ``df.write.mode(mode).save``; None if ``ignore`` finds a table."""
    if mode in ("error", "errorifexists", "default") and exists:
        raise TableExists(
            f"There is a table at {root} already and the save mode is errorifexists. Use mode "
            "append or overwrite, or another path.",
            path=root,
        )
    if mode == "ignore" and exists:
        return None
    overwrite = Overwrite.ALL if mode == "overwrite" else Overwrite.NONE
    return Intent(Route.SAVE, overwrite)


def heeded(intent: Intent, session: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of the session that decide which old rows are replaced.

    For SQL and ``writeTo`` Spark has already applied its own. REPLACE TABLE replaces all rows, as
    in other formats, unless the write's own options keep parts of them.
    """
    if intent.route is Route.SAVE and not intent.complete:
        return session
    whole = intent.complete or intent.overwrite is Overwrite.REPLACE
    passed = _OF_OVERWRITES if whole else _SPARKS
    return {key: text for key, text in session.items() if key.lower() not in passed}


def without_overwriting(
    properties: Mapping[str, str], intent: Intent, session: Mapping[str, str]
) -> dict[str, str]:
    """TBLPROPERTIES as an overwrite uses them: as in Hudi they name no operation for it, and the
    session's mode counts before theirs."""
    passed = {OPERATION}
    if intent.overwrite is Overwrite.REPLACE or MODE in map(str.lower, session):
        passed |= _OF_OVERWRITES
    return {key: text for key, text in properties.items() if key.lower() not in passed}


def settled(intent: Intent, options: WriteOptions, session: Mapping[str, str]) -> Intent:
    """``intent`` with the options applied: which rows an overwrite replaces.

    As Hudi 1.2.0 decides it: an operation that overwrites counts before
    ``hoodie.datasource.overwrite.mode``, and this before Spark's own setting. ``ConfigError`` if
    they ask for something impossible.
    """
    how, given, mode = intent.overwrite, options.operation, options.overwrite_mode
    nothing = how in (Overwrite.NONE, Overwrite.NEW)
    if nothing or given is Operation.DELETE_PARTITION:
        return intent
    if intent.complete:
        _refuse_kept_rows(given, mode)
        return intent
    partitioned = bool(options.partition_fields)
    if how is Overwrite.REPLACE or (how is Overwrite.DYNAMIC and not partitioned):
        how = Overwrite.ALL
    chosen = how is Overwrite.FILTER and not _is_partition_clause(intent.filters)
    if given is Operation.INSERT_OVERWRITE_TABLE:
        if chosen:
            raise _contradiction(OPERATION, given.value, "the statement names the rows to replace")
        return replace(intent, overwrite=Overwrite.ALL, filters=())
    if chosen:
        return intent
    if how is Overwrite.DYNAMIC:
        if mode is OverwriteMode.STATIC and given is not Operation.INSERT_OVERWRITE:
            _refuse_lost_clause(session)
        return intent
    spares = mode is OverwriteMode.DYNAMIC and partitioned
    if spares or given is Operation.INSERT_OVERWRITE:
        return replace(intent, overwrite=Overwrite.DYNAMIC, filters=())
    return replace(intent, overwrite=how)


def _is_partition_clause(filters: Sequence[Filter]) -> bool:
    """Whether Spark made the filters of ``PARTITION (column = value)``: it compares this way."""
    return all(isinstance(each, Compare) and each.by is Comparison.SAME for each in filters)


def _refuse_lost_clause(session: Mapping[str, str]) -> None:
    """If Spark's setting is dynamic, an INSERT OVERWRITE does not say which partitions it names."""
    if session.get(SPARK_OVERWRITE_MODE, "").lower() == OverwriteMode.DYNAMIC.value:
        raise _contradiction(MODE, "static", f"{SPARK_OVERWRITE_MODE} is dynamic")


def _refuse_kept_rows(given: Operation | None, mode: OverwriteMode | None) -> None:
    rule = "each batch of a stream in complete mode replaces all rows"
    if given in (Operation.INSERT_OVERWRITE, Operation.DELETE):
        raise _contradiction(OPERATION, given.value, rule)
    if mode is OverwriteMode.DYNAMIC:
        raise _contradiction(MODE, mode.value, rule)


def _contradiction(key: str, value: str, other: str) -> ConfigError:
    return ConfigError(
        f"'{key}' is '{value}', but {other}: it is not clear which old rows to replace. "
        "Nothing was written. Leave out one of them.",
        key=key,
    )


def decide(intent: Intent, options: WriteOptions) -> Operation:
    """The operation; ``ConfigError`` if it cannot be done on a table without a key."""
    given = options.operation
    if given is Operation.DELETE_PARTITION:
        return given
    if intent.overwrite is Overwrite.ALL:
        found = Operation.INSERT_OVERWRITE_TABLE
    elif intent.overwrite in (Overwrite.FILTER, Overwrite.DYNAMIC):
        found = Operation.INSERT_OVERWRITE
    elif intent.overwrite is Overwrite.NEW:
        found = new_table_operation(options)
    elif intent.route is Route.SQL:
        found = sql_insert_operation(options)
    elif given is not None:
        found = given
    else:
        found = Operation.UPSERT if options.record_key_fields else Operation.INSERT
    if found in (Operation.UPSERT, Operation.DELETE) and not options.record_key_fields:
        raise ConfigError(
            f"Operation {found.value} needs a record key, and this table has none (its keys are "
            "generated). Use insert, or make a table with hoodie.datasource.write.recordkey.field.",
            key=OPERATION,
        )
    if found is Operation.BULK_INSERT and options.insert_drop_duplicates:
        raise ConfigError(
            f"{DROP_DUPLICATES} is true, but bulk_insert looks up no keys. Use operation insert, "
            "or leave the option out.",
            key=DROP_DUPLICATES,
        )
    looks_up = options.duplicate_policy is not DuplicatePolicy.NONE
    if found is Operation.UPSERT and looks_up:
        # As in Hudi 1.2.0: existing rows stay, or the write fails.
        found = Operation.INSERT
    if found is Operation.INSERT and looks_up and kind_of(options).hashed:
        drops = options.insert_drop_duplicates
        asked = (
            f"{DROP_DUPLICATES} is true"
            if drops
            else f"{POLICY} is {options.duplicate_policy.value}"
        )
        raise ConfigError(
            f"{asked}, but the index is BUCKET, which looks "
            "up no keys: rows that the table has would be written again. Nothing was written. Use "
            "operation upsert without the policy, or MERGE INTO with WHEN NOT MATCHED.",
            key=DROP_DUPLICATES if drops else POLICY,
        )
    return found


def action_of(operation: Operation, config: TableConfig) -> Action:
    """The timeline action under which an operation commits (spec/timeline.md T2)."""
    return Action.REPLACECOMMIT if operation in REPLACING else adding_action(config)
