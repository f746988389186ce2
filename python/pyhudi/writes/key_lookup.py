"""Where incoming keys live, for an input in the driver's memory: the state first, then the files.

``index/stateful_lookup.py`` decides; here are the files and executors that it asks, and what a
commit of ours teaches the state.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.index.key_state import GroupChange
from pyhudi.index.matches import File, Match, MatchSpec, match_files
from pyhudi.index.stateful_lookup import Answer, StatefulLookup, Wanted
from pyhudi.rows.hashing import key_hashes
from pyhudi.rows.log_spec import CompactTask
from pyhudi.rows.rows import single
from pyhudi.rows.spec import DELETE
from pyhudi.rows.task import telling
from pyhudi.slices.files import BaseFile
from pyhudi.writes.keys.expressions import RECORD_KEY
from pyhudi.writes.orders import INSERTS
from pyhudi.writes.placement.assign import Assignment
from pyhudi.writes.placement.sizing import sizing_of
from pyhudi.writes.placement.task_routes import task_count
from pyhudi.writes.stage import job
from pyhudi.writes.write_context import Write

log = logging.getLogger(__name__)

#: below it the driver itself reads base files: a Spark job would take longer than the work
HERE_BASE_BYTES: Final = 16 << 20
_STEP: Final = "find file groups"

Ints = npt.NDArray[np.int64]


def look_up(
    write: Write, wanted: Wanted, files: Sequence[BaseFile], sure: bool = False
) -> list[tuple[int, Ints]]:
    """``StatefulLookup.places`` of a write; files that an earlier attempt has read stay read."""
    root, most_bytes = write.table.storage.root, write.options.key_state_bytes
    states = write.runtime.key_states
    if not most_bytes:
        states.forget(root)
    lookup = StatefulLookup(
        states,
        root,
        most_bytes,
        partial(_asked, write),
        lambda: sizing_of(write, files).row_bytes,
        HERE_BASE_BYTES,
    )
    found, figures = lookup.places(wanted, files, write.kept.matches, sure)
    write.kept.lookup = figures if most_bytes else None
    log.debug("%s: %s", write.describe(_STEP), figures)
    return found


def _asked(
    write: Write, files: Sequence[BaseFile], wanted: Wanted, remembered: Mapping[str, bool]
) -> Iterator[Answer]:
    sizes = {file.path: file.size_bytes for file in files}
    asked = [(o, f.path, f.partition_path) for o, f in enumerate(files)]
    for number, found, hashes in find_keys(write, wanted, asked, sizes, _STEP, remembered):
        yield files[number].path, found, hashes


def find_keys(
    write: Write,
    wanted: Wanted,
    asked: Sequence[File],
    size_bytes: Mapping[str, int],
    step: str,
    remembered: Mapping[str, bool] | None = None,
) -> list[Match]:
    """Look up keys in base files: here if that is little work, otherwise on executors.

    ``wanted`` maps partition paths to distinct keys, ``size_bytes`` is by path; ``step`` names the
    Spark job, if there is one.
    """
    filesystem, root = write.runtime.filesystem(write.table.storage.root)
    spec = MatchSpec(root, filesystem, wanted, write.index.filtered, dict(remembered or {}))
    if sum(size_bytes[path] for _, path, _ in asked) <= HERE_BASE_BYTES:
        return list(match_files(spec)(asked))
    context = write.spark.sparkContext
    slices = task_count(len(asked), context.defaultParallelism)
    largest = sorted(asked, key=lambda file: -size_bytes[file[1]])
    spread = [file for first in range(slices) for file in largest[first::slices]]
    with job(write.spark, write.describe(step)):
        tasks = context.parallelize(spread, slices).mapPartitions(telling(match_files(spec)))
        return write.runtime.jobs.in_shared_workers(tasks).collect()


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows with the ordinals of their groups; ``fresh`` rows have keys that the table lacked."""

    table: pa.Table
    groups: Ints
    fresh: npt.NDArray[np.bool_]
    assignment: Assignment


