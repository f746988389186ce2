"""UPDATE, DELETE and MERGE by pyhudi and Apache Hudi in turn: every reader sees the same rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import HudiRs, SparkPeer

COLUMNS = ("id", "fare", "turn", "city")
OPTIONS = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "turn",
    "hoodie.datasource.write.operation": "bulk_insert",
}
#: what Apache Hudi upserts at last, with a value in the column that was added
LAST = {"id": [8], "fare": [80.0], "turn": [9], "city": ["Lima"], "tip": [1.5]}
START = {1: (1.0, 1, "Oslo"), 2: (2.0, 1, "Oslo"), 3: (3.0, 1, "Lima"), 4: (4.0, 1, "Lima")}

Peers = Callable[[str], SparkPeer]
Rides = dict[int, tuple[float, int, str]]


def rides_of(reader: SparkPeer | HudiRs, table: Path) -> Rides:
    rows = [tuple(row[name] for name in COLUMNS) for row in reader.read(table).without_meta().rows]
    assert len({row[0] for row in rows}) == len(rows), f"a key occurs twice: {rows}"
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("index", ["SIMPLE", pytest.param("BLOOM", marks=pytest.mark.matrix)])
@pytest.mark.parametrize(
    "version", ["9", *(pytest.param(v, marks=pytest.mark.matrix) for v in "86")]
)
def test_statements_of_both_change_one_table(
    version: str, index: str, peers: Peers, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    readers = [ours, hudi, hudi_rs, *([peers("hudi-0.15.0")] if version == "6" else [])]
    rows = [dict(zip(COLUMNS, (key, *values), strict=True)) for key, values in START.items()]
    made = {**OPTIONS, "hoodie.write.table.version": version, "hoodie.index.type": index}
    ours.write(path, pa.Table.from_pylist(rows), made, mode="overwrite")
    name = f"rides_{version}_{index.lower()}"
    ours.sql(
        f"create table {name} using pyhudi options (hoodie.index.type '{index}') location '{path}'"
    )
    hudi.sql(f"create table {name} using hudi location '{path}'")
    hudi.sql("set hoodie.metadata.enable=false")
    hudi.sql("set hoodie.write.auto.upgrade=false")

    def after(writer: SparkPeer, statement: str, expected: Rides, *told: int) -> None:
        answer = writer.sql(statement.format(t=name))
        assert [tuple(row.values()) for row in answer.rows] == [told] * bool(told)
        for reader in readers:
            assert rides_of(reader, path) == expected, f"{statement}, read by {reader.name}"

    now = dict(START)
    now[2] = (20.0, 2, "Oslo")
    after(ours, "update {t} set fare = fare * 10, turn = turn + 1 where id = 2", now, 1)
    del now[3]
    after(ours, "delete from {t} where fare = 3.0", now, 1)
    now |= {1: (1.5, 3, "Oslo"), 7: (7.0, 3, "Rome")}
    news = "(select 1L id, 1.5D fare, 3L turn, 'Oslo' city union all select 7L, 7.0D, 3L, 'Rome')"
    clauses = "when matched then update set * when not matched then insert *"
    after(ours, f"merge into {{t}} t using {news} s on t.id = s.id {clauses}", now, 2, 1, 0, 1)
    now[4] = (4.0, 1, "Rome")
    after(ours, "update {t} set city = 'Rome' where id = 4", now, 1)

    now[7] = (70.0, 3, "Rome")
    after(hudi, "update {t} set fare = 70.0 where id = 7", now)
    now |= {1: (1.75, 4, "Oslo"), 8: (8.0, 4, "Lima")}
    news = "(select 1L id, 1.75D fare, 4L turn, 'Oslo' city union all select 8L, 8.0D, 4L, 'Lima')"
    after(hudi, f"merge into {{t}} t using {news} s on t.id = s.id {clauses}", now)
    del now[2]
    after(hudi, "delete from {t} where id = 2", now)

    del now[7], now[4]
    after(ours, "delete from {t} where city = 'Rome' and fare > 0", now, 2)
    now = {key: (fare + 1, turn, city) for key, (fare, turn, city) in now.items()}
    after(ours, "update {t} set fare = fare + 1", now, 2)

    after(ours, "alter table {t} add columns (tip double)", now)
    for reader in readers:
        assert dict(reader.read(path).schema)["tip"] == "double", reader.name
    hudi.sql(f"refresh table {name}")
    now[1] = (9.0, 9, "Oslo")
    after(ours, "update {t} set tip = 0.5, fare = 9.0, turn = 9 where id = 1", now, 1)
    hudi.write_into(path, pa.table(LAST), hoodie__metadata__enable="false")
    now[8] = (80.0, 9, "Lima")
    assert [rides_of(reader, path) for reader in readers] == [now] * len(readers)

    del now[8]
    after(ours, "alter table {t} drop partition (city = 'Lima')", now)
    now[8] = (8.5, 10, "Lima")
    after(ours, "insert into {t} (id, fare, turn, city, tip) values (8, 8.5, 10, 'Lima', 0.0)", now)
