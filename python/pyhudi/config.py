"""How options get their values: from the table, the call, the Spark session or the default.

The options themselves are the lines of ``option_tables``. If several places give a value, the order
is: the table, the call's options, the Spark session, the default. The case of keys does not count,
since Spark does not keep it everywhere.

Invariant: no ``hoodie.*`` key passes unnoticed. It is an option, or a Hudi key without effect here
(collected in ``ignored``, for one warning), or a ``ConfigError`` that names the nearest key.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pyhudi.choices import (
    CONCURRENCY_PROPERTY,
    BillingMode,
    BloomType,
    Codec,
    ConcurrencyMode,
    ConflictRule,
    DuplicatePolicy,
    FailedWrites,
    IndexType,
    InsertMode,
    LockProvider,
    Operation,
    OverwriteMode,
    QueryType,
    SortMode,
    TimeSourceType,
    TimestampType,
)
from pyhudi.errors import ConfigError
from pyhudi.foreign_options import letters_of
from pyhudi.format.markers import MarkerForm
from pyhudi.format.table_config import KeyGenerator, MergeMode, TableType
from pyhudi.hudi_keys import FIXED, FIXED_READS, INSTEAD, UNSERVED_FAMILIES, has_no_effect
from pyhudi.lock_options import LOCK_TABLE, NEEDED, LockOptions, check_lock_options
from pyhudi.option import Option, Scope
from pyhudi.option_names import nearest, refuse_unknown_read, refuse_unserved_read
from pyhudi.option_tables import (
    AS_RO_TABLE,
    CALLBACK,
    READ_TABLE,
    SPARK_OVERWRITE_MODE,
    WRITE_TABLE,
    ReadOptions,
    WriteOptions,
)
from pyhudi.payloads import properties_of

__all__ = [
    "BillingMode", "BloomType", "Codec", "ConcurrencyMode", "DuplicatePolicy", "FailedWrites",
    "IndexType", "InsertMode", "KeyGenerator", "LockOptions", "LockProvider", "MarkerForm",
    "MergeMode", "Operation", "Option", "OverwriteMode", "QueryType", "READ_TABLE", "ReadOptions",
    "Scope", "SortMode", "TableType", "TimestampType", "WRITE_TABLE", "WriteOptions",
    "ignored_warning", "new_table_operation", "resolve_read", "resolve_write",
    "sql_insert_operation",
]  # fmt: skip


def _by_key(rows: Sequence[Option]) -> Mapping[str, Option]:
    return {key.lower(): row for row in rows for key in row.keys}


_WRITE_KEYS, _READ_KEYS = _by_key(WRITE_TABLE), _by_key(READ_TABLE)
_OF_LOCKS = frozenset(row.name for row in LOCK_TABLE)


#: other names for the point in time of a read (Delta, Iceberg, misspellings), letters only
_FOREIGN_TIME_TRAVEL = frozenset(
    {
        "timestampasof", "versionasof", "asofinstant", "asoftimestamp", "asofversion", "asof",
        "snapshotid",
    }
)  # fmt: skip
#: options whose values are columns: a table keeps the spelling of its columns
_NAME_COLUMNS = frozenset({"record_key_fields", "partition_fields", "ordering_fields"})

#: options whose values may be payload classes
_MERGING = frozenset({"merge_mode", "payload_class"})
#: the type of query that Apache Hudi's Hive sync asks for
_HIVE_SYNCS = {"true": QueryType.READ_OPTIMIZED.value, "false": QueryType.SNAPSHOT.value}
_QUERY_TYPE = _READ_KEYS[AS_RO_TABLE]

# If hoodie.properties lacks these, the table has none of them, or false.
_ALWAYS_RECORDED = frozenset(
    {
        "record_key_fields", "partition_fields", "ordering_fields", "hive_style", "url_encode",
        "change_logs", "partial_updates", "delete_field", "delete_marker",
    }
)  # fmt: skip


@dataclass(slots=True)
class _Given:
    """One source of settings, sorted; ``found`` has each key as given and its typed value."""

    found: dict[str, tuple[str, Any]] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)
    other: dict[str, str] = field(default_factory=dict)


def resolve_write(
    options: Mapping[str, str],
    table: Mapping[str, str] | None = None,
    session: Mapping[str, str] | None = None,
) -> WriteOptions:
    """The options of one write.

    ``options`` are the call's, TBLPROPERTIES included. ``table`` is the raw hoodie.properties of an
    existing table, None for a new one. ``session`` has the ``hoodie.*`` settings of the Spark
    session. Merge mode and key generator may stay None if the table does not record them:
    ``TableConfig`` infers them. Raises ``ConfigError`` with ``key`` for an unknown key, a value
    that does not parse, two names of one option with different values, and an option that
    contradicts the table.
    """
    given, later = _sort(_WRITE_KEYS, options), _sort(_WRITE_KEYS, _hudi_first(session or {}))
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
    mode = values.get("concurrency_mode", ConcurrencyMode.SINGLE_WRITER)
    many = mode is not ConcurrencyMode.SINGLE_WRITER
    if values.get("failed_writes") is None:
        values["failed_writes"] = FailedWrites.LAZY if many else FailedWrites.EAGER
    if values.get("insert_drop_duplicates"):
        values.setdefault("duplicate_policy", DuplicatePolicy.DROP)
        values["combine_before_insert"] = True
    if values["failed_writes"] is FailedWrites.EAGER and (eager := _beside_others(merged)):
        values["failed_writes"] = FailedWrites.LAZY
        given.ignored.add(eager)
    _check_time_source(values)
    _check_callback(values)
    if values.get("conflict_rule") is ConflictRule.BUCKET:
        _require_bucket_index(values.get("index_type"))
    if values.get("conflict_rule") is ConflictRule.PARTITION:
        _refuse_partition_rule(mode)
    lock = LockOptions(**{name: values.pop(name) for name in _OF_LOCKS & values.keys()})
    check_lock_options(lock, many)
    return WriteOptions(
        **values,
        lock=lock,
        commit_metadata=named,
        other=given.other,
        ignored=tuple(sorted(given.ignored | later.ignored)),
    )


def _hudi_first(session: Mapping[str, str]) -> Mapping[str, str]:
    """The session's settings; Hudi's overwrite mode there replaces Spark's setting."""
    if any(key.lower() == "hoodie.datasource.overwrite.mode" for key in session):
        return {key: text for key, text in session.items() if key != SPARK_OVERWRITE_MODE}
    return session


