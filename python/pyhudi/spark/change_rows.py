"""The jobs of reads by Python workers: changes, rows of log files, and the merge of logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyhudi.application.handed_files import FILES, delete
from pyhudi.application.runtime import Runtime
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.reads.change_data import ChangePlan, task_count
from pyhudi.reads.incremental import RowsOfCommits
from pyhudi.reads.log_slices import Elsewhere, LogRowsPlan
from pyhudi.reads.logged_rows import LoggedPlan
from pyhudi.reads.stream_batches import with_commit_time
from pyhudi.rows.change_reader import read_changes
from pyhudi.rows.log_spec import LogSlice, Merged, MergeSpec
from pyhudi.rows.logged_reader import read_logged_rows
from pyhudi.rows.shipping import Work, shipped
from pyhudi.rows.slice_reader import MERGED_SCHEMA, decoded, merge_slices, read_log_rows
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, KEY_COLUMN
from pyhudi.rows.task import error_from_text
from pyhudi.spark.sessions import Sessions
from pyhudi.writes.placement.task_routes import balanced

#: with it Spark 4 takes all texts that come as Arrow for those with 64-bit offsets
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
#: how an image becomes a JSON text; by default Spark cuts times to milliseconds, and in 3.5 the
#: offsets of old times to minutes
IMAGE_TEXTS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def change_rows(spark: SparkSession, plan: ChangePlan, wanted: SparkSchema) -> DataFrame:
    """The changes in the columns ``wanted``, whose order counts; nothing is read yet."""
    schema = SparkSchema.of_arrow(plan.spec.schema())
    rows = _read(spark, plan, read_changes, schema)
    images = {each.name for each in schema.columns if each.is_nested}
    return rows.select(
        *(
            F.to_json(name, IMAGE_TEXTS).alias(name)
            if name in images and kind == "string"
            else F.col(name)
            for name, kind in wanted.types.items()
        )
    )


def logged_rows(spark: SparkSession, plan: LoggedPlan, wanted: SparkSchema) -> DataFrame:
    """The changed rows in the columns ``wanted``; nothing is read yet."""
    return _read(spark, plan, read_logged_rows, wanted)


def log_rows(spark: SparkSession, plan: LogRowsPlan, wanted: SparkSchema) -> DataFrame:
    """The rows of log files in the columns ``wanted``, where executors cannot decode them; few rows
    are read now, many later."""
    if wanted.columns:
        if plan.here and spark.conf.get(LARGE_TYPES, "false") == "false":
            return _frame(spark, plan.table(), wanted)
        return _read(spark, plan, read_log_rows, wanted)
    # A batch without columns would forget how many rows it has.
    counted = SparkSchema((Column(KEY_COLUMN, "string"),))
    return log_rows(spark, plan.of(counted), counted).select()


def _frame(spark: SparkSession, rows: pa.Table, schema: SparkSchema) -> DataFrame:
    """``rows`` as a DataFrame whose scan starts no worker; without rows it has no partition."""
    name = FILES.make("rows", rows)
    try:
        context: Any = spark.sparkContext
        utils = context._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
        batches = utils.readArrowStreamFromFile(name)
        described = StructType.fromJson(schema.json()).json()
        frame = utils.toDataFrame(batches, described, spark._jsparkSession)
    finally:
        delete(name)
    return DataFrame(frame, spark)


def log_rows_of(
    spark: SparkSession, plan: LogRowsPlan, wanted: SparkSchema, counted: RowsOfCommits | None
) -> DataFrame:
    """The rows of log files that commits of ``counted`` wrote, None for all, in the columns
    ``wanted``; nothing is read yet."""
    rows = _read(spark, plan, read_log_rows, with_commit_time(wanted))
    if counted is not None:
        time = F.col(COMMIT_TIME_COLUMN)
        counts = time.isin(list(counted.commits))
        if counted.above is not None:
            counts = counts | (time > counted.above)
        rows = rows.where(counts)
    return rows.select(*(rows[f"`{name.replace('`', '``')}`"] for name in wanted.names))


def merging(sessions: Sessions, runtime: Runtime) -> Elsewhere:
    """Merges slices by a Spark job of the session that asks."""

    def merge(
        spec: MergeSpec, slices: Sequence[LogSlice], sizes: Sequence[int]
    ) -> Sequence[Merged]:
        try:
            return merged_slices(sessions.asking(), spec, slices, sizes)
        except runtime.spark_errors as error:
            raise (error_from_text(str(error)) or error) from error

    return merge


def merged_slices(
    spark: SparkSession, spec: MergeSpec, slices: Sequence[LogSlice], sizes: Sequence[int]
) -> list[Merged]:
    """The merges of ``slices``, in their order, by a Spark job."""
    work = _Numbered(spec, tuple(enumerate(slices)), tuple(sizes))
    answer = _read(spark, work, merge_slices, SparkSchema.of_arrow(MERGED_SCHEMA))
    found: dict[int, Merged] = {}
    for row in answer.collect():
        kept = [bytes(each) for each in row["kept"]]
        found[row["slice"]] = decoded(bytes(row["masked"]), kept, row["blocks"])
    return [found[number] for number in range(len(slices))]


@dataclass(frozen=True, slots=True)
class _Numbered:
    spec: MergeSpec
    pieces: tuple[tuple[int, LogSlice], ...]
    sizes: tuple[int, ...]


def _read(
    spark: SparkSession,
    plan: ChangePlan | LoggedPlan | LogRowsPlan | _Numbered,
    factory: Callable[..., Work],
    schema: SparkSchema,
) -> DataFrame:
    tasks = task_count(plan.sizes, spark.sparkContext.defaultParallelism)
    task_of = balanced(dict(enumerate(plan.sizes)), tasks)
    parts: list[list[object]] = [[] for _ in range(tasks)]
    for number, piece in enumerate(plan.pieces):
        parts[task_of[number]].append(piece)
    work: Any = shipped(factory, plan.spec, parts)
    numbers = spark.range(0, tasks if plan.pieces else 0, 1, tasks)
    return numbers.mapInArrow(work, StructType.fromJson(schema.json()))
