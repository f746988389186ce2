"""Looks for one record key in the logs of the newest slices, without Spark.

Nothing rules a log out, so all logs of these slices are read, by the code that reads use. A slice
of which the logs have the key is merged; so what is told is what a snapshot gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import HudiError
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.format.table_config import TableType
from pyhudi.rows.log_parts import LogPart
from pyhudi.rows.log_spec import LogSlice, Merged, MergeSpec, Positions
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge, newest_events
from pyhudi.rows.slice_reader import parts_in
from pyhudi.rows.spec import COMMIT_TIME_COLUMN, FileSystemSpec
from pyhudi.services.file_schemas import FileSchemas
from pyhudi.services.slice_merging import counted_instants, merge_spec, unfollowed
from pyhudi.slices.files import FileSlice, LogFile, base_files
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import FileSystemView

THREADS = 16
_WRITTEN_BY = pa.struct([(COMMIT_TIME_COLUMN, pa.string())])


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A row or a delete of the key in the log ``path``.

    ``instant`` is the commit that gave the row its value, or that deleted it.
    """

    instant: InstantTime
    path: str
    deletes: bool


@dataclass(frozen=True, slots=True)
class LoggedKey:
    """What the ``logs`` of a group's newest slice make of the key.

    ``events`` are in the order of the merge. ``in_base`` says that a row of the base file counts,
    ``row`` is the log's row that counts, ``deleted`` the delete that took the key away. Without
    ``events`` the logs do not have the key; if they are ``unread``, nothing is known of them.
    """

    logs: tuple[str, ...]
    events: tuple[LogEvent, ...] = ()
    in_base: bool = False
    row: LogEvent | None = None
    deleted: LogEvent | None = None
    unread: bool = False

    @property
    def outranked(self) -> tuple[LogEvent, ...]:
        """The events that lose against an earlier one, or against the base file's row."""
        winner = self.row or self.deleted
        return self.events if winner is None else self.events[self.events.index(winner) + 1 :]


def logged_keys(
    table: Table,
    timeline: Timeline,
    place: tuple[FileSystemSpec, str],
    key: str,
    partition: str | None,
) -> dict[tuple[str, FileId], LoggedKey]:
    """What the logs of each newest slice make of ``key``; slices without logs are left out.

    ``place`` is that of the data files. Errors as of ``Table.view``.
    """
    if table.config.table_type is not TableType.MERGE_ON_READ:
        return {}
    view = table.view(timeline)
    slices = [each for each in _with_logs(view) if partition in (None, each.partition_path)]
    if not slices:
        return {}
    unread = [LoggedKey(tuple(log.path for log in each.logs), unread=True) for each in slices]
    found = unread
    if unfollowed(table.config) is None:
        spec, orders = _orders(table, timeline, view, place, slices)
        look = partial(_looked, spec, spec.fs.open(), key)
        with ThreadPoolExecutor(THREADS) as threads:
            told = threads.map(look, orders)
            found = [one or other for one, other in zip(told, unread, strict=True)]
    places = ((each.partition_path, each.file_id) for each in slices)
    return dict(zip(places, found, strict=True))


def deletes_between(
    table: Table,
    timeline: Timeline,
    place: tuple[FileSystemSpec, str],
    key: str,
    slices: Sequence[tuple[FileSlice, InstantTime]],
    ends: Mapping[InstantTime, str | None],
) -> list[LogEvent | None]:
    """For each slice the delete in its logs by which the next base file does not have ``key``.

    Slices come without logs, each with the instant of its next base file; ``ends`` are the
    completion times of commits. None where the logs are gone, or do not tell.
    """
    if unfollowed(table.config) is not None or not slices:
        return [None] * len(slices)
    view = table.view(timeline)
    held = [_its_logs(view, each, until, ends) for each, until in slices]
    spec, orders = _orders(table, timeline, view, place, held)
    look = partial(_looked, spec, spec.fs.open(), key)
    with ThreadPoolExecutor(THREADS) as threads:
        return [each.deleted if each is not None else None for each in threads.map(look, orders)]


