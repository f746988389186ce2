"""Compactions of pyhudi as programs: the product's code plans, claims, takes over and commits.

Only the workers are this module's: a task puts the rows of a slice into a base file here, or the
events of its logs into one log, marker first, under a token with the number of its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.clock import Clock
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import MarkerKind
from pyhudi.rows.log_spec import CompactTask, MergeSpec
from pyhudi.rows.spec import FileSystemSpec, WriteSpec
from pyhudi.services.compaction import Compaction, CompactionStep, compacted
from pyhudi.slices.files import BaseFile
from pyhudi.storage.base import Storage
from pyhudi.timeline.pending import COMPACTING
from pyhudi.transactions.writer import Writer
from tests.simulation.data_files import put_marked
from tests.simulation.logs import compacted_log, log_path, merged
from tests.simulation.own_services import OwnService
from tests.simulation.programs import put_file

TWO_LOGS: Final = {"hoodie.log.compaction.blocks.threshold": "2"}


@dataclass(frozen=True, slots=True)
class JsonSlices:
    """The tasks of a compaction one after the other; each waits ``lasts_s`` before its file."""

    storage: Storage
    clock: Clock
    lasts_s: float = 0.0

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        """Carry out ``tasks``; what they wrote."""
        stats = []
        for number, task in sorted(tasks.items()):
            base = task.slice.base.path if task.slice.base is not None else None
            token = f"{number}-{spec.write_nonce}-0"
            if task.plan.log_version is not None:
                stats.append(self._log(spec, order, task, token))
                continue
            rows = merged(self.storage, base, task.slice.logs, order.counted)
            if self.lasts_s:
                self.clock.sleep(self.lasts_s)
            old = _base_file(base) if base is not None else None
            place = InstantTime(spec.instant), self.storage, self.clock
            file_id = FileId(task.plan.file_id)
            stats.append(put_file(*place, file_id, rows, old=old, token=token))
        return stats

    def committed(
        self, options: WriteOptions, tasks: Iterable[CompactTask], stats: Sequence[WriteStat]
    ) -> None:
        """Nothing: this process keeps nothing of the files."""

    def _log(self, spec: WriteSpec, order: MergeSpec, task: CompactTask, token: str) -> WriteStat:
        """One task of a log compaction (``rows/log_compact.py``)."""
        time, file_id = InstantTime(spec.instant), FileId(task.plan.file_id)
        data, rows = compacted_log(self.storage, task.slice.logs, order.counted, time)
        if self.lasts_s:
            self.clock.sleep(self.lasts_s)
        path = log_path(task.plan.partition_path, file_id, time, task.plan.log_version or 1, token)
        put_marked(time, self.storage, path, MarkerKind.CREATE, data)
        return WriteStat(
            file_id=file_id,
            path=path,
            partition_path=task.plan.partition_path,
            prev_commit=task.plan.base_instant or time,
            num_writes=rows,
            num_updates=rows,
            file_size_bytes=len(data),
            log_version=task.plan.log_version,
            log_offset=0,
            log_files=(path.rpartition("/")[2],),
        )

    def ended(self, instant: InstantTime, timeout_s: float) -> bool:
        """True: ``compact`` has returned."""
        return True


def _base_file(path: str) -> BaseFile:
    partition, _, name = path.rpartition("/")
    parsed = parse_base_file_name(name)
    assert parsed is not None
    return BaseFile(partition, name, parsed.file_id, parsed.instant, 0)


@dataclass(frozen=True, slots=True)
class OwnCompact(OwnService):
    """``pyhudi compact``: runs the plans that it finds, then makes one and runs that.

    Two logs are enough for a log compaction. ``whosoever``: it also runs what a program without a
    heartbeat has begun.
    """

    step: CompactionStep = CompactionStep.SCHEDULE_AND_RUN
    lasts_s: float = 0.0
    whosoever: bool = False

    def once(self, writer: Writer) -> None:
        table = writer.table
        options = resolve_write(TWO_LOGS, table.config.raw, {})
        tasks = JsonSlices(table.storage, writer.clock, self.lasts_s)
        named = frozenset[InstantTime]()
        if self.whosoever:
            pending = table.timeline().pending
            named = frozenset(i.time for i in pending if i.action in COMPACTING)
        place = FileSystemSpec(), table.storage.root
        run = Compaction(writer, options, place, tasks, instants=named)
        compacted(run, self.step)
