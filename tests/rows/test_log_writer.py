"""Rows that a write adds to a log: readers merge from it what a merge would have written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import UnsupportedTable, WriteFailed
from pyhudi.format.delete_block import deleted_keys
from pyhudi.format.log_blocks import BlockType, HeaderKey, LogBlock, read_blocks
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.rows import log_writer
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.groups import write_groups
from pyhudi.rows.log_parts import LogPart, parts_of
from pyhudi.rows.log_spec import CountedInstants, LoggedSlices, LogSlice, MergeSpec
from pyhudi.rows.partial_rows import whole_rows
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.spec import (
    BY_POSITION,
    COMMIT_TIME,
    DELETE,
    EVENT_TIME,
    GROUP,
    REFUSE,
    REWRITE,
    FileSystemSpec,
    GroupPlan,
    WriteSpec,
)
from pyhudi.services.written_files import stat_of
from tests.rows.workers import (
    SCHEMA,
    T1,
    T2,
    T3,
    T4,
    Stat,
    insert,
    rows_of,
    run,
    spec,
    with_columns,
)

KEYS = ("a", "b", "c", "d", "e", "f")
#: (key, name, ordering value, whether it is deleted)
Event = tuple[str, str, int, bool]
AVRO = json.dumps(SparkSchema.of_arrow(SCHEMA).with_meta_columns().avro("t"))


def write_of(root: Path, instant: str, **more: Any) -> WriteSpec:
    return spec(root, instant, avro_schema=AVRO, **more)


def table_of(events: Sequence[Event]) -> pa.Table:
    rows = [{"id": key, "name": name, "price": 1.5, "ts": ts} for key, name, ts, _ in events]
    marks = pa.array([gone for *_, gone in events], pa.bool_())
    return rows_of(rows).append_column(DELETE, marks)


def log(write: WriteSpec, base: Stat, events: Sequence[Event], version: int = 1) -> Stat:
    """Write ``events`` to a log beside the file of ``base``."""
    return beside(write, base, [], table_of(events), version)


def beside(
    write: WriteSpec,
    base: Stat,
    logs: Sequence[Stat],
    rows: pa.Table,
    version: int = 1,
    copies: str = REFUSE,
    planned: Sequence[Stat] = (),
) -> Stat:
    """Write rows beside the file of ``base``, as a writer that knows of the deletes in ``logs``.

    A pending compaction of the time T3 merges those that are ``planned``.
    """
    place = base["file_id"], base["partition_path"], base["path"], T1
    plan = GroupPlan(0, *place, None, version, copies)
    order, _ = parts(write, Path(write.root), [])
    paths = tuple(each["path"] for each in logs if each["path"])
    soon = {0: (T3, frozenset(each["path"] for each in planned))} if planned else {}
    known = LoggedSlices(order, {0: LogSlice(Slice(base["path"]), T1, paths)}, soon)
    (stat,) = run(
        write_groups(write, {0: plan}, None, known if logs else None),
        with_columns(rows, **{GROUP: 0}),
    )
    return stat


def parts(write: WriteSpec, root: Path, logs: Sequence[Stat]) -> tuple[MergeSpec, list[LogPart]]:
    event_time = write.merge_mode == EVENT_TIME
    rows = pa.struct([("id", pa.string()), ("name", pa.string()), ("ts", pa.int64())])
    found = MergeSpec(
        write.root, write.fs, CountedInstants(frozenset({T1, T2, T3, T4}), ""), rows,
        pa.struct([("ts", pa.int64())] if event_time else []), ("ts",) if event_time else (),
        filled=write.filled,
    )  # fmt: skip
    # A write of which each row lost has no log.
    files = [(s["path"], (root / s["path"]).read_bytes()) for s in logs if s["path"]]
    return found, parts_of(found, files, {})


def merged(
    write: WriteSpec, root: Path, base: Stat, logs: Sequence[Stat], instant: str = T1
) -> list[tuple[Any, ...]]:
    """The rows that a reader of the slice sees, sorted; ``instant`` wrote the base file."""
    how, held = parts(write, root, logs)
    with pa.OSFile(str(root / base["path"])) as opened:
        stored = SliceFile(opened, Slice(base["path"]))
        held = whole_rows(how, held, lambda: nullcontext(stored), instant)
        result = merge(how, held, stored, instant)
        rows = pq.ParquetFile(root / base["path"]).read(columns=["id", "name", "ts"]).to_pylist()
        rows = [row for at, row in enumerate(rows) if at not in set(result.masked.tolist())]
        for part, kept in zip(held, result.kept, strict=True):
            rows += [] if part.deletes else part.images(kept, how.rows).to_pylist()
    return sorted((row["id"], row["name"], row["ts"]) for row in rows)


def blocks(root: Path, stat: Stat) -> list[LogBlock]:
    return list(read_blocks((root / stat["path"]).read_bytes()))


def base_of(root: Path, layout: int, **more: Any) -> Stat:
    rows = [{"id": key, "name": f"{key}0", "price": 1.0, "ts": 5} for key in KEYS]
    return insert(write_of(root, T1, layout=layout, **more), rows_of(rows), "p")


EVENTS = st.lists(
    st.tuples(st.sampled_from((*KEYS, "new", "newer")), st.text("xyz", max_size=2),
              st.integers(0, 9), st.booleans()), min_size=1, max_size=8
)  # fmt: skip


@pytest.mark.parametrize("layout", [1, 2])
@given(first=EVENTS, second=EVENTS)
@settings(deadline=None, max_examples=12)
def test_the_later_write_wins_whatever_log_it_is_in(
    tmp_path_factory: pytest.TempPathFactory, layout: int, first: list[Event], second: list[Event]
) -> None:
    root = tmp_path_factory.mktemp("t")
    base = base_of(root, layout, merge_mode=COMMIT_TIME)
    told = {key: (key, f"{key}0", 5) for key in KEYS}
    logs = []
    for number, (instant, events) in enumerate(((T2, first), (T3, second))):
        write = write_of(root, instant, layout=layout, merge_mode=COMMIT_TIME)
        logs.append(log(write, base, events, 1 if layout > 1 else number + 1))
        for key, name, ts, gone in events:
            told.pop(key, None)
            if not gone:
                told[key] = key, name, ts
    assert merged(write, root, base, logs) == sorted(told.values())


@pytest.mark.parametrize("layout", [1, 2])
def test_the_larger_ordering_value_wins_and_a_tie_goes_to_the_later_write(
    tmp_path: Path, layout: int
) -> None:
    base = base_of(tmp_path, layout)
    write = write_of(tmp_path, T2, layout=layout)
    events = [("a", "older", 4, False), ("b", "tied", 5, False), ("c", "newer", 6, False),
              ("d", "", 4, True), ("e", "", 5, True)]  # fmt: skip
    found = merged(write, tmp_path, base, [log(write, base, events)])
    assert found == [("a", "a0", 5), ("b", "tied", 5), ("c", "newer", 6), ("d", "d0", 5),
                     ("f", "f0", 5)]  # fmt: skip


def test_an_operation_delete_deletes_whatever_the_ordering_value(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    write = write_of(tmp_path, T2, always_delete=True)
    found = merged(write, tmp_path, base, [log(write, base, [("a", "", 1, True)])])
    assert [key for key, *_ in found] == list("bcdef")


def test_by_commit_time_a_delete_has_no_ordering_values(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    for mode, order in ((EVENT_TIME, (("long", 9), ("double", 1.5))), (COMMIT_TIME, ())):
        write = write_of(tmp_path, T2, merge_mode=mode, ordering_columns=("ts", "price"))
        (block,) = blocks(tmp_path, log(write, base, [("a", "", 9, True)]))
        assert [each.order for each in deleted_keys(block.content, "")] == [order]


def test_rows_of_a_key_are_combined_before_they_are_logged(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    write = write_of(tmp_path, T2)
    stat = log(write, base, [("a", "won", 9, False), ("a", "lost", 8, False)])
    assert merged(write, tmp_path, base, [stat])[0] == ("a", "won", 9)
    assert stat["num_writes"] == 1


@pytest.mark.parametrize("block_bytes", [1, log_writer.BLOCK_BYTES])
def test_positions_count_through_the_row_groups_of_a_base_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(log_writer, "BLOCK_BYTES", block_bytes)
    rows = [{"id": f"{n:05}", "name": "a", "price": 1.0, "ts": 5} for n in range(3_000)]
    base = insert(write_of(tmp_path, T1, row_group_rows=1_024), rows_of(rows), "p")
    changed = [7, 1_500, 1_501, 2_999]
    write = write_of(tmp_path, T2, row_group_rows=1_024)
    stat = log(write, base, [(f"{n:05}", "b", 9, False) for n in reversed(changed)])
    _, held = parts(write, tmp_path, [stat])
    found = [part.positions(T1) for part in held]
    assert [n for at in found if at is not None for n in at.tolist()] == changed
    assert [key for part in held for key in part.keys().to_pylist()] == [f"{n:05}" for n in changed]
    assert len(held) == (3 if block_bytes == 1 else 1)


def test_each_row_of_layout_2_has_its_position_and_new_keys_have_blocks_of_their_own(
    tmp_path: Path,
) -> None:
    base = base_of(tmp_path, 2)
    write = write_of(tmp_path, T2)
    stat = log(write, base, [("f", "1", 9, False), ("b", "2", 9, False), ("new", "3", 9, False),
                             ("c", "", 9, True)])  # fmt: skip
    _, held = parts(write, tmp_path, [stat])
    places = [part.positions(T1) for part in held]
    assert [None if at is None else at.tolist() for at in places] == [[1, 5], None, [2]]
    assert [part.keys().to_pylist() for part in held] == [["b", "f"], ["new"], ["c"]]
    for block in blocks(tmp_path, stat):
        assert block.header[HeaderKey.INSTANT_TIME] == T2
        assert HeaderKey.SCHEMA in block.header
        assert set(block.header) <= {0, 2, 5, 8}, "Apache Hudi fails on a key that it does not know"


def test_a_log_of_layout_1_has_no_positions_and_the_name_of_its_slice(tmp_path: Path) -> None:
    base = base_of(tmp_path, 1)
    write = write_of(tmp_path, T2, layout=1)
    stat = log(write, base, [("a", "1", 9, False)], 3)
    assert stat["path"].startswith(f"p/.{base['file_id']}_{T1}.log.3_")
    assert stat["marker"] == "APPEND"
    assert [set(block.header) for block in blocks(tmp_path, stat)] == [{0, 2}]


def test_the_statistic_is_that_of_a_log(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    stat = log(write_of(tmp_path, T2), base, [("a", "1", 9, False), ("b", "", 9, True)])
    assert stat["path"].startswith(f"p/.{base['file_id']}_{T2}.log.1_")
    assert stat["marker"] == "CREATE"
    told = stat_of(stat)
    assert (told.prev_commit, told.base_file, told.log_version, told.log_offset) == (T2, "", 1, 0)
    assert told.log_files == (stat["path"].removeprefix("p/"),)
    assert (told.num_writes, told.num_updates, told.num_deletes, told.num_inserts) == (1, 1, 1, 0)
    assert told.file_size_bytes == (tmp_path / stat["path"]).stat().st_size
    assert {b.block_type for b in blocks(tmp_path, stat)} == {
        BlockType.AVRO_DATA, BlockType.DELETE
    }  # fmt: skip


def test_a_new_key_does_not_go_to_a_log_under_an_index_that_looks_keys_up(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    write = write_of(tmp_path, T2, keys_known=True)
    with pytest.raises(WriteFailed, match="'new' was taken for one of"):
        log(write, base, [("new", "1", 9, False)])
    assert not list((tmp_path / "p").glob(".*.log.*")), "nothing is left of a failed log"


def doubled(root: Path, **more: Any) -> Stat:
    """A base file in several row groups, which has the key ``c`` in two of them."""
    rows = [{"id": f"{n:05}", "name": "a", "price": 1.0, "ts": 5} for n in range(3_000)]
    rows[7]["id"] = rows[2_000]["id"] = "c"
    return insert(write_of(root, T1, row_group_rows=1_024, **more), rows_of(rows), "p")


def doubles(root: Path, base: Stat, copies: str, gone: bool = False, **more: Any) -> Stat:
    """Write the doubled key and another one to a log, or what takes its place."""
    plan = GroupPlan(0, base["file_id"], "p", base["path"], T1, None, 1, copies)
    rows = table_of([("c", "new", 9, gone), ("00001", "new", 9, False)])
    write = write_of(root, T2, row_group_rows=1_024, **more)
    (stat,) = run(write_groups(write, {0: plan}), with_columns(rows, **{GROUP: 0}))
    return stat


@pytest.mark.parametrize("memory_bytes", [1, 96 << 20], ids=["routed", "held"])
@pytest.mark.parametrize("keys_known", [True, False])
@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("gone", [True, False])
def test_a_key_that_a_base_file_has_twice_makes_a_new_base_file(
    tmp_path: Path, layout: int, keys_known: bool, gone: bool, memory_bytes: int
) -> None:
    more = {"layout": layout, "keys_known": keys_known, "memory_bytes": memory_bytes}
    base = doubled(tmp_path, layout=layout)
    stat = doubles(tmp_path, base, REWRITE, gone, **more)
    assert stat["log_version"] is None
    assert not list((tmp_path / "p").glob(".*.log.*"))
    held = pq.ParquetFile(tmp_path / stat["path"]).read(columns=["id", "name"]).to_pylist()
    assert [row["name"] for row in held if row["id"] == "c"] == ([] if gone else ["new", "new"])
    assert len(held) == (2_998 if gone else 3_000)
    assert sum(row["name"] == "new" for row in held) == (1 if gone else 3)
    assert (stat["num_updates"], stat["num_deletes"]) == ((1, 2) if gone else (3, 0))


def test_positions_tell_the_rows_of_a_key_apart_if_the_base_file_stays(tmp_path: Path) -> None:
    base = doubled(tmp_path)
    stat = doubles(tmp_path, base, BY_POSITION)
    assert (stat["log_version"], stat["copies"]) == (1, 1)
    held = [row for row in merged(write_of(tmp_path, T2), tmp_path, base, [stat]) if row[1] != "a"]
    assert held == [("00001", "new", 9), ("c", "new", 9), ("c", "new", 9)]
    plain = log(write_of(tmp_path, T3), base, [("00001", "once", 9, False)])
    assert plain["copies"] == 0


@pytest.mark.parametrize(
    ("more", "forced"),
    [
        ({"merge_mode": EVENT_TIME, "ordering_columns": ("ts",)}, 1),
        ({"merge_mode": EVENT_TIME, "ordering_columns": ("ts",), "always_delete": True}, 2),
        ({"merge_mode": COMMIT_TIME, "ordering_columns": ("ts",)}, 0),
    ],
    ids=["event time", "operation delete", "commit time"],
)
def test_a_log_counts_its_deletes_that_always_win(
    tmp_path: Path, more: dict[str, Any], forced: int
) -> None:
    events = [("a", "", None, True), ("b", "", 7, True), ("c", "new", None, False)]
    stat = log(write_of(tmp_path, T2, **more), base_of(tmp_path, 2), events)
    assert (stat["num_deletes"], stat["forced"]) == (2, forced)


@pytest.mark.parametrize("layout", [1, 2])
def test_a_key_that_a_base_file_has_twice_is_refused_if_that_cannot_be_written_anew(
    tmp_path: Path, layout: int
) -> None:
    base = doubled(tmp_path, layout=layout)
    with pytest.raises(UnsupportedTable, match="has the key 'c' more than once.*Compact the table"):
        doubles(tmp_path, base, REFUSE, layout=layout)
    assert not list((tmp_path / "p").glob(".*.log.*"))


def test_keys_that_share_a_hash_are_no_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = base_of(tmp_path, 2)
    monkeypatch.setattr(log_writer, "key_hashes", lambda keys: np.zeros(len(keys), np.uint64))
    stat = log(write_of(tmp_path, T2), base, [("a", "1", 9, False), ("b", "2", 9, False)])
    assert (stat["log_version"], stat["copies"]) == (1, 0)


MARK = pa.field("_hoodie_is_deleted", pa.bool_())


def ordered_by_two(
    root: Path, layout: int, rows: Sequence[Mapping[str, Any]]
) -> tuple[Stat, set[str], list[tuple[Any, ...]]]:
    """A log of ``rows`` over keys with the ordering values 5 and 1.0: its report, the keys that the
    base file still gives, and (key, ordering value) of the log's rows that count."""
    columns = pa.schema([*SCHEMA, MARK])
    ordered = {
        "schema": columns, "ordering_columns": ("ts", "price"), "layout": layout,
        "avro_schema": json.dumps(SparkSchema.of_arrow(columns).with_meta_columns().avro("t")),
    }  # fmt: skip
    held = [{"id": key, "name": "a", "price": 1.0, "ts": 5} for key in KEYS]
    base = insert(spec(root, T1, **ordered), rows_of(held, columns), "p")
    marks = pa.array([bool(each.get(MARK.name)) for each in rows])
    given = with_columns(rows_of(list(rows), columns), **{DELETE: marks, GROUP: 0})
    plan = GroupPlan(0, base["file_id"], base["partition_path"], base["path"], T1, None, 1)
    (stat,) = run(write_groups(spec(root, T2, **ordered), {0: plan}), given)
    ordering = pa.struct([("ts", pa.int64()), ("price", pa.float64())])
    how = MergeSpec(
        str(root), FileSystemSpec(), CountedInstants(frozenset({T1, T2}), ""),
        pa.struct([("id", pa.string()), ("ts", pa.int64())]), ordering, ("ts", "price"),
    )  # fmt: skip
    parts = parts_of(how, [(stat["path"], (root / stat["path"]).read_bytes())], {})
    with pa.OSFile(str(root / base["path"])) as opened:
        result = merge(how, parts, SliceFile(opened, Slice(base["path"])), T1)
    keys = pq.ParquetFile(root / base["path"]).read(columns=["id"])["id"].to_pylist()
    kept = {key for at, key in enumerate(keys) if at not in set(result.masked.tolist())}
    found = [
        (row["id"], row["ts"])
        for part, at in zip(parts, result.kept, strict=True)
        if not part.deletes
        for row in part.images(at, how.rows).to_pylist()
    ]
    return stat, kept, sorted(found)