def _its_logs(
    view: FileSystemView, of: FileSlice, until: InstantTime, ends: Mapping[InstantTime, str | None]
) -> FileSlice:
    """A slice with the logs that were its own when the base file of ``until`` came."""
    counted = counted_instants(view, until)

    def is_of_it(log: LogFile) -> bool:
        if view.timeline.layout == 1:
            return log.instant == of.instant
        end = ends.get(log.instant) or log.instant
        return log.instant in counted and of.instant <= end < until

    logs = view.logs.get(of.partition_path, {}).get(of.file_id, ())
    return replace(of, logs=tuple(log for log in logs if not log.named.cdc and is_of_it(log)))


def _with_logs(view: FileSystemView) -> Iterator[FileSlice]:
    """The newest slices with logs that may count, with these alone."""
    counted, by_name = counted_instants(view, None), view.timeline.layout > 1
    for each in view.existing_slices(None):
        # In layout 1 the name has the slice's instant; the blocks say their own.
        logs = tuple(
            log
            for log in each.logs
            if not log.named.cdc and (not by_name or log.instant in counted)
        )
        if logs:
            yield replace(each, logs=logs)


def _orders(
    table: Table,
    timeline: Timeline,
    view: FileSystemView,
    place: tuple[FileSystemSpec, str],
    slices: Sequence[FileSlice],
) -> tuple[MergeSpec, list[LogSlice]]:
    """How ``slices`` are merged, and each as a reader gets it."""
    schemas = FileSchemas(lambda _: place, table, timeline, SchemaHistory(table, timeline, None))
    schema = table_schema(table, timeline, None) or schemas.of_footer(base_files(slices))
    counted = counted_instants(view, None)
    spec = merge_spec(table.config, place, schema.columns, counted, SparkSchema())
    return spec, schemas.orders(schema, slices)


def _looked(
    spec: MergeSpec, filesystem: pa.fs.FileSystem, key: str, of: LogSlice
) -> LoggedKey | None:
    """What the logs of one slice make of the key; None if they cannot be read."""
    try:
        parts = parts_in(spec, filesystem, of)
        at = {n: held for n, part in enumerate(parts) if len(held := _places(part.keys(), key))}
        if not at:
            return LoggedKey(of.logs)
        if of.base is None:
            return _told(spec, of, parts, at, merge(spec, parts, None, ""), False)
        with filesystem.open_input_file(f"{spec.root}/{of.base.path}") as opened:
            base = SliceFile(opened, of.base)
            found = merge(spec, parts, base, of.base_instant)
            stays = np.setdiff1d(_places(base.keys(), key), found.masked)
        return _told(spec, of, parts, at, found, bool(len(stays)))
    except (HudiError, OSError, KeyError, pa.ArrowException):
        return None


def _told(
    spec: MergeSpec,
    of: LogSlice,
    parts: Sequence[LogPart],
    at: Mapping[int, Positions],
    found: Merged,
    in_base: bool,
) -> LoggedKey:
    """The answer for a slice of which the ``parts`` numbered in ``at`` have the key there."""
    events = dict.fromkeys(
        event for n, places in at.items() for event in _events(spec, parts[n], places)
    )
    counts = {n: np.intersect1d(found.kept[n], places) for n, places in at.items()}
    rows = [event for n, kept in counts.items() for event in _events(spec, parts[n], kept)]
    deleted = None
    if not rows and not in_base:
        newest = newest_events(spec, parts, of.base_instant).kept
        last = [n for n, places in at.items() if len(np.intersect1d(newest[n], places))]
        deleted = next((e for n in last for e in _events(spec, parts[n], at[n]) if e.deletes), None)
    return LoggedKey(of.logs, tuple(events), in_base, rows[-1] if rows else None, deleted)


def _events(spec: MergeSpec, part: LogPart, places: Positions) -> Iterator[LogEvent]:
    """The events of a block at ``places``."""
    if not len(places):
        return
    gone = part.taken_away(spec)[places]
    times: list[str | None] = [None] * len(places)
    if not part.deletes:
        times = part.images(places, _WRITTEN_BY).field(0).to_pylist()
    for is_gone, time in zip(gone.tolist(), times, strict=True):
        written = part.instant if is_gone or time is None else time
        yield LogEvent(InstantTime(written), part.path, bool(is_gone))


def _places(keys: pa.Array, key: str) -> Positions:
    return np.flatnonzero(np.asarray(pc.equal(keys, key)))
