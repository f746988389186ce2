"""The option table: every option that pyhudi reads, under Hudi's name, and how a value is resolved.

An option is one line of ``WriteOptions`` or ``ReadOptions``: the field's annotation is its type,
``option(...)`` gives default, Hudi's key, scope, the reason for it and the other names Hudi has for
it. The options page of the documentation is generated from this table.

Scopes: ``TABLE`` options are recorded in hoodie.properties when the table is created and may later
only be repeated; ``WRITER`` options are free for each write; ``SESSION`` options belong to a query.
Where several places give a value the order is: the table, the call's options, the Spark session,
the default. Keys are compared without regard to case, since Spark does not keep it everywhere.

Invariant: no ``hoodie.*`` key passes unnoticed. It is an option, or a key of Hudi's that has no
effect here (collected in ``ignored``, for one warning), or a ``ConfigError`` that names its like.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyhudi.choices import (
    BloomType,
    Codec,
    ConcurrencyMode,
    DuplicatePolicy,
    FailedWrites,
    IndexType,
    InsertMode,
    LockProvider,
    Operation,
    OverwriteMode,
    QueryType,
    SortMode,
    TimestampType,
)
from pyhudi.errors import ConfigError
from pyhudi.format.markers import MarkerForm
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableType
from pyhudi.hudi_keys import FIXED, IGNORED, LOCK_SETTINGS, has_no_effect
from pyhudi.option import Option, Scope, option

__all__ = [
    "BloomType", "Codec", "ConcurrencyMode", "DuplicatePolicy", "FailedWrites", "IndexType",
    "InsertMode", "KeyGenerator", "LockProvider", "MarkerForm", "MergeMode", "Operation", "Option",
    "OverwriteMode", "QueryType", "READ_TABLE", "ReadOptions", "Scope", "SortMode", "TableType",
    "TimestampType", "WRITE_TABLE", "WriteOptions", "ignored_warning", "resolve_read",
    "resolve_write", "sql_insert_operation",
]  # fmt: skip


T, W, S = Scope.TABLE, Scope.WRITER, Scope.SESSION
MB = 1 << 20
DS = "hoodie.datasource.write."
MARKERS = "hoodie.markers.timeline_server_based."
KEYGEN, OLD_KEYGEN = "hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased."


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Everything a write may be told, resolved. ``None``: nobody said, and no default is fixed."""

    # ---- what the table is
    table_name: str | None = option(None, "hoodie.table.name", T,
        "Names the table in its properties and schemas; Hudi refuses a write that says another.",
        DS + "table.name")
    database: str | None = option(None, "hoodie.database.name", T,
        "Part of the checksum of hoodie.properties.")
    table_type: TableType = option(TableType.COPY_ON_WRITE, DS + "table.type", T,
        "Copy-on-write is what pyhudi writes.",
        "hoodie.table.type", DS + "storage.type", "type")
    table_version: int = option(9, "hoodie.write.table.version", T,
        "9 is what Hudi 1.1+ makes and never upgrades; 6 is for readers of the 0.15 age.",
        "hoodie.table.version")
    record_key_fields: tuple[str, ...] = option((), DS + "recordkey.field", T,
        "Columns of the record key; without one, keys are generated and writes insert.",
        "hoodie.table.recordkey.fields", "primaryKey")
    partition_fields: tuple[str, ...] = option((), DS + "partitionpath.field", T,
        "Columns of the partition path; empty for a table in one folder.",
        "hoodie.table.partition.fields")
    ordering_fields: tuple[str, ...] = option((), "hoodie.table.ordering.fields", T,
        "The larger value wins among rows of one key; several columns compare in order.",
        DS + "precombine.field", "hoodie.table.precombine.field", "orderingFields",
        "preCombineField")
    merge_mode: MergeMode | None = option(None, "hoodie.record.merge.mode", T,
        "Which of two rows with one key stays; by event time where there are ordering fields.",
        "hoodie.write.record.merge.mode", "recordMergeMode", DS + "payload.class", "payloadClass",
        "hoodie.compaction.payload.class", "hoodie.record.merge.strategy.id",
        "hoodie.write.record.merge.strategy.id", DS + "record.merger.strategy")
    key_generator: KeyGenerator | None = option(None, DS + "keygenerator.type", T,
        "How key and partition path are made; inferred from the number of fields.",
        DS + "keygenerator.class", "hoodie.table.keygenerator.type",
        "hoodie.table.keygenerator.class")
    value_only_keys: bool | None = option(None, "hoodie.write.complex.keygen.new.encoding", W,
        "Versions 6 and 8, complex generator, one column: keys 1, not id:1. Files decide if any.")
    hive_style: bool = option(False, DS + "hive_style_partitioning", T,
        "Folders named column=value, as Hive names them.")
    url_encode: bool = option(False, DS + "partitionpath.urlencode", T,
        "Escapes partition values that hold a slash or other special characters.")
    timestamp_type: TimestampType | None = option(None, KEYGEN + "timestamp.type", T,
        "What the column of a timestamp-based partition holds.",
        OLD_KEYGEN + "timestamp.type")
    timestamp_input_formats: tuple[str, ...] = option((), KEYGEN + "input.dateformat", T,
        "Java patterns of a DATE_STRING or MIXED column, the first that fits.",
        OLD_KEYGEN + "input.dateformat")
    timestamp_output_format: str | None = option(None, KEYGEN + "output.dateformat", T,
        "Java pattern of the partition path.", OLD_KEYGEN + "output.dateformat")
    timestamp_zone: str | None = option(None, KEYGEN + "timezone", T,
        "Zone of both sides where they are not told apart.", OLD_KEYGEN + "timezone")
    timestamp_input_zone: str | None = option(None, KEYGEN + "input.timezone", T,
        "Zone in which text without one is read.", OLD_KEYGEN + "input.timezone")
    timestamp_output_zone: str | None = option(None, KEYGEN + "output.timezone", T,
        "Zone in which the partition path is written.", OLD_KEYGEN + "output.timezone")
    timestamp_unit: str = option("SECONDS", KEYGEN + "timestamp.scalar.time.unit", T,
        "Java TimeUnit of a SCALAR column.", OLD_KEYGEN + "timestamp.scalar.time.unit")

    # ---- what this write does
    operation: Operation | None = option(None, DS + "operation", W,
        "upsert where the table has a key, else insert; SQL chooses by itself.")
    partitions_to_delete: tuple[str, ...] = option((), DS + "partitions.to.delete", W,
        "Partition paths for delete_partition; a trailing * takes all that begin so.")
    overwrite_mode: OverwriteMode | None = option(None, "hoodie.datasource.overwrite.mode", W,
        "Static empties the table, dynamic only the partitions written; else Spark's own setting.")
    combine_before_insert: bool = option(False, "hoodie.combine.before.insert", W,
        "Makes one row of rows with the same key before an insert.")
    combine_before_upsert: bool = option(True, "hoodie.combine.before.upsert", W,
        "Makes one row of rows with the same key before an upsert.")
    combine_before_delete: bool = option(True, "hoodie.combine.before.delete", W,
        "Makes one row of rows with the same key before a delete.")
    insert_drop_duplicates: bool = option(False, DS + "insert.drop.duplicates", W,
        "Leaves out keys that the table has, and all rows of a key but one; makes upsert insert.")
    duplicate_policy: DuplicatePolicy = option(
        DuplicatePolicy.NONE, "hoodie.datasource.insert.dup.policy", W,
        "What insert does with keys that the table already has; unless none, upsert inserts.")
    bulk_sort_mode: SortMode = option(SortMode.NONE, "hoodie.bulkinsert.sort.mode", W,
        "How bulk_insert arranges its rows; NONE is a single pass with no shuffle.")
    null_for_missing: bool = option(False, "hoodie.write.set.null.for.missing.columns", W,
        "Fills columns that the table has and the input lacks.")
    commit_metadata_prefix: str = option("_", DS + "commitmeta.key.prefix", W,
        "Options that begin so are stored in the commit's extra metadata.")
    sql_insert_operation: Operation | None = option(
        None, "hoodie.spark.sql.insert.into.operation", W,
        "What INSERT INTO does: insert, bulk_insert or upsert.")
    sql_insert_mode: InsertMode | None = option(None, "hoodie.sql.insert.mode", W,
        "Hudi's older word for the same, heeded where the newer is not given.")

    # ---- which file a row goes to
    index_type: IndexType = option(IndexType.SIMPLE, "hoodie.index.type", W,
        "How the file of a key is found; a Hudi table does not record it.")
    bucket_count: int = option(256, "hoodie.bucket.index.num.buckets", W,
        "File groups per partition under the bucket index; every writer must say the same.",
        minimum=1)
    bucket_fields: tuple[str, ...] = option((), "hoodie.bucket.index.hash.field", W,
        "Columns of the bucket hash, a part of the record key; the whole key by default.")
    update_partition_path: bool = option(True, "hoodie.simple.index.update.partition.path", W,
        "Whether a global index moves a row whose partition changed.")
    bloom_type: BloomType = option(BloomType.SIMPLE, "hoodie.bloom.index.filter.type", W,
        "SIMPLE is sized to the rows of its file; Hudi's default DYNAMIC_V0 begins at 431 kB.")
    bloom_entries: int = option(60_000, "hoodie.index.bloom.num_entries", W,
        "Keys that a filter is made for where the rows of the file are not known.", minimum=1)
    bloom_fpp: float = option(1e-9, "hoodie.index.bloom.fpp", W,
        "Share of absent keys that a filter lets pass.")
    bloom_max_entries: int = option(100_000, "hoodie.bloom.index.filter.dynamic.max.entries", W,
        "Keys at which a dynamic filter stops growing.", minimum=1)
    max_file_bytes: int = option(120 * MB, "hoodie.parquet.max.file.size", W,
        "Size at which a base file is full.", minimum=1)
    small_file_bytes: int = option(100 * MB, "hoodie.parquet.small.file.limit", W,
        "Base files below it take new keys; 0 leaves small files alone.")
    record_bytes: int = option(1024, "hoodie.copyonwrite.record.size.estimate", W,
        "Bytes of a row on disk, until the table's own commits tell.", minimum=1)
    codec: Codec = option(Codec.SNAPPY, "hoodie.parquet.compression.codec", W,
        "Hudi's default is gzip: a third smaller here, for more than twice the CPU of encoding.")
    row_group_bytes: int = option(32 * MB, "hoodie.parquet.block.size", W,
        "Size of a row group, which a merge holds in memory; Hudi's default is 120 MB.", minimum=1)

    # ---- markers of data files, by which a failed write is undone
    marker_form: MarkerForm = option(
        MarkerForm.TIMELINE_SERVER_BASED, "hoodie.write.markers.type", W,
        "Lines in a few files that a server in the driver keeps, or an empty file each.")
    marker_interval_ms: int = option(50, MARKERS + "batch.interval_ms", W,
        "Longest pause in which requests for markers gather; a lone one never waits.")
    marker_threads: int = option(20, MARKERS + "batch.num_threads", W,
        "Batches of markers that are written at a time, each to a file of its own; 20 at most.",
        minimum=1)
    marker_port: int = option(0, "hoodie.embed.timeline.server.port", W,
        "Port at which executors ask the driver for markers; 0 is any that is free.")

    # ---- other writers
    concurrency_mode: ConcurrencyMode = option(
        ConcurrencyMode.SINGLE_WRITER, "hoodie.write.concurrency.mode", W,
        "With several writers new keys open file groups of their own, so inserts never conflict.")
    conflict_retries: int = option(4, "hoodie.write.num.retries.on.conflict.failures", W,
        "A lost race is written again as a new instant; Hudi's default is not to.")
    failed_writes: FailedWrites | None = option(None, "hoodie.clean.failed.writes.policy", W,
        "Who rolls failed writes back: the next write, or (LAZY) one that sees a stale heartbeat.",
        "hoodie.cleaner.policy.failed.writes")
    heartbeat_ms: int = option(60_000, "hoodie.client.heartbeat.interval_in_ms", W,
        "How often a writer shows that it lives.", minimum=1)
    heartbeat_misses: int = option(2, "hoodie.client.heartbeat.tolerable.misses", W,
        "Beats that may fail to come before others take the writer for dead.", minimum=1)
    lock_provider: LockProvider | None = option(None, "hoodie.write.lock.provider", W,
        "Who guards the commit; by default the storage's own put-if-absent or a lock file.")
    lock_wait_ms: int = option(60_000, "hoodie.write.lock.wait_time_ms", W,
        "How long a commit waits for the table lock.")
    lock_path: str | None = option(None, "hoodie.write.lock.filesystem.path", W,
        "Folder of the lock file, as for Hudi; the table's .hoodie by default.")
    lock_expire_minutes: int = option(0, "hoodie.write.lock.filesystem.expire", W,
        "Age at which a lock file counts as left behind; 0 is never.")

    # ---- filled by resolve_write, no options of their own
    lock_settings: Mapping[str, str] = field(default_factory=dict)
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    other: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Everything a read may be told, resolved."""

    query_type: QueryType = option(QueryType.SNAPSHOT, "hoodie.datasource.query.type", S,
        "Snapshot, or (merge-on-read) the compacted base files only.",
        "hoodie.datasource.view.type")
    as_of: str | None = option(None, "as.of.instant", S,
        "Travels in time: the table as the instants up to this one left it.")

    other: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
# fmt: on


def _option_table(of: type[Any]) -> tuple[Option, ...]:
    """The rows that ``of`` declares, in its order."""
    kinds = typing.get_type_hints(of)
    return tuple(
        Option(name=each.name, type=kinds[each.name], default=each.default, **each.metadata)
        for each in dataclasses.fields(of)
        if each.metadata
    )


def _by_key(rows: Sequence[Option]) -> Mapping[str, Option]:
    return {key.lower(): row for row in rows for key in row.keys}


WRITE_TABLE, READ_TABLE = _option_table(WriteOptions), _option_table(ReadOptions)
_WRITE_KEYS, _READ_KEYS = _by_key(WRITE_TABLE), _by_key(READ_TABLE)


#: how Delta, Iceberg and misspellings name the point in time of a read, letters alone
_FOREIGN_TIME_TRAVEL = frozenset(
    {
        "timestampasof", "versionasof", "asofinstant", "asoftimestamp", "asofversion", "asof",
        "snapshotid",
    }
)  # fmt: skip
#: options whose values are columns, for which a table keeps the columns' own spelling
_NAME_COLUMNS = frozenset({"record_key_fields", "partition_fields", "ordering_fields"})

# Absent in hoodie.properties, these say something all the same: none, or false.
_ALWAYS_RECORDED = frozenset(
    {"record_key_fields", "partition_fields", "ordering_fields", "hive_style", "url_encode"}
)


@dataclass(slots=True)
class _Given:
    """One source of settings, sorted: ``found`` holds the key as written and its typed value."""

    found: dict[str, tuple[str, Any]] = field(default_factory=dict)
    lock_settings: dict[str, str] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    other: dict[str, str] = field(default_factory=dict)


def resolve_write(
    options: Mapping[str, str],
    table: Mapping[str, str] | None = None,
    session: Mapping[str, str] | None = None,
) -> WriteOptions:
    """The options of one write.

    ``options`` are the call's (TBLPROPERTIES count as such), ``table`` the raw hoodie.properties of
    an existing table, None where one is to be created, ``session`` the ``hoodie.*`` settings of the
    Spark session. Merge mode and key generator may stay None for a table that does not record them:
    ``TableConfig`` infers these. Raises ``ConfigError`` with ``key`` for an unknown key, a value
    that does not parse, two names of one option that disagree, and an option that contradicts the
    table.
    """
    given, later = _sort(_WRITE_KEYS, options), _sort(_WRITE_KEYS, session or {})
    recorded = {} if table is None else _recorded(table)
    for name, (key, value) in given.found.items():
        if name in recorded and not _agree(name, value, recorded[name][1]):
            _refuse_contradiction(key, value, *recorded[name])
    merged = {**later.found, **given.found, **recorded}
    values: dict[str, Any] = {name: value for name, (_, value) in merged.items()}
    prefix = str(values.get("commit_metadata_prefix", "_"))
    named = {key: text for key, text in options.items() if prefix and key.startswith(prefix)}
    _refuse_unknown(key for key in given.unknown if key not in named)
    _refuse_unknown(later.unknown)
    if values.get("failed_writes") is None:
        many = values.get("concurrency_mode") is ConcurrencyMode.OPTIMISTIC
        values["failed_writes"] = FailedWrites.LAZY if many else FailedWrites.EAGER
    if values.get("insert_drop_duplicates"):
        values.setdefault("duplicate_policy", DuplicatePolicy.DROP)
        values["combine_before_insert"] = True
    return WriteOptions(
        **values,
        lock_settings={**later.lock_settings, **given.lock_settings},
        commit_metadata=named,
        other=given.other,
        ignored=tuple(sorted(given.ignored | later.ignored)),
    )


def resolve_read(
    options: Mapping[str, str], session: Mapping[str, str] | None = None, travels: bool = False
) -> ReadOptions:
    """The options of one read; what only a write heeds passes. Errors as in ``resolve_write``.

    Other formats' options of time travel are refused: passing them over would show other rows.
    Spark 4 turns some of them into a time of its own; ``travels`` tells that it has.
    """
    given, later = _sort(_READ_KEYS, options), _sort(_READ_KEYS, session or {})
    _refuse_unknown((*given.unknown, *later.unknown))
    for key in given.other:
        if not travels and re.sub("[^a-z]", "", key.lower()) in _FOREIGN_TIME_TRAVEL:
            raise ConfigError(
                f"'{key}' is no option of pyhudi. To travel in time set as.of.instant to an "
                "instant or a time.",
                key=key,
                nearest="as.of.instant",
            )
    if given.found.get("as_of", ("", "given"))[1] is None:
        raise ConfigError(
            "as.of.instant is empty. Give it an instant or a time, or leave it out to read the "
            "newest state.",
            key="as.of.instant",
        )
    values: dict[str, Any] = {
        name: value for name, (_, value) in {**later.found, **given.found}.items()
    }
    ignored = tuple(sorted(given.ignored | later.ignored))
    return ReadOptions(**values, other=given.other, ignored=ignored)


def sql_insert_operation(options: WriteOptions) -> Operation:
    """What SQL's INSERT INTO does, decided as Hudi 1.2.0 decides it."""
    if options.operation is not None:
        return options.operation
    if options.sql_insert_operation is not None:
        return options.sql_insert_operation
    keyed = bool(options.record_key_fields and options.ordering_fields)
    if options.sql_insert_mode is InsertMode.NON_STRICT:
        return Operation.INSERT
    return Operation.UPSERT if keyed else Operation.INSERT


