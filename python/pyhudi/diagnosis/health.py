"""``pyhudi.health``: a table's health as a list of measures, without Spark and without rows.

It only reads: the timeline with its commits, one listing, a bounded number of footers, and the
files of locks, heartbeats and markers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from pyhudi.clock import Clock, SystemClock
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.diagnosis.advice import advice_on, as_measures
from pyhudi.diagnosis.advise import shape_facts
from pyhudi.diagnosis.commits_health import amplification, since_services, timeline_length
from pyhudi.diagnosis.data_files import key_ranges
from pyhudi.diagnosis.files_health import (
    KeyRange,
    freed,
    is_bucketed,
    live_files,
    overlap,
    sampled,
    skew,
    small_files,
    versions,
)
from pyhudi.diagnosis.leftovers import left_behind, lock, metadata_table, pending
from pyhudi.diagnosis.measure import Measure, on_merge_on_read
from pyhudi.format.table_config import TableType
from pyhudi.listing import Listing
from pyhudi.services.file_systems import FileSystems, filesystems
from pyhudi.slices.files import BaseFile
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import Table, open_table
from pyhudi.timeline.view import FileSystemView
from pyhudi.transactions.policy import writer_policy


def health(
    path: str,
    *,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Measure]:
    """The health of the table at ``path``, a line for each measure, without Spark.

    Each line has a level, and what mends it if that is ``warn``. ``options`` are those of the
    table's writes (``hoodie.parquet.small.file.limit`` and others), by which it is judged;
    ``hadoop_options`` are ``fs.s3a.*`` settings for tables on S3. Nothing is changed. Errors:
    ``TableNotFound``, ``TableCorrupt``, ``ConfigError``, ``HistoryExpired`` if the table changes
    again and again during the listing.
    """
    clock, settings = SystemClock(), hadoop_options or {}
    table = open_table(open_storage(path, settings, clock))
    return table_health(table, filesystems(settings), clock, options or {}, {})


def table_health(
    table: Table,
    files: FileSystems,
    clock: Clock,
    given: Mapping[str, str],
    session: Mapping[str, str],
) -> Listing[Measure]:
    """The same for an opened table; ``files`` opens its data files."""
    options = resolve_write(given, table.config.raw, session)
    view = table.now(lambda found: found)
    found = _measures(table, view, files, clock, options)
    if table.config.table_type is TableType.MERGE_ON_READ:
        found = map(on_merge_on_read, found)
    return Listing(Measure, found)


def _measures(
    table: Table, view: FileSystemView, files: FileSystems, clock: Clock, options: WriteOptions
) -> Iterator[Measure]:
    timeline, live = view.timeline, live_files(view)
    policy = writer_policy(options, table, clock).heartbeat
    chosen = sampled(live)
    ranges = _ranges(table, live, chosen, files)
    return chain(
        small_files(live, options),
        versions(view, view.live()),
        _freed(table, view, live, clock, options),
        _overlap(chosen, ranges),
        skew(live, options),
        amplification(table, timeline, options),
        [timeline_length(timeline)],
        since_services(table, timeline, clock.now_ms()),
        pending(table, timeline, clock, policy),
        [metadata_table(table, timeline)],
        lock(table, clock),
        left_behind(table, timeline, clock, policy),
        _advice(table, timeline, live, options, chosen, ranges or []),
    )


def _freed(
    table: Table, view: FileSystemView, live: list[BaseFile], clock: Clock, options: WriteOptions
) -> Iterator[Measure]:
    """Only for tables that pyhudi cleans."""
    if table.config.table_type is TableType.COPY_ON_WRITE:
        yield freed(table, view, live, clock, options)


def _advice(
    table: Table,
    timeline: Timeline,
    live: list[BaseFile],
    options: WriteOptions,
    chosen: list[BaseFile],
    ranges: list[KeyRange | None],
) -> Iterator[Measure]:
    facts = shape_facts(table, timeline, live, options, chosen, ranges)
    yield from as_measures(advice_on(facts))


def _overlap(chosen: list[BaseFile], ranges: list[KeyRange | None] | None) -> Iterator[Measure]:
    """Only for tables in which key ranges are asked."""
    if ranges is not None:
        yield overlap(chosen, ranges)


def _ranges(
    table: Table, live: list[BaseFile], chosen: list[BaseFile], files: FileSystems
) -> list[KeyRange | None] | None:
    """The key ranges of ``chosen``; None for tables without keys, or with buckets."""
    if not table.config.record_key_fields or is_bucketed(live):
        return None
    return key_ranges(files(table.storage.root), [file.path for file in chosen])
