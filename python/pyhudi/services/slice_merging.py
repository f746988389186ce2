"""How the logs of a table's slices are merged: by its properties, and the instants that count.

Rules: spec/file_slices.md F2 and spec/merging.md R4. Reads and compactions merge by the same
orders, so a compaction leaves what a snapshot gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi.choices import PartialUpdates
from pyhudi.errors import ConfigError
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.format.table_config import MergeMode, TableConfig, TableType
from pyhudi.payloads import DELETE_MARKS, MERGE_PROPERTY, PARTIAL_UPDATE, UNAVAILABLE
from pyhudi.rows.log_spec import CountedInstants, MergeSpec
from pyhudi.rows.spec import META_COLUMNS, FileSystemSpec, Filled
from pyhudi.slices.files import FileSlice
from pyhudi.timeline.strays import rolled_back
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.writable import unknown_partial_updates


def counted_instants(view: FileSystemView, until: str | None) -> CountedInstants:
    """The instants of ``view`` whose log blocks count; none after ``until``, None for no bound.

    In layout 1 a log with failed blocks may stay, and the command block that takes them back may be
    in a log that a compaction's plan does not name: what rollbacks have undone never counts.
    """
    timeline = view.timeline
    active = frozenset(i.time for i in timeline.commits)
    first = timeline.first_time if active else min(view.archived, default=None)
    undone = rolled_back(view.storage, timeline) if timeline.layout == 1 else frozenset()
    completed = frozenset(active | view.archived)
    return CountedInstants(completed, first or "", until or "", undone - completed)


def completed_slices(view: FileSystemView) -> Iterator[FileSlice]:
    """The newest slice of each group, with only the logs whose writes have completed.

    Errors as of ``FileSystemView.slices``.
    """
    counted = counted_instants(view, None) if view.logs else None
    for each in view.slices():
        if each.logs and counted is not None:
            # In layout 1 the name has the slice's instant; the blocks say their own.
            by_name = view.timeline.layout > 1
            logs = tuple(
                log
                for log in each.logs
                if not log.named.cdc and (not by_name or log.instant in counted)
            )
            if each.base is None and not any(log.instant in counted for log in logs):
                continue
            each = replace(each, logs=logs)
        yield each


def merge_spec(
    config: TableConfig,
    place: tuple[FileSystemSpec, str],
    columns: Iterable[Column],
    counted: CountedInstants,
    wanted: SparkSchema,
    named: tuple[str, str] | None = None,
) -> MergeSpec:
    """How slices are merged, of a table with ``columns`` whose data files are at ``place``.

    The rows of logs are wanted in the columns ``wanted``; ``named`` is that of ``MergeSpec``.
    """
    filesystem, root = place
    schema = SparkSchema(tuple(columns))
    known = {column.name: column for column in schema.columns}
    named_by = config.ordering_fields if config.merge_mode is MergeMode.EVENT_TIME_ORDERING else ()
    paths = tuple(map(schema.own_spelling, named_by))
    paths = tuple(path for path in paths if path.split(".")[0] in known)
    roots = dict.fromkeys(path.split(".")[0] for path in paths)
    ordering = [known[name] for name in roots]
    return MergeSpec(
        root,
        filesystem,
        counted,
        _struct(wanted.columns),
        _struct(tuple(ordering)),
        paths,
        delete_mark(config),
        named,
        config.logs_name_their_write,
        filled(config),
        _struct(tuple(each for each in schema.columns if each.name not in META_COLUMNS)),
    )


def unmergeable(config: TableConfig) -> str | None:
    """What the logs of a table have that pyhudi cannot merge; None if it can."""
    if config.merge_mode is MergeMode.CUSTOM:
        payload = config.raw.get("hoodie.compaction.payload.class") or "a merger of its own"
        return f"log files that are merged by {payload.rsplit('.', 1)[-1]}"
    mode = unknown_partial_updates(config)
    if mode is not None:
        return f"log files that are merged by {PARTIAL_UPDATE}={mode}"
    if not config.populate_meta_fields:
        return "log files of tables without meta fields"
    return None


def unfollowed(config: TableConfig) -> str | None:
    """What the logs of a table have of which pyhudi cannot say which write gave which value; None
    if it can.

    By partial updates a row has values of several writes, and one that loses may change it.
    """
    unknown, mode = unmergeable(config), config.raw.get(PARTIAL_UPDATE)
    if unknown is None and mode:
        return f"log files that are merged by {PARTIAL_UPDATE}={mode}"
    return unknown


def refuse_other_deletes(config: TableConfig, options: Mapping[str, str]) -> None:
    """``ConfigError`` for options by which Apache Hudi would take other rows of logs for deletes.

    A read may repeat what the table records; base files have no deletes.
    """
    if config.table_type is not TableType.MERGE_ON_READ:
        return
    for key, text in options.items():
        name = key.lower().removeprefix(MERGE_PROPERTY)
        if name not in DELETE_MARKS or not text.strip():
            continue
        recorded = config.raw.get(MERGE_PROPERTY + name) or config.raw.get(name, "")
        if text.strip() != recorded:
            raise ConfigError(
                f"'{key}' is '{text}', but the table {config.name} records "
                f"{repr(recorded) if recorded else 'no such rule'}, and pyhudi merges its logs by "
                "what it records. Leave the option out, and filter the rows: the deleted ones "
                "have this mark in their column.",
                key=key,
            )


def filled(config: TableConfig) -> Filled | None:
    """Which values give way to those of the row below; None if the table names none."""
    mode = config.raw.get(PARTIAL_UPDATE)
    if mode == PartialUpdates.FILL_UNAVAILABLE:
        marker = config.raw.get(UNAVAILABLE)
        return Filled(marker) if marker else None
    return Filled() if mode == PartialUpdates.IGNORE_DEFAULTS else None


def delete_mark(config: TableConfig) -> tuple[str, str] | None:
    """The column and the text that mark a row as deleted, if the table names them."""
    found = []
    for name in DELETE_MARKS:
        for key in (MERGE_PROPERTY + name, name):
            if config.raw.get(key):
                found.append(config.raw[key])
                break
    return (found[0], found[1]) if len(found) == 2 else None


def _struct(columns: tuple[Column, ...]) -> Any:
    return pa.struct(list(SparkSchema(columns).arrow()))
