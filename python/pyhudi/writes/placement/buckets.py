"""The bucket index: rows go to groups by a hash of their key (spec/keys.md K6)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, UnsupportedTable
from pyhudi.format.filenames import bucket_number
from pyhudi.format.instants import InstantTime
from pyhudi.format.table_config import TableConfig
from pyhudi.index.bucket_names import named_for_buckets, unserved_buckets
from pyhudi.index.lookup import ORDINAL
from pyhudi.recent import Recent
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView
from pyhudi.writes.keys.expressions import RECORD_KEY, key_text
from pyhudi.writes.placement.constants import ints
from pyhudi.writes.write_context import Write

BUCKET = "_pyhudi_bucket"


def bucket_files(files: Sequence[BaseFile], count: int) -> dict[tuple[str, int], int]:
    """(partition path, bucket) -> ordinal; ``ConfigError`` if names contradict the index."""
    found: dict[tuple[str, int], int] = {}
    for ordinal, file in enumerate(files):
        bucket = bucket_number(file.file_id)
        if bucket is None or bucket >= count:
            raise ConfigError(
                f"The index is BUCKET with {count} buckets, but file {file.path} belongs to none "
                "of them. Nothing was written. Set hoodie.index.type and "
                "hoodie.bucket.index.num.buckets as the table's first writer had them.",
                key="hoodie.bucket.index.num.buckets",
            )
        if (file.partition_path, bucket) in found:
            raise ConfigError(
                f"Bucket {bucket} of partition '{file.partition_path}' has two file groups. "
                "Nothing was written.",
                key="hoodie.index.type",
            )
        found[file.partition_path, bucket] = ordinal
    return found


def refuse_bucket_names(options: WriteOptions, view: FileSystemView) -> None:
    """``ConfigError`` if all names of a table's files are those of buckets."""
    if named_for_buckets(view) and view.slices():
        raise ConfigError(
            "The table's files are named for the buckets of a bucket index, but the index of this "
            f"write is {options.index_type.value}, whose new files would belong to no bucket. "
            "Nothing was written. Set hoodie.index.type=BUCKET and "
            "hoodie.bucket.index.num.buckets as the table's first writer had them.",
            key="hoodie.index.type",
        )


#: tables that were found without such buckets, with the first write on their timeline
_PLAIN: Recent[tuple[str, InstantTime], bool] = Recent(1024)


def refuse_other_buckets(table: Table, timeline: Timeline) -> None:
    """``UnsupportedTable`` if Apache Hudi would look keys up in buckets that pyhudi does not know.

    It would not find a new file group of another index, and write its rows once more. Those buckets
    come with the table's first rows, so one listing tells, until the archive takes up commits.
    """
    first = timeline.first_time
    if first is not None and _PLAIN.get((table.storage.root, first)):
        return
    feature = unserved_buckets(table.storage)
    if feature is None and first is not None:
        _PLAIN.put((table.storage.root, first), True)
    if feature is not None:
        raise UnsupportedTable(
            f"The table {table.config.name} at {table.storage.root} has {feature}, which is not "
            "supported yet: Apache Hudi would not find the rows of new file groups. Nothing was "
            "written. Delete rows with pyhudi, and write others with Apache Hudi.",
            feature=feature,
        )


def hash_fields(config: TableConfig, options: WriteOptions) -> tuple[str, ...]:
    """The columns that are hashed: some of the record key, or all of it."""
    fields = options.bucket_fields or config.record_key_fields
    strange = set(fields) - set(config.record_key_fields)
    if strange or not fields:
        raise ConfigError(
            "hoodie.bucket.index.hash.field must name columns of the record key; "
            f"{', '.join(sorted(strange)) or 'the table has no record key'} does not fit.",
            key="hoodie.bucket.index.hash.field",
        )
    return fields


def with_bucket(write: Write, rows: DataFrame, files: Sequence[BaseFile]) -> DataFrame:
    """Rows with the number of their bucket: Java's list hash over the hash fields' texts.

    A row with an ``ORDINAL`` is in the bucket of that one of ``files``: a deletion has no values
    to hash.
    """
    fields = hash_fields(write.config, write.options)
    schema: StructType = rows.schema
    total = F.lit(1).cast("bigint")
    for name in fields:
        text = key_text(schema, name)
        if len(write.config.record_key_fields) == 1:
            text = _lone_text(text)
        text = F.coalesce(text, F.lit("__null__"))
        hashed = write.runtime.jobs.text_hash(text)
        total = F.pmod(total * F.lit(31) + hashed.cast("bigint"), F.lit(1 << 32))
    bucket = F.pmod(total.bitwiseAND(F.lit(0x7FFFFFFF)), F.lit(write.options.bucket_count))
    if ORDINAL in rows.columns and files:
        numbers = [bucket_number(file.file_id) or 0 for file in files]
        known = ints(numbers)
        held = F.element_at(known, F.col(ORDINAL) + F.lit(1))
        bucket = F.when(F.col(ORDINAL).isNotNull(), held).otherwise(bucket)
    return rows.withColumn(BUCKET, bucket.cast("int"))


def _lone_text(text: Column) -> Column:
    """What Hudi 1.2.0 hashes for a key of one column: its record key, ``1`` or ``id:1``.

    Hudi splits only a key with a comma and a colon, as if it had several columns.
    """
    key = F.col(RECORD_KEY)
    has_comma = F.contains(text, F.lit(","))
    unclear = (key != text) & has_comma & F.contains(text, F.lit(":"))
    problem = F.concat(
        F.lit("Apache Hudi's bucket of a key with a comma and a colon is not certain: "), key
    )
    return F.when(unclear, F.raise_error(problem)).when(has_comma, text).otherwise(key)