def _require_bucket_index(index: object) -> None:
    if index is not IndexType.BUCKET:
        key = "hoodie.write.lock.conflict.resolution.strategy"
        raise ConfigError(
            f"'{key}' is bucket, but hoodie.index.type is not: file groups then have no buckets to "
            "compare. Set hoodie.index.type=bucket, or leave the strategy out.",
            key=key,
        )


def _refuse_partition_rule(mode: object) -> None:
    key = "hoodie.write.lock.conflict.resolution.strategy"
    reasons = {
        ConcurrencyMode.PESSIMISTIC: "pessimistic writes lock file groups: two such writes in one "
        "partition would still conflict after all their work",
        ConcurrencyMode.NON_BLOCKING: "writers without coordination add to the same file groups: "
        "one writer for each partition is another mode, OPTIMISTIC_CONCURRENCY_CONTROL",
    }
    for each, reason in reasons.items():
        if mode is each:
            raise ConfigError(
                f"'{key}' is partition, but {reason}. Leave the strategy out.", key=key
            )


def _beside_others(merged: Mapping[str, tuple[str, Any]]) -> str | None:
    """The key that asks for EAGER in a table of several writers; None if EAGER is allowed.

    There EAGER counts as LAZY, as in Hudi: writers would wait for each other's heartbeats.
    """
    _, mode = merged.get("concurrency_mode", ("", ConcurrencyMode.SINGLE_WRITER))
    return merged["failed_writes"][0] if mode is not ConcurrencyMode.SINGLE_WRITER else None


