"""Slices with logs: golden merge-on-read tables give the rows that Apache Hudi reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyhudi.errors import ConfigError, TableCorrupt
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.log_blocks import MAGIC
from pyhudi.reads import log_slices
from pyhudi.reads.conditions import (
    AllOf,
    Compare,
    Comparison,
    Filter,
    IsNotNull,
    IsNull,
    Not,
    Text,
    Unknown,
)
from pyhudi.reads.log_slices import READ_SHARE, merges, plan_log_rows
from pyhudi.reads.scan import Query, count_rows, open_query
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_spec import CountedInstants, LogSlice, Merged, MergeSpec
from pyhudi.rows.slice_reader import log_columns, merged
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.services.slice_memory import OVERHEAD, LogMemory, SliceMemory, key_of
from pyhudi.slices.files import LogFile
from pyhudi.timeline.strays import Archive
from tests import golden_tables
from tests.golden_tables import BY_NAME, GoldenTable
from tests.reads.merged_table import opened, rows

#: its writer, Hudi 0.15.0, reads other rows than Apache Hudi 1.2.0 and hudi-rs
DISPUTED = "h0150_v6-mor_bucket_consistent"
TABLES = [
    t
    for t in golden_tables.ALL
    if t.merge_on_read and t.expected() is not None and t.name != DISPUTED
]
META = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path")
NO_COLUMNS = (pa.struct([]), pa.struct([]))
PLAIN = ("id", "name", "price", "ts", "dt")


def facts(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = [n for n in (*META, *PLAIN) if found and n in found[0]]
    return sorted((tuple(row.get(name) for name in names) for row in found), key=repr)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_golden_table_gives_its_rows(table: GoldenTable, tmp_path: Path) -> None:
    found = rows(opened(table.unzip(tmp_path)))
    assert facts(found) == facts(table.expected() or [])


def test_merges_count_among_what_a_query_holds(tmp_path: Path) -> None:
    query = opened(golden_tables.BY_NAME["h120_v9-mor_types"].unzip(tmp_path))
    assert len(query.slices(())) == query.listed_files == 1
    assert count_rows(query, ()) == 2
    assert query.listed_files == 2


def test_a_merge_is_left_to_spark_by_what_it_reads_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = opened(golden_tables.BY_NAME["h120_v9-mor_types"].unzip(tmp_path))
    (found,) = query.slices(())
    assert found.base is not None
    read = sum(log.size_bytes for log in found.logs) + found.base.size_bytes // READ_SHARE
    asked: list[Sequence[int]] = []

    def elsewhere(
        spec: MergeSpec, slices: Sequence[LogSlice], sizes: Sequence[int]
    ) -> list[Merged]:
        asked.append(sizes)
        return [merged(spec, spec.fs.open(), each) for each in slices]

    monkeypatch.setattr(log_slices, "HERE_BYTES", read)
    here = merges(query, [found], elsewhere)
    assert asked == []
    query = opened(Path(query.table.storage.root))
    monkeypatch.setattr(log_slices, "HERE_BYTES", read - 1)
    assert [each.rows for each in merges(query, [found], elsewhere).values()] == [
        each.rows for each in here.values()
    ]
    assert asked == [[read]]


def test_a_scan_counts_the_bytes_of_its_logs(tmp_path: Path) -> None:
    """A join broadcasts what Spark takes for small; a bucket may have nothing but logs."""
    query = opened(BY_NAME["h120_v9-mor_types"].unzip(tmp_path))
    logs = [log for each in query.slices(()) for log in each.logs]
    assert plan_scan(query, []).log_bytes == sum(log.size_bytes for log in logs) > 0


def answers(query: Query, *filters: Filter) -> list[dict[str, Any]]:
    """The rows of logs that are read for a query with ``filters``."""
    wanted = query.schema().with_meta_columns()
    plan = plan_log_rows(query, query.slices(()), wanted, filters=filters)
    return plan.table().to_pylist()


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_filter_leaves_rows_of_logs_out_and_no_other(
    table: GoldenTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = opened(table.unzip(tmp_path))
    every = answers(query)
    for key in sorted({row["_hoodie_record_key"] for row in every}):
        condition = Compare(Comparison.EQUAL, "_hoodie_record_key", Text(key))
        held = [row for row in every if row["_hoodie_record_key"] == key]
        for filters in ([condition], [AllOf((Unknown(), condition))]):
            assert facts(answers(query, *filters)) == facts(held)
        assert len(answers(query, Not(condition), condition)) == 0
        assert facts(answers(query, Unknown(), IsNull("no such column"))) == facts(every)
    some = IsNull("_hoodie_record_key")
    assert answers(query, some) == []
    monkeypatch.setattr(log_slices, "FILTERED_BYTES", -1)
    assert facts(answers(query, AllOf((some,)))) == facts(every)


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_a_scan_counts_the_rows_of_logs_that_may_pass_its_filters(
    table: GoldenTable, tmp_path: Path
) -> None:
    """Where there are none, nobody asks for them."""
    query = opened(table.unzip(tmp_path))
    keys = [row["_hoodie_record_key"] for row in answers(query)]
    assert plan_scan(query, []).log_rows == len(keys)
    for key in {*keys, "no such key"}:
        condition = Compare(Comparison.EQUAL, "_hoodie_record_key", Text(key))
        assert plan_scan(query, [condition]).log_rows == keys.count(key)
        assert plan_scan(query, [condition], narrowed=list).log_rows == len(keys)


def asked_again(first: Query) -> tuple[Query, int]:
    """The same table in another query of the application, and how many merges it makes."""
    made: list[LogSlice] = []

    def elsewhere(
        spec: MergeSpec, slices: Sequence[LogSlice], sizes: Sequence[int]
    ) -> list[Merged]:
        made.extend(slices)
        return [merged(spec, spec.fs.open(), each) for each in slices]

    query = open_query(first.runtime, first.table.storage.root, {}, {})
    with_logs = [each for each in query.slices(()) if each.logs]
    merges(query, with_logs, elsewhere)
    return query, len(made)


@pytest.mark.parametrize(
    ("name", "first", "again"),
    [
        ("h120_v9-mor_types", "9", 0),
        ("h120_v8-mor_np", "8", 0),
        ("h120_v9-mor_types", "6", 1),
        ("h120_v9-mor_types", "", 1),
        ("h0150_v6-mor_np", "6", 1),
    ],
)
def test_a_merge_is_remembered_where_the_name_of_a_log_says_its_write(
    name: str, first: str, again: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a table that was upgraded: logs from before it keep the names of their slices."""
    monkeypatch.setattr(log_slices, "HERE_BYTES", -1)
    root, key = golden_tables.BY_NAME[name].unzip(tmp_path), "hoodie.table.initial.version"
    file = root / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(key)]
    file.write_text("\n".join([*lines, *([f"{key}={first}"] if first else [])]))
    query, made = asked_again(opened(root))
    assert made > 0
    other, made_again = asked_again(query)
    assert made_again == made * again
    assert facts(rows(other)) == facts(rows(query))


