"""Ranges of commits of tables that Apache Hudi wrote, archived and clustered ones among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.format.instants import padded_time
from pyhudi.reads.scan import Query
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import open_table
from tests.golden_tables import ALL, GoldenTable
from tests.reads import merged_table, test_log_slices

#: its writer reads other rows than Apache Hudi 1.2.0 (``test_log_slices.py``)
WITH_ROWS = [t for t in ALL if t.expected() and t.name != test_log_slices.DISPUTED]
META = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"]
Key = tuple[str, ...]


def asked(begin: str) -> dict[str, str]:
    return {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.incr.order": "requested",
        "hoodie.datasource.read.begin.instanttime": begin,
    }


def opened(table: GoldenTable, folder: Path, begin: str) -> Query:
    return merged_table.opened(table.unzip(folder), **asked(begin))


def rows(query: Query) -> list[Key]:
    """Commit, key and partition of each row that a range gives."""
    counted, found = query.rows, []
    for row in merged_table.rows(query):
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
