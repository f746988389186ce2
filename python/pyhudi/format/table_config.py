"""``hoodie.properties`` as typed facts about a table (spec/properties.md P2).

``parse_table_config`` refuses properties that would silently lead to wrong reads: a wrong checksum,
a timeline layout that does not fit the table version, unsupported versions and file formats. The
properties of new tables are in ``new_table.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.errors import UnsupportedTable
from pyhudi.format.change_log import LogContent
from pyhudi.format.corruption import corrupt
from pyhudi.format.properties import parse_properties, table_checksum

METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"

LAYOUT_OF_VERSION = {6: 1, 8: 2, 9: 2}


class TableType(str, Enum):
    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(str, Enum):
    """Which of two rows with one key wins: spec/merging.md R1."""

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class KeyGenerator(str, Enum):
    """How record keys and partition paths are made; ``USER_PROVIDED``: an unknown class."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    USER_PROVIDED = "USER_PROVIDED"


_GENERATOR_CLASSES = {
    "SimpleKeyGenerator": KeyGenerator.SIMPLE,
    "ComplexKeyGenerator": KeyGenerator.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGenerator.NON_PARTITION,
    "TimestampBasedKeyGenerator": KeyGenerator.TIMESTAMP,
    "CustomKeyGenerator": KeyGenerator.CUSTOM,
    "GlobalDeleteKeyGenerator": KeyGenerator.GLOBAL_DELETE,
}

EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_STRATEGY = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
EVENT_TIME_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
COMMIT_TIME_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
#: the payload classes that are no more than a merge mode
PAYLOAD_MODES: Final[Mapping[str, MergeMode]] = {
    "DefaultHoodieRecordPayload": MergeMode.EVENT_TIME_ORDERING,
    "EventTimeAvroPayload": MergeMode.EVENT_TIME_ORDERING,
    "OverwriteWithLatestAvroPayload": MergeMode.COMMIT_TIME_ORDERING,
}
#: the merge modes by the ids of their strategies
STRATEGY_MODES: Final[Mapping[str, MergeMode]] = {
    EVENT_TIME_STRATEGY: MergeMode.EVENT_TIME_ORDERING,
    COMMIT_TIME_STRATEGY: MergeMode.COMMIT_TIME_ORDERING,
}
#: the last one means: by payload
SERVED_STRATEGIES = frozenset({*STRATEGY_MODES, "00000000-0000-0000-0000-000000000000"})


@dataclass(frozen=True, slots=True)
class TableConfig:
    """One table's properties; folders are relative to the table's root, ``raw`` has every key.

    ``partition_kinds`` has the kind of each partition field of a custom key generator, SIMPLE or
    TIMESTAMP; it is empty for all other generators.
    """

    raw: Mapping[str, str]
    name: str
    database: str
    table_type: TableType
    version: int
    layout: int
    timeline_folder: str
    history_folder: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    partition_kinds: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: MergeMode
    key_generator: KeyGenerator
    hive_style: bool
    url_encode: bool
    slash_separated_dates: bool
    populate_meta_fields: bool
    drop_partition_columns: bool
    utc: bool
    base_file_format: str
    cdc_enabled: bool
    #: what change logs have; None for a mode that pyhudi does not know
    change_log: LogContent | None
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    create_schema: dict[str, Any] | None

    @property
    def logs_name_their_write(self) -> bool:
        """Whether the name of each log has the instant of its write: in layout 2, unless the table
        may have logs from before an upgrade, which keep the instant of their slice."""
        made = self.raw.get("hoodie.table.initial.version", "")
        return self.layout > 1 and made.isdigit() and int(made) >= 8


