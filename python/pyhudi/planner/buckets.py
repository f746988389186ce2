"""The bucket index: rows go to groups by a hash of their key (FORMAT.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pyhudi.errors import ConfigError
from pyhudi.format.filenames import bucket_number
from pyhudi.planner.keys import key_text
from pyhudi.planner.write_context import Write
from pyhudi.timeline.view import BaseFile

BUCKET = "_pyhudi_bucket"
#: static method of the shim: ``String.hashCode`` of Java
STRING_HASH = "io.pyhudi.KeyHash"


def bucket_files(files: Sequence[BaseFile], count: int) -> dict[tuple[str, int], int]:
    """(partition path, bucket) -> ordinal; ``ConfigError`` where names contradict the index."""
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


def with_bucket(write: Write, rows: DataFrame) -> DataFrame:
    """Rows with the number of their bucket: Java's list hash over the hash fields' texts."""
    fields = write.options.bucket_fields or write.config.record_key_fields
    strange = set(fields) - set(write.config.record_key_fields)
    if strange or not fields:
        raise ConfigError(
            "hoodie.bucket.index.hash.field must name columns of the record key; "
            f"{', '.join(sorted(strange)) or 'the table has no record key'} does not fit.",
            key="hoodie.bucket.index.hash.field",
        )
    schema: StructType = rows.schema
    total = F.lit(1).cast("bigint")
    for name in fields:
        text = F.coalesce(key_text(schema, name), F.lit("__null__"))
        hashed = F.call_function("java_method", F.lit(STRING_HASH), F.lit("of"), text)
        total = F.pmod(total * F.lit(31) + hashed.cast("bigint"), F.lit(1 << 32))
    bucket = F.pmod(total.bitwiseAND(F.lit(0x7FFFFFFF)), F.lit(write.options.bucket_count))
    return rows.withColumn(BUCKET, bucket.cast("int"))
