"""Slices with logs: golden merge-on-read tables give the rows that Apache Hudi reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pyhudi.reads import log_slices
from pyhudi.reads.log_slices import READ_SHARE, merges
from pyhudi.reads.scan import count_rows
from pyhudi.rows.log_spec import LogSlice, Merged, MergeSpec
from pyhudi.rows.slice_reader import merged
from tests import golden_tables
from tests.golden_tables import GoldenTable
from tests.reads.merged_table import opened, rows

#: its writer, Hudi 0.15.0, reads other rows than Apache Hudi 1.2.0 and hudi-rs
DISPUTED = "h0150_v6-mor_bucket_consistent"
TABLES = [
    t
    for t in golden_tables.ALL
    if t.merge_on_read and t.expected() is not None and t.name != DISPUTED
]
META = ("_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path")
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
    query.merged.clear()
    monkeypatch.setattr(log_slices, "HERE_BYTES", read - 1)
    assert [each.rows for each in merges(query, [found], elsewhere).values()] == [
        each.rows for each in here.values()
    ]
    assert asked == [[read]]