def parse_table_config(data: bytes, path: str) -> TableConfig:
    """The facts of a ``hoodie.properties`` file.

    ``TableCorrupt`` if the file breaks the format, ``UnsupportedTable`` if it is correct but pyhudi
    does not support the table. Merge-on-read tables can be opened.
    """
    raw = parse_properties(data, path)
    name = raw.get("hoodie.table.name", "")
    if not name:
        raise corrupt(path, "hoodie.table.name is present", "the key is missing or empty")
    version = _version(raw, path, name)
    layout = _layout(raw, path, version)
    _refuse_unserved(raw, name)
    _verify_checksum(raw, path, name)
    timeline, history = _folders(raw, layout)
    partition_fields = _fields(raw, "hoodie.table.partition.fields")
    record_keys = _fields(raw, "hoodie.table.recordkey.fields")
    ordering = _fields(raw, "hoodie.table.ordering.fields")
    ordering = ordering or _fields(raw, "hoodie.table.precombine.field")
    return TableConfig(
        raw=raw,
        name=name,
        database=raw.get("hoodie.database.name", ""),
        table_type=_table_type(raw, path),
        version=version,
        layout=layout,
        timeline_folder=timeline,
        history_folder=history,
        record_key_fields=record_keys,
        # The custom key generator writes `column:kind`.
        partition_fields=tuple(field.partition(":")[0] for field in partition_fields),
        partition_kinds=tuple(field.partition(":")[2].upper() for field in partition_fields),
        ordering_fields=ordering,
        merge_mode=_merge_mode(raw, path, version, ordering),
        key_generator=_key_generator(raw, record_keys, partition_fields),
        hive_style=_flag(raw, "hoodie.datasource.write.hive_style_partitioning"),
        url_encode=_flag(raw, "hoodie.datasource.write.partitionpath.urlencode"),
        slash_separated_dates=_flag(
            raw, "hoodie.datasource.write.slash.separated.date.partitioning"
        ),
        populate_meta_fields=_flag(raw, "hoodie.populate.meta.fields", True),
        drop_partition_columns=_flag(raw, "hoodie.datasource.write.drop.partition.columns"),
        utc=raw.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC",
        base_file_format=raw.get("hoodie.table.base.file.format", "PARQUET").upper(),
        cdc_enabled=_flag(raw, "hoodie.table.cdc.enabled"),
        change_log=_log_content(raw),
        metadata_partitions=_fields(raw, METADATA_PARTITIONS),
        metadata_partitions_inflight=_fields(raw, METADATA_PARTITIONS_INFLIGHT),
        create_schema=_create_schema(raw, path),
    )


def _log_content(raw: Mapping[str, str]) -> LogContent | None:
    named = raw.get("hoodie.table.cdc.supplemental.logging.mode") or "DATA_BEFORE_AFTER"
    return LogContent.__members__.get(named.upper())


def _folders(raw: Mapping[str, str], layout: int) -> tuple[str, str]:
    """(timeline, history): layout 1 has both in ``.hoodie`` and ignores timeline.path."""
    if layout == 1:
        return ".hoodie", f".hoodie/{raw.get('hoodie.archivelog.folder') or 'archived'}"
    timeline = f".hoodie/{raw.get('hoodie.timeline.path') or 'timeline'}"
    return timeline, f"{timeline}/{raw.get('hoodie.timeline.history.path') or 'history'}"


def _version(raw: Mapping[str, str], path: str, name: str) -> int:
    text = raw.get("hoodie.table.version", "0")
    if not text.isdecimal():
        raise corrupt(path, "hoodie.table.version is a number", f"'{text}'")
    if int(text) not in LAYOUT_OF_VERSION:
        raise UnsupportedTable(
            f"Table '{name}' has table version {text}; pyhudi supports versions 6, 8 and 9. Let "
            "Apache Hudi upgrade or downgrade it to one of these (hoodie.write.table.version).",
            feature=f"table version {text}",
            path=path,
        )
    return int(text)


def _layout(raw: Mapping[str, str], path: str, version: int) -> int:
    """The layout; a wrong one is an error, since Spark would silently see an empty table."""
    expected = LAYOUT_OF_VERSION[version]
    text = raw.get("hoodie.timeline.layout.version", str(expected))
    if text != str(expected):
        raise corrupt(
            path,
            f"a table of version {version} has hoodie.timeline.layout.version {expected}",
            f"the layout is '{text}'",
        )
    return expected


def _refuse_unserved(raw: Mapping[str, str], name: str) -> None:
    base_format = raw.get("hoodie.table.base.file.format", "PARQUET").upper()
    table_format = raw.get("hoodie.table.format", "native")
    feature = None
    if base_format != "PARQUET":
        feature = f"base file format {base_format}"
    elif _flag(raw, "hoodie.table.multiple.base.file.formats.enable"):
        feature = "several base file formats in one table"
    elif table_format.lower() != "native":
        feature = f"table format {table_format}"
    elif raw.get("hoodie.bootstrap.base.path"):
        feature = "bootstrap base files outside the table"
    if feature is not None:
        raise UnsupportedTable(
            f"Table '{name}' uses {feature}, which pyhudi does not support. Read it with Apache "
            "Hudi and write it to a new table with Parquet base files.",
            feature=feature,
        )