_COUNTERS = {
    TimeSourceType.ZOOKEEPER: LockProvider.ZOOKEEPER,
    TimeSourceType.DYNAMODB: LockProvider.DYNAMODB,
}


def _check_time_source(values: Mapping[str, Any]) -> None:
    """``ConfigError`` if a setting is missing that says where the counter of times is."""
    source = values.get("time_source", TimeSourceType.CLOCK)
    needed = NEEDED[_COUNTERS[source]] if source in _COUNTERS else ()
    for row in LOCK_TABLE:
        if row.name in needed and not values.get(row.name):
            raise ConfigError(
                f"'hoodie.time.generator.type' is {source.value}, which needs '{row.key}'. Set it "
                "to what all writers of the table use.",
                key=row.key,
            )


def _check_callback(values: Mapping[str, Any]) -> None:
    """``ConfigError`` if messages about commits are on but cannot be sent."""
    if not values.get("callback_on"):
        return
    url = values.get("callback_url") or ""
    if not re.fullmatch(r"https?://[^/?#\s]+(?:[/?]\S*)?", url):
        raise ConfigError(
            f"'{CALLBACK}on' is true, but '{CALLBACK}http.url' is '{url}'. Set it to a URL like "
            "'https://host/path', or turn the callback off.",
            key=f"{CALLBACK}http.url",
        )
    callback_headers(values.get("callback_headers"))


def callback_headers(text: str | None) -> dict[str, str]:
    """The headers of ``Name:value;Name:value``; ``ConfigError`` for other text."""
    found = {}
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, colon, value = (side.strip() for side in part.partition(":"))
        if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", name, re.ASCII) or not (colon and value):
            raise ConfigError(
                f"'{CALLBACK}http.custom.headers' must have the form 'Name:value;Name:value'. "
                "Correct the value.",
                key=f"{CALLBACK}http.custom.headers",
            )
        found[name] = value
    return found


def resolve_read(
    options: Mapping[str, str], session: Mapping[str, str] | None = None, travels: bool = False
) -> ReadOptions:
    """The options of one read; options of writes are ignored. Errors as in ``resolve_write``.

    The time travel options of other formats are refused: to ignore them would show other rows.
    Spark 4 evaluates some of them itself; ``travels`` says that it has.
    """
    given, later = _sort(_READ_KEYS, options), _sort(_READ_KEYS, session or {})
    _refuse_unknown((*given.unknown, *later.unknown))
    refuse_unserved_read({**(session or {}), **options})
    for key in given.other:
        if not travels and letters_of(key) in _FOREIGN_TIME_TRAVEL:
            raise ConfigError(
                f"'{key}' is not a pyhudi option. For time travel set as.of.instant to an instant "
                "or a time.",
                key=key,
                nearest="as.of.instant",
            )
    travel = {key for key in given.other if travels and letters_of(key) in _FOREIGN_TIME_TRAVEL}
    refuse_unknown_read({key: text for key, text in given.other.items() if key not in travel})
    if given.found.get("as_of", ("", "given"))[1] is None:
        raise ConfigError(
            "as.of.instant is empty. Set it to an instant or a time, or leave it out to read the "
            "newest state.",
            key="as.of.instant",
        )
    values: dict[str, Any] = {
        name: value for name, (_, value) in {**later.found, **given.found}.items()
    }
    ignored = tuple(sorted(given.ignored | later.ignored))
    resolved = ReadOptions(**values, other=given.other, ignored=ignored)
    _check_range(resolved, {name: key for name, (key, _) in later.found.items()}, travels)
    return resolved