def ignored_warning(keys: Sequence[str]) -> str | None:
    """The one warning about keys of Hudi's that have no effect here; None without any."""
    if not keys:
        return None
    return f"These options of Hudi's have no effect in pyhudi: {', '.join(keys)}."


def _sort(rows: Mapping[str, Option], source: Mapping[str, str]) -> _Given:
    """Every key of ``source`` put where it belongs, the values of options typed."""
    given = _Given()
    for key, text in source.items():
        low = key.lower()
        if (row := rows.get(low)) is not None:
            _add(given.found, row, key, str(text))
        elif not low.startswith("hoodie."):
            given.other[key] = text
        elif low in LOCK_SETTINGS:
            given.lock_settings[low] = text
        elif low in _WRITE_KEYS or low in _READ_KEYS:
            continue  # a write's option on a read, or the other way round
        elif low in FIXED:
            if rows is _WRITE_KEYS and _breaks_fixed(key, text):
                given.ignored.add(key)
        elif has_no_effect(low):
            given.ignored.add(key)
        else:
            given.unknown.append(key)
    return given


def _breaks_fixed(key: str, text: str) -> bool:
    """Whether ``text`` is not the one value that is served; an error where that changes rows."""
    value, must = FIXED[key.lower()]
    differs = text.strip().lower() != value
    if differs and must:
        raise ConfigError(
            f"'{key}' is '{text}', but pyhudi serves '{value}' only. Leave it out.", key=key
        )
    return differs