def test_a_column_is_read_of_logs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = opened(golden_tables.BY_NAME["h120_v9-mor_types"].unzip(tmp_path))
    read: list[list[str]] = []

    def noted(spec: MergeSpec, *rest: Any) -> Any:
        read.append(list(spec.rows.names))
        return log_columns(spec, *rest)

    monkeypatch.setattr(log_slices, "log_columns", noted)
    key, name = IsNotNull("_hoodie_record_key"), IsNotNull("_hoodie_commit_time")
    for filters in ([key], [key], [key, name]):
        assert answers(query, *filters)
    assert read == [["_hoodie_record_key"], ["_hoodie_commit_time"]]


def test_a_memory_keeps_what_was_used_last_and_nothing_that_fills_it() -> None:
    one = SliceMemory(Merged(np.zeros(4, np.int64), (np.zeros(4, np.int64),)))
    keys = [("root", str(at), (), "") for at in range(3)]
    memory = LogMemory(most_bytes=2 * (one.nbytes + len("root0") + 3 * OVERHEAD))
    for key in keys:
        memory.put(key, one)
    assert [memory.get(key) is not None for key in keys] == [False, True, True]
    memory.put(keys[0], replace(one, columns={("c", "int64"): pa.array([1])}))
    assert memory.get(keys[0]) is None


