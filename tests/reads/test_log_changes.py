"""Change data of merge-on-read tables: what a copy-on-write table of the same writes tells."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.errors import HistoryExpired, UnsupportedTable
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.log_blocks import FoundBlock, HeaderKey, RandomAccess, find_blocks
from pyhudi.format.plans import CleanerPlan, CleanFile, render_cleaner_plan
from pyhudi.format.properties import render_properties
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads.change_data import change_schema, plan_changes
from pyhudi.reads.conditions import Compare, Comparison, Text
from pyhudi.reads.stream_offsets import StreamOffset
from pyhudi.rows import log_parts
from pyhudi.rows.log_spec import SliceChanges
from pyhudi.rows.slice_changes import _numbered
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from tests.reads.filed_table import FORM, Row, as_changes, asked, at, changes_at, query_at, rows_of
from tests.reads.followed_table import LIMIT_FILES
from tests.reads.logged_table import LoggedTable
from tests.reads.test_log_streams import FileFollower, follower, together

APPENDS = "hoodie.datasource.streaming.appendsOnly"
CDC = {"hoodie.datasource.query.type": "incremental", FORM: "cdc_columns", LIMIT_FILES: "1"}
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


def eventful(root: Path, version: int) -> LoggedTable:
    """Every kind of commit, one after another."""
    table = LoggedTable.of(root, version)
    table.merge(1, "g1", dict.fromkeys("abcdefgh", 1), "BULK_INSERT")
    table.merge(2, "g2", {"x": 2, "y": 2}, "INSERT")
    table.merge(3, "g1", {"b": 3, "h": 3})
    table.merge(4, "g1", {"c": None, "b": None, "zz": None}, "DELETE")
    table.merge(5, "g1", {"a": 5, "d": None, "i": 5, "c": 5})
    table.plan(6, "g1")
    table.merge(7, "g1", {"a": 7, "i": None})
    table.compact(6, "g1")
    table.merge(8, "g1", {"a": 8, "e": None, "j": 8})
    table.compact(9, "g1")
    table.merge(10, "g2", {"x": 10})
    table.cluster(11, ["g1", "g2"], "g3")
    table.merge(12, "g3", {"x": 12, "k": 12})
    table.replace(13, ["g3"], "g4", {"a": 13, "l": 13})
    table.merge(14, "g4", {"a": None, "l": None}, "DELETE")
    table.merge(15, "g4", {"a": 15})
    table.merge(16, "g5", {"m": 16})
    table.merge(17, "g5", {"m": 17})
    table.replace(18, ["g4", "g5"], None, {})
    return table


@VERSIONS
def test_each_range_gives_what_each_of_its_commits_did(version: int, tmp_path: Path) -> None:
    table = eventful(tmp_path, version)
    for begin in range(19):
        for end in (begin + 1, 18):
            wanted = [c for c in table.noted if at(begin) < c[1] <= at(end)]
            found = changes_at(str(tmp_path), asked(at(begin), at(end)))
            assert as_changes(found) == sorted(wanted, key=str), (begin, end)


@VERSIONS
def test_any_sequence_of_commits_is_told_as_it_happened(version: int, tmp_path: Path) -> None:
    for seed in range(6):
        draw, root = Random(seed), tmp_path / str(seed)
        root.mkdir()
        table = LoggedTable.of(root, version, seed)
        table.merge(1, "g1", {f"k{n}": 1 for n in range(draw.randint(1, 12))}, "BULK_INSERT")
        for number in range(2, 16):
            group = draw.choice(sorted(table.groups))
            others = {k for g, (rows, _) in table.groups.items() if g != group for k in rows}
            keys = set(draw.sample([f"k{n}" for n in range(20)], draw.randint(1, 8))) - others
            rows = {k: draw.choice([number, number, None]) for k in sorted(keys)}
            chosen = draw.random()
            if chosen < 0.15:
                if group in table.plans:
                    table.compact(number, group)
                else:
                    table.plan(number, group)
            elif chosen < 0.3 and not table.plans:
                made = {k: number for k, v in rows.items() if v is not None}
                table.replace(number, [group], f"g{number}", made)
            elif rows:
                table.merge(number, group, rows)
        assert as_changes(changes_at(str(root), asked())) == sorted(table.noted, key=str), seed


# ---- streams


def told(stream: FileFollower, wanted: SparkSchema | None = None) -> list[Row]:
    """The rows of all batches that Python's workers read, each batch of at most one file."""
    found = []
    while True:
        end = stream.ahead().end
        if end is None or end.render() == stream.offsets[-1]:
            return found
        assert isinstance(end, StreamOffset)
        schema = wanted or stream.stream.table_schema()
        batch = stream.stream.plan(stream.place, end, schema)
        stream.offsets.append(end.render())
        if batch.pieces is not None:
            found += rows_of(batch.pieces)


