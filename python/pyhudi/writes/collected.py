"""Grouped writes of inputs that fit the driver's memory: no join, no shuffle, no cache.

The rows come to the driver once, as Arrow. Tag, profile and assignment are work on arrays there;
then each task gets only its rows. The same code writes the same files as for large inputs;
``grouped.py`` is the way without a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config import DuplicatePolicy, Operation, WriteOptions
from pyhudi.format.keys import java_string_hashes
from pyhudi.format.table_config import TableConfig
from pyhudi.index.kinds import kind_of
from pyhudi.rows.spec import DELETE, GROUP, HOME
from pyhudi.rows.stored_types import incoming_keys
from pyhudi.slices.files import BaseFile
from pyhudi.writes.key_lookup import HERE_BASE_BYTES, PlacedRows, look_up, note_changes
from pyhudi.writes.keys.expressions import PARTITION_PATH, RECORD_KEY
from pyhudi.writes.keys.partition_paths import check_partition_paths
from pyhudi.writes.orders import INSERTS, combining, group_work, group_work_here, write_spec
from pyhudi.writes.placement.assign import Assignment, assign
from pyhudi.writes.placement.dead_keys import dead_keys, homes_of
from pyhudi.writes.placement.log_groups import log_groups
from pyhudi.writes.placement.sizing import sizing_of
from pyhudi.writes.placement.task_routes import balanced, task_count
from pyhudi.writes.placement.workload import new_file_id, workload
from pyhudi.writes.plan import Plan, Replaced
from pyhudi.writes.prepare import Prepared
from pyhudi.writes.row_changes import SHOWN, check_homes, refuse_known_keys
from pyhudi.writes.stage import Written, run_here
from pyhudi.writes.write_context import Write

#: the largest input that is collected
COLLECT_BYTES = 64 << 20
#: below this and ``HERE_BASE_BYTES`` the driver itself writes: a Spark job would take longer
HERE_BYTES = 2 << 20

Ints = npt.NDArray[np.int64]


def collected(write: Write) -> pa.Table | None:
    """The rows, if this write may take the driver's way and they are few enough for it."""
    kept = write.kept
    if not may_be_collected(write.config, write.options, write.operation, write.prepared):
        return None
    if kept.table is None and kept.rows is None:
        kept.table = write.few_rows(write.prepared.rows, COLLECT_BYTES)
    return kept.table


def may_be_collected(
    config: TableConfig, options: WriteOptions, operation: Operation, prepared: Prepared
) -> bool:
    """Whether such a write may place its rows on the driver, if they are few."""
    index = kind_of(options)
    looked_up = not index.everywhere and not index.hashed
    inserting = operation in INSERTS
    # An insert into an existing file looks at no keys: Spark combines such rows before.
    one_per_key = options.duplicate_policy is not DuplicatePolicy.NONE or combining(
        config, options, operation
    )
    plain = not inserting or not one_per_key
    keyed = bool(config.record_key_fields) or prepared.changes is not None
    return looked_up and plain and keyed


@dataclass(frozen=True, slots=True)
class Keys:
    """Incoming keys by partition: the distinct ones, and for each row its partition and key."""

    partitions: list[str]
    rows: list[Ints]
    codes: list[Ints]
    distinct: list[pa.Array]

    @classmethod
    def of(cls, table: pa.Table) -> Keys:
        """Group the rows of ``table`` by partition path and number the distinct keys of each."""
        paths = _single(table[PARTITION_PATH]).dictionary_encode()
        keys = _single(table[RECORD_KEY])
        names = paths.dictionary.to_pylist()
        numbers = paths.indices.to_numpy()
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=len(names)))
        rows = [np.asarray(r, np.int64) for r in np.split(order, ends[:-1])] if names else []
        encoded = [keys.take(pa.array(r)).dictionary_encode() for r in rows]
        codes = [e.indices.to_numpy().astype(np.int64) for e in encoded]
        return cls(names, rows, codes, [e.dictionary for e in encoded])


