"""Apache Hudi's archiver: old instants move from the active timeline into the archive.

Under the lock from its first look to its last deletion. The archive is written first, then pending
files are deleted, then completed ones, oldest first.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from typing import ClassVar

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.archive import VERSION_FILE
from pyhudi.format.avro_file import packaged_schema
from pyhudi.format.commit_metadata import commit_to_record, parse_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State, parse_instant
from pyhudi.format.log_blocks import BlockType, HeaderKey, render_block
from pyhudi.format.plans import parse_cleaner_plan
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.transactions.markers.markers import delete_markers
from tests.simulation.hudi_services import HudiService
from tests.simulation.hudi_steps import MINDED, WRITES, Steps

SWEPT = frozenset({Action.CLEAN, Action.ROLLBACK})


@dataclass(frozen=True, slots=True)
class HudiArchive(HudiService):
    """Once there are more than ``most`` commits, archive all but the last ``least``."""

    most: int = 1
    least: int = 1
    moves: ClassVar[bool] = True

    def start(self, steps: Steps) -> None:
        with steps.lock():
            timeline = steps.table.timeline()
            old = self._old(steps, timeline)
            if not old:
                return
            files = _files_of(steps, old)
            for instant in old:
                delete_markers(steps.machine.storage, instant.time)
            write = _write_log if timeline.layout == 1 else _write_history
            write(steps, timeline, old, files)
            for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
                for instant, path in files:
                    if instant.state is state:
                        steps.machine.storage.delete([path])

    def _old(self, steps: Steps, timeline: Timeline) -> list[Instant]:
        """Nothing from a savepoint, a pending write or a replace whose files are there on."""
        commits = timeline.commits
        if len(commits) <= self.most:
            return []
        bounds = [i.time for i in timeline.completed if i.action is Action.SAVEPOINT][:1]
        if pending := [i.time for i in timeline.pending if i.action in MINDED]:
            before = [c.time for c in commits if c.time < pending[0]]
            bounds.append(before[-1] if before else pending[0])
        bounds += _uncleaned_replace(steps, timeline)
        old = [c for c in commits if all(c.time < bound for bound in bounds)]
        old = old[: len(commits) - self.least]
        if not old:
            return []
        swept = [i for i in timeline.completed if i.action in SWEPT]
        if timeline.layout == 1:
            return sorted([*old, *self._swept_of_layout_1(swept)], key=_time)
        return sorted([*old, *(i for i in swept if i.time < old[-1].time)], key=_time)

    def _swept_of_layout_1(self, swept: list[Instant]) -> list[Instant]:
        found = []
        for action in SWEPT:
            alike = [i for i in swept if i.action is action]
            if len(alike) > self.most:
                found += alike[: len(alike) - self.least]
        return found


def _uncleaned_replace(steps: Steps, timeline: Timeline) -> list[InstantTime]:
    """The first replacecommit whose replaced files may still be there."""
    replaces = [i.time for i in timeline.instants if i.action in WRITES - {Action.COMMIT}]
    cleans = [i for i in timeline.completed if i.action is Action.CLEAN]
    if replaces and cleans:
        requested = Instant(cleans[-1].time, Action.CLEAN, State.REQUESTED)
        path = steps.path(requested)
        plan = parse_cleaner_plan(steps.machine.storage.read(path), path)
        earliest = plan.earliest_instant_to_retain
        bound = earliest.timestamp if earliest else cleans[-1].time
        replaces = [time for time in replaces if time >= bound]
    return replaces[:1]


def _files_of(steps: Steps, old: list[Instant]) -> list[tuple[Instant, str]]:
    """All files of these instants, each with what it says."""
    keys = {instant_key(i) for i in old}
    config = steps.table.config
    found = []
    for file in steps.machine.storage.list(config.timeline_folder):
        instant = parse_instant(file.name, config.layout)
        if instant is not None and instant_key(instant) in keys:
            found.append((instant, file.path))
    return sorted(found, key=lambda one: one[0].time)


def _write_history(
    steps: Steps, timeline: Timeline, old: list[Instant], files: list[tuple[Instant, str]]
) -> None:
    """A Parquet file, then the manifest that names it, then the version that names the manifest."""
    storage, folder = steps.machine.storage, steps.table.config.history_folder
    name = f"{old[0].time}_{old[-1].time}_0.parquet"
    present = {file.name for file in storage.list(folder)}
    version = int(storage.read(f"{folder}/{VERSION_FILE}")) if VERSION_FILE in present else 0
    manifest = f"{folder}/manifest_{version}"
    listed = json.loads(storage.read(manifest))["files"] if version else []
    if name in present:
        if name in {entry["fileName"] for entry in listed}:
            return
        storage.delete([f"{folder}/{name}"])
    data = _history(steps, timeline, old, files)
    steps.create(f"{folder}/{name}", data)
    entries = [*listed, {"fileName": name, "fileLen": len(data)}]
    newest = f"manifest_{version + 1}"
    if newest in present:
        storage.delete([f"{folder}/{newest}"])
    steps.create(f"{folder}/{newest}", json.dumps({"files": entries}).encode())
    if version:
        storage.delete([f"{folder}/{VERSION_FILE}"])
    steps.create(f"{folder}/{VERSION_FILE}", str(version + 1).encode())


def _history(
    steps: Steps, timeline: Timeline, old: list[Instant], files: list[tuple[Instant, str]]
) -> bytes:
    plans = {instant_key(i): path for i, path in files if i.state is State.REQUESTED}
    read = steps.machine.storage.read
    rows = [
        {
            "instantTime": i.time,
            "completionTime": i.completion_time or i.time,
            "action": i.action.value,
            "metadata": read(timeline.file_of(i)),
            "plan": read(plans[instant_key(i)]) if instant_key(i) in plans else None,
            "version": 1,
        }
        for i in old
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def _write_log(
    steps: Steps, timeline: Timeline, old: list[Instant], files: list[tuple[Instant, str]]
) -> None:
    """The next file of the archive's log, with an entry for each file of each instant."""
    storage, folder = steps.machine.storage, steps.table.config.history_folder
    numbers = [int(n[1]) for f in storage.list(folder) if (n := re.search(r"(\d+)_1-0-1", f.name))]
    schema = packaged_schema("HoodieArchivedMetaEntry")
    records = []
    for instant, path in files:
        record = io.BytesIO()
        entry = _entry(instant, storage.read(path))
        fastavro.schemaless_writer(record, fastavro.parse_schema(schema), entry)
        records.append(record.getvalue())
    content = (3).to_bytes(4, "big") + len(records).to_bytes(4, "big")
    content += b"".join(len(r).to_bytes(4, "big") + r for r in records)
    block = render_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(schema)}, content)
    steps.create(f"{folder}/.commits_.archive.{max(numbers, default=0) + 1}_1-0-1", block)


def _entry(instant: Instant, data: bytes) -> dict[str, object]:
    found: dict[str, object] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.value.upper(),
    }
    if instant.state is State.COMPLETED and instant.action in (Action.COMMIT, Action.DELTACOMMIT):
        found["hoodieCommitMetadata"] = commit_to_record(parse_commit(data, instant.time))
    if instant.state is State.COMPLETED and instant.action is Action.REPLACECOMMIT:
        found["hoodieReplaceCommitMetadata"] = commit_to_record(parse_commit(data, instant.time))
    return found


def _time(instant: Instant) -> InstantTime:
    return instant.time
