"""Emptying a table or whole partitions of it, without reading a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyhudi.application.batches import Turn
from pyhudi.application.runtime import Runtime
from pyhudi.reads.conditions import Filter
from pyhudi.reads.filters import (
    decided_by_partition,
    matching_partitions,
    require_whole_partitions,
)
from pyhudi.reads.scan import Query, open_query
from pyhudi.transactions.transaction import Committed
from pyhudi.writes.intent import Intent, Overwrite, Route
from pyhudi.writes.write import write_table

OPERATION = "hoodie.datasource.write.operation"


def truncate(
    runtime: Runtime,
    spark: SparkSession,
    root: str,
    given: Mapping[str, str],
    session: Mapping[str, str],
    turn: Turn | None = None,
) -> Committed | None:
    """Replace every file group by nothing; time travel still finds the old rows."""
    query = open_query(runtime, root, {}, {})
    intent = Intent(Route.SQL, Overwrite.ALL, analysed=True)
    options = {**given, OPERATION: "insert_overwrite_table"}
    empty = spark.createDataFrame([], StructType.fromJson(query.schema().json()))
    return write_table(
        runtime, empty, root, options, session, lambda exists: intent, written_by=turn
    )


def can_delete_where(runtime: Runtime, root: str, filters: Sequence[Filter]) -> bool:
    """Whether the filters choose whole partitions, so that no file need be read."""
    if not filters:
        return True
    query = open_query(runtime, root, {}, {})
    return bool(query.table.config.partition_fields) and _decided(query, filters)


def delete_where(
    runtime: Runtime,
    spark: SparkSession,
    root: str,
    filters: Sequence[Filter],
    given: Mapping[str, str],
    session: Mapping[str, str],
    turn: Turn | None = None,
) -> Committed | None:
    """Delete the partitions that the filters choose; ``ConfigError`` if they choose a part of
    one."""
    if not filters:
        return truncate(runtime, spark, root, given, session, turn)
    query = open_query(runtime, root, {}, {})
    partitions = query.view().partitions()
    require_whole_partitions(query.table.config, query.types(), partitions, filters)
    if not matching_partitions(query.table.config, query.types(), partitions, filters):
        return None
    intent = Intent(Route.SQL, Overwrite.FILTER, tuple(filters))
    options = {**given, OPERATION: "delete_partition"}
    empty = spark.createDataFrame([], StructType.fromJson(query.schema().json()))
    return write_table(
        runtime, empty, root, options, session, lambda exists: intent, written_by=turn
    )


def _decided(query: Query, filters: Sequence[Filter]) -> bool:
    partitions = query.view().partitions()
    return decided_by_partition(query.table.config, query.types(), partitions, filters)
