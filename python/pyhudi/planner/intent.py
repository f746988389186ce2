"""What a caller asked for, and which operation that is: Hudi's defaults as one decision.

Pure. Sources: issue "main job"; Hudi's documentation of INSERT INTO and of the save modes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyhudi.config import (
    DuplicatePolicy,
    Operation,
    OverwriteMode,
    WriteOptions,
    sql_insert_operation,
)
from pyhudi.errors import ConfigError, TableExists
from pyhudi.format.instants import Action

DROP_DUPLICATES = "hoodie.datasource.write.insert.drop.duplicates"


class Route(str, Enum):
    """Where a write comes from: ``df.write.save``, or SQL and the catalog."""

    SAVE = "save"
    SQL = "sql"


class Overwrite(str, Enum):
    """What of the old rows a write replaces."""

    NONE = "none"
    ALL = "all"
    FILTER = "filter"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class Intent:
    """A write as it was asked for; ``filters`` choose partitions where overwrite is FILTER."""

    route: Route
    overwrite: Overwrite = Overwrite.NONE
    filters: Sequence[Any] = field(default_factory=tuple)
    may_exist: bool = True


REPLACING = frozenset(
    {
        Operation.INSERT_OVERWRITE,
        Operation.INSERT_OVERWRITE_TABLE,
        Operation.DELETE_PARTITION,
    }
)


def save_intent(mode: str, exists: bool, root: str) -> Intent | None:
    """The intent of ``df.write.mode(mode).save``; None where ``ignore`` finds a table."""
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


def decide(intent: Intent, options: WriteOptions) -> Operation:
    """The operation; ``ConfigError`` where it cannot be done on a table without a key."""
    given = options.operation
    if given is Operation.DELETE_PARTITION:
        return given
    if intent.overwrite is Overwrite.ALL:
        dynamic = given is Operation.INSERT_OVERWRITE or (
            given is None and options.overwrite_mode is OverwriteMode.DYNAMIC
        )
        found = Operation.INSERT_OVERWRITE if dynamic else Operation.INSERT_OVERWRITE_TABLE
    elif intent.overwrite in (Overwrite.FILTER, Overwrite.DYNAMIC):
        found = Operation.INSERT_OVERWRITE
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
            key="hoodie.datasource.write.operation",
        )
    if found is Operation.BULK_INSERT and options.insert_drop_duplicates:
        raise ConfigError(
            f"{DROP_DUPLICATES} is true, but bulk_insert looks no key up. Use operation insert, or "
            "leave the option out.",
            key=DROP_DUPLICATES,
        )
    if found is Operation.UPSERT and options.duplicate_policy is not DuplicatePolicy.NONE:
        # As Hudi 1.2.0: what is there stays, or the write fails.
        return Operation.INSERT
    return found


def action_of(operation: Operation) -> Action:
    """The timeline action under which an operation commits (FORMAT.md 2.1)."""
    return Action.REPLACECOMMIT if operation in REPLACING else Action.COMMIT