@dataclass(frozen=True, slots=True)
class Collected:
    """The rows in the driver's memory, and the base files that may hold their keys."""

    write: Write
    table: pa.Table
    keys: Keys
    targets: Sequence[BaseFile]

    @classmethod
    def of(cls, write: Write, table: pa.Table) -> Collected:
        """Sort the keys of ``table`` by partition; ``InvalidRecord`` if a key is null."""
        incoming_keys(table, write_spec(write))
        keys = Keys.of(table)
        check_partition_paths(keys.partitions)
        return cls(write, table, keys, write.view.latest(partitions=keys.partitions))

    def plan(self) -> Plan:
        """Look the keys up, and give each row its file group."""
        write, table, keys, files = self.write, self.table, self.keys, self.targets
        logs = log_groups(write, files, keys.partitions)
        groups = np.full(table.num_rows, -1, np.int64)
        if write.prepared.changes is not None:
            groups = _homes(write, table, files)
        elif write.operation not in INSERTS:
            copies, homes = _tag(write, keys, files, groups)
            if len(copies):
                table = pa.concat_tables([table, table.take(pa.array(copies))]).combine_chunks()
                groups = np.concatenate([groups, homes])
        if write.operation is Operation.DELETE:
            table, groups = table.filter(pa.array(groups >= 0)), groups[groups >= 0]
            keys = Keys([], [], [], [])
        updates = _counts(groups[groups >= 0])
        inserts = {
            partition: int(np.count_nonzero(groups[rows] < 0))
            for partition, rows in zip(keys.partitions, keys.rows, strict=True)
        }
        sizing = sizing_of(write, files)
        assignment = assign(files, updates, inserts, sizing, lambda _: new_file_id(write), logs)
        fresh = groups < 0
        _place(table, keys, assignment.slots, groups)
        return Plan(
            partial(_written, write, PlacedRows(table, groups, fresh, assignment)),
            assignment.updated(),
            profile=workload(write, assignment, updates, inserts),
        )

    def replaced(self, written: Written) -> Replaced | None:
        """Nothing."""
        return None


def _homes(write: Write, table: pa.Table, files: Sequence[BaseFile]) -> Ints:
    """The ordinals of the files that are known to hold rows; ``InvalidRecord`` for new rows
    whose keys exist."""
    ids = pa.array([file.file_id for file in files], pa.string())
    homes = _single(table[HOME])
    places = pc.fill_null(pc.index_in(homes, value_set=ids), -1)
    groups: Ints = places.to_numpy().astype(np.int64)
    assert write.prepared.changes is not None
    check_homes(write.prepared.changes, int(np.count_nonzero(groups < 0)))
    if homes.null_count:
        keys = Keys.of(table.filter(homes.is_null()))
        position = {name: at for at, name in enumerate(keys.partitions)}
        new = np.flatnonzero(np.asarray(homes.is_null()))
        matches = _matches(write, keys, files, sure=True)
        alive, dead = _by_life(write, keys, files, matches)
        for ordinal, found in alive:
            known = keys.distinct[position[files[ordinal].partition_path]]
            shown = known.take(pa.array(found[:SHOWN]))
            refuse_known_keys(shown.to_pylist(), write.config)
        for ordinal, found in dead:
            number = position[files[ordinal].partition_path]
            groups[new[keys.rows[number][np.isin(keys.codes[number], found)]]] = ordinal
    return groups


def _tag(write: Write, keys: Keys, files: Sequence[BaseFile], groups: Ints) -> tuple[Ints, Ints]:
    """Put the ordinal of the file that holds its key into each row's place in ``groups``.

    Inserts may have left copies of a key in several files, and each copy changes. The answer has
    the rows that are needed once more, and for each of them the ordinal of the other file.
    """
    more_rows, more_homes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if not files:
        return more_rows[0], more_homes[0]
    position = {name: at for at, name in enumerate(keys.partitions)}
    homes = [np.full(len(d), -1, np.int64) for d in keys.distinct]
    alive, dead = _by_life(write, keys, files, _matches(write, keys, files, write.kept.sure))
    for ordinal, found in alive:
        number = position[files[ordinal].partition_path]
        home, at = homes[number], np.unique(found)
        taken = at[home[at] >= 0]
        home[at[home[at] < 0]] = ordinal
        if len(taken):
            again = keys.rows[number][np.isin(keys.codes[number], taken)]
            more_rows.append(again)
            more_homes.append(np.full(len(again), ordinal, np.int64))
    for ordinal, found in dead if write.operation is not Operation.DELETE else ():
        home = homes[position[files[ordinal].partition_path]]
        home[found[home[found] < 0]] = ordinal
    for rows, codes, home in zip(keys.rows, keys.codes, homes, strict=True):
        groups[rows] = home[codes]
    return np.concatenate(more_rows), np.concatenate(more_homes)


