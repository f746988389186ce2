"""Nothing live is deleted: every file that a completed commit names is there."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.timeline.active import CommitCache
from pyhudi.timeline.table import open_table
from tests.simulation.world import Run


def nothing_live_is_deleted(run: Run) -> Iterator[str]:
    for observation in run.observations:
        if observation.error:
            yield f"a reader failed: {observation.error}"
            return
    timeline = open_table(run.files).timeline()
    for commit in timeline.commits:
        for stat in CommitCache().get(run.files, timeline, commit).stats:
            if stat.path and not run.files.exists(stat.path):
                yield f"{stat.path} of commit {commit.time} is gone"
