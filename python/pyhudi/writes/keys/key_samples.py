"""Keys of a few files of a table: its properties do not tell how its writers make and place them.

A key of another text, or in another bucket, would be a second row for the same thing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, TableCorrupt, UnsupportedTable
from pyhudi.format.filenames import bucket_number
from pyhudi.format.keys import bucket_of, split_composite_key
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import KeyGenerator, TableConfig
from pyhudi.index.kinds import kind_of
from pyhudi.reads.filters import texts_of
from pyhudi.recent import Recent
from pyhudi.slices.files import BaseFile
from pyhudi.tables.columns import find_field
from pyhudi.timeline.promises import vanished
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView

MIN_KEY, MAX_KEY = b"hoodie_min_record_key", b"hoodie_max_record_key"
#: files looked at from either end of the timeline: a table that changed its form differs there
SAMPLE = 3
MICROSECONDS: Final = re.compile(r"-?\d+")
TIMES: Final = (TimestampType, TimestampNTZType)
#: file groups whose keys were looked at, with what was looked for
SEEN: Recent[tuple[object, ...], bool] = Recent(4096)
CONSISTENT_TIMES: Final = (
    "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
)


def sampled(files: Sequence[BaseFile]) -> list[BaseFile]:
    """The oldest and the newest of the files, each once."""
    ordered = sorted(files, key=lambda file: file.instant)
    return ordered if len(ordered) <= 2 * SAMPLE else ordered[:SAMPLE] + ordered[-SAMPLE:]


def keys_at_ends(
    runtime: Runtime, table: Table, files: Sequence[BaseFile]
) -> list[tuple[BaseFile, str]]:
    """The smallest and the largest record key of each file, as far as its footer has them."""
    filesystem, root = runtime.filesystem(table.storage.root)
    opened = filesystem.open()

    def ends(file: BaseFile) -> list[tuple[BaseFile, str]]:
        try:
            with opened.open_input_file(f"{root}/{file.path}") as source:
                footer = pq.read_metadata(source).metadata or {}
        except FileNotFoundError as e:
            raise vanished(table.storage, file.path) from e
        except (OSError, pa.ArrowInvalid) as e:
            raise TableCorrupt(
                f"The footer of {file.path} cannot be read: {e}.",
                path=file.path,
                rule="spec/data_files.md D6",
            ) from e
        return [(file, footer[key].decode()) for key in (MIN_KEY, MAX_KEY) if key in footer]

    if not files:
        return []
    with ThreadPoolExecutor(max_workers=2 * SAMPLE) as pool:
        return [end for found in pool.map(ends, files) for end in found]


def check_keys(
    runtime: Runtime,
    table: Table,
    view: FileSystemView,
    current: SparkSchema | None,
    options: WriteOptions,
) -> None:
    """``UnsupportedTable`` if keys or folders have texts of times, ``ConfigError`` if keys lie in
    other buckets than those of this write.

    Of the files the oldest few are read, each file group once: it is never another bucket's.
    """
    config = table.config
    _refuse_time_folders(config, view, _times(config.partition_fields, current))
    times = _times(config.record_key_fields, current)
    by_bucket = kind_of(options).hashed
    if not times and not by_bucket:
        return
    oldest = sorted(view.existing(None), key=lambda file: file.instant)[:SAMPLE]
    buckets = (options.bucket_count, options.bucket_fields) if by_bucket else None
    # A table that was dropped and made anew here may have the same file groups.
    of = (table.storage.root, view.timeline.first_time, tuple(times), buckets)
    looks = {file: (of, file.file_id) for file in oldest}
    new = [file for file, look in looks.items() if not SEEN.get(look)]
    for file, key in keys_at_ends(runtime, table, new):
        parts = _parts(config, key)
        _refuse_times(config, times, parts, key)
        if by_bucket:
            _refuse_bucket(config, options, file, parts, key)
    for file in new:
        SEEN.put(looks[file], True)


def _times(fields: Sequence[str], current: SparkSchema | None) -> list[str]:
    """The fields that are times, in any case of their letters."""
    if current is None or not fields:
        return []
    schema = StructType.fromJson(current.json())
    kinds = {name: find_field(schema, name, "key column")[1].dataType for name in fields}
    return [name for name, kind in kinds.items() if isinstance(kind, TIMES)]


def _refuse_time_folders(config: TableConfig, view: FileSystemView, times: Sequence[str]) -> None:
    if not times or config.key_generator is KeyGenerator.TIMESTAMP:
        return
    kinds = config.partition_kinds if config.key_generator is KeyGenerator.CUSTOM else ()
    for path in view.partitions():
        texts = texts_of(config, path) or []
        for at, (name, text) in enumerate(zip(config.partition_fields, texts, strict=False)):
            by_value = not kinds or kinds[at] != "TIMESTAMP"
            if by_value and name in times and text and not MICROSECONDS.fullmatch(text):
                raise UnsupportedTable(
                    f"The table {config.name} has the partition '{path}', where pyhudi would write "
                    f"the microseconds of the time '{name}': its rows would not be found or leave "
                    "it, and Apache Hudi would read null for it. Its SQL names folders so. "
                    "Nothing was written. Read it and DELETE FROM it with pyhudi, write it with "
                    "Apache Hudi.",
                    feature="partitions of times as texts",
                )


def _parts(config: TableConfig, key: str) -> dict[str, str]:
    """The texts of a record key by column, as far as they are certain and have a value."""
    fields = config.record_key_fields
    found = split_composite_key(key, fields)
    if found is None and len(fields) == 1:
        found = [key]
    return {name: text for name, text in zip(fields, found or (), strict=False) if text}


def _refuse_times(
    config: TableConfig, times: Sequence[str], parts: dict[str, str], key: str
) -> None:
    for name in times:
        if name in parts and not MICROSECONDS.fullmatch(parts[name]):
            raise UnsupportedTable(
                f"The table {config.name} has the record key '{key}', where pyhudi would write "
                f"the microseconds of the time '{name}': its rows would not be found, and each "
                f"key would have two. Apache Hudi writes such keys by {CONSISTENT_TIMES}. Nothing "
                "was written. Read it with pyhudi, write it with Apache Hudi.",
                feature="record keys with times as texts",
            )


def _refuse_bucket(
    config: TableConfig, options: WriteOptions, file: BaseFile, parts: dict[str, str], key: str
) -> None:
    fields = options.bucket_fields or config.record_key_fields
    texts = [parts.get(name) for name in fields]
    # Apache Hudi splits keys with these characters in ways of its own.
    if any(text is None or "," in text or ":" in text for text in texts):
        return
    bucket = bucket_of([key] if len(config.record_key_fields) == 1 else texts, options.bucket_count)
    if bucket != bucket_number(file.file_id):
        raise ConfigError(
            f"The key '{key}' is in file {file.path}, but of {options.bucket_count} buckets by "
            f"{', '.join(fields)} it belongs to bucket {bucket}: it would get a second row there. "
            "Nothing was written. Set hoodie.bucket.index.num.buckets and "
            "hoodie.bucket.index.hash.field as the table's first writer had them. A table whose "
            "partitions have numbers of buckets of their own is written with Apache Hudi.",
            key="hoodie.bucket.index.num.buckets",
        )
