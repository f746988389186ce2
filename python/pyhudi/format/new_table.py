"""The ``hoodie.properties`` of a new table, as Apache Hudi writes them (spec/versions.md V7)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyhudi.errors import ConfigError
from pyhudi.format.properties import table_checksum
from pyhudi.format.table_config import (
    COMMIT_TIME_PAYLOAD,
    COMMIT_TIME_STRATEGY,
    EVENT_TIME_PAYLOAD,
    EVENT_TIME_STRATEGY,
    LAYOUT_OF_VERSION,
    KeyGenerator,
    MergeMode,
)

_KEYGEN_CLASSES = {
    KeyGenerator.SIMPLE: "org.apache.hudi.keygen.SimpleKeyGenerator",
    KeyGenerator.COMPLEX: "org.apache.hudi.keygen.ComplexKeyGenerator",
    KeyGenerator.NON_PARTITION: "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    KeyGenerator.TIMESTAMP: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    KeyGenerator.CUSTOM: "org.apache.hudi.keygen.CustomKeyGenerator",
    KeyGenerator.GLOBAL_DELETE: "org.apache.hudi.keygen.GlobalDeleteKeyGenerator",
}
_MERGE = {
    MergeMode.EVENT_TIME_ORDERING: (EVENT_TIME_STRATEGY, EVENT_TIME_PAYLOAD),
    MergeMode.COMMIT_TIME_ORDERING: (COMMIT_TIME_STRATEGY, COMMIT_TIME_PAYLOAD),
}
_EXTRACTORS = {0: "NonPartitionedExtractor", 1: "SinglePartPartitionValueExtractor"}


def new_table_properties(
    *,
    name: str,
    database: str = "",
    table_type: str = "COPY_ON_WRITE",
    version: int,
    record_key_fields: Sequence[str],
    partition_fields: Sequence[str],
    ordering_fields: Sequence[str],
    merge_mode: MergeMode,
    key_generator: KeyGenerator,
    hive_style: bool = False,
    url_encode: bool = False,
    create_schema: Mapping[str, Any] | None = None,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Keys and values for a new table of ``version`` 6, 8 or 9, with checksum and UTC timeline.

    Versions 6 and 8 name the ordering field ``precombine.field``, which every reader of these
    versions knows; only 9 allows several. ``extra`` overrides the result. ``ConfigError`` for
    another version, a custom merge mode or key generator class, or too many ordering fields.
    """
    _refuse_unknown(version, merge_mode, key_generator)
    values = {
        "hoodie.table.name": name,
        "hoodie.table.type": table_type,
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": str(LAYOUT_OF_VERSION[version]),
        "hoodie.table.checksum": str(table_checksum(database, name)),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.partition.fields": ",".join(partition_fields),
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.archivelog.folder": "archived" if version == 6 else "history",
        "hoodie.populate.meta.fields": "true",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.datasource.write.hive_style_partitioning": _flag(hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": _flag(url_encode),
    }
    if database or version == 6:
        values["hoodie.database.name"] = database
    if record_key_fields:
        values["hoodie.table.recordkey.fields"] = ",".join(record_key_fields)
    if create_schema is not None:
        values["hoodie.table.create.schema"] = json.dumps(create_schema, separators=(",", ":"))
    values |= _key_generation(version, key_generator, len(partition_fields))
    values |= _merging(version, merge_mode, ordering_fields)
    return values | dict(extra or {})


def _refuse_unknown(version: int, merge_mode: MergeMode, key_generator: KeyGenerator) -> None:
    if version not in LAYOUT_OF_VERSION:
        raise ConfigError(
            f"hoodie.write.table.version is {version}, but it must be 9, 8 or 6.",
            key="hoodie.write.table.version",
        )
    if merge_mode not in _MERGE:
        raise ConfigError(
            "A new table cannot have hoodie.record.merge.mode CUSTOM. Use EVENT_TIME_ORDERING "
            "or COMMIT_TIME_ORDERING.",
            key="hoodie.record.merge.mode",
        )
    if key_generator not in _KEYGEN_CLASSES:
        raise ConfigError(
            "The key generator is not one of Apache Hudi's classes. Use one of "
            f"{', '.join(kind.value for kind in _KEYGEN_CLASSES)}.",
            key="hoodie.table.keygenerator.type",
        )


def _key_generation(version: int, key_generator: KeyGenerator, levels: int) -> dict[str, str]:
    if version == 6:
        return {"hoodie.table.keygenerator.class": _KEYGEN_CLASSES[key_generator]}
    extractor = _EXTRACTORS.get(levels, "MultiPartKeysValueExtractor")
    return {
        "hoodie.table.keygenerator.type": key_generator.value,
        "hoodie.table.initial.version": str(version),
        "hoodie.table.format": "native",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.partition_extractor_class": f"org.apache.hudi.hive.{extractor}",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
    }


def _merging(version: int, mode: MergeMode, ordering: Sequence[str]) -> dict[str, str]:
    if version == 9:
        fields = {"hoodie.table.ordering.fields": ",".join(ordering)} if ordering else {}
        return {"hoodie.record.merge.mode": mode.value, **fields}
    if len(ordering) > 1:
        raise ConfigError(
            f"Tables of version {version} have one ordering field; "
            f"{len(ordering)} were given ({', '.join(ordering)}). Use version 9 for several.",
            key="hoodie.table.ordering.fields",
        )
    strategy, payload = _MERGE[mode]
    values = {"hoodie.compaction.payload.class": payload}
    if ordering:
        values["hoodie.table.precombine.field"] = ordering[0]
    if version == 8:
        values["hoodie.record.merge.mode"] = mode.value
        values["hoodie.record.merge.strategy.id"] = strategy
    return values


def _flag(value: bool) -> str:
    return "true" if value else "false"
