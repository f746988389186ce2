"""A reader that knows no log compaction sees the same rows: it merges logs in the order of names.

Such a reader takes the events of a log compaction for the newest of all logs before its instant.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.timeline.table import open_table
from tests.simulation.logs import rows_by_name, snapshot
from tests.simulation.world import Run


def the_order_of_names_gives_the_same_rows(run: Run) -> Iterator[str]:
    if not any(fact.metadata.log_compacted for fact in run.truth.live):
        return
    seen = open_table(run.files).now(snapshot)
    for each, rows in zip(seen.slices, seen.rows(run.files), strict=True):
        by_name = rows_by_name(run.files, each, seen.counted)
        if by_name != rows:
            yield f"by the names of logs, group {each.file_id} has {by_name}, not {rows}"
