"""Ranges of commits of tables that Apache Hudi wrote, archived and clustered ones among them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.errors import UnsupportedTable
from pyhudi.format.instants import padded_time
from pyhudi.reads.scan import Query, open_query
from pyhudi.slices.files import base_files
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import open_table
from tests.fakes import FakeClock
from tests.golden_tables import BY_NAME, COPY_ON_WRITE, GoldenTable

WITH_ROWS = [table for table in COPY_ON_WRITE if table.expected()]
META = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"]
Key = tuple[str, ...]


def asked(begin: str) -> dict[str, str]:
    return {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.incr.order": "requested",
        "hoodie.datasource.read.begin.instanttime": begin,
    }


def opened(table: GoldenTable, folder: Path, begin: str) -> Query:
    root = str(table.unzip(folder))
    storage = LocalStorage(root)
    runtime = Runtime(FakeClock(), lambda at: storage, None, None, None)  # type: ignore[arg-type]
    return open_query(runtime, root, asked(begin), {})


def rows(query: Query) -> list[Key]:
    """Commit, key and partition of each row that a range gives."""
    root, counted, found = query.table.storage.root, query.rows, []
    for file in base_files(query.slices(())):
        for row in pq.read_table(f"{root}/{file.path}", columns=META).to_pylist():
            time = row[META[0]]
            if (
                counted is None
                or time in counted.commits
                or (counted.above is not None and time > counted.above)
            ):
                found.append(tuple(row[name] for name in META))
    return sorted(found)


@pytest.mark.parametrize("table", WITH_ROWS, ids=lambda table: table.name)
def test_a_range_up_to_now_gives_the_rows_of_its_commits(
    table: GoldenTable, tmp_path: Path
) -> None:
    known = open_table(LocalStorage(str(table.unzip(tmp_path))))
    expected = sorted(tuple(row[name] for name in META) for row in table.expected() or ())
    archived = archived_instants(known.storage, known.config)
    times = [e.instant.time for e in archived if e.instant.action in COMMIT_ACTIONS]
    times += [commit.time for commit in known.timeline().commits]
    for begin in ("earliest", "20000101000000000", *times):
        least = padded_time(begin) if begin[0] == "2" else ""
        wanted = [row for row in expected if padded_time(row[0]) > least]
        assert rows(opened(table, tmp_path, begin)) == wanted, begin


@pytest.mark.parametrize("begin", ["earliest", "20000101000000000"])
def test_a_range_that_ends_with_log_files_is_refused_and_a_compacted_one_is_read(
    begin: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedTable, match="log file"):
        rows(opened(BY_NAME["h120_v9-mor_np"], tmp_path, begin))
    compacted = BY_NAME["h120_v9-mor_log"]
    expected = sorted(tuple(row[name] for name in META) for row in compacted.expected() or ())
    assert rows(opened(compacted, tmp_path, begin)) == expected
