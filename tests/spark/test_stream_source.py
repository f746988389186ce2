"""``readStream.format("pyhudi")``: what each batch of a stream gives, and where it goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

import pyhudi
from pyhudi.services import clean
from tests.spark.tables import INDEX, OPTIONS, TYPE, VERSION, HudiTable, Lake
from tests.spark.test_sql import folder_of

pytestmark = pytest.mark.spark

START = "hoodie.datasource.streaming.startOffset"
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}


@dataclass
class Following:
    """A stream of a table into lists: one list of rows for each batch."""

    table: HudiTable
    checkpoint: Path
    options: dict[str, str] = field(default_factory=dict)
    batches: list[list[tuple[Any, ...]]] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)

    def frame(self) -> DataFrame:
        spark = self.table.spark
        return spark.readStream.format("pyhudi").options(**self.options).load(self.table.path)

    def run(self, frame: DataFrame | None = None, **trigger: Any) -> list[list[tuple[Any, ...]]]:
        """The batches of one query, which reads all that there is and ends."""
        count = len(self.batches)

        def keep(batch: DataFrame, number: int) -> None:
            self.batches.append([tuple(row) for row in batch.collect()])

        writing = (self.frame() if frame is None else frame).writeStream.foreachBatch(keep)
        query = (
            writing.option("checkpointLocation", str(self.checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            self.progress = [each.json() for each in query._jsq.recentProgress()]
            query.stop()
        return [sorted(batch, key=repr) for batch in self.batches[count:]]


@pytest.fixture
def table(lake: Lake) -> HudiTable:
    made = lake.table()
    made.write([(1, "a", 1, "x"), (2, "a", 1, "y")])
    return made


@pytest.mark.every_line
def test_a_stream_begins_with_the_rows_of_now_and_goes_on_with_each_commit(
    table: HudiTable, tmp_path: Path
) -> None:
    stream = Following(table, tmp_path / "c")
    assert stream.run() == [[(1, "a", 1, "x"), (2, "a", 1, "y")]]
    assert stream.run() == []
    table.write([(2, "b", 2, "y"), (3, "b", 2, "x")])
    table.write([(4, "c", 3, "z")])
    assert stream.run() == [[(2, "b", 2, "y"), (3, "b", 2, "x"), (4, "c", 3, "z")]]


@pytest.mark.parametrize("version", ["6", "9", pytest.param("8", marks=pytest.mark.matrix)])
def test_upserts_inserts_deletes_overwrites_and_clusterings_give_each_changed_row_once(
    lake: Lake, tmp_path: Path, version: str
) -> None:
    table = lake.table(options={**OPTIONS, VERSION: version})
    table.write([(n, "a", 1, "x") for n in range(4)])
    stream = Following(table, tmp_path / "c")
    stream.run()
    table.write([(1, "b", 2, "x"), (9, "b", 2, "y")], "upsert")
    table.write([(2, "", 3, "x")], "delete")
    assert stream.run() == [[(1, "b", 2, "x"), (9, "b", 2, "y")]]
    table.write([(5, "c", 4, "y")], "insert_overwrite")
    clustered(table)
    assert stream.run() == [[(5, "c", 4, "y")]]
    clustered(table)
    assert [row for batch in stream.run() for row in batch] == []
    table.write([(0, "d", 5, "x")], "upsert")
    assert stream.run() == [[(0, "d", 5, "x")]]


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_rows_of_logs_come_once_and_compactions_give_none(
    lake: Lake, tmp_path: Path, version: str
) -> None:
    made = {**OPTIONS, VERSION: version, TYPE: MOR, "hoodie.compact.inline": "false"}
    table = lake.table(options=made)
    table.write([(n, "a", 1, "x") for n in range(4)], "bulk_insert")
    table.write([(0, "b", 2, "x"), (3, "b", 2, "x")], "upsert")
    stream = Following(table, tmp_path / "c")
    assert stream.run() == [
        [(0, "b", 2, "x"), (1, "a", 1, "x"), (2, "a", 1, "x"), (3, "b", 2, "x")]
    ]
    table.write([(1, "c", 3, "x"), (9, "c", 3, "y")], "upsert")
    table.write([(2, "", 3, "x")], "delete")
    assert stream.run() == [[(1, "c", 3, "x"), (9, "c", 3, "y")]]
    table.write([(0, "d", 4, "x")], "upsert")
    pyhudi.compact(table.path, spark=table.spark)
    table.write([(3, "e", 5, "x")], "upsert")
    assert stream.run() == [[(0, "d", 4, "x"), (3, "e", 5, "x")]]
    pyhudi.compact(table.path, spark=table.spark)
    assert [row for batch in stream.run() for row in batch] == []
    newest = Following(table, tmp_path / "n", {"maxFilesPerTrigger": "1"})
    table.write([(9, "f", 6, "y")], "upsert")
    assert sorted(row for b in newest.run() for row in b) == sorted(table.rows().values())


def clustered(table: HudiTable) -> None:
    pyhudi.cluster(table.path, spark=table.spark)


def test_limits_cut_batches_at_commits_and_a_huge_commit_at_files(
    lake: Lake, tmp_path: Path
) -> None:
    table = lake.table()
    table.write([(n, "a", 1, f"p{n}") for n in range(5)])
    stream = Following(table, tmp_path / "c", {"maxFilesPerTrigger": "2"})
    assert [len(batch) for batch in stream.run()] == [2, 2, 1]
    assert sorted(row for batch in stream.batches for row in batch) == sorted(table.rows().values())
    for ts in (2, 3, 4):
        table.write([(ts, "b", ts, f"p{ts}")])
    assert [len(batch) for batch in stream.run()] == [2, 1]
    table.write([(n, "c", 9, f"p{n}") for n in range(5)])
    stream.options = {"hoodie.datasource.streaming.maxRowsPerTrigger": "4"}
    assert [len(batch) for batch in stream.run()] == [4, 1]
    table.write([(n, "d", 10, f"p{n}") for n in range(5)])
    stream.options = {"maxBytesPerTrigger": "1"}
    assert [len(batch) for batch in stream.run()] == [1] * 5
    assert stream.run(once=True) == []
    table.write([(n, "e", 11, f"p{n}") for n in range(5)])
    assert [len(batch) for batch in stream.run(once=True)] == [5], "once takes all"


def test_a_batch_that_failed_is_read_again_as_it_was(table: HudiTable, tmp_path: Path) -> None:
    stream = Following(table, tmp_path / "c")
    stream.run()
    table.write([(3, "b", 2, "x")])

    def fail(batch: DataFrame, number: int) -> None:
        raise ValueError(f"batch {number} fails: {batch.count()}")

    writing = stream.frame().writeStream.foreachBatch(fail).trigger(availableNow=True)
    query = writing.option("checkpointLocation", str(stream.checkpoint)).start()
    with pytest.raises(StreamingQueryException, match="batch 1 fails: 1"):
        query.awaitTermination()
    table.write([(3, "c", 3, "x"), (4, "c", 3, "x")])
    assert stream.run() == [[(3, "b", 2, "x")], [(3, "c", 3, "x"), (4, "c", 3, "x")]]


def test_progress_tells_the_places_and_what_is_left(table: HudiTable, tmp_path: Path) -> None:
    table.write([(3, "b", 2, "x")])
    stream = Following(table, tmp_path / "c", {"maxFilesPerTrigger": "1"})
    stream.run()
    source, *_, final = (json.loads(each)["sources"][0] for each in stream.progress)
    assert (source["startOffset"], final["endOffset"]["files"]) == (None, None)
    assert source["endOffset"]["files"] == 1
    assert source["latestOffset"]["at"] == final["endOffset"]["at"]
    assert int(source["metrics"]["backlogBytes"]) > 0
    assert int(source["metrics"]["backlogRows"]) == 1
    assert int(source["metrics"]["backlogAgeMs"]) > 0
    assert source["numInputRows"] > 0
    assert final["metrics"]["backlogCommits"] == "0"


def test_a_stream_begins_where_it_is_told(table: HudiTable, tmp_path: Path) -> None:
    table.write([(3, "b", 2, "x")])
    table.write([(4, "c", 3, "x")])
    latest = Following(table, tmp_path / "latest", {START: "latest"})
    assert latest.run() == [[]]
    completed = [i.completion_time for i in pyhudi.history(table.path)]
    after = Following(table, tmp_path / "after", {START: str(sorted(completed)[0])})
    assert after.run() == [[(3, "b", 2, "x"), (4, "c", 3, "x")]]
    table.write([(5, "d", 4, "x")])
    assert latest.run() == after.run() == [[(5, "d", 4, "x")]]


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"hoodie.table.cdc.enabled": "true"},
        *({TYPE: MOR, VERSION: version} for version in ("6", "8", "9")),
    ],
    ids=["slices", "change-logs", "logs-6", "logs-8", "logs-9"],
)
def test_change_data_comes_with_images_and_deletes(
    lake: Lake, tmp_path: Path, made: dict[str, str]
) -> None:
    table = lake.table(options={**OPTIONS, **made})
    table.write([(1, "a", 1, "x"), (2, "a", 1, "x"), (3, "a", 1, "y")])
    stream = Following(table, tmp_path / "c", {**CDC, "maxFilesPerTrigger": "1"})
    frame = stream.frame()
    assert frame.columns == ["op", "ts_ms", "before", "after"]
    first = [row for batch in stream.run(frame) for row in batch]
    assert {(op, before, json.loads(after)["id"]) for op, _, before, after in first} == {
        ("i", None, 1), ("i", None, 2), ("i", None, 3)
    }  # fmt: skip
    table.write([(1, "b", 2, "x"), (4, "b", 2, "y")])
    table.write([(2, "", 3, "x")], "delete")
    table.write([(3, "c", 4, "y"), (5, "c", 4, "y")], "insert_overwrite")
    assert changes([row for batch in stream.run() for row in batch]) == {
        ("u", 1, "a", "b"), ("i", 4, None, "b"), ("d", 2, "a", None),
        ("d", 3, "a", None), ("d", 4, "b", None), ("i", 3, None, "c"), ("i", 5, None, "c"),
    }  # fmt: skip


def changes(rows: Iterable[tuple[Any, ...]]) -> set[tuple[str, int, str | None, str | None]]:
    """Operation, key, and the name before and after."""
    found = []
    for op, _, *images in rows:
        before, after = (json.loads(text) if text else None for text in images)
        names = tuple(image["name"] if image else None for image in (before, after))
        found.append((op, (before or after)["id"], *names))
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("kind", [COW, MOR])
@pytest.mark.parametrize(
    ("operation", "rows"),
    [
        ("insert_overwrite", [(0, "b", 2, "x"), (1, "b", 2, "y")]),
        ("upsert", [(0, "b", 2, "y"), (1, "b", 2, "x")]),
    ],
    ids=["replaced", "moved"],
)
def test_a_key_is_not_inserted_a_batch_before_it_is_deleted(
    lake: Lake, tmp_path: Path, kind: str, operation: str, rows: list[tuple[Any, ...]]
) -> None:
    """Whoever applies the changes of each batch in turn would then lose the new row."""
    table = lake.table(options={**OPTIONS, TYPE: kind, INDEX: "GLOBAL_SIMPLE"})
    table.write([(0, "a", 1, "x"), (1, "a", 1, "y")])
    stream = Following(table, tmp_path / "c", {**CDC, "maxFilesPerTrigger": "1"})
    assert len(stream.run()) == 2
    table.write(rows, operation)
    there = {0, 1}
    for batch in stream.run():
        for op, _, *images in sorted(batch, key=lambda row: "diu".index(row[0])):
            key = json.loads(images[0] or images[1])["id"]
            assert (key in there) is (op != "i"), f"{op} of {key} in {batch}"
            there ^= {key}
    assert there == {0, 1}


def test_appends_are_the_rows_that_were_inserted(table: HudiTable, tmp_path: Path) -> None:
    options = {"hoodie.datasource.streaming.appendsOnly": "true"}
    stream = Following(table, tmp_path / "c", options)
    assert stream.run() == [[(1, "a", 1, "x"), (2, "a", 1, "y")]]
    table.write([(3, "b", 2, "x")])
    assert stream.run() == [[(3, "b", 2, "x")]]
    table.write([(3, "c", 3, "x"), (4, "c", 3, "x"), (1, "c", 3, "x")])
    table.write([(4, "d", 4, "x"), (5, "d", 4, "y")])
    table.write([(5, "", 5, "y")], "delete")
    table.write([(2, "e", 6, "y"), (6, "e", 6, "y")], "insert_overwrite")
    assert stream.run() == [
        [(2, "e", 6, "y"), (4, "c", 3, "x"), (5, "d", 4, "y"), (6, "e", 6, "y")]
    ]


def test_a_table_by_name_is_a_stream_too(spark: SparkSession, name: str, tmp_path: Path) -> None:
    spark.sql(f"create table {name} (id long, v string) using pyhudi"
              " tblproperties (primaryKey = 'id')")  # fmt: skip
    seen: list[list[Row]] = []

    def run(**options: str) -> list[list[Row]]:
        count = len(seen)
        frame = spark.readStream.options(**options).table(name)
        writing = frame.writeStream.foreachBatch(lambda batch, _: seen.append(batch.collect()))
        query = writing.option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start().awaitTermination()
        return seen[count:]

    assert run() == []
    spark.sql(f"insert into {name} values (1, 'a')")
    assert run() == [[(1, "a")]]
    spark.sql(f"insert into {name} values (2, 'b')")
    spark.sql(f"merge into {name} t using (select 1L id, 'c' v) s on t.id = s.id"
              " when matched then update set v = s.v")  # fmt: skip
    assert sorted(run(maxFilesPerTrigger="1"), key=repr) == sorted(
        [[(2, "b")], [(1, "c")]], key=repr
    )


@pytest.mark.skipif(
    pyspark.__version__ < "4", reason="Spark 3.5 resolves no hidden columns of streams"
)
@pytest.mark.parametrize("kind", [COW, MOR])
def test_hidden_columns_come_if_they_are_named(lake: Lake, tmp_path: Path, kind: str) -> None:
    table = lake.table(options={**OPTIONS, TYPE: kind})
    table.write([(1, "a", 1, "x"), (2, "a", 1, "y")])
    stream = Following(table, tmp_path / "c")
    named = ["id", "_hoodie_commit_time", "_file", "_hoodie_record_key", "dt", "_pos"]
    (rows,) = stream.run(stream.frame().select(*named))
    (one,) = table.instants()
    assert [(r[0], r[1], r[3], r[4], r[5]) for r in rows] == [
        (1, one, "1", "x", 0), (2, one, "2", "y", 0)
    ]  # fmt: skip
    assert {one in r[2] for r in rows} == {True}
    table.write([(2, "b", 2, "y")])
    (rows,) = stream.run(stream.frame().select(*named))
    assert rows[0][:2] == (2, table.instants()[-1])


def test_a_column_that_is_added_ends_the_query_and_the_next_one_has_it(
    table: HudiTable, tmp_path: Path
) -> None:
    stream = Following(table, tmp_path / "c")
    stream.run()
    frame = stream.frame()
    table.write([(3, "b", 2, "x")])
    more = table.frame([(4, "c", 3, "x", 7)], table.ddl + ", extra int")
    table.write(more)
    with pytest.raises(AnalysisException, match="adds the column extra.*same checkpoint"):
        stream.run(frame)
    assert stream.batches[-1] == [(3, "b", 2, "x")]
    assert stream.run() == [[(4, "c", 3, "x", 7)]]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(
    ("change", "said", "columns"),
    [
        ("alter column size type bigint", "changes the type of the column size", "id size ts"),
        ("rename column size to width", "no longer has the column size", "id width ts"),
        ("drop column size", "no longer has the column size", "id ts"),
    ],
    ids=["widened", "renamed", "dropped"],
)
def test_a_column_that_changes_ends_the_query_and_the_next_one_reads_it_as_it_is_now(
    spark: SparkSession, name: str, tmp_path: Path, kind: str, change: str, said: str, columns: str
) -> None:
    spark.sql(
        f"create table {name} (id bigint, size int, ts bigint) using pyhudi tblproperties "
        f"(primaryKey = 'id', preCombineField = 'ts', type = '{kind}')"
    )
    spark.sql(f"insert into {name} values (1, 10, 1), (2, 20, 1), (3, 30, 1)")
    table = HudiTable(spark, str(folder_of(spark, name)), {}, "")
    stream = Following(table, tmp_path / "c")
    assert stream.run() == [[(1, 10, 1), (2, 20, 1), (3, 30, 1)]]
    frame = stream.frame()
    spark.sql(f"update {name} set size = 11, ts = 2 where id = 1")
    spark.sql(f"alter table {name} {change}")
    spark.sql(f"update {name} set ts = 3 where id = 2")
    with pytest.raises(AnalysisException, match=f"{said}.*same checkpoint"):
        stream.run(frame)
    assert stream.batches[-1] == [(1, 11, 2)], "all before the change has come"
    assert stream.frame().columns == columns.split()
    dropped = columns == "id ts"
    assert stream.run() == [[(2, 3) if dropped else (2, 20, 3)]]
    value = "" if dropped else "3000000000," if "bigint" in change else "40,"
    spark.sql(f"insert into {name} values (4, {value} 4)")
    spark.sql(f"delete from {name} where id = 1")
    last = (4, 4) if dropped else (4, int(value.strip(",")), 4)
    assert stream.run() == [[last]]


def test_an_incremental_read_without_a_begin_is_refused_unless_it_is_a_stream(
    table: HudiTable,
) -> None:
    frame = table.spark.read.format("pyhudi").options(**CDC).load(table.path)
    with pytest.raises(AnalysisException, match="needs hoodie.datasource.read.begin.instanttime"):
        frame.collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxFilePerTrigger": "1"}, "Did you mean 'maxFilesPerTrigger'"),
        ({"hoodie.datasource.read.end.instanttime": "20240101"}, "Set it to 'incremental'"),
        ({"as.of.instant": "20240101000000000"}, "an option of one read|is not|You asked for"),
        ({"hoodie.datasource.query.incremental.format": "cdc"}, "to 'incremental' as well"),
    ],
)
def test_a_mistake_in_the_options_is_an_error_at_the_start(
    table: HudiTable, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises((AnalysisException, StreamingQueryException), match=said):
        Following(table, tmp_path / "c", options).run()


def test_a_checkpoint_of_another_source_is_refused(table: HudiTable, tmp_path: Path) -> None:
    stream = Following(table, tmp_path / "c")
    stream.run()
    offsets = stream.checkpoint / "offsets" / "0"
    lines = offsets.read_text().splitlines()
    (stream.checkpoint / "offsets" / ".0.crc").unlink()
    offsets.write_text("\n".join([*lines[:-1], "20240101000000000"]))
    with pytest.raises(AnalysisException, match="not one of pyhudi.*location of its own"):
        stream.run()


SERVICES = {"hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3"}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "form", "kind"),
    [
        ("9", "latest", COW),
        ("6", "cdc", COW),
        ("9", "latest", MOR),
        ("9", "cdc", MOR),
        ("6", "latest", MOR),
        pytest.param("6", "latest", COW, marks=pytest.mark.matrix),
        pytest.param("9", "cdc", COW, marks=pytest.mark.matrix),
    ],
)
def test_services_spare_what_a_running_stream_has_not_read(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, form: str, kind: str
) -> None:
    """Each commit is followed by a clean and an archive, while the stream's batch waits."""
    monkeypatch.setattr(clean, "SPARED_MS", 0)
    options = CDC if form == "cdc" else {}
    made = {TYPE: kind, "hoodie.compact.inline.max.delta.commits": "2"}
    table = lake.table(options={**OPTIONS, VERSION: version, **SERVICES, **made})
    table.write([(1, "v0", 0, "x"), (2, "v0", 0, "x")])
    stream = Following(table, tmp_path / "c", {**options, "maxFilesPerTrigger": "1"})
    seen: list[str] = []

    def slow(batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        seen.extend(str(row["after"] if form == "cdc" else row["name"]) for row in rows)
        if number == 0:
            for ts in range(1, 7):
                table.write([(1, f"v{ts}", ts, "x")])
                pyhudi.clean(table.path, options=SERVICES)
                pyhudi.archive(table.path, options=SERVICES)

    writing = stream.frame().writeStream.foreachBatch(slow)
    query = writing.option("checkpointLocation", str(stream.checkpoint)).start()
    try:
        while len(seen) < 8 and query.isActive:
            query.processAllAvailable()
    finally:
        query.stop()
    for ts in range(1, 7):
        assert sum(f"v{ts}" in text for text in seen) == 1, seen
    assert not list((Path(table.path) / ".hoodie" / ".leases").glob("*")), "stop ends the lease"
    pyhudi.clean(table.path, options=SERVICES)
    pyhudi.archive(table.path, options=SERVICES)
    assert len(table.base_files()) <= 3


def test_a_stream_that_was_away_gets_the_newest_state_of_what_was_cleaned_and_archived(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean, "SPARED_MS", 0)
    table = lake.table()
    table.write([(1, "v0", 0, "x"), (2, "v0", 0, "x")])
    stream = Following(table, tmp_path / "c", {"maxFilesPerTrigger": "1"})
    changed = Following(table, tmp_path / "cdc", CDC)
    stream.run()
    changed.run()
    for ts in range(1, 7):
        table.write([(1, f"v{ts}", ts, "x"), (10 + ts, "new", ts, "y")])
        pyhudi.clean(table.path, options=SERVICES)
    newest = [(1, "v6", 6, "x"), *((10 + ts, "new", ts, "y") for ts in range(1, 7))]
    with pytest.raises(AnalysisException, match=rf"which a clean has deleted.*{START}=\d{{17}}"):
        changed.run()
    batches = stream.run()
    assert newest[0] in batches[-1]
    assert {row for batch in batches for row in batch} >= set(newest)
    for ts in range(7, 12):
        table.write([(1, f"v{ts}", ts, "x")])
        pyhudi.clean(table.path, options=SERVICES)
        pyhudi.archive(table.path, options=SERVICES)
    with pytest.raises(AnalysisException, match=rf"have been archived.*{START}=\d{{17}}"):
        changed.run()
    assert stream.run()[-1] == [(1, "v11", 11, "x")]
