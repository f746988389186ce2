"""Apache Hudi's streaming sink as Spark drives it: which batches it skips, and what it commits.

The order of the steps is that of Apache Hudi 1.2.0: of ``HoodieStreamingSink``, ``CommitUtils`` and
``SparkRDDWriteClient`` with several writers. The sink lists the timeline when its query starts and
after each batch, and skips a batch whose number is not above the last one of its identifier. That
is the number of the greatest instant that has one; no query counts. A commit has its own number
alone. Under the lock it is compared with what has completed since before it began, and its number
is not looked at again: two of Hudi's drivers at once would write a batch twice, so here one runs
after the other. ``retry.count`` is 1, since a batch that Hudi repeats by itself is not looked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyhudi.errors import FileExists, StorageError
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.transactions.heartbeat import Heartbeat
from pyhudi.transactions.markers.markers import delete_markers
from pyhudi.transactions.writer import WriterPolicy
from tests.simulation.hudi_compact import BEATS, TOKEN
from tests.simulation.hudi_steps import Steps
from tests.simulation.programs import PARTITION, Machine
from tests.simulation.streams import Stream

#: of the extra metadata
KEY = "_hudi_streaming_sink_checkpoint"


@dataclass(frozen=True, slots=True)
class HudiSink(Stream):
    """A driver of Hudi's sink under the identifier ``name``."""

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        known: Timeline | None = None
        for number in self._due(machine):
            steps = Steps(machine, who, policy.lock_timeout_s)
            known = known or steps.table.timeline()
            if self._last(steps, known) < number:
                self._commit(steps, number)
                known = None

    def _last(self, steps: Steps, timeline: Timeline) -> int:
        """The number of the greatest completed instant that has one for the identifier."""
        for commit in reversed(timeline.commits):
            told = COMMITS.get(steps.machine.storage, timeline, commit).extra.get(KEY)
            if told is not None and self.name in (numbers := json.loads(told)):
                return int(numbers[self.name])
        return -1

    def _commit(self, steps: Steps, number: int) -> None:
        (name,) = self.epochs(number)
        before = steps.table.timeline()
        with self._begun(steps) as (time, beat):
            inflight = Instant(time, Action.COMMIT, State.INFLIGHT)
            steps.put(inflight, b"")
            stats = tuple(self._files(steps, time, name))
            with steps.lock():
                self._check(steps, before, stats)
                if beat.lapsed() or not steps.has(inflight):
                    raise StorageError("Heartbeat for instant has expired.", path=time)
                extra = {"writer": name, KEY: json.dumps({self.name: str(number)})}
                metadata = CommitMetadata("UPSERT", stats, extra)
                data = render_commit(metadata, steps.table.config.layout)
                steps.complete(time, Action.COMMIT, data)
            delete_markers(steps.machine.storage, time)

    @contextmanager
    def _begun(self, steps: Steps) -> Iterator[tuple[InstantTime, Heartbeat]]:
        """A new instant, which has a heartbeat before it is requested."""
        machine = steps.machine
        for _ in range(10):
            with steps.lock():
                time = steps.now(steps.table.timeline())
                beat = Heartbeat(machine.storage, machine.clock, time, BEATS, content=b"")
                beat.start()
                requested = Instant(time, Action.COMMIT, State.REQUESTED)
                with suppress(FileExists):
                    machine.alone(steps.path(requested), time, b"")
                    break
                beat.stop()
        else:
            raise AssertionError("no instant time is free")
        settled = False
        try:
            yield time, beat
            settled = True
        finally:
            beat.stop(settled)

    def _files(self, steps: Steps, time: InstantTime, name: str) -> Iterator[WriteStat]:
        """A file for the new row, and the next slice of each group that has one of ``upserts``."""
        storage, timeline = steps.machine.storage, steps.table.timeline()
        replaced = steps.replaced(timeline)
        for group, slices in steps.slices(timeline).items():
            rows = json.loads(storage.read(slices[0].path)) if group not in replaced else {}
            found = {key: [*rows[key], name] for key in self.upserts if key in rows}
            if found:
                yield self._file(steps, time, group[1], rows | found, slices[0].time)
        new = FileId(f"{steps.machine.clock.uuid()}-0")
        yield self._file(steps, time, new, {name: [name]}, None)

    def _file(
        self,
        steps: Steps,
        time: InstantTime,
        file_id: FileId,
        rows: dict[str, list[str]],
        before: InstantTime | None,
    ) -> WriteStat:
        path = f"{PARTITION}/{BaseFileName(file_id, TOKEN, time).render()}"
        kind = MarkerKind.MERGE if before else MarkerKind.CREATE
        steps.create(marker_path(time, path, kind), b"")
        data = json.dumps(rows).encode()
        steps.machine.storage.replace(path, data)
        added, size = int(before is None), len(data)
        return WriteStat(file_id, path, PARTITION, before, len(rows), added, file_size_bytes=size)

    def _check(self, steps: Steps, before: Timeline, stats: tuple[WriteStat, ...]) -> None:
        """Hudi's simple strategy: no commit that came in between may have changed a group."""
        groups = {(stat.partition_path, stat.file_id) for stat in stats}
        now, known = steps.table.timeline(), {commit.time for commit in before.commits}
        for commit in now.commits:
            if commit.time in known:
                continue
            theirs = COMMITS.get(steps.machine.storage, now, commit)
            changed = {(stat.partition_path, stat.file_id) for stat in theirs.stats}
            changed |= {
                (p, file_id) for p, ids in (theirs.replaced or {}).items() for file_id in ids
            }
            if groups & changed:
                raise StorageError(
                    "Cannot resolve conflicts for overlapping writes.", path=PARTITION
                )
