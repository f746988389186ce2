"""Faults that only the data files show: keys in two file groups, and buckets beyond the count.

A group is retired by a replace commit that names it and writes nothing, so that every reader leaves
its files out, and time travel still finds them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import TableCorrupt
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, render_commit
from pyhudi.format.filenames import bucket_number, path_in
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY
from pyhudi.format.table_config import MergeMode
from pyhudi.repairs.fault_kind import Kind, TableFault
from pyhudi.repairs.patient import Patient
from pyhudi.services.bin import Edit
from pyhudi.slices.files import BaseFile

KEY: Final = "_hoodie_record_key"
TIME: Final = "_hoodie_commit_time"
BUCKETS: Final = "hoodie.bucket.index.num.buckets"


@dataclass(frozen=True, slots=True)
class _Group:
    """A live file group: its file, and for each key what decides which of two rows wins."""

    file: BaseFile
    rows: dict[str, tuple[Any, ...]]


def _live(patient: Patient) -> dict[str, list[BaseFile]]:
    found: dict[str, list[BaseFile]] = defaultdict(list)
    for file in patient.view.latest():
        found[file.partition_path].append(file)
    return found


def _group(patient: Patient, file: BaseFile) -> _Group:
    config = patient.config
    by_event = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    order = [*(config.ordering_fields if by_event else ()), TIME]
    try:
        data = pa.BufferReader(patient.storage.read(file.path))
        table = pq.read_table(data, columns=[KEY, *order])
        columns = [table.column(name).to_pylist() for name in (KEY, *order)]
    except (OSError, KeyError, pa.ArrowException) as e:
        rule = "spec/data_files.md D1"
        raise TableCorrupt(f"{file.path} cannot be read: {e}", path=file.path, rule=rule) from e
    return _Group(file, {row[0]: row[1:] for row in zip(*columns, strict=True)})


def _is_outdone(one: _Group, others: list[_Group]) -> bool:
    """Whether each row of a group is in another group, too, where it is as new or newer."""
    for key, order in one.rows.items():
        held = [other.rows[key] for other in others if key in other.rows]
        if not held or any(part is None for part in (*order, *held[0])) or max(held) < order:
            return False
    return True


def _doubled_keys(patient: Patient) -> Iterator[TableFault]:
    if not patient.wishes.read_files or not patient.config.record_key_fields:
        return
    if patient.is_merge_on_read:
        yield TableFault(
            patient.storage.root,
            "Logs delete and add keys, so base files do not tell which groups have a key.",
            "Look by a query: group the rows by the key, and count.",
            judged=False,
        )
        return
    for partition, files in sorted(_live(patient).items()):
        groups = [_group(patient, file) for file in files] if len(files) > 1 else []
        counts: dict[str, int] = defaultdict(int)
        for key in (key for group in groups for key in group.rows):
            counts[key] += 1
        doubled = {key for key, count in counts.items() if count > 1}
        while doubled:
            held = [group for group in groups if doubled & group.rows.keys()]
            outdone = [g for g in held if _is_outdone(g, [o for o in groups if o is not g])]
            some = ", ".join(sorted(doubled)[:3])
            evidence = f"{len(doubled)} keys of partition '{partition}' are in two groups: {some}."
            if not outdone:
                yield TableFault(
                    held[0].file.path,
                    evidence,
                    "Each of the groups has rows that no other has. Delete the keys, and write "
                    "their rows again: pyhudi.why(path, key) shows each of them.",
                )
                return
            # The oldest first: of two equal groups the later one is what a writer made last.
            gone = min(outdone, key=lambda group: (group.file.instant, group.file.path))
            groups = [group for group in groups if group is not gone]
            yield _retired(patient, gone.file, evidence)
            counts = defaultdict(int)
            for key in (key for group in groups for key in group.rows):
                counts[key] += 1
            doubled = {key for key, count in counts.items() if count > 1}


def _retired(patient: Patient, file: BaseFile, evidence: str) -> TableFault:
    """A replace commit without files that takes the group of ``file`` out of the table."""
    timeline = patient.timeline
    writer = patient.writer
    time = writer.next_time(timeline)
    extra = {}
    for commit in reversed(patient.commits):
        metadata = patient.commit(commit)
        if metadata is not None and SCHEMA_KEY in metadata.extra:
            kept = (SCHEMA_KEY, LATEST_SCHEMA_KEY)
            extra = {key: metadata.extra[key] for key in kept if key in metadata.extra}
            break
    metadata = CommitMetadata("DELETE_PARTITION", (), extra, {file.partition_path: (file.file_id,)})
    requested = Instant(time, Action.REPLACECOMMIT, State.REQUESTED)
    inflight = Instant(time, Action.REPLACECOMMIT, State.INFLIGHT)
    completion = writer.next_time(timeline.only([*timeline.instants, requested]))
    ends = completion if timeline.layout == 2 else None
    done = Instant(time, Action.REPLACECOMMIT, State.COMPLETED, ends)
    contents = (
        (requested, render_requested_replace(RequestedReplace())),
        (inflight, b""),
        (done, render_commit(metadata, timeline.layout)),
    )
    edits = tuple(Edit(timeline.file_of(instant), data) for instant, data in contents)
    text = f"Retire group {file.file_id}, all of whose rows are elsewhere, by a replace commit."
    return TableFault(file.path, evidence, text, edits)


def _buckets_beyond(patient: Patient) -> Iterator[TableFault]:
    count = patient.wishes.options.get(BUCKETS, "")
    if not count.isdecimal() or not int(count):
        return
    if patient.is_merge_on_read:
        yield from _logged_beyond(patient, int(count))
        return
    live = _live(patient)
    numbers = {f.path: bucket_number(f.file_id) for files in live.values() for f in files}
    if any(number is None for number in numbers.values()):
        return  # a table without buckets
    for _, files in sorted(live.items()):
        beyond = [file for file in files if (numbers[file.path] or 0) >= int(count)]
        groups = [_group(patient, file) for file in files] if beyond else []
        for group in groups:
            if group.file not in beyond or not group.rows:
                continue
            evidence = f"It is of bucket {numbers[group.file.path]}, but there are {count} buckets."
            if _is_outdone(group, [other for other in groups if other.file not in beyond]):
                yield _retired(patient, group.file, evidence)
            else:
                yield TableFault(
                    group.file.path,
                    evidence,
                    f"Only it has some of its rows. If {BUCKETS}={count} is right, read its rows "
                    "and upsert them, then look again; until then each reader still finds them.",
                )


def _logged_beyond(patient: Patient, count: int) -> Iterator[TableFault]:
    """The same beside logs: whether other groups have the rows is not known, so all groups stay."""
    slices = patient.view.slices()
    numbers = [bucket_number(each.file_id) for each in slices]
    if None in numbers:
        return  # a table without buckets
    for each, number in zip(slices, numbers, strict=True):
        if (number or 0) >= count:
            yield TableFault(
                path_in(each.partition_path, each.file_id),
                f"It is of bucket {number}, but there are {count} buckets.",
                f"If {BUCKETS}={count} is right, overwrite the partition with its own rows; until "
                "then each reader still finds them.",
            )


ROW_KINDS = (
    Kind(
        "keys in two file groups",
        "spec/keys.md K1",
        "all read two rows of a key",
        _doubled_keys,
    ),
    Kind(
        "bucket beyond the count",
        "spec/keys.md K6",
        "all read the rows; writers do not find them, and add them again",
        _buckets_beyond,
    ),
)
