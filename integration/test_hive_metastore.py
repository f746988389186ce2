"""One Hive Metastore, two engines: tables of pyhudi and of Apache Hudi go by name in both.

The session with Apache Hudi has its bundle, extension and catalog on Spark 3.5; pyhudi's is a
session of its own without the bundle, on either line of Spark.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.lake import KEYED, Lake, by_name, numbers
from integration.peers import PeerError, maven, pyhudi_on_spark
from tests.servers.hive_metastore import META

OPERATION = "hoodie.datasource.write.operation"


def test_a_table_of_pyhudi_is_read_and_written_by_apache_hudi(lake: Lake) -> None:
    table = lake.new(
        "id string, v int, city string comment 'of the start'", "partitioned by (city)"
    )
    lake.ours.sql(f"insert into {table} values ('a', 1, 'x y'), ('b', 1, 'z')")
    assert lake.rows(table, "id, v, city") == [("a", 1, "x y"), ("b", 1, "z")]
    assert lake.partitions(table) == [["x y"], ["z"]]

    lake.hudi.sql(
        f"merge into {table} t using (select 'a' id, 2 v, 'x y' city "
        "union all select 'c', 1, 'new') s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    assert lake.rows(table, "id, v, city") == [("a", 2, "x y"), ("b", 1, "z"), ("c", 1, "new")]

    lake.ours.sql(f"update {table} set v = 3 where id = 'c'")
    assert lake.rows(table, "id, v, city")[-1] == ("c", 3, "new")
    assert lake.partitions(table) == [["new"], ["x y"], ["z"]]
    entry = lake.entry(table)
    assert entry.tableType == "MANAGED_TABLE"
    assert entry.parameters["spark.sql.sources.provider"] == "hudi"


def test_a_table_of_apache_hudi_is_read_and_written_by_pyhudi(lake: Lake) -> None:
    table = lake.new("id string, v int, day date", "partitioned by (day)", by="hudi")
    assert lake.ours.sql(f"select * from {table}").rows == ()
    lake.hudi.sql(f"insert into {table} select 'a', 1, date'2024-01-01'")
    lake.ours.sql(
        f"insert into {table} select 'a', 2, date'2024-01-01' union all "
        "select 'b', 2, date'2024-01-02'"
    )
    assert lake.rows(table, "id, v") == [("a", 1), ("a", 2), ("b", 2)]
    assert lake.partitions(table) == [["2024-01-01"], ["2024-01-02"]]


def test_a_new_table_and_its_first_rows_are_seen_by_name(lake: Lake) -> None:
    table = lake.new("id int, v int, city string", "partitioned by (city)")
    like = f"{table}_like"
    lake.ours.sql(f"create table {like} like {table} using pyhudi")
    for name in (table, like):
        assert lake.seen(name, "id, v, city") == []
        assert lake.columns(name) == ["id", "v", "city"]
    lake.hudi.sql(f"insert into {like} values (1, 1, 'a')")
    lake.ours.sql(f"insert into {like} values (2, 1, 'b')")
    assert lake.seen(like, "id, v, city") == [(1, 1, "a"), (2, 1, "b")]
    assert lake.seen(table, "id") == []


def test_a_stream_makes_its_table_by_name_and_each_batch_is_in_it_once(
    lake: Lake, tmp_path: Path
) -> None:
    name, source = f"{lake.database}.streamed_{next(numbers)}", tmp_path / "source"
    source.mkdir()
    options = {"hoodie.datasource.write.recordkey.field": "id", OPERATION: "insert"}

    def run(number: int, *rows: tuple[str, int, str]) -> str:
        lines = [json.dumps(dict(zip(("id", "v", "city"), row, strict=True))) for row in rows]
        (source / f"{number}.json").write_text("\n".join(lines))
        query: str = lake.ours.call(
            "stream_by_name", name=name, source=str(source), schema="id string, v int, city string",
            checkpoint=str(tmp_path / "c"), options=options, partitions=["city"],
        )  # fmt: skip
        return query

    query = run(0, ("a", 1, "x y"), ("b", 1, "z"))
    assert lake.partitions(name) == [["x y"], ["z"]]
    assert lake.columns(name) == ["id", "v", "city"]
    entry = lake.entry(name)
    assert (entry.tableType, entry.parameters["primaryKey"]) == ("MANAGED_TABLE", "id")
    assert lake.seen(name, "id, v, city") == [("a", 1, "x y"), ("b", 1, "z")]

    # Spark repeats a batch that it had not noted when its driver died.
    for left in (".0.crc", "0"):
        (tmp_path / "c" / "commits" / left).unlink()
    lake.hudi.sql(f"insert into {name} values ('h', 1, 'by hudi')")
    assert run(1, ("c", 1, "new")) == query
    expected = [("a", 1, "x y"), ("b", 1, "z"), ("c", 1, "new"), ("h", 1, "by hudi")]
    assert lake.seen(name, "id, v, city") == expected
    assert lake.partitions(name) == [["by hudi"], ["new"], ["x y"], ["z"]]


@pytest.mark.matrix
def test_partitions_come_and_go_with_the_rows(lake: Lake) -> None:
    encoded = KEYED.replace("(", "(hoodie.datasource.write.partitionpath.urlencode = true, ")
    table = lake.new(
        "id int, v int, day string, hour int", "partitioned by (day, hour)", properties=encoded
    )
    lake.ours.sql(f"insert into {table} values (1, 1, 'a/b', 1), (2, 1, 'b', 2), (3, 1, 'b', 3)")
    assert lake.partitions(table) == [["a/b", "1"], ["b", "2"], ["b", "3"]]
    lake.ours.sql(f"alter table {table} drop partition (day = 'b', hour = 2)")
    assert lake.partitions(table) == [["a/b", "1"], ["b", "3"]]
    lake.ours.sql(f"delete from {table} where day = 'b'")
    assert lake.partitions(table) == [["a/b", "1"]]
    lake.ours.sql("set spark.sql.sources.partitionOverwriteMode=dynamic")
    lake.ours.sql(f"insert overwrite {table} values (4, 1, 'c', 4)")
    assert lake.partitions(table) == [["a/b", "1"], ["c", "4"]]
    lake.ours.sql(f"truncate table {table}")
    assert lake.partitions(table) == []


@pytest.mark.matrix
def test_columns_follow_every_change(lake: Lake) -> None:
    table = lake.new("id int, tip double, v int, city string", "partitioned by (city)")
    lake.ours.sql(f"insert into {table} values (1, 0.5, 1, 'Oslo')")
    lake.ours.sql(f"alter table {table} add columns (note string comment 'free text')")
    entry = lake.entry(table)
    assert [one.name for one in entry.sd.cols] == [*META, "id", "tip", "v", "note"]
    assert entry.sd.cols[-1].comment == "free text"
    lake.ours.sql(f"insert into {table} (id, tip, v, city, note) values (2, 1.5, 1, 'Oslo', 'n')")
    assert lake.rows(table, "id, tip, city") == [(1, 0.5, "Oslo"), (2, 1.5, "Oslo")]

    # Hive allows no other type at a column's place: it keeps the old columns, Spark's are right.
    lake.ours.sql(f"alter table {table} drop column tip")
    lake.refresh(table)
    names = ["id", "v", "city", "note"]
    assert sorted(lake.hudi.sql(f"select * from {table}").rows[0]) == sorted([*META, *names])


@pytest.mark.matrix
def test_properties_and_comments_are_kept_in_the_metastore(lake: Lake) -> None:
    table = lake.new("id int, v int")
    lake.ours.sql(f"alter table {table} set tblproperties ('owner_team' = 'rides')")
    lake.ours.sql(f"alter table {table} alter column v comment 'version'")
    entry = lake.entry(table)
    assert entry.parameters["owner_team"] == "rides"
    assert [one.comment for one in entry.sd.cols if one.name == "v"] == ["version"]
    lake.ours.sql(f"alter table {table} unset tblproperties ('owner_team')")
    assert "owner_team" not in lake.entry(table).parameters
    (shown,) = lake.ours.texts(f"show create table {table}")
    assert "USING pyhudi" in shown[0]
    assert "version" in shown[0]
    assert "'path'" not in shown[0]


@pytest.mark.matrix
def test_a_renamed_table_is_one_table_under_its_new_name(lake: Lake) -> None:
    table = lake.new("id string, v int, city string", "partitioned by (city)")
    lake.ours.sql(f"insert into {table} values ('a', 1, 'x')")
    other = f"{lake.database}.renamed_{next(numbers)}"
    lake.ours.sql(f"alter table {table} rename to {other}")
    lake.hudi.sql(f"insert into {other} values ('b', 1, 'y')")
    lake.ours.sql(f"insert into {other} values ('c', 1, 'z')")
    assert lake.rows(other, "id, city") == [("a", "x"), ("b", "y"), ("c", "z")]
    assert lake.partitions(other) == [["x"], ["y"], ["z"]]
    tables = [row[1] for row in lake.ours.texts(f"show tables in {lake.database}")]
    assert other.split(".")[1] in tables
    assert table.split(".")[1] not in tables


@pytest.mark.matrix
def test_a_dropped_table_is_gone_for_both(lake: Lake) -> None:
    table = lake.new("id string, v int", by="hudi")
    folder = lake.folder / table.split(".")[1]
    assert folder.is_dir()
    lake.ours.sql(f"drop table {table}")
    assert not folder.exists()
    with pytest.raises(PeerError, match="TABLE_OR_VIEW_NOT_FOUND"):
        lake.hudi.sql(f"select * from {table}")


@pytest.mark.matrix
def test_external_tables_are_adopted_and_made_of_queries(lake: Lake, tmp_path: Path) -> None:
    made = f"{lake.database}.made_{next(numbers)}"
    adopted = f"{lake.database}.adopted_{next(numbers)}"
    lake.ours.sql(
        f"create table {made} using pyhudi location '{tmp_path}/t' "
        "tblproperties (primaryKey = 'id') as select 1 id, 'x' name"
    )
    lake.ours.sql(f"create table {adopted} using pyhudi location '{tmp_path}/t'")
    for name in (made, adopted):
        assert lake.rows(name, "id, name") == [(1, "x")]
        assert lake.entry(name).tableType == "EXTERNAL_TABLE"
        assert lake.entry(name).parameters["primaryKey"] == "id"
    lake.ours.sql(f"drop table {made}")
    assert lake.rows(adopted, "id, name") == [(1, "x")]


def test_partitions_are_registered_at_adoption_and_by_a_repair(lake: Lake, tmp_path: Path) -> None:
    path, name = f"{tmp_path}/t", f"{lake.database}.adopted_{next(numbers)}"
    lake.ours.sql(
        f"create table pyhudi.`{path}` (id int, v int, city string) partitioned by (city) {KEYED}"
    )
    lake.ours.sql(f"insert into pyhudi.`{path}` values (1, 1, 'a'), (2, 1, null)")
    lake.ours.sql(f"create table {name} using pyhudi location '{path}'")
    null = "__HIVE_DEFAULT_PARTITION__"
    assert lake.partitions(name) == [[null], ["a"]]
    lake.rows(name, "id")

    lake.ours.sql(f"insert into pyhudi.`{path}` values (3, 1, 'b'), (4, 1, 'c')")
    lake.ours.sql(f"delete from pyhudi.`{path}` where city = 'a'")
    lake.ours.sql(f"msck repair table {name}")
    assert lake.partitions(name) == [[null], ["a"], ["b"], ["c"]]
    lake.ours.sql(f"msck repair table {name} drop partitions")
    assert lake.partitions(name) == [[null], ["b"], ["c"]]
    lake.ours.sql(f"insert into pyhudi.`{path}` values (5, 1, 'd')")
    lake.ours.sql(f"alter table {name} recover partitions")
    assert lake.partitions(name) == [[null], ["b"], ["c"], ["d"]]
    lake.ours.sql(f"delete from pyhudi.`{path}` where city in ('b', 'c')")
    lake.ours.sql(f"msck repair table {name} sync partitions")
    assert lake.partitions(name) == [[null], ["d"]]
    assert sorted(row[0] for row in lake.rows(name, "id")) == [2, 5]


@pytest.mark.matrix
def test_a_procedure_tells_which_partitions_it_synchronized(lake: Lake) -> None:
    name = lake.new("id int, v int, city string", "partitioned by (city)")
    lake.ours.sql(f"insert into {name} values (1, 1, 'x:y')")
    path = lake.entry(name).sd.location.removeprefix("file:")
    lake.ours.sql(f"delete from pyhudi.`{path}` where city = 'x:y'")
    lake.ours.sql(f"insert into pyhudi.`{path}` values (2, 1, 'z')")
    call = f"call pyhudi.system.sync_partitions(table => '{name}')"
    if lake.ours.texts("select version()")[0][0].startswith("3.5"):
        with pytest.raises(PeerError):
            lake.ours.sql(call)
        return
    assert lake.ours.texts(call) == [["city=x%3Ay", "dropped"], ["city=z", "added"]]
    assert lake.ours.texts(call) == []


@pytest.mark.matrix
def test_what_a_writer_by_path_added_is_registered_by_the_next_by_name(lake: Lake) -> None:
    table = lake.new("id int, v int, city string", "partitioned by (city)")
    lake.ours.sql(f"insert into {table} values (1, 1, 'a')")
    path = lake.entry(table).sd.location.removeprefix("file:")
    lake.ours.sql(f"insert into pyhudi.`{path}` values (2, 1, 'b')")
    assert lake.partitions(table) == [["a"]]
    lake.ours.sql(f"insert into {table} values (3, 1, 'a')")
    assert lake.partitions(table) == [["a"], ["b"]]


@pytest.mark.matrix
def test_a_session_with_hudis_extension_leaves_hudis_tables_to_it(lake: Lake) -> None:
    table = lake.new("id string, v int")
    lake.ours.sql(f"insert into {table} values ('a', 1)")
    conf = {
        **by_name(lake.metastore),
        "spark.jars": str(maven.jar(maven.HUDI["1.2.0"])),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    }
    both = pyhudi_on_spark("pyhudi beside Hudi", conf=conf)
    try:
        (row,) = both.sql(f"select * from {table}").rows
        assert row["_hoodie_record_key"] == "a"  # Apache Hudi shows its columns, pyhudi hides them
        own = f"{lake.database}.own_{next(numbers)}"
        both.sql(f"create table {own} (id string, v int) using pyhudi {KEYED}")
        both.sql(f"insert into {own} values ('b', 2)")
        assert both.sql(f"select * from {own}").rows == ({"id": "b", "v": 2},)
        assert lake.entry(own).parameters["spark.sql.sources.provider"] == "pyhudi"
        assert lake.ours.sql(f"select * from {own}").rows == ({"id": "b", "v": 2},)
    finally:
        both.close()