@VERSIONS
def test_a_stream_gives_the_first_state_as_inserts_and_then_each_change(
    version: int, tmp_path: Path
) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1, "b": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"b": 2})
    known = len(table.noted)
    stream, schema = follower(table, **CDC), change_schema(query_at(str(tmp_path), asked()))
    assert [(op, after) for op, _, _, after in as_changes(told(stream, schema))] == [
        ("i", {"id": "a", "v": 1}),
        ("i", {"id": "b", "v": 2}),
    ]
    table.merge(3, "g1", {"a": 3, "b": None, "c": 3})
    table.merge(4, "g2", {"x": 4}, "BULK_INSERT")
    table.compact(5, "g1")
    table.merge(6, "g1", {"b": 6})
    assert as_changes(told(stream, schema)) == sorted(table.noted[known:], key=str)
    together(table, 7, {"g1": {"a": 7}, "g2": {"x": 7}})
    stream.restart()
    assert as_changes(told(stream, schema)) == [
        ("u", at(7), {"id": "a", "v": 3}, {"id": "a", "v": 7}),
        ("u", at(7), {"id": "x", "v": 4}, {"id": "x", "v": 7}),
    ]


@VERSIONS
def test_appends_are_the_rows_that_logs_insert(version: int, tmp_path: Path) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1}, "BULK_INSERT")
    stream = follower(table, **{APPENDS: "true"})
    assert stream.all() == [[("a", 1, 1)]]
    table.merge(2, "g2", {"b": 2}, "BULK_INSERT")
    assert stream.all() == [[("b", 2, 2)]]
    table.merge(3, "g1", {"a": 3, "c": 3})
    table.merge(4, "g1", {"c": 4})
    assert [row["after"] for row in told(stream)] == [{"id": "c", "v": 3}]


# ---- what merges tell


def test_by_event_time_an_older_row_is_no_change_and_one_after_a_delete_may_bring_the_old_one_back(
    tmp_path: Path,
) -> None:
    table = LoggedTable.of(tmp_path, 9)
    named = {"hoodie.table.ordering.fields": "v", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    storage = LocalStorage(str(tmp_path))
    storage.replace(PROPERTIES, storage.read(PROPERTIES) + render_properties(named))
    table.merge(1, "g1", {"a": 10, "b": 10}, "BULK_INSERT")
    table.merge(2, "g1", {"a": 5, "b": 20})
    table.merge(3, "g1", {"a": None})
    table.merge(4, "g1", {"a": 7})
    a, b = {"id": "a", "v": 10}, {"id": "b", "v": 10}
    assert as_changes(changes_at(str(tmp_path), asked(at(1)))) == [
        ("d", at(3), a, None),
        ("i", at(4), None, a),
        ("u", at(2), b, {"id": "b", "v": 20}),
    ]


def test_a_key_that_a_file_has_twice_is_told_row_by_row() -> None:
    old, new = _numbered(pa.array(["a", "a", "b"]), pa.array(["a", "b", "a", "a"]))
    at = pc.index_in(new, value_set=old).to_pylist()
    assert at == [0, 2, 1, None]


def test_a_slice_is_read_once_for_all_commits_of_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = LoggedTable.of(tmp_path, 9)
    table.merge(1, "g1", dict.fromkeys("abcd", 1), "BULK_INSERT")
    for number in range(2, 9):
        table.merge(number, "g1", {"a": number, "e": number})
    query = query_at(str(tmp_path), asked(at(1), at(8)))
    plan = plan_changes(query, change_schema(query), ())
    (piece,) = plan.pieces
    assert isinstance(piece, SliceChanges)
    assert [each.instant for each in piece.changes] == [at(number) for number in range(2, 9)]
    read: list[str] = []

    def counted(source: RandomAccess, whole: str | None) -> list[FoundBlock]:
        blocks = list(find_blocks(source, whole))
        read.extend(block.header[HeaderKey.INSTANT_TIME] for block in blocks)
        return blocks

    monkeypatch.setattr(log_parts, "find_blocks", counted)
    rows = as_changes(rows_of(plan))
    assert rows == sorted((c for c in table.noted if c[1] > at(1)), key=str)
    assert len(set(read)) == 7
    assert len(read) == len(set(read)), "no block is read twice"


def test_filters_leave_operations_out(tmp_path: Path) -> None:
    table = eventful(tmp_path, 9)
    for op in "iud":
        found = changes_at(str(tmp_path), asked(), [Compare(Comparison.EQUAL, "op", Text(op))])
        assert as_changes(found) == sorted((c for c in table.noted if c[0] == op), key=str)


# ---- what cannot be told


@VERSIONS
@pytest.mark.parametrize("gone", ["log", "earlier log", "base"])
def test_a_slice_of_which_a_file_is_gone_is_refused(
    version: int, gone: str, tmp_path: Path
) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1, "b": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"a": 2})
    table.merge(3, "g1", {"b": 3})
    table.compact(4, "g1")
    logs = sorted(tmp_path.glob(".g1_*"))
    base = next(tmp_path.glob(f"g1_*_{at(1)}.parquet"))
    {"log": logs[1], "earlier log": logs[0], "base": base}[gone].unlink()
    with pytest.raises(HistoryExpired):
        changes_at(str(tmp_path), asked(at(2), at(3)))
    assert changes_at(str(tmp_path), asked(at(3))) == []


