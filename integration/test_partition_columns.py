"""Columns by position where partition columns are not declared last, beside Apache Hudi."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import PeerError, SparkPeer

META_COLUMNS = 5
KEYED = "tblproperties (primaryKey = 'id')"
SOURCE = "select 'z' as extra, '8' as id, '2021-01-08' as dt, 'n8' as name"
#: what a table of the columns id, name and dt goes through; a question is compared
STEPS = (
    "describe T",
    "insert into T values ('1', 'n1', '2021-01-01')",
    "insert into T (id, dt, name) values ('2', '2021-01-02', 'n2')",
    "insert into T partition (dt = '2021-01-03') values ('3', 'n3')",
    "insert into T select '5', 'n5', '2021-01-05'",
    "alter table T add columns (extra string)",
    "describe T",
    "insert into T values ('7', 'n7', 'x7', '2021-01-07')",
    f"merge into T using ({SOURCE}) s on T.id = s.id when not matched then insert *",
    "select * from T",
    "drop table T",
)
PLACED = f"using FORMAT partitioned by (dt) location 'PLACE' {KEYED}"
CREATED = {
    "middle": f"create table T (id string, dt string, name string) {PLACED}",
    "first": f"create table T (dt string, id string, name string) {PLACED}",
    "selected": f"create table T {PLACED} as select '0' as id, '2021-01-09' as dt, 'n0' as name",
}
SAMPLE = "middle"
BY_SAVE = {
    "hoodie.table.name": "T",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
}


def shown(peer: SparkPeer, statement: str) -> list[list[str]]:
    """The rows of a question without Hudi's own columns, which pyhudi hides."""
    rows = peer.texts(statement)
    hidden = META_COLUMNS if peer.format == "hudi" else 0
    if statement.startswith("describe"):
        return rows[hidden:]
    return sorted(row[hidden:] for row in rows)


def answers(peer: SparkPeer, table: str, place: Path, create: str) -> list[list[list[str]]]:
    """What each question gives on a table that is made and goes through all steps."""
    found = []
    for step in (create.replace("PLACE", str(place)).replace("FORMAT", peer.format), *STEPS):
        statement = re.sub(r"\bT\b", table, step)
        if statement.startswith(("select", "describe")):
            found.append(shown(peer, statement))
        else:
            peer.texts(statement)
    return found


@pytest.mark.parametrize(
    "create",
    [
        pytest.param(create, id=name, marks=() if name == SAMPLE else pytest.mark.matrix)
        for name, create in CREATED.items()
    ],
)
def test_columns_stand_where_apache_hudi_has_them(
    create: str, peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    found = answers(peers("pyhudi"), "ours", tmp_path / "ours", create)
    assert found == answers(peers("hudi-1.2.0"), "theirs", tmp_path / "theirs", create)
    assert [[row[0] for row in found[0][:3]]] == [["id", "name", "dt"]]


@pytest.mark.matrix
def test_columns_of_a_table_made_by_save_stand_where_apache_hudi_has_them(
    peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    rows = pa.table({"id": ["0"], "dt": ["2021-01-09"], "name": ["n0"]})
    found = {}
    for name, table in (("pyhudi", "ours"), ("hudi-1.2.0", "theirs")):
        peer, place = peers(name), tmp_path / table
        peer.write(place, rows, {**BY_SAVE, "hoodie.table.name": table})
        adopt = "create table T using FORMAT location 'PLACE'"
        columns = [c for c, _ in peer.read(place).schema if not c.startswith("_hoodie")]
        found[name] = (columns, answers(peer, table, place, adopt))
    assert found["pyhudi"] == found["hudi-1.2.0"]
    assert found["pyhudi"][0] == ["id", "dt", "name"], "load keeps the order that was written"


def test_a_table_of_either_engine_takes_the_same_insert_from_the_other(
    peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    for first, second in (("pyhudi", "hudi-1.2.0"), ("hudi-1.2.0", "pyhudi")):
        place, table = tmp_path / first, first.replace("-", "_").replace(".", "_")
        maker, other = peers(first), peers(second)
        create = CREATED["middle"].replace("PLACE", str(place)).replace("FORMAT", maker.format)
        maker.texts(create.replace(" T ", f" {table} "))
        maker.texts(f"insert into {table} values ('1', 'n1', '2021-01-01')")
        other.texts(f"create table {table} using {other.format} location '{place}'")
        other.texts(f"insert into {table} values ('2', 'n2', '2021-01-02')")
        expected = [["1", "n1", "2021-01-01"], ["2", "n2", "2021-01-02"]]
        maker.texts(f"refresh table {table}")
        assert shown(maker, f"select * from {table}") == expected
        assert shown(other, f"select * from {table}") == expected
        for peer in (maker, other):
            peer.texts(f"drop table {table}")


def test_apache_hudi_refuses_partition_columns_in_another_order_than_declared(
    peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    create = (
        "create table several (x int, id string, y int, name string) using {} "
        f"partitioned by (y, x) location '{tmp_path}' {KEYED}"
    )
    with pytest.raises(PeerError, match="order does not match"):
        peers("hudi-1.2.0").texts(create.format("hudi"))
    ours = peers("pyhudi")
    ours.texts(create.format("pyhudi"))
    ours.texts("insert into several values ('1', 'n1', 10, 20)")
    assert ours.texts("select y, x, name from several") == [["10", "20", "n1"]]
    assert [row[0] for row in ours.texts("describe several")[:4]] == ["id", "name", "y", "x"]
    ours.texts("drop table several")
