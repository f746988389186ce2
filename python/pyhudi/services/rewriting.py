"""How workers write the files of a service that puts rows into other files."""

from __future__ import annotations

import json

from pyhudi.choices import BloomType
from pyhudi.config import WriteOptions
from pyhudi.format.change_log import change_log_schema
from pyhudi.format.instants import InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import kind_of
from pyhudi.rows.spec import BloomSpec, ChangeLogSpec, FileSystemSpec, WriteSpec


def rewrite_spec(
    options: WriteOptions,
    config: TableConfig,
    place: tuple[FileSystemSpec, str],
    instant: InstantTime,
    schema: SparkSchema,
    nonce: int,
) -> WriteSpec:
    """The spec of the files of ``instant``; ``place`` is that of the table's data files."""
    filesystem, root = place
    return WriteSpec(
        root=root,
        fs=filesystem,
        instant=instant,
        schema=schema.arrow(),
        avro_schema=json.dumps(schema.with_meta_columns().avro(config.name)),
        write_nonce=nonce,
        key_columns=config.record_key_fields,
        codec=options.codec.value,
        row_group_bytes=options.row_group_bytes,
        bloom=bloom_spec(options) if kind_of(options).filtered else None,
    )


def change_log_spec(config: TableConfig, schema: SparkSchema) -> ChangeLogSpec | None:
    """The change logs of a table with these columns, if it has any."""
    if not config.cdc_enabled or config.change_log is None:
        return None
    return ChangeLogSpec(change_log_schema(config.change_log, schema.avro(config.name)))


def bloom_spec(options: WriteOptions) -> BloomSpec:
    """The filter of base files, if the writer's index is bloom (spec/data_files.md D6)."""
    return BloomSpec(
        fpp=options.bloom_fpp,
        dynamic=options.bloom_type is BloomType.DYNAMIC_V0,
        entries=options.bloom_entries,
        max_entries=options.bloom_max_entries,
    )
