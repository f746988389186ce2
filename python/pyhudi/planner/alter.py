"""ALTER TABLE of columns: a commit without files that declares another schema (FORMAT.md 9).

Columns are told by their names, as in every table without schema-on-read: a new one is null in the
rows that are there, a wider type is read from narrower files. What would need columns to be told by
ids, renaming and dropping above all, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from pyhudi.config import WriteOptions, resolve_write
from pyhudi.errors import CommitUnknown, SchemaConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.instants import Action
from pyhudi.format.schemas import avro_to_spark, canonical_json, spark_to_avro, type_text
from pyhudi.format.table_config import TableConfig
from pyhudi.format.widening import merged_type
from pyhudi.planner.after_commit import after_commit
from pyhudi.planner.columns import check_names
from pyhudi.planner.runtime import Runtime
from pyhudi.planner.scan import open_query
from pyhudi.planner.writable import refuse_writes_to
from pyhudi.timeline.schema import SparkSchema, table_schema
from pyhudi.timeline.table import open_table
from pyhudi.transactions.conflicts import Footprint
from pyhudi.transactions.policy import writer_policy
from pyhudi.transactions.transaction import Committed, Transaction

ALTER = "alter_schema"

#: {"change": "add", "column", "type", "nullable"}, {"change": "type", "column", "type"} or
#: {"change": "nullable", "column"}; a column is a dotted path, any other change is refused by name
ColumnChange = Mapping[str, Any]


def alter_columns(
    runtime: Runtime,
    root: str,
    changes: Sequence[ColumnChange],
    given: Mapping[str, str],
    session: Mapping[str, str],
) -> Committed:
    """Commit the schema that ``changes`` make of the table's.

    ``SchemaConflict`` (column, ours, theirs, rule) for a change that old files cannot follow, and
    where another writer has changed the schema meanwhile.
    """
    table = open_table(runtime.storage(root))
    refuse_writes_to(table)
    altered(open_query(runtime, root, {}, {}).schema(), changes, table.config)
    options = resolve_write(given, table.config.raw, session)
    groups = runtime.group_locks(table, options)
    with groups or nullcontext():
        transaction = Transaction.begin(
            table,
            Action.COMMIT,
            ALTER,
            runtime.lock(table, options),
            runtime.clock,
            writer_policy(options, table, runtime.clock),
            groups,
        )
        try:
            done = _committed(runtime, transaction, changes, options)
        except CommitUnknown:
            raise
        except BaseException:
            transaction.abort()
            raise
    after_commit(runtime, table, options, Action.COMMIT, done)
    return done


def _committed(
    runtime: Runtime,
    transaction: Transaction,
    changes: Sequence[ColumnChange],
    options: WriteOptions,
) -> Committed:
    table = transaction.table
    current = table_schema(table, transaction.timeline, None)
    if current is None:
        current = open_query(runtime, table.storage.root, {}, {}).schema()
    # Through Avro and back, as readers will have it: there a short is an int.
    avro = spark_to_avro(altered(current, changes, table.config), table.config.name)
    extra = {**options.commit_metadata, SCHEMA_KEY: canonical_json(avro)}
    transaction.inflight(None)
    transaction.seal(lambda timeout_s: True, ())
    return transaction.commit(
        CommitMetadata(ALTER.upper(), (), extra), Footprint(f"{ALTER} {transaction.instant}")
    )


def altered(
    current: SparkSchema, changes: Sequence[ColumnChange], config: TableConfig
) -> SparkSchema:
    """``current`` after the changes, in their order."""
    fields = [dict(field) for field in current["fields"]]
    for change in changes:
        _APPLY.get(change["change"], _refused)(fields, change, config)
    return {**current, "fields": fields}


Fields = list[dict[str, Any]]


def _added(fields: Fields, change: ColumnChange, config: TableConfig) -> None:
    name, kind = change["column"], change["type"]
    if "." in name:
        raise _refusal(change, None, kind, "fields inside a struct cannot come or go")
    if not change["nullable"]:
        raise _refusal(change, None, kind, "the rows that are there have no value for it")
    if _find(fields, name) is not None:
        raise _refusal(change, None, kind, "the table has a column of this name")
    field = {"name": name, "type": kind, "nullable": True, "metadata": {}}
    check_names([field])
    stored = avro_to_spark(spark_to_avro({"type": "struct", "fields": [field]}, "t"))
    fields += [{**field, "type": stored["fields"][0]["type"]}]


def _retyped(fields: Fields, change: ColumnChange, config: TableConfig) -> None:
    field, kind = _known(fields, change), change["type"]
    try:
        wider = merged_type(field["name"], field["type"], kind)
    except SchemaConflict:
        wider = None
    if wider != kind:
        raise _refusal(change, field["type"], kind, "a type may only widen, as int to bigint")
    if field["name"] in (*config.record_key_fields, *config.partition_fields):
        raise _refusal(
            change, field["type"], kind, "keys and partitions are texts made of this column"
        )
    field["type"] = kind


def _loosened(fields: Fields, change: ColumnChange, config: TableConfig) -> None:
    field = _known(fields, change)
    if field["name"] in config.record_key_fields:
        raise _refusal(change, field["type"], field["type"], "a key column is never null")
    field["nullable"] = True


def _refused(fields: Fields, change: ColumnChange, config: TableConfig) -> None:
    field = _find(fields, change["column"])
    kind = field["type"] if field else None
    raise _refusal(change, kind, kind, f"'{change['change']}' of a column is not there yet")


_APPLY = {"add": _added, "type": _retyped, "nullable": _loosened}


def _find(fields: Fields, name: str) -> dict[str, Any] | None:
    return next((f for f in fields if f["name"].lower() == name.lower()), None)


def _known(fields: Fields, change: ColumnChange) -> dict[str, Any]:
    field = _find(fields, change["column"])
    if field is None:
        why = "the table has no such column, and fields inside a struct keep their types"
        raise _refusal(change, None, change.get("type"), why)
    return field


def _refusal(change: ColumnChange, old: Any, new: Any, rule: str) -> SchemaConflict:
    before = f" from {type_text(old)}" if old is not None else ""
    after = f" to {type_text(new)}" if new is not None and new != old else ""
    return SchemaConflict(
        f"Column '{change['column']}' cannot be altered{before}{after}: {rule}. The table stays as "
        "it was.",
        column=change["column"],
        ours=new,
        theirs=old,
        rule=rule,
    )
