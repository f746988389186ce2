"""After each DDL statement on a table by name, foreign readers find the same table by that name.

They are Apache Hudi, Hive's reader with what the metastore says alone, and Trino (`make trino`).
A difference that they have is in the step where it shows, and in docs/other_engines.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.lake import KEYED, Lake, numbers, read_by_ids
from integration.peers import PeerError
from integration.peers.trino import Trino, is_installed, trino
from tests.servers.hive_metastore import HiveMetastore

Rows = Sequence[tuple[Any, ...]]
COLUMNS = "id int, v int, city string"
BY_CITY = "partitioned by (city)"


@dataclass(frozen=True)
class Readers:
    """All who look for a table by its name."""

    lake: Lake
    trino: Trino | None

    def see(self, name: str, columns: str, rows: Rows, in_trino: Rows | None = None) -> None:
        """All find these rows; Trino, which knows columns by their names, may find others."""
        assert self.lake.seen(name, columns) == rows
        if self.trino is not None:
            found = sorted(self.trino.sql(f"select {columns} from {name}"), key=str)
            assert found == (rows if in_trino is None else in_trino)

    def see_new(self, name: str, columns: str) -> None:
        """All but Trino find a table without rows; Trino reads none that has no commit yet."""
        assert self.lake.seen(name, columns) == []
        if self.trino is not None:
            with pytest.raises(PeerError, match="Failed to scan metadata"):
                self.trino.sql(f"select * from {name}")

    def see_none(self, name: str) -> None:
        """No reader finds a table of this name."""
        with pytest.raises(PeerError, match="TABLE_OR_VIEW_NOT_FOUND"):
            self.lake.hudi.sql(f"select * from {name}")
        if self.trino is not None:
            with pytest.raises(PeerError, match="TABLE_NOT_FOUND"):
                self.trino.sql(f"select * from {name}")


@pytest.fixture(scope="module")
def server(
    metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trino | None]:
    with trino(tmp_path_factory.mktemp("trino"), metastore.uri) as running:
        yield running


@pytest.fixture(params=["hudi", pytest.param("trino", marks=pytest.mark.matrix)])
def readers(request: pytest.FixtureRequest, lake: Lake) -> Readers:
    if request.param == "hudi":
        return Readers(lake, None)
    if not is_installed():
        pytest.skip("Trino is not installed: make trino")
    return Readers(lake, request.getfixturevalue("server"))


def test_a_table_is_seen_from_its_start_to_its_end(readers: Readers) -> None:
    lake = readers.lake
    table = lake.new(COLUMNS, BY_CITY)
    readers.see_new(table, "id, v, city")
    readers.see_new(lake.new(COLUMNS, BY_CITY, by="hudi"), "id, v, city")
    assert lake.columns(table) == ["id", "v", "city"]
    assert lake.partitions(table) == []

    lake.ours.sql(f"insert into {table} values (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c'), (4, 1, null)")
    readers.see(table, "id, v", [(1, 1), (2, 1), (3, 1), (4, 1)])
    chosen = f"{table}_chosen"
    lake.ours.sql(
        f"create table {chosen} using pyhudi {KEYED} as select * from {table} where id < 3"
    )
    readers.see(chosen, "id, v, city", [(1, 1, "a"), (2, 1, "b")])
    assert lake.columns(chosen) == ["id", "v", "city"]

    lake.ours.sql(f"alter table {table} drop partition (city = 'a')")
    readers.see(table, "id", [(2,), (3,), (4,)])
    with pytest.raises(PeerError, match="first row"):
        lake.ours.sql(f"alter table {table} add partition (city = 'e')")
    readers.see(table, "id", [(2,), (3,), (4,)])
    lake.ours.sql(f"truncate table {table} partition (city = 'b')")
    readers.see(table, "id", [(3,), (4,)])
    assert lake.partitions(table) == [["__HIVE_DEFAULT_PARTITION__"], ["c"]]

    renamed = f"{table}_renamed"
    lake.ours.sql(f"alter table {table} rename to {renamed}")
    readers.see(renamed, "id, v", [(3, 1), (4, 1)])
    readers.see_none(table)
    lake.ours.sql(f"truncate table {renamed}")
    readers.see(renamed, "id", [])
    assert lake.partitions(renamed) == []

    folder = Path(lake.entry(renamed).sd.location.removeprefix("file:"))
    lake.ours.sql(f"drop table {renamed}")
    readers.see_none(renamed)
    assert not list(folder.rglob("*.parquet"))
    readers.see(chosen, "id", [(1,), (2,)])


def test_an_adopted_table_is_seen_with_what_others_add(readers: Readers, tmp_path: Path) -> None:
    lake, path = readers.lake, f"{tmp_path}/t"
    table = f"{lake.database}.adopted_{next(numbers)}"
    lake.ours.sql(f"create table pyhudi.`{path}` ({COLUMNS}) {BY_CITY} {KEYED}")
    lake.ours.sql(f"insert into pyhudi.`{path}` values (1, 1, 'a'), (2, 1, 'c/d')")
    lake.ours.sql(f"create table {table} using pyhudi location '{path}'")
    readers.see(table, "id, v, city", [(1, 1, "a"), (2, 1, "c/d")])
    assert lake.columns(table) == ["id", "v", "city"]
    assert lake.entry(table).sd.location == f"file:{path}"

    lake.ours.sql(f"insert into pyhudi.`{path}` values (3, 1, 'b')")
    lake.ours.sql(f"delete from pyhudi.`{path}` where city = 'a'")
    lake.ours.sql(f"msck repair table {table} sync partitions")
    readers.see(table, "id, city", [(2, "c/d"), (3, "b")])
    assert lake.partitions(table) == [["b"], ["c/d"]]

    lake.ours.sql(f"drop table {table}")
    readers.see_none(table)
    lake.ours.sql(f"create table {table} using pyhudi location '{path}'")
    readers.see(table, "id, city", [(2, "c/d"), (3, "b")])


def test_columns_are_seen_after_each_change(
    readers: Readers, request: pytest.FixtureRequest
) -> None:
    lake = readers.lake
    table = lake.new(COLUMNS, BY_CITY)
    # Otherwise Hudi's input format gives Spark no value that it can read for an added column.
    read_by_ids(lake.hudi, request)
    lake.ours.sql(f"insert into {table} values (1, 1, 'a'), (2, 1, 'b')")
    lake.ours.sql(f"alter table {table} add columns (tip string comment 'paid', note string)")
    assert lake.columns(table) == ["id", "v", "tip", "note", "city"]
    readers.see(table, "id, tip, note", [(1, None, None), (2, None, None)])
    lake.ours.sql(f"insert into {table} values (3, 1, 'few', 'n', 'c')")
    readers.see(table, "id, tip, note", [(1, None, None), (2, None, None), (3, "few", "n")])

    lake.ours.sql(f"alter table {table} alter column v type bigint")
    assert [one.type for one in lake.entry(table).sd.cols if one.name == "v"] == ["bigint"]
    lake.ours.sql(f"insert into {table} values (4, {1 << 40}, null, null, 'a')")
    readers.see(table, "id, v", [(1, 1), (2, 1), (3, 1), (4, 1 << 40)])

    lake.ours.sql(f"alter table {table} rename column note to remark")
    assert lake.columns(table) == ["id", "v", "tip", "remark", "city"]
    by_name = [(1, None), (2, None), (3, None), (4, None)]
    readers.see(table, "id, remark", [*by_name[:2], (3, "n"), by_name[3]], by_name)
    lake.ours.sql(f"update {table} set remark = 'new' where id = 3")
    readers.see(table, "id, remark", [*by_name[:2], (3, "new"), by_name[3]])

    lake.ours.sql(f"alter table {table} drop column tip")
    assert lake.columns(table) == ["id", "v", "remark", "city"]
    readers.see(table, "id, remark", [*by_name[:2], (3, "new"), by_name[3]])
    lake.ours.sql(f"alter table {table} add columns (tip string)")
    readers.see(table, "id, tip", by_name, [*by_name[:2], (3, "few"), by_name[3]])


@pytest.mark.matrix
def test_a_partition_without_a_value_is_a_text_in_hive_and_trino(readers: Readers) -> None:
    lake = readers.lake
    for engine, writer in (("pyhudi", lake.ours), ("hudi", lake.hudi)):
        table = lake.new(COLUMNS, BY_CITY, by=engine)
        writer.sql(f"insert into {table} values (1, 1, null), (2, 1, 'b')")
        assert lake.rows(table, "id, city") == [(1, None), (2, "b")]
        assert lake.in_hive(table, "id, city") == [(1, "__HIVE_DEFAULT_PARTITION__"), (2, "b")]
        # Trino reads no table of version 9 that Apache Hudi made, before commits are archived.
        if readers.trino is not None and engine == "pyhudi":
            found = sorted(readers.trino.sql(f"select id, city from {table}"))
            assert found == [(1, r"\N"), (2, "b")]


def test_a_column_that_the_metastore_keeps_is_there_for_hive_and_trino(
    readers: Readers, request: pytest.FixtureRequest
) -> None:
    lake = readers.lake
    table = lake.new("id int, tip double, v int")
    lake.ours.sql(f"insert into {table} values (1, 0.5, 1)")
    lake.ours.sql(f"alter table {table} drop column tip")
    assert lake.columns(table) == ["id", "tip", "v"]
    for spark in (lake.ours, lake.hudi):
        assert "tip" not in spark.sql(f"select * from {table}").rows[0]
    # Without schema-on-read Hudi's input format counts columns: the one behind is null.
    assert lake.in_hive(table, "id, v") == [(1, None)]
    read_by_ids(lake.hudi, request)
    readers.see(table, "id, v", [(1, 1)])
    if readers.trino is not None:
        assert readers.trino.sql(f"select id, tip, v from {table}") == [(1, 0.5, 1)]


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_each_version_of_the_table_is_read_by_name(version: str, readers: Readers) -> None:
    lake = readers.lake
    properties = KEYED.replace("(", f"('hoodie.write.table.version' = '{version}', ")
    table = lake.new(COLUMNS, BY_CITY, properties=properties)
    lake.ours.sql(f"insert into {table} values (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'b')")
    lake.ours.sql(f"update {table} set v = 2 where id = 2")
    lake.ours.sql(f"delete from {table} where id = 3")
    readers.see(table, "id, v, city", [(1, 1, "a"), (2, 2, "b")])
