"""Golden merge-on-read tables on disk, to compact and to cluster without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyhudi.config import resolve_write
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import parse_base_file_name, parse_data_file_name
from pyhudi.format.instants import Action, InstantTime
from pyhudi.listing import Listing
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.budget import NO_BUDGET, Budget
from pyhudi.services.clustering import ClusteredFile, Clustering, Tasks, TasksHere, clustered
from pyhudi.services.compaction import (
    CompactedSlice,
    Compaction,
    CompactionStep,
    SlicesHere,
    SliceTasks,
    compacted,
)
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.fakes import FakeClock
from tests.golden_tables import GoldenTable
from tests.reads.merged_table import opened, rows
from tests.transactions.world import POLICY

META = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key")
NAMES = (*META, "_hoodie_partition_path", "id", "name", "price", "ts", "dt")


@dataclass
class LoggedTable:
    """The table at ``root``, for example a golden one that was unzipped there."""

    golden: GoldenTable | None
    root: Path
    policy: WriterPolicy = POLICY
    clock: FakeClock = field(default_factory=FakeClock)
    locks: InProcessLocks = field(default_factory=InProcessLocks)

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(str(self.root))

    def table(self) -> Table:
        return open_table(self.storage)

    def writer(self) -> Writer:
        lock = InProcessLock(self.locks, "t", self.clock)
        return Writer(self.table(), lock, self.clock, self.policy)

    def run(
        self,
        tasks: SliceTasks | None = None,
        budget: Budget = NO_BUDGET,
        instants: frozenset[InstantTime] = frozenset(),
        **options: str,
    ) -> Compaction:
        named = {key.replace("_", "."): text for key, text in options.items()}
        writer = self.writer()
        resolved = resolve_write(named, writer.table.config.raw, {})
        place = FileSystemSpec(), str(self.root)
        return Compaction(writer, resolved, place, tasks or SlicesHere(), budget, instants)

    def compact(
        self,
        step: CompactionStep = CompactionStep.SCHEDULE_AND_RUN,
        dry_run: bool = False,
        **more: Any,
    ) -> Listing[CompactedSlice]:
        return compacted(self.run(**more), step, dry_run)

    def cluster(
        self, tasks: Tasks | None = None, dry_run: bool = False, again: int = 0, **options: str
    ) -> Listing[ClusteredFile]:
        """Cluster; ``options`` are the last words of their keys."""
        prefix = "hoodie.clustering.plan.strategy."
        given = {prefix + key.replace("_", "."): text for key, text in options.items()}
        writer = self.writer()
        resolved = resolve_write(given, writer.table.config.raw, {})
        place = FileSystemSpec(), str(self.root)
        run = Clustering(writer, resolved, place, tasks or TasksHere(), again=again)
        return clustered(run, dry_run)

    def rows(self, as_of: str | None = None) -> list[dict[str, Any]]:
        found = [
            {n: row.get(n) for n in NAMES if n in row} for row in rows(opened(self.root, as_of))
        ]
        return sorted(found, key=repr)

    def last_commit(self) -> CommitMetadata:
        timeline = self.table().timeline()
        done = [i for i in timeline.commits if i.action is Action.COMMIT]
        return COMMITS.get(self.storage, timeline, done[-1])

    def forget_compactions(self) -> list[InstantTime]:
        """Take the runs of Apache Hudi's compactions back; their plans stay pending."""
        timeline = self.table().timeline()
        done = [i for i in timeline.commits if i.action is Action.COMMIT]
        times = [i.time for i in done]
        for each in done:
            (self.root / timeline.file_of(each)).unlink()
            inflight = f"{timeline.folder}/{each.time}.compaction.inflight"
            (self.root / inflight).unlink()
        for path in self.root.rglob("*.parquet"):
            name = parse_base_file_name(path.name)
            if name is not None and name.instant in times:
                path.unlink()
        return times

    def on_disk(self) -> set[str]:
        """The data files by their paths; metadata tables have some, too."""
        files = (p.relative_to(self.root) for p in self.root.rglob("*") if p.is_file())
        named = (p for p in files if p.parts[0] != ".hoodie")
        return {str(p) for p in named if parse_data_file_name(p.name) is not None}

    def plans(self) -> list[str]:
        return sorted(p.name for p in (self.root / ".hoodie").rglob("*.compaction.*"))


def logged(golden: GoldenTable, folder: Path) -> LoggedTable:
    """``golden`` below ``folder``, with a clock after all that it has."""
    made = LoggedTable(golden, golden.unzip(folder))
    return replace(made)