def _verify_checksum(raw: Mapping[str, str], path: str, name: str) -> None:
    stored = raw.get("hoodie.table.checksum")
    expected = str(table_checksum(raw.get("hoodie.database.name", ""), name))
    if stored is not None and stored != expected:
        raise corrupt(
            path,
            "hoodie.table.checksum is the CRC-32 of database and table name",
            f"it is {stored}, but it should be {expected}",
        )


def _table_type(raw: Mapping[str, str], path: str) -> TableType:
    text = raw.get("hoodie.table.type", "COPY_ON_WRITE").upper()
    try:
        return TableType(text)
    except ValueError:
        kinds = " or ".join(kind.value for kind in TableType)
        raise corrupt(path, f"hoodie.table.type is {kinds}", f"it is '{text}'") from None


def _merge_mode(
    raw: Mapping[str, str], path: str, version: int, ordering: tuple[str, ...]
) -> MergeMode:
    """The declared mode, or the mode that Hudi 1.2.0 infers: payload, strategy, ordering fields."""
    declared = raw.get("hoodie.record.merge.mode", "").upper()
    if declared:
        try:
            return MergeMode(declared)
        except ValueError:
            modes = ", ".join(mode.value for mode in MergeMode)
            raise corrupt(
                path, f"hoodie.record.merge.mode is one of {modes}", f"it is '{declared}'"
            ) from None
    payload = raw.get("hoodie.compaction.payload.class", "").rsplit(".", 1)[-1]
    if payload:
        return PAYLOAD_MODES.get(payload, MergeMode.CUSTOM)
    strategy = raw.get("hoodie.record.merge.strategy.id", "")
    if strategy and version >= 8:
        return STRATEGY_MODES.get(strategy, MergeMode.CUSTOM)
    return MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING


def _key_generator(
    raw: Mapping[str, str], record_keys: tuple[str, ...], partition_fields: tuple[str, ...]
) -> KeyGenerator:
    """By type (1.x), by class (0.x), or inferred from the number of fields as in Hudi."""
    declared = raw.get("hoodie.table.keygenerator.type", "").upper().removesuffix("_AVRO")
    class_name = raw.get("hoodie.table.keygenerator.class", "").rsplit(".", 1)[-1]
    if declared:
        known = KeyGenerator.__members__
        return known.get(declared, KeyGenerator.USER_PROVIDED)
    if class_name:
        plain = class_name.replace("AvroKeyGenerator", "KeyGenerator")
        return _GENERATOR_CLASSES.get(plain, KeyGenerator.USER_PROVIDED)
    if not partition_fields:
        return KeyGenerator.NON_PARTITION
    single = len(record_keys) == 1 and len(partition_fields) == 1
    return KeyGenerator.SIMPLE if single else KeyGenerator.COMPLEX


def _create_schema(raw: Mapping[str, str], path: str) -> dict[str, Any] | None:
    text = raw.get("hoodie.table.create.schema")
    if not text:
        return None
    try:
        schema = json.loads(text)
    except ValueError as cause:
        schema = cause
    if not isinstance(schema, dict):
        raise corrupt(
            path, "hoodie.table.create.schema is an Avro record in JSON", f"'{text[:80]}'"
        )
    return schema


def _fields(raw: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part for part in (p.strip() for p in raw.get(key, "").split(",")) if part)


def _flag(raw: Mapping[str, str], key: str, default: bool = False) -> bool:
    return raw.get(key, str(default)).strip().lower() == "true"


def without_metadata_table(raw: Mapping[str, str]) -> dict[str, str]:
    """The properties with both metadata-table keys empty, as Hudi leaves them.

    Rules: spec/metadata_table.md MT3.

    A writer that does not update the metadata table must publish this before its commit: otherwise
    readers that use the metadata table silently miss the new files.
    """
    return {**raw, METADATA_PARTITIONS: "", METADATA_PARTITIONS_INFLIGHT: ""}
