"""ALTER TABLE of columns: a commit without files that declares another schema.

Rules: spec/schema_evolution.md S4.

New columns at the end and wider types are read by name, so every reader understands them. The first
change that names cannot express (a rename, a drop, another order, anything inside a column) gives
the table a schema history, as Hudi does with schema-on-read; from then on columns have ids.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from pyhudi.application.after_commit import after_commit
from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.errors import UnsupportedTable
from pyhudi.format.column_ids import all_ids, identified, plain, version_of
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY, SchemaVersion, render_version
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.reads.scan import open_query
from pyhudi.tables.column_changes import Altered, ColumnChange, altered, unseen_by_name
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.states import adding_action
from pyhudi.timeline.table import open_table
from pyhudi.transactions.conflicts.comparison import Footprint
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writable import refuse_writes_to

log = logging.getLogger(__name__)

ALTER = "alter_schema"


def alter_columns(
    runtime: Runtime,
    root: str,
    changes: Sequence[ColumnChange],
    given: Mapping[str, str],
    session: Mapping[str, str],
) -> Committed:
    """Commit the table's schema with ``changes`` applied.

    ``SchemaConflict`` (column, ours, theirs, rule) for a change that old files cannot follow, and
    if another writer has changed the schema meanwhile.
    """
    table = open_table(runtime.storage(root))
    refuse_writes_to(table)
    query = open_query(runtime, root, {}, {})
    history = SchemaHistory(table, query.timeline)
    before = history.current() or history.first_version(query.schema())
    _altered(query.schema(), before, changes, table.config)
    options = resolve_write(given, table.config.raw, session)
    groups = runtime.group_locks(table, options)
    with groups or nullcontext():
        writer = runtime.writer(table, options)
        with Transaction.begin(
            writer, adding_action(table.config), ALTER, groups, cancelled=runtime.cancelled
        ) as transaction:
            done = _committed(runtime, transaction, changes, options)
    after_commit(runtime, table, options, adding_action(table.config), done)
    if columns := unseen_by_name(changes):
        log.warning(
            "%s: %s was renamed or dropped. hudi-rs, Trino, Hive and other readers that know "
            "columns by name alone, and Apache Hudi without hoodie.schema.on.read.enable=true, do "
            "not follow that: in older files they show a renamed column as null, and the values "
            "of a dropped one under a new column of its name.",
            table.config.name, ", ".join(columns),
        )  # fmt: skip
    return done


def _committed(
    runtime: Runtime,
    transaction: Transaction,
    changes: Sequence[ColumnChange],
    options: WriteOptions,
) -> Committed:
    table, timeline, history = transaction.table, transaction.timeline, transaction.keep_history()
    declared = table_schema(table, timeline, None)
    current = declared or open_query(runtime, table.storage.root, {}, {}).schema()
    version = history.current()
    before = version or history.first_version(current)
    found = _altered(current, before, changes, table.config)
    # Converted to Avro and back, to get what readers will see: Avro has no short, only int.
    declaration = plain(found.columns).declaration(table.config.name)
    extra = {**options.commit_metadata, SCHEMA_KEY: declaration}
    if version is not None or found.by_ids:
        if declared is None:
            raise _undeclared(table.config)
        own = int(transaction.instant)
        made = version_of(found.columns, own, before, timeline.layout)
        extra[LATEST_SCHEMA_KEY] = render_version(made)
    transaction.inflight(None)
    transaction.seal(lambda timeout_s: True, ())
    return transaction.commit(
        CommitMetadata(ALTER.upper(), (), extra), Footprint(f"{ALTER} {transaction.instant}")
    )


def _altered(
    current: SparkSchema,
    before: SchemaVersion,
    changes: Sequence[ColumnChange],
    config: TableConfig,
) -> Altered:
    columns = identified(current, before)
    most = max((*all_ids(columns), before.max_column_id))
    held = {name.lower() for _, name in before.paths()}
    gone = held.difference(current.by_lower_name())
    return altered(columns, most, changes, config, gone)


def _undeclared(config: TableConfig) -> UnsupportedTable:
    return UnsupportedTable(
        f"No commit of {config.name} records a schema, so a history of its columns cannot begin. "
        "Write to the table once, then alter it.",
        feature="schema history without a schema",
    )
