"""Clusterings of pyhudi as programs, and writes that take them back: the product's code.

Only the workers are this module's: the base files here are JSON (``programs.py``), so a task puts
the rows of its files together into one new file, marker first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.clock import Clock
from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.rows.log_spec import ClusterTask
from pyhudi.rows.spec import FileSystemSpec, WriteSpec
from pyhudi.services.clustering import Clustering, clustered
from pyhudi.services.reversal import put_back
from pyhudi.storage.base import Storage
from pyhudi.timeline.schema import table_schema
from pyhudi.transactions.conflicts.comparison import Footprint, footprint
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writer import Writer, WriterPolicy
from tests.simulation.data_files import Mark
from tests.simulation.own_services import OwnService
from tests.simulation.programs import Evaluated, Machine, Program, Upsert, put_file

#: two files of a key each are a group of a plan, three are not
GROUP_BYTES: Final = "hoodie.clustering.plan.strategy.max.bytes.per.group"
PAIRS: Final = (GROUP_BYTES, "50")


@dataclass(frozen=True, slots=True)
class JsonTasks:
    """The tasks of a clustering one after the other, each file of rows being a step.

    They take ``lasts_s`` before the first file is written.
    """

    storage: Storage
    clock: Clock
    lasts_s: float = 0.0

    def run(
        self,
        spec: WriteSpec,
        tasks: Mapping[int, ClusterTask],
        columns: Sequence[str],
        layout: str,
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""
        stats = []
        if self.lasts_s:
            self.clock.sleep(self.lasts_s)
        for _, task in sorted(tasks.items()):
            rows: dict[str, list[str]] = {}
            for each in task.slices:
                assert each.base is not None
                rows |= json.loads(self.storage.read(each.base.path))
            group = FileId(f"{task.prefix}-0")
            stats.append(put_file(spec.instant, self.storage, self.clock, group, rows))
        return stats

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """True: ``run`` has returned."""
        return True


def clustering_by(writer: Writer, *options: tuple[str, str], lasts_s: float = 0.0) -> Clustering:
    """One run by ``writer``, in its own process."""
    table = writer.table
    tasks = JsonTasks(table.storage, writer.clock, lasts_s)
    resolved = resolve_write(dict(options), table.config.raw, {})
    return Clustering(writer, resolved, (FileSystemSpec(), table.storage.root), tasks)


@dataclass(frozen=True, slots=True)
class OwnCluster(OwnService):
    """``pyhudi cluster``: rolls dead plans back, then puts small files together.

    ``pairs``: two files at a time, so that a plan has several groups.
    """

    pairs: bool = False
    lasts_s: float = 0.0

    def once(self, writer: Writer) -> None:
        options = [PAIRS] if self.pairs else []
        clustered(clustering_by(writer, *options, lasts_s=self.lasts_s))


@dataclass(frozen=True, slots=True)
class Preferred(Upsert):
    """A write that takes a clustering back against which it has lost (``writes/operations.py``).

    It begins after ``begins_s``, and looks for its keys ``tags_s`` long.
    """

    begins_s: float = 0.0
    tags_s: float = 0.0

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> Committed:
        if self.begins_s:
            machine.clock.sleep(self.begins_s)
        return super(Preferred, self).run(machine, who, policy)

    def _write(
        self,
        transaction: Transaction,
        machine: Machine,
        who: str,
        mark: Mark | None,
        read: Evaluated | None,
    ) -> tuple[WriteStat, ...]:
        if self.tags_s:
            machine.clock.sleep(self.tags_s)
        return super(Preferred, self)._write(transaction, machine, who, mark, read)

    def _commit(
        self,
        transaction: Transaction,
        machine: Machine,
        metadata: CommitMetadata,
        ours: Footprint,
    ) -> Committed:
        table = transaction.table
        schema = table_schema(table, transaction.timeline, None)
        assert schema is not None
        declared = {**metadata.extra, SCHEMA_KEY: schema.declaration(table.config.name)}
        metadata = CommitMetadata(metadata.operation, metadata.stats, declared)
        try:
            return super(Preferred, self)._commit(transaction, machine, metadata, ours)
        except CommitConflict as lost:
            run = clustering_by(transaction.writer)
            healed = put_back(run, transaction, metadata, ours, lost)
            if healed is None:
                raise
            new = footprint(ours.who, healed, frozenset(), False)
            return transaction.commit(healed, new, self._check(transaction, machine, healed))


#: a write that has looked its keys up before a clustering commits, and announced nothing
REVERSED: Final[Mapping[str, Program]] = {
    "cluster": OwnCluster(lasts_s=0.05),
    "w1": Preferred(("k1",), begins_s=0.01, tags_s=0.1),
}