def _add(found: dict[str, tuple[str, Any]], row: Option, key: str, text: str) -> None:
    """Enter one value; two names of one option may both be given, but must agree."""
    value = row.parse(key, text)
    earlier_key, earlier = found.get(row.name, (key, value))
    if earlier != value:
        raise ConfigError(
            f"'{earlier_key}' and '{key}' are one option under two names, but their values differ: "
            f"'{_text(earlier)}' and '{_text(value)}'. Leave one of them out.",
            key=key,
        )
    found[row.name] = (earlier_key, value)


def _recorded(table: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """What hoodie.properties says of TABLE options, under the first of each option's keys.

    A value that is none of ours is left out: ``parse_table_config`` has judged the table by then.
    So is the database, which Hudi's SQL and DataFrame writers record differently.
    """
    found: dict[str, tuple[str, Any]] = {}
    for row in WRITE_TABLE:
        if row.scope is not Scope.TABLE or row.name == "database":
            continue
        key = next((key for key in row.keys if key in table), None)
        if key is not None:
            with contextlib.suppress(ConfigError):
                found[row.name] = (key, row.parse(key, table[key]))
        elif row.name in _ALWAYS_RECORDED:
            name = next((key for key in row.keys if key.startswith("hoodie.table.")), row.key)
            found[row.name] = (name, row.default)
    return found


def _agree(name: str, value: Any, recorded: Any) -> bool:
    """Whether an option says what the table says."""
    if name in _NAME_COLUMNS:
        return [column.lower() for column in value] == [column.lower() for column in recorded]
    return bool(value == recorded)


def _refuse_contradiction(key: str, value: object, recorded_key: str, recorded: object) -> None:
    raise ConfigError(
        f"'{key}' is '{_text(value)}', but the table has {recorded_key} '{_text(recorded)}'. A "
        "table keeps what it was created with: leave the option out, or write to a new table.",
        key=key,
    )


def _refuse_unknown(keys: Iterable[str]) -> None:
    for key in keys:
        known = [name for row in (*WRITE_TABLE, *READ_TABLE) for name in row.keys]
        near = difflib.get_close_matches(key, [*known, *LOCK_SETTINGS, *FIXED, *IGNORED], 1)
        hint = f"did you mean '{near[0]}'?" if near else "no option has a name like it."
        raise ConfigError(
            f"'{key}' is no option of pyhudi, and no key of Hudi's that it knows; {hint} "
            "Correct it or leave it out.",
            key=key,
            nearest=near[0] if near else None,
        )


def _text(value: object) -> str:
    """A typed value as a user would write it."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