def note_changes(write: Write, placed: PlacedRows, written: Sequence[WriteStat]) -> None:
    """Keep for ``learn`` what this attempt changes, if it commits."""
    write.kept.changes = None
    if write.options.key_state_bytes and written and write.operation not in INSERTS:
        write.kept.changes = changes_of(placed, written)


def changes_of(placed: PlacedRows, written: Sequence[WriteStat]) -> dict[str, list[GroupChange]]:
    """What the files ``written`` change, by partition; groups that are not certain are left out.

    A merge adds each fresh key once. It must have counted just these inserts: otherwise a key was
    taken for known that only shared its hash, or a key came with rows that delete it, and which of
    them has won is not known here.
    """
    table, groups = placed.table, placed.groups
    keys = single(table[RECORD_KEY]).cast(pa.string())
    hashes = key_hashes(keys)
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    gone = np.zeros(len(keys), np.bool_)
    if DELETE in table.column_names:
        gone = pc.fill_null(single(table[DELETE]), False).to_numpy(zero_copy_only=False)
    order = np.argsort(groups, kind="stable")
    ordinals, begins = np.unique(groups[order], return_index=True)
    rows_of = dict(zip(ordinals.tolist(), np.split(order, begins[1:]), strict=True))
    plans = {plan.file_id: (o, plan) for o, plan in placed.assignment.groups.items()}
    changes: dict[str, list[GroupChange]] = {}
    for stat in written:
        if stat.log_version is not None:
            continue  # the base file stays, and with it what is known of its keys
        ordinal, plan = plans[stat.file_id]
        rows = rows_of[ordinal]
        fresh = rows[placed.fresh[rows]]
        fresh = fresh[np.unique(codes[fresh], return_index=True)[1]]
        fresh = fresh[~np.isin(codes[fresh], codes[rows[gone[rows]]])]
        if stat.num_inserts != len(fresh):
            continue
        deleted = np.unique(hashes[rows[gone[rows] & ~placed.fresh[rows]]])
        counted = stat.num_deletes, stat.num_writes
        change = GroupChange(plan.base_file, stat.path, hashes[fresh], deleted, *counted)
        changes.setdefault(stat.partition_path, []).append(change)
    return changes


def learn(write: Write) -> None:
    """Tell the state what the attempt has changed. It has committed, so no error may come of it."""
    changes, write.kept.changes = write.kept.changes, None
    if changes:
        _learn(write.runtime, write.table.storage.root, changes, write.options)


def learn_compacted(
    runtime: Runtime,
    root: str,
    options: WriteOptions,
    tasks: Iterable[CompactTask],
    written: Sequence[WriteStat],
) -> None:
    """Tell the state which base files of the table at ``root`` a compaction has replaced.

    It has committed, so no error may come of it. A file to which it added keys, or without some of
    the old ones, is read by the next lookup.
    """
    plans = [task.plan for task in tasks]
    old_files = {(plan.partition_path, FileId(plan.file_id)): plan.base_file for plan in plans}
    none, states = np.zeros(0, np.uint64), runtime.key_states
    changes: dict[str, list[GroupChange]] = {}
    for stat in written:
        old = old_files[stat.partition_path, stat.file_id]
        same = stat.log_version is None and not stat.num_inserts and not stat.num_deletes
        if old is not None and same and states.met(root, stat.partition_path):
            change = GroupChange(old, stat.path, none, none, 0, stat.num_writes)
            changes.setdefault(stat.partition_path, []).append(change)
    if changes:
        _learn(runtime, root, changes, options)


def _learn(
    runtime: Runtime, root: str, changes: Mapping[str, Sequence[GroupChange]], options: WriteOptions
) -> None:
    states = runtime.key_states
    try:
        states.learn(root, changes, options.key_state_bytes)
    except Exception:
        log.exception("The state of the keys of %s is given up; lookups read files.", root)
        states.forget(root)
