"""Each Spark line once: spark-sql, and a remote Connect session that has no pyhudi.

``make test`` runs the newest line and ``make test-all`` every one. The other tests of programs that
start in the JVM go deeper: ``test_jvm_first.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.jvm_first import Place, connect_server, spark_sql
from integration.test_jvm_first import AFTER, CHANGED, CHANGES, CREATE, INSERT, ROWS, tabbed
from tests.spark_lines import by_line


@pytest.mark.parametrize("line", by_line())
def test_spark_sql_makes_changes_and_reads_a_table(line: str, tmp_path: Path) -> None:
    here = Place(tmp_path, line)
    with spark_sql(here) as sql:
        for statement in (CREATE, INSERT):
            sql.run(statement)
        assert [sql.run(statement) for statement in CHANGES] == list(map(tabbed, CHANGED))
        assert sql.run(ROWS) == tabbed(AFTER)
        sql.run("alter table fares add columns (note string)")
        sql.run("insert into fares values (4, 1.0, 1, 'new', 'Rome')")
        assert sql.run("select id, note from fares where note is not null") == ["4\tnew"]
        assert "[INVALID_RECORD]" in sql.error("insert into fares values (null, 1.0, 1, '', '')")


@pytest.mark.parametrize("line", by_line())
def test_a_remote_session_makes_changes_and_reads_a_table(line: str, tmp_path: Path) -> None:
    with connect_server(tmp_path, line) as (_, client):
        found = client.run("statements", CREATE, INSERT, *CHANGES, ROWS)
    assert [[tuple(row) for row in rows] for rows in found["changed"]] == [[], [], *CHANGED]
    assert [tuple(row) for row in found["rows"]] == AFTER
    assert found["by_path"] == [[1, "a"], [2, "c"]]
    assert "[TABLE_NOT_FOUND]" in found["error"]