@pytest.mark.parametrize("layout", [1, 2])
def test_a_delete_whose_values_a_block_would_change_is_a_marked_row(
    tmp_path: Path, layout: int
) -> None:
    gone = [{"id": "a", "ts": 6}, {"id": "b", "price": 1.5, "ts": 6}, {"id": "c", "ts": 4}]
    gone = [{**each, MARK.name: True} for each in gone]
    stat, kept, rows = ordered_by_two(tmp_path, layout, gone)

    found = {block.block_type: block for block in blocks(tmp_path, stat)}
    assert [each.key for each in deleted_keys(found[BlockType.DELETE].content, "")] == ["b"]
    assert (stat["num_deletes"], stat["num_updates"], stat["num_inserts"]) == (2, 0, 0)
    assert kept == {"c", "d", "e", "f"}, "the older delete of c loses"
    assert stat["outdated"] == 1
    assert rows == []


def test_a_marked_row_has_some_value_in_each_column_that_is_not_null(tmp_path: Path) -> None:
    """A delete may lack it, and Avro has no null there: the block would not decode."""
    needed = {
        "n": pa.int32(), "yes": pa.bool_(), "s": pa.string(), "raw": pa.binary(),
        "d": pa.decimal128(9, 2), "day": pa.date32(), "real": pa.float64(),
        "in": pa.struct([("x", pa.int32())]), "each": pa.list_(pa.string()),
        "by": pa.map_(pa.string(), pa.int32()),
    }  # fmt: skip
    fields = [pa.field(name, kind, nullable=False) for name, kind in needed.items()]
    columns = pa.schema([*SCHEMA, MARK, *fields])
    struct = SparkSchema.of_arrow(columns).json()
    for each in struct["fields"]:
        each["nullable"] = each["name"] not in needed
    avro = json.dumps(SparkSchema.parse(struct).with_meta_columns().avro("t"))
    more = {"schema": columns, "ordering_columns": ("ts", "price"), "avro_schema": avro}
    gone = [{"id": "a", "ts": 6, MARK.name: True}]
    loose = pa.schema([each.with_nullable(True) for each in columns])
    given = with_columns(rows_of(gone, loose), **{DELETE: pa.array([True]), GROUP: 0})
    plan = GroupPlan(0, "f-0", "p", None, None, None, 1)
    (stat,) = run(write_groups(spec(tmp_path, T2, **more), {0: plan}), given)
    _, (part,) = parts(write_of(tmp_path, T2), tmp_path, [stat])
    (found,) = part.images(np.array([0]), pa.struct(fields)).to_pylist()
    assert not any(value is None for value in found.values())