def test_a_slice_of_logs_alone_is_told_unless_a_clean_has_begun_to_delete_its_group(
    tmp_path: Path,
) -> None:
    table = LoggedTable.of(tmp_path, 9)
    table.merge(1, "g1", {"a": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"b": 2, "a": 2})
    table.bases["g2"] = at(0), []
    table.groups["g2"] = {}, "no base file"
    table.merge(3, "g2", {"x": 3})
    table.merge(4, "g2", {"x": 4, "y": 4})
    assert as_changes(changes_at(str(tmp_path), asked(at(2)))) == sorted(table.noted[3:], key=str)
    plan = CleanerPlan(
        None, "", "KEEP_LATEST_COMMITS", {"": (CleanFile(f"{tmp_path}/g2_0-0-0_{at(0)}.parquet"),)}
    )
    table._put(Instant(at(5), Action.CLEAN, State.REQUESTED), render_cleaner_plan(plan))
    with pytest.raises(HistoryExpired, match="file group g2"):
        changes_at(str(tmp_path), asked(at(2)))


def test_a_base_file_in_place_of_a_slice_with_logs_is_refused(tmp_path: Path) -> None:
    table = LoggedTable.of(tmp_path, 9)
    table.merge(1, "g1", {"a": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"a": 2})
    old, name = table.groups["g1"]
    stat = table._base(3, "g1", {**old, "b": (3, 3)}, name, {"b": 3}, old)
    table._commit(3, CommitMetadata("UPSERT", (stat,), table._extra()))
    with pytest.raises(UnsupportedTable, match="a base file in place of a slice with logs"):
        changes_at(str(tmp_path), asked())


def test_logs_that_pyhudi_cannot_merge_are_refused(tmp_path: Path) -> None:
    table = LoggedTable.of(tmp_path, 9)
    table.merge(1, "g1", {"a": 1}, "BULK_INSERT")
    storage = LocalStorage(str(tmp_path))
    partial = render_properties({"hoodie.table.partial.update.mode": "KEEP_VALUES"})
    storage.replace(PROPERTIES, storage.read(PROPERTIES) + partial)
    with pytest.raises(UnsupportedTable, match="change data of log files that are merged by"):
        changes_at(str(tmp_path), asked())
    with pytest.raises(UnsupportedTable, match="streams of log files that are merged by"):
        follower(table)


def test_a_log_that_ends_late_is_told_on_the_slice_to_which_it_belongs(tmp_path: Path) -> None:
    table = LoggedTable.of(tmp_path)
    table.merge(1, "g1", {"a": 1, "b": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"a": 2})
    table.done[3] = 6
    table.plan(4, "g1")
    table.merge(3, "g1", {"a": 3, "b": 3})
    table.merge(5, "g2", {"x": 5}, "BULK_INSERT")
    wanted = sorted(table.noted, key=str)
    assert as_changes(changes_at(str(tmp_path), asked())) == wanted
    table.done[4] = 7
    table.compact(4, "g1")
    assert as_changes(changes_at(str(tmp_path), asked())) == wanted
    # The clean takes what the compaction has merged.
    for old in (*tmp_path.glob(f"g1_*_{at(1)}.parquet"), *tmp_path.glob(f".g1_{at(2)}*")):
        old.unlink()
    late = [change for change in wanted if change[1] == at(3)]
    assert as_changes(changes_at(str(tmp_path), asked(at(5), at(6)))) == late
    with pytest.raises(HistoryExpired):
        changes_at(str(tmp_path), asked(at(1), at(2)))