def _matches(
    write: Write, keys: Keys, files: Sequence[BaseFile], sure: bool = False
) -> list[tuple[int, Ints]]:
    """The places of the keys, through the state; see ``StatefulLookup.places``."""
    wanted = dict(zip(keys.partitions, keys.distinct, strict=True))
    return look_up(write, wanted, files, sure)


def _by_life(
    write: Write, keys: Keys, files: Sequence[BaseFile], found: Sequence[tuple[int, Ints]]
) -> tuple[list[tuple[int, Ints]], list[tuple[int, Ints]]]:
    """The matches in live rows, and those in rows that a log has deleted and that may come back."""
    matched = [files[ordinal] for ordinal, _ in found]
    gone = dead_keys(write, matched)
    homes = homes_of(write, matched, gone)
    alive, dead = [], []
    for at, (ordinal, places) in enumerate(found):
        if at not in gone:
            alive.append((ordinal, places))
            continue
        known = keys.distinct[keys.partitions.index(files[ordinal].partition_path)]
        matches = known.take(pa.array(places))
        alive.append((ordinal, places[~np.asarray(pc.is_in(matches, value_set=gone[at]))]))
        if at in homes:
            dead.append((ordinal, places[np.asarray(pc.is_in(matches, value_set=homes[at]))]))
    return alive, dead


def _place(table: pa.Table, keys: Keys, slots: Mapping[str, Sequence[int]], groups: Ints) -> None:
    """Give rows with new keys a group by the hash of their key."""
    for partition, rows, codes, distinct in zip(
        keys.partitions, keys.rows, keys.codes, keys.distinct, strict=True
    ):
        if partition in slots:
            choice = np.asarray(slots[partition], np.int64)
            hashed = java_string_hashes(distinct).astype(np.int64) % len(choice)
            fresh = groups[rows] < 0
            groups[rows[fresh]] = choice[hashed[codes[fresh]]]


def _written(write: Write, placed: PlacedRows) -> Written:
    """Write the rows, and note what the state is told of it after the commit."""
    written = _write(write, placed.table, placed.groups, placed.assignment)
    note_changes(write, placed, written.files)
    return written


def _write(write: Write, table: pa.Table, groups: Ints, assignment: Assignment) -> Written:
    """Send each task its rows, sorted by group; little work is done here instead."""
    if not assignment.groups:
        return Written()
    order = np.argsort(groups, kind="stable")
    columns = [c for c in (RECORD_KEY, DELETE) if c in table.column_names]
    columns += write.prepared.data_columns
    rows = table.select(columns).take(pa.array(order))
    ordinals = pa.array(groups[order].astype(np.int32))
    rows = rows.add_column(0, GROUP, ordinals)
    base = sum(assignment.bytes_of.values())
    if rows.nbytes <= HERE_BYTES and base <= HERE_BASE_BYTES:
        return run_here(group_work_here(write, assignment.groups), rows)
    tasks = task_count(len(assignment.groups), write.spark.sparkContext.defaultParallelism)
    task_of = balanced(assignment.bytes_of, tasks)
    blobs = list(_blobs(rows, ordinals, task_of, tasks))
    work = group_work(write, assignment.groups, task_of)
    return write.stage(len(assignment.groups)).run_blobs(blobs, work)


def _blobs(
    rows: pa.Table, ordinals: pa.Array, task_of: Mapping[int, int], tasks: int
) -> Iterator[bytes]:
    """One Arrow stream for each task, its groups in ascending order."""
    route = np.zeros(max(task_of) + 1, np.int64)
    for ordinal, task in task_of.items():
        route[ordinal] = task
    task = route[ordinals.to_numpy()]
    for number in range(tasks):
        mine = rows.filter(pa.array(task == number))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, mine.schema) as stream:
            stream.write_table(mine)
        yield sink.getvalue().to_pybytes()


def _counts(groups: Ints) -> dict[int, int]:
    """Rows by group."""
    ordinals, counts = np.unique(groups, return_counts=True)
    return dict(zip(ordinals.tolist(), counts.tolist(), strict=True))


def _single(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.combine_chunks()
    return pc.cast(chunks, pa.string()) if chunks.type != pa.string() else chunks
