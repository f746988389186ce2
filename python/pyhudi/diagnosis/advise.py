"""``pyhudi.advise``: the shape that would suit a table better, without Spark and without rows.

It only reads: the commits of the active timeline, one listing, the plans of clusterings, and a
bounded number of footers. Scans are not recorded, so nothing is advised by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pyhudi.clock import SystemClock
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.diagnosis.advice import advice_on
from pyhudi.diagnosis.data_files import key_ranges
from pyhudi.diagnosis.files_health import (
    KeyRange,
    is_bucketed,
    live_files,
    overlapping_share,
    sampled,
)
from pyhudi.diagnosis.shape_facts import Advice, ShapeFacts, SortedBy
from pyhudi.errors import HudiError
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.plans import parse_requested_replace
from pyhudi.listing import Listing
from pyhudi.services.clustering_schedule import SORT_KEY
from pyhudi.services.file_systems import FileSystems, filesystems
from pyhudi.slices.files import BaseFile
from pyhudi.storage.open import open_storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table, open_table


def advise(
    path: str,
    *,
    options: Mapping[str, str] | None = None,
    hadoop_options: Mapping[str, str] | None = None,
) -> Listing[Advice]:
    """What would suit the table at ``path`` better: file size, index, buckets, order, partitions,
    and the type of table.

    Without Spark. Each advice has its evidence from the commits of the active timeline and the
    files, and the option or the command that follows it; the list is empty if nothing speaks for a
    change. ``options`` are those of the table's writes (``hoodie.index.type`` and others), by which
    it is judged; ``hadoop_options`` are ``fs.s3a.*`` settings. Errors: ``TableNotFound``,
    ``TableCorrupt``, ``ConfigError``.
    """
    settings = hadoop_options or {}
    table = open_table(open_storage(path, settings, SystemClock()))
    return table_advice(table, filesystems(settings), options or {}, {})


def table_advice(
    table: Table, files: FileSystems, given: Mapping[str, str], session: Mapping[str, str]
) -> Listing[Advice]:
    """The same for an opened table; ``files`` opens its data files."""
    options = resolve_write(given, table.config.raw, session)
    view = table.now(lambda found: found)
    live = live_files(view)
    chosen, ranges = sampled(live), list[KeyRange | None]()
    if table.config.record_key_fields and not is_bucketed(live):
        ranges = key_ranges(files(table.storage.root), [file.path for file in chosen])
    facts = shape_facts(table, view.timeline, live, options, chosen, ranges)
    return Listing(Advice, advice_on(facts))


def shape_facts(
    table: Table,
    timeline: Timeline,
    live: Sequence[BaseFile],
    options: WriteOptions,
    chosen: Sequence[BaseFile],
    ranges: Sequence[KeyRange | None],
) -> ShapeFacts:
    """What is known of the table; ``ranges`` are those of the files ``chosen``, if any."""
    commits = tuple(
        (instant.time, COMMITS.get(table.storage, timeline, instant))
        for instant in timeline.commits
        if instant.action in COMMIT_ACTIONS
    )
    overlap = overlapping_share(chosen, ranges) if ranges else None
    clusterings = [time for time, each in commits if each.operation.upper() == "CLUSTER"]
    order = None
    for time in reversed(clusterings):
        actions = (Action.CLUSTERING, Action.REPLACECOMMIT)
        for requested in (Instant(time, action, State.REQUESTED) for action in actions):
            order = order or _sorted_by(table, timeline, requested)
    kind, cdc = table.config.table_type, table.config.cdc_enabled
    return ShapeFacts(commits, tuple(live), options, overlap, order, kind, cdc)


def _sorted_by(table: Table, timeline: Timeline, requested: Instant) -> SortedBy | None:
    """The columns of a clustering's plan; None if it has none, or cannot be read."""
    path = timeline.file_of(requested)
    with suppress(FileNotFoundError, HudiError):
        plan = parse_requested_replace(table.storage.read(path), path).clustering_plan
        if plan is not None and plan.strategy is not None:
            text = plan.strategy.strategy_params.get(SORT_KEY, "")
            columns = tuple(name.strip() for name in text.split(",") if name.strip())
            return SortedBy(requested.time, columns) if columns else None
    return None