def test_a_renamed_column_is_another_slice_to_the_memory() -> None:
    spec = MergeSpec("root", FileSystemSpec("local"), CountedInstants(frozenset(), ""), *NO_COLUMNS)
    names = [{"1": {"a": ("b", None)}}, {"1": {"a": ("c", None)}}, {}]
    found = {key_of(spec, LogSlice(Slice("base"), "0", ("log",), each)) for each in names}
    assert len(found) == 3


def test_what_a_rollback_has_undone_never_counts_in_layout_1(tmp_path: Path) -> None:
    """Though the timeline may have moved past it, and a plan may lack the command block."""
    query = opened(golden_tables.BY_NAME["h0150_v6-mor_failed"].unzip(tmp_path))
    undone = log_slices.counted_instants(query).undone
    assert undone
    assert not any(each in log_slices.counted_instants(query) for each in undone)
    assert "1" not in CountedInstants(frozenset(), "2", undone=frozenset("1"))


def test_logs_alone_of_archived_commits_are_asked_for_the_names_of_their_columns(
    tmp_path: Path,
) -> None:
    """In layout 1 the archive has the instants of their blocks."""
    query = opened(golden_tables.BY_NAME["h0150_v6-mor_clean_archive"].unzip(tmp_path))
    schemas, first = query.file_schemas(), query.timeline.first_time
    assert first is not None
    archived = set(Archive(query.table.storage, query.table.config).commits())
    for instant, wanted in ((min(archived), archived), (first, set())):
        name = LogFileName(FileId("g"), instant, 1, "0-0-0")
        assert schemas._archived([(None, [LogFile("", name, 1)])]) == wanted


@pytest.mark.parametrize("name", ["h120_v9-mor_np", "h120_v8-mor_np", "h0150_v6-mor_log"])
def test_a_damaged_block_is_told_where_a_log_is_of_one_write(name: str, tmp_path: Path) -> None:
    root = BY_NAME[name].unzip(tmp_path)
    log = min(each for each in root.rglob(".*.log.*") if ".hoodie" not in each.parts)
    data = bytearray(log.read_bytes())
    data[len(MAGIC) + 7] ^= 1  # of the block's length
    log.write_bytes(data)

    if BY_NAME[name].version == 6:
        assert rows(opened(root)), "there it may be what a crash has left"
    else:
        with pytest.raises(TableCorrupt, match="made of whole blocks"):
            rows(opened(root))


@pytest.mark.parametrize("name", ["h120_v9-mor_np", "h0150_v6-mor_np"])
def test_a_read_takes_no_other_rows_for_deletes_than_the_table_says(
    name: str, tmp_path: Path
) -> None:
    root = BY_NAME[name].unzip(tmp_path)
    field, marker = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
    family = "hoodie.record.merge.property."
    for key in (field, marker, family + field):
        with pytest.raises(ConfigError, match=f"{key}' is 'x', but the table .* no such rule"):
            opened(root, **{key: "x"})
        opened(root, **{key: "x", "hoodie.query.as.ro.table": "true"})
        opened(root, **{key: ""})

    properties = root / ".hoodie" / "hoodie.properties"
    properties.write_text(f"{properties.read_text()}\n{family}{field}=Op\n{marker}=D\n")
    opened(root, **{field: "Op", marker: "D"})
    with pytest.raises(ConfigError, match="records 'D'"):
        opened(root, **{marker: "X"})