def _check_range(read: ReadOptions, session: Mapping[str, str], travels: bool) -> None:
    """``ConfigError`` for an incremental read that is half said, or said to a whole session.

    ``session`` has the session's own keys by option. UPDATE, DELETE and MERGE read their table with
    the options of the session, and would miss the rows outside of the range.
    """
    incremental = read.query_type is QueryType.INCREMENTAL
    kind = "hoodie.datasource.query.type"
    for name in ("begin", "end", *(["query_type"] if incremental else [])):
        if name in session:
            raise ConfigError(
                f"'{session[name]}' of an incremental read is set for the session, and every "
                "query and statement would read that range. Unset it, and give it as an option of "
                "the one read: spark.read.option(...), or hudi_table_changes(...) in SQL.",
                key=session[name],
            )
    if not incremental and (read.begin is not None or read.end is not None):
        raise ConfigError(
            f"A begin or an end of a range of commits is set, but {kind} is "
            f"'{read.query_type.value}'. Set it to 'incremental', or leave the range out.",
            key=kind,
        )
    if read.follows and read.end is not None:
        raise ConfigError(
            "An incremental read needs hoodie.datasource.read.begin.instanttime: the time after "
            "which its commits begin, or earliest.",
            key="hoodie.datasource.read.begin.instanttime",
        )
    if incremental and (read.as_of is not None or travels):
        raise ConfigError(
            "An incremental read and time travel exclude each other: one gives what changed, the "
            "other a state. Set hoodie.datasource.read.end.instanttime for the changes up to a "
            "time.",
            key="as.of.instant",
        )


def sql_insert_operation(options: WriteOptions) -> Operation:
    """The operation of SQL's INSERT INTO, by the rules of Hudi 1.2.0: insert, which keeps doubles.

    ``hoodie.spark.sql.insert.into.operation`` names another one. The older
    ``hoodie.sql.insert.mode`` counts only without it: its modes upsert and strict then upsert if
    ``hoodie.combine.before.insert`` is true, and its mode non-strict is a bulk_insert if
    ``hoodie.sql.bulk.insert.enable`` is true. ``ConfigError`` for that with another mode.
    """
    named = _named_operation(options)
    if named is not None:
        return named
    keyed = bool(options.record_key_fields)
    old = options.sql_insert_mode
    if old is not None and options.sql_bulk_insert:
        if old is not InsertMode.NON_STRICT or options.insert_drop_duplicates:
            raise ConfigError(
                "hoodie.sql.bulk.insert.enable is 'true', but a bulk_insert looks up no keys, and "
                "hoodie.sql.insert.mode or hoodie.datasource.write.insert.drop.duplicates asks for "
                "that. Leave one of them out.",
                key="hoodie.sql.bulk.insert.enable",
            )
        return Operation.BULK_INSERT
    upserts = old is not None and old is not InsertMode.NON_STRICT
    if upserts and keyed and options.combine_before_insert and not options.insert_drop_duplicates:
        return Operation.UPSERT
    return Operation.INSERT


def new_table_operation(options: WriteOptions) -> Operation:
    """The operation of CREATE TABLE AS SELECT, as in Hudi 1.2.0: bulk_insert, which keeps doubles.

    An option may name another one. A policy against duplicates needs an insert.
    """
    named = _named_operation(options)
    if named is not None:
        return named
    free = options.duplicate_policy is DuplicatePolicy.NONE
    return Operation.BULK_INSERT if free else Operation.INSERT


def _named_operation(options: WriteOptions) -> Operation | None:
    """The operation that options name for INSERT; an upsert of a table without a key inserts."""
    named = options.sql_insert_operation
    if options.operation is None and named is Operation.UPSERT and not options.record_key_fields:
        return Operation.INSERT  # a session has one setting for tables of both kinds
    return options.operation or named


