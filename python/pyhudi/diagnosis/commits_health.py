"""What the timeline tells of a table's health: its length, its services, what its writes cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyhudi.clock import HOUR_MS
from pyhudi.config import WriteOptions
from pyhudi.diagnosis.measure import ARCHIVE, CLEAN, Measure, judged
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, InstantTime, parse_time
from pyhudi.text_table import size_text
from pyhudi.timeline.active import COMMITS, Timeline, instant_key
from pyhudi.timeline.completion_order import completion_time
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table

#: instants from which opening a table takes noticeably longer
MANY_INSTANTS = 1_000
#: commits after which a table that is never cleaned or archived warns
MANY_COMMITS = 50
#: bytes written for a byte of changed rows
MUCH_WRITTEN = 100


def timeline_length(timeline: Timeline) -> Measure:
    """The number of active instants, which each opening of the table lists."""
    count = len(timeline.instants)
    detail = f"{len(timeline.commits)} commits among them, {len(timeline.pending)} pending."
    mend = ARCHIVE
    return judged("active instants", count, "instants", count > MANY_INSTANTS, detail, mend)


def since_services(table: Table, timeline: Timeline, now_ms: int) -> Iterator[Measure]:
    """Commits and hours since the last clean and the last archiving."""
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN]
    at = None
    if cleans:
        at = parse_time(completion_time(timeline, cleans[-1], table.config.utc), table.config.utc)
    after = cleans[-1].time if cleans else InstantTime("")
    commits = sum(each.time > after for each in timeline.commits)
    yield from _since("clean", commits, at, now_ms, CLEAN)
    files = table.storage.list(table.config.history_folder)
    at = max((file.modified_ms for file in files), default=None)
    commits = sum(
        at is None or timeline.modified_ms.get(instant_key(i), 0) > at for i in timeline.commits
    )
    yield from _since("archive", commits, at, now_ms, ARCHIVE)


def _since(
    service: str, commits: int, at_ms: int | None, now_ms: int, mend: str
) -> Iterator[Measure]:
    warn = commits > MANY_COMMITS
    detail = "The timeline shows none." if at_ms is None else ""
    hours = None if at_ms is None else max(0, now_ms - at_ms) / HOUR_MS
    yield judged(f"commits since the last {service}", commits, "commits", warn, detail, mend)
    yield judged(f"time since the last {service}", hours, "hours", False, detail, "")


@dataclass(slots=True)
class _Cost:
    commits: int = 0
    bytes_written: int = 0
    bytes_changed: float = 0
    rows_written: int = 0
    rows_changed: int = 0

    def add(self, metadata: CommitMetadata) -> None:
        self.commits += 1
        for stat in metadata.stats:
            # In Hudi negative numbers mean "not known".
            size, rows = max(0, stat.total_write_bytes), max(0, stat.num_writes)
            changes = (stat.num_inserts, stat.num_updates, stat.num_deletes)
            changed = sum(max(0, count) for count in changes)
            self.bytes_written += size
            self.bytes_changed += size * (min(1.0, changed / rows) if rows else 1.0)
            self.rows_written += rows
            self.rows_changed += changed


def amplification(table: Table, timeline: Timeline, options: WriteOptions) -> Iterator[Measure]:
    """By operation, the bytes that commits wrote for each byte of changed rows."""
    costs: dict[str, _Cost] = {}
    for instant in timeline.commits:
        if instant.action in COMMIT_ACTIONS:
            metadata = COMMITS.get(table.storage, timeline, instant)
            if metadata.stats:
                costs.setdefault(metadata.operation.lower(), _Cost()).add(metadata)
    for operation, cost in sorted(costs.items()):
        times = cost.bytes_written / cost.bytes_changed if cost.bytes_changed else None
        warn = times is not None and times > MUCH_WRITTEN and cost.commits >= 10
        warn = warn and cost.bytes_written > options.max_file_bytes
        detail = (
            f"{cost.commits} commits wrote {size_text(cost.bytes_written)} for "
            f"{size_text(int(cost.bytes_changed))} of changed rows: {cost.rows_written:,} rows "
            f"written, {cost.rows_changed:,} changed."
        )
        mend = "Write more rows in one commit, or smaller files (hoodie.parquet.max.file.size)."
        yield judged(f"write amplification of {operation}", times, "x", warn, detail, mend)