@pytest.mark.parametrize("mark", [[], [MARK]], ids=["no mark", "mark"])
def test_a_delete_without_an_ordering_value_that_is_not_null_is_compared_by_null(
    tmp_path: Path, mark: list[pa.Field]
) -> None:
    columns = pa.schema([*SCHEMA, *mark])
    columns = columns.set(3, columns.field(3).with_nullable(False))
    more = {"schema": columns, "ordering_columns": ("ts", "price")}
    loose = pa.schema([each.with_nullable(True) for each in columns])
    given = rows_of([{"id": "a", "price": 1.5, MARK.name: True}], loose)
    given = with_columns(given, **{DELETE: pa.array([True]), GROUP: 0})
    plan = GroupPlan(0, "f-0", "p", None, None, None, 1)
    (stat,) = run(write_groups(spec(tmp_path, T2, **more), {0: plan}), given)
    (block,) = blocks(tmp_path, stat)
    (gone,) = deleted_keys(block.content, "")
    assert gone.order == (("null", None), ("double", 1.5))


@pytest.mark.parametrize("layout", [1, 2])
def test_null_among_several_values_of_a_delete_is_the_smallest_without_a_column_of_marks(
    tmp_path: Path, layout: int
) -> None:
    """Another column marks the deletes of such a table, so a delete block has them all."""
    more = {"layout": layout, "ordering_columns": ("ts", "price")}
    held = [{"id": key, "name": f"{key}0", "price": 1.0} for key in KEYS]
    base = insert(write_of(tmp_path, T1, **more), rows_of(held), "p")
    events: list[tuple[str, str, Any, bool]] = [
        ("a", "new", 6, False), ("b", "new", None, False), ("a", "", None, True),
        ("b", "", None, True), ("new", "new", 6, False), ("new", "", None, True),
    ]  # fmt: skip
    logs = []
    for number, which in enumerate(([0, 1, 4], [2, 3, 5])):
        write = write_of(tmp_path, (T2, T3)[number], **more)
        version = 1 if layout > 1 else number + 1
        logs.append(log(write, base, [events[at] for at in which], version))
    how, found = parts(write, tmp_path, logs)
    kinds = pa.struct([("ts", pa.int64()), ("price", pa.float64())])
    how = replace(how, ordering=kinds, ordering_paths=("ts", "price"))
    with pa.OSFile(str(tmp_path / base["path"])) as opened:
        left = merge(how, found, SliceFile(opened, Slice(base["path"])), T1)
    kept = zip(found, left.kept, strict=True)
    keys = [key for part, at in kept for key in part.keys_at(at).to_pylist()]
    assert sorted(keys) == ["a", "new"], "the delete of b is no older"
    assert left.masked.tolist() == [0, 1]


@pytest.mark.parametrize("layout", [1, 2])
def test_marked_rows_stand_among_the_others_at_their_places(tmp_path: Path, layout: int) -> None:
    """Positions of a block ascend: rows in another order would be taken for one another."""
    rows = [{"id": key, "price": 1.5, "ts": ts} for key, ts in (("a", 9), ("c", 5), ("e", 7))]
    gone = [{"id": key, "ts": ts, MARK.name: True} for key, ts in (("b", 8), ("d", 6), ("f", 9))]
    stat, kept, found = ordered_by_two(tmp_path, layout, [*rows, *gone])

    assert kept == set()
    assert found == [("a", 9), ("c", 5), ("e", 7)]
    assert (stat["num_deletes"], stat["num_updates"], stat["num_inserts"]) == (3, 3, 0)