def ignored_warning(keys: Sequence[str]) -> str | None:
    """One warning about all Hudi keys that have no effect here; None without such keys."""
    if not keys:
        return None
    return f"These Hudi options have no effect in pyhudi: {', '.join(keys)}."


def _sort(rows: Mapping[str, Option], source: Mapping[str, str]) -> _Given:
    """The keys of ``source`` by kind: options (with typed values), ignored, unknown, others."""
    given = _Given()
    types = [key for key in source if rows.get(key.lower()) is _QUERY_TYPE]
    for key, text in source.items():
        low = key.lower()
        if low == AS_RO_TABLE and str(text).strip().lower() == "false" and len(types) > 1:
            continue  # Hive sync says it of each table; a read may ask for a range all the same
        if (row := rows.get(low)) is not None:
            several = properties_of(key, str(text)) if row.name in _MERGING else {}
            for name, value in (several or {low: str(text)}).items():
                _add(given.found, rows[name], key, value)
        elif not low.startswith("hoodie."):
            given.other[key] = text
        elif low in _WRITE_KEYS or low in _READ_KEYS or low in FIXED_READS:
            continue  # an option of writes on a read, or of reads on a write
        elif low in FIXED:
            if rows is _WRITE_KEYS and _breaks_fixed(key, text):
                given.ignored.add(key)
        elif low.startswith(UNSERVED_FAMILIES):
            if rows is _WRITE_KEYS:
                raise ConfigError(
                    f"'{key}' is for a merge that pyhudi does not do. Leave it out: pyhudi merges "
                    "by event time or by commit time.",
                    key=key,
                )
        elif has_no_effect(low):
            given.ignored.add(key)
        else:
            given.unknown.append(key)
    return given


def _breaks_fixed(key: str, text: str) -> bool:
    """Whether ``text`` is not the one supported value; an error if that would change rows."""
    value, must = FIXED[key.lower()]
    differs = text.strip().lower() != value
    if differs and must:
        served = f"pyhudi supports only '{value}'" if value else "pyhudi does not support it"
        instead = INSTEAD.get(key.lower())
        raise ConfigError(
            f"'{key}' is '{text}', but {served}. Leave it out.{f' {instead}' if instead else ''}",
            key=key,
        )
    return differs


def _add(found: dict[str, tuple[str, Any]], row: Option, key: str, text: str) -> None:
    """Enter one value; two names of one option may both be given, with the same value."""
    if key.lower() == AS_RO_TABLE:
        text = _HIVE_SYNCS.get(text.strip().lower(), text)
    value = row.parse(key, text)
    earlier_key, earlier = found.get(row.name, (key, value))
    if earlier != value:
        raise ConfigError(
            f"'{earlier_key}' and '{key}' are two names of one option, but their values differ: "
            f"'{_text(earlier)}' and '{_text(value)}'. Leave one of them out.",
            key=key,
        )
    found[row.name] = (earlier_key, value)


def _recorded(table: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """The TABLE options that hoodie.properties records, each with the key that it has there.

    A value that pyhudi does not know is left out: ``parse_table_config`` has already judged the
    table. So is the database, which Hudi's SQL and DataFrame writers record differently.
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
    if text := table.get(CONCURRENCY_PROPERTY):
        mode = _WRITE_KEYS["hoodie.write.concurrency.mode"]
        found[mode.name] = (CONCURRENCY_PROPERTY, mode.parse(CONCURRENCY_PROPERTY, text))
    return found


def _agree(name: str, value: Any, recorded: Any) -> bool:
    """Whether an option has the value that the table records."""
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
        near = nearest(key)
        hint = f"did you mean '{near}'?" if near else "no option has a similar name."
        raise ConfigError(
            f"'{key}' is neither a pyhudi option nor a Hudi key that pyhudi knows; {hint} "
            "Correct it or leave it out.",
            key=key,
            nearest=near,
        )


def _text(value: object) -> str:
    """A typed value as a user would write it."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
