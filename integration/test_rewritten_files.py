"""A merge-on-read write that writes a large base file anew, instead of a log of many rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.peers import HudiRs, SparkPeer

ROWS = 40_000
TEXT = "concat(sha2(cast(id as string), 512), sha2(cast(-id as string), 512))"
COUNTS = "select v, count(*) as n from {} group by v"


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.matrix), 6])
def test_a_large_file_that_was_written_anew_is_read_and_changed_by_others(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    ours, hudi, path = peers("pyhudi"), peers("hudi-1.2.0"), tmp_path / "t"
    name = f"rewritten_{version}"
    ours.sql(
        f"create table {name} (id bigint, v string, text string, ts bigint) using pyhudi location "
        f"'{path}' tblproperties (type = 'mor', primaryKey = 'id', preCombineField = 'ts', "
        f"'hoodie.write.table.version' = '{version}', 'hoodie.compact.inline' = 'false')"
    )
    ours.sql(f"insert into {name} select id, 'old', {TEXT}, 1L from range(0, {ROWS}, 1, 1)")
    ours.sql(f"update {name} set v = 'new', ts = 2 where id % 4 = 0")
    assert len(list(path.glob("*.parquet"))) == 2
    assert not list(path.glob(".*.log.*")), "a fourth of the rows is in a new base file"
    hudi.sql(f"create table {name} using hudi location '{path}'")
    hudi.sql("set hoodie.metadata.enable=false")
    hudi.sql("set hoodie.write.auto.upgrade=false")

    def alike(**counts: int) -> None:
        for peer in (ours, hudi):
            found = {row["v"]: row["n"] for row in peer.sql(COUNTS.format(name)).rows}
            assert found == counts, peer
        rows = HudiRs().read(path).rows
        assert {v: sum(row["v"] == v for row in rows) for v in counts} == counts

    alike(new=ROWS // 4, old=ROWS - ROWS // 4)
    hudi.sql(f"update {name} set v = 'hudi', ts = 3 where id < 100")
    alike(hudi=100, new=ROWS // 4 - 25, old=ROWS - ROWS // 4 - 75)
    ours.sql(f"refresh table {name}")
    ours.sql(f"update {name} set v = 'all', ts = 4 where id >= 0")
    assert len(list(path.glob("*.parquet"))) == 2, "beside a log there is another log"
    hudi.sql(f"refresh table {name}")
    alike(all=ROWS)
