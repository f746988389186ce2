"""Streams of merge-on-read tables: each batch gives what a copy-on-write table's would give."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.reads.scan_plan import ScanPlan
from pyhudi.reads.stream_batches import Batch
from pyhudi.reads.stream_offsets import Offset, StreamOffset
from pyhudi.rows.slice_reader import log_rows
from pyhudi.rows.spec import COMMIT_TIME_COLUMN
from tests.reads import merged_table
from tests.reads.filed_table import BEGIN, END, FORM, FiledTable, at
from tests.reads.followed_table import LIMIT_FILES, START, Follower, Given
from tests.reads.logged_table import LoggedTable

RANGE = {"hoodie.datasource.query.type": "incremental"}
CDC = {**RANGE, FORM: "cdc_columns"}
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


@dataclass(slots=True)
class FileFollower(Follower):
    """Reads real files as Spark does: base files without masked rows, and rows of logs."""

    def rows(self, start: Offset, end: StreamOffset) -> list[Given]:
        batch = self.stream.plan(start, end, self.stream.table_schema())
        found = [*base_rows(batch.files), *logged_rows(batch)] if batch.files else []
        counted = batch.query.rows if batch.query is not None else None
        return sorted(
            (row["id"], row["v"], int(row[COMMIT_TIME_COLUMN][-5:]))
            for row in found
            if counted is None
            or row[COMMIT_TIME_COLUMN] in counted.commits
            or (counted.above is not None and row[COMMIT_TIME_COLUMN] > counted.above)
        )


def base_rows(plan: ScanPlan) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    files = [(path, None) for path, *_ in plan.files or ()]
    if plan.arrow_file is not None:
        with pa.OSFile(plan.arrow_file) as source:
            told = pa.ipc.open_stream(source).read_all().to_pylist()
        os.remove(plan.arrow_file)
        files = [(row["path"], row["masked"]) for row in told]
    for path, masked in files:
        table = pq.read_table(path.removeprefix("file:"))
        keep = np.ones(table.num_rows, np.bool_)
        keep[np.frombuffer(masked or b"", "<i4")] = False
        found += table.filter(pa.array(keep)).to_pylist()
    return found


def logged_rows(batch: Batch) -> list[dict[str, str]]:
    if batch.logs is None:
        return []
    plan, place = batch.logs, batch.logs.spec.fs.open()
    batches = [b for piece in plan.pieces for b in log_rows(plan.spec, place, piece)]
    return [row for each in batches for row in each.to_pylist()]


def follower(table: FiledTable, **options: str) -> FileFollower:
    return FileFollower(table, options)  # type: ignore[arg-type]


def newest(table: FiledTable) -> dict[str, tuple[int, int]]:
    return {key: row for rows, _ in table.groups.values() for key, row in rows.items()}


@VERSIONS
def test_rows_of_logs_and_of_base_files_come_once_and_compactions_give_none(
    version: int, tmp_path: Path
) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1, "b": 1, "c": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"b": 2})
    stream = follower(table)
    assert stream.all() == [[("a", 1, 1), ("b", 2, 2), ("c", 1, 1)]]
    table.merge(3, "g1", {"a": 3, "b": None})
    table.merge(4, "g2", {"x": 4}, "BULK_INSERT")
    assert stream.all() == [[("a", 3, 3), ("x", 4, 4)]]
    table.compact(5, "g1")
    assert stream.all() == [[]]
    table.merge(6, "g1", {"c": 6, "d": 6})
    stream.restart()
    assert stream.all() == [[("c", 6, 6), ("d", 6, 6)]]
    table.merge(7, "g1", {"a": 7})
    table.compact(8, "g1")
    table.merge(9, "g1", {"d": 9})
    assert stream.all() == [[("a", 7, 7), ("d", 9, 9)]]


@VERSIONS
def test_any_sequence_gives_the_batches_of_a_copy_on_write_table(
    version: int, tmp_path: Path
) -> None:
    for seed in range(5):
        draw = Random(seed)
        roots = [tmp_path / f"{seed}-{kind}" for kind in ("mor", "cow")]
        for root in roots:
            root.mkdir()
        logged, filed = LoggedTable.of(roots[0], version, seed), FiledTable.at(roots[1])
        tables: list[FiledTable] = [logged, filed]
        for table in tables:
            table.merge(1, "g1", {f"k{n}": 1 for n in range(6)}, "BULK_INSERT")
            table.merge(2, "g2", {f"k{n}": 2 for n in range(6, 9)}, "INSERT")
        options = {} if draw.random() < 0.5 else {LIMIT_FILES: "1"}
        streams = [follower(table, **options) for table in tables]
        for number in range(3, 16):
            group = draw.choice(sorted(logged.groups))
            chosen = draw.random()
            if chosen < 0.2:
                if group in logged.plans:
                    logged.compact(number, group)
                else:
                    logged.plan(number, group)
            elif chosen < 0.3 and not logged.plans:
                for table in tables:
                    table.cluster(number, [group], f"g{number}")
            elif chosen < 0.4 and not logged.plans:
                for table in tables:
                    table.replace(number, [group], f"g{number}", {f"n{number}": number})
            else:
                others = {k for g in logged.groups if g != group for k in logged.groups[g][0]}
                keys = set(draw.sample([f"k{n}" for n in range(12)], 3)) - others
                rows = {k: draw.choice([number, number, None]) for k in sorted(keys)}
                if not rows:
                    continue
                for table in tables:
                    table.merge(number, group, rows)
            if draw.random() < 0.5:
                found, wanted = ([b for b in s.all() if b] for s in streams)
                assert found == wanted, (seed, number)
                if draw.random() < 0.3:
                    streams[0].restart()
        found, wanted = ([b for b in s.all() if b] for s in streams)
        assert found == wanted, seed
        assert newest(logged) == newest(filed)


@VERSIONS
def test_the_first_state_is_cut_into_slices_that_later_commits_do_not_move(
    version: int, tmp_path: Path
) -> None:
    table = LoggedTable.of(tmp_path, version)
    for number in range(1, 4):
        table.merge(number, f"g{number}", {f"k{number}": 1, f"l{number}": 1}, "BULK_INSERT")
    table.merge(4, "g2", {"k2": 4})
    stream = follower(table, **{LIMIT_FILES: "1"})
    assert stream.batch()
    table.merge(5, "g2", {"l2": 5})
    table.merge(6, "g3", {"k3": 6})
    stream.restart()
    assert stream.all() == [
        [("k2", 4, 4), ("l2", 1, 2)],
        [("k3", 1, 3), ("l3", 1, 3)],
        [("l2", 5, 5)],
        [("k3", 6, 6)],
    ]


@VERSIONS
def test_a_commit_of_many_logs_is_cut_at_file_groups(version: int, tmp_path: Path) -> None:
    table = LoggedTable.of(tmp_path, version)
    for number in range(1, 4):
        table.merge(number, f"g{number}", {f"k{number}": 1}, "BULK_INSERT")
    stream = follower(table, **{LIMIT_FILES: "2"})
    stream.all()
    together(table, 4, {"g1": {"k1": 4}, "g2": {"k2": 4}, "g3": {"k3": 4}})
    stream.restart()
    assert stream.all() == [[("k1", 4, 4), ("k2", 4, 4)], [("k3", 4, 4)]]


def together(table: LoggedTable, number: int, groups: Mapping[str, Mapping[str, int]]) -> None:
    """One commit of logs in several groups."""
    from pyhudi.format.commit_metadata import CommitMetadata

    stats = []
    for group, rows in groups.items():
        old, name = table.groups[group]
        new = {**old, **{key: (value, number) for key, value in rows.items()}}
        stats.append(table._write(number, group, new, name, rows, old))
    table._commit(number, CommitMetadata("UPSERT", tuple(stats), table._extra()))


def test_a_log_that_ends_late_belongs_to_the_slice_of_a_compaction_that_was_planned_before(
    tmp_path: Path,
) -> None:
    table = LoggedTable.of(tmp_path)
    table.merge(1, "g1", {"a": 1, "b": 1}, "BULK_INSERT")
    stream = follower(table)
    stream.all()
    table.done[2] = 4
    table.plan(3, "g1")
    table.merge(2, "g1", {"a": 2})
    assert stream.all() == [[("a", 2, 2)]]
    table.done[3] = 5
    table.compact(3, "g1")
    assert stream.all() == [[]]
    table.merge(6, "g1", {"b": 6})
    assert stream.all() == [[("b", 6, 6)]]
    assert follower(table, **{START: at(1)}).all() == [[("a", 2, 2), ("b", 6, 6)]]


def test_a_log_of_the_first_state_that_is_gone_ends_a_stream_that_has_read_a_part(
    tmp_path: Path,
) -> None:
    table = LoggedTable.of(tmp_path)
    for number in range(1, 3):
        table.merge(number, f"g{number}", {f"k{number}": 1}, "BULK_INSERT")
    table.merge(3, "g2", {"k2": 3})
    stream = follower(table, **{LIMIT_FILES: "1"})
    assert stream.batch()
    table.compact(4, "g2")
    next(tmp_path.glob(".g2_*")).unlink()
    stream.restart()
    with pytest.raises(HistoryExpired):
        stream.batch()


@VERSIONS
def test_what_was_cleaned_while_a_query_did_not_run_comes_in_one_batch(
    version: int, tmp_path: Path
) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1, "b": 1, "c": 1}, "BULK_INSERT")
    stream = follower(table, **{LIMIT_FILES: "1"})
    stream.all()
    changes = follower(table, **CDC, **{START: at(1)})
    table.merge(2, "g1", {"a": 2})
    table.merge(3, "g1", {"b": 3, "c": None})
    table.compact(4, "g1")
    table.merge(5, "g1", {"a": 5})
    table.clean(6, 4)
    stream.restart()
    assert [batch for batch in stream.all() if batch] == [
        [("a", 2, 2), ("b", 3, 3)],
        [("a", 5, 5)],
    ]
    changes.restart()
    with pytest.raises(HistoryExpired, match=f"a clean has deleted.*{START}={at(4)}"):
        changes.batch()


@VERSIONS
def test_a_range_whose_slices_were_cleaned_is_refused_with_its_earliest_end(
    version: int, tmp_path: Path
) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"a": 2})
    table.compact(3, "g1")
    table.clean(4, 3)
    with pytest.raises(HistoryExpired) as told:
        merged_table.opened(tmp_path, **RANGE, **{BEGIN: at(1), END: at(2)}).slices(())
    assert (told.value.earliest, told.value.moved) == (at(3), False)
