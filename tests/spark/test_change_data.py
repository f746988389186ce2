"""Change data through Spark: each operation against a dict over the commits, in both forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import pyhudi
from tests.spark.tables import (
    OPTIONS,
    TYPE,
    VERSION,
    ZONE,
    HudiTable,
    Lake,
    Row,
    refused,
    settings,
)
from tests.spark.test_incremental import BEGIN, KIND, ORDER, changed, row

pytestmark = pytest.mark.spark

FORM = "hoodie.datasource.query.incremental.format"
LOGGING = "hoodie.table.cdc.supplemental.logging.mode"
NAMES = ("id", "name", "ts", "dt")
SERVICES = ("compact", "clean")
State = dict[int, Row]


def frame(table: HudiTable, begin: str = "earliest", form: str = "cdc_columns") -> DataFrame:
    options = {**changed(begin), FORM: form}
    return table.spark.read.format("pyhudi").options(**options).load(table.path)


def told(found: DataFrame) -> list[tuple[str, str, Any, Any]]:
    """The changes with their images as tuples, in one order."""

    def image(held: Any) -> Row | None:
        if held is None:
            return None
        columns = json.loads(held) if isinstance(held, str) else held.asDict()
        return tuple(columns[name] for name in NAMES)

    rows = [(r["op"], r["ts_ms"], image(r["before"]), image(r["after"])) for r in found.collect()]
    return sorted(rows, key=str)


class Oracle:
    """A dict that every operation is applied to, and the changes that this makes."""

    def __init__(self, table: HudiTable) -> None:
        self.table, self.rows = table, State()
        self.noted: list[tuple[str, str, Row | None, Row | None]] = []

    def became(self, rows: State, replaced: bool = False) -> None:
        """The last commit left ``rows``; ``replaced``: whole groups went, and others came."""
        told = [e for e in pyhudi.history(self.table.path) if e.operation not in SERVICES]
        instant = told[-1].instant
        for key in {**self.rows, **rows}:
            before, after = self.rows.get(key), rows.get(key)
            if before == after:
                continue
            if replaced and before and after:
                self.noted += [("d", instant, before, None), ("i", instant, None, after)]
            else:
                op = "i" if before is None else "d" if after is None else "u"
                self.noted.append((op, instant, before, after))
        self.rows = rows


def by_key(*rows: Row) -> State:
    return {each[0]: each for each in rows}


COMPACTED = {TYPE: "MERGE_ON_READ", "hoodie.compact.inline.max.delta.commits": "3"}
MADE = {
    "version-6": {VERSION: "6"},
    **{
        logs: {"hoodie.table.cdc.enabled": "true", LOGGING: logs}
        for logs in ("DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY")
    },
    **{f"merge-on-read-{v}": {VERSION: v, **COMPACTED} for v in ("6", "8", "9")},
    **{
        f"merge-on-read-{v}-{logs}": {
            VERSION: v,
            **COMPACTED,
            "hoodie.table.cdc.enabled": "true",
            LOGGING: logs,
        }
        for v, logs in (("8", "DATA_BEFORE_AFTER"), ("9", "OP_KEY_ONLY"))
    },
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_every_operation_is_told_as_a_dict_tells_it(made: dict[str, str], lake: Lake) -> None:
    table = lake.table(options={**OPTIONS, **made})
    known = Oracle(table)
    first = [row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a", 1, "y")]
    table.write(first, "bulk_insert")
    known.became(by_key(*first))
    table.write([row(5, "b")], "insert")
    known.became({**known.rows, 5: row(5, "b")})
    table.write([row(2, "c", 2), row(6, "c", 2)], "upsert")
    known.became({**known.rows, **by_key(row(2, "c", 2), row(6, "c", 2))})
    table.write([row(3, "", 3)], "delete")
    known.became({k: v for k, v in known.rows.items() if k != 3})
    place = f"pyhudi.`{table.path}`"
    table.spark.sql(f"update {place} set name = 'u', ts = 5 where id in (1, 4)")
    known.became({**known.rows, **by_key(row(1, "u", 5), row(4, "u", 5, "y"))})
    table.spark.sql(
        f"merge into {place} t using"
        " (select * from values (1, 'm'), (2, 'm'), (7, 'm') as s(id, n))"
        " s on t.id = s.id when matched and t.id = 1 then delete"
        " when matched then update set t.name = s.n, t.ts = 6"
        " when not matched then insert (id, name, ts, dt) values (s.id, s.n, 6, 'x')"
    )
    left = {k: v for k, v in known.rows.items() if k != 1}
    known.became({**left, **by_key(row(2, "m", 6), row(7, "m", 6))})
    table.spark.sql(f"delete from {place} where id = 7")
    known.became({k: v for k, v in known.rows.items() if k != 7})
    table.write([row(2, "o", 7), row(8, "o", 7)], "insert_overwrite")
    left = {k: v for k, v in known.rows.items() if v[3] == "y"}
    known.became({**left, **by_key(row(2, "o", 7), row(8, "o", 7))}, replaced=True)
    table.write([row(4, "", 8, "y")], "delete_partition",
                hoodie__datasource__write__partitions__to__delete="y")  # fmt: skip
    known.became({k: v for k, v in known.rows.items() if v[3] != "y"}, replaced=True)

    assert table.rows().keys() == known.rows.keys()
    wanted = sorted(known.noted, key=str)
    for form in ("cdc", "cdc_columns"):
        assert told(frame(table, form=form)) == wanted, form
    for instant in table.instants():
        later = [change for change in wanted if change[1] > instant]
        assert told(frame(table, instant)) == later, instant


def test_a_table_made_with_change_logs_has_one_for_each_merged_file(lake: Lake, way: str) -> None:
    table = lake.table(options={**OPTIONS, "hoodie.table.cdc.enabled": "true"})
    table.write([row(1, "a"), row(2, "a", 1, "y")])
    assert logs_of(table) == []
    table.write([row(1, "b", 2), row(3, "b", 2, "y"), row(4, "b", 2, "z")], "upsert")
    last = table.instants()[-1]
    assert [(path.parent.name, last in path.name) for path in logs_of(table)] == [
        ("x", True),
        ("y", True),
    ]
    assert [r[:2] for r in told(frame(table, table.instants()[0]))] == [
        ("i", last), ("i", last), ("u", last),
    ]  # fmt: skip


def logs_of(table: HudiTable) -> list[Path]:
    return sorted(Path(table.path).rglob(".*.cdc"), key=lambda path: path.parent.name)


@pytest.fixture
def table(lake: Lake) -> HudiTable:
    made = lake.table(options=OPTIONS)
    made.write([row(1, "a"), row(2, "a"), row(3, "a")])
    made.write([row(2, "b", 2), row(4, "b", 2)], "upsert")
    made.write([row(3, "", 3)], "delete")
    return made


def test_the_columns_are_those_of_apache_hudi(table: HudiTable) -> None:
    found = frame(table, form="cdc")
    assert found.dtypes == [(n, "string") for n in ("op", "ts_ms", "before", "after")]
    image = "struct<id:bigint,name:string,ts:bigint,dt:string>"
    assert [kind for _, kind in frame(table).dtypes] == ["string", "string", image, image]


def test_filters_and_columns_reach_the_files(table: HudiTable) -> None:
    one, two, three = table.instants()
    found = frame(table, one)
    assert [tuple(r) for r in found.where("op = 'd'").select("before.id").collect()] == [(3,)]
    assert [tuple(r) for r in found.where("after.id > 2").select("after.name").collect()] == [
        ("b",)
    ]
    assert found.where(f"ts_ms = '{two}'").count() == 2
    assert found.count() == 3
    assert {r[0] for r in found.select("ts_ms").collect()} == {two, three}
    text = found.where("op = 'd'").select("before.id")._jdf.queryExecution().toString()
    assert "ReadSchema: struct<op:string,before:struct<id:bigint>>" in text, text


@pytest.mark.every_line
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_time_in_an_image_is_the_one_that_was_written(
    lake: Lake, spark: SparkSession, zone: str
) -> None:
    """To the microsecond, and whatever its offset was: that of New York once had seconds."""
    kinds = {"new": "timestamp", "old": "timestamp", "plain": "timestamp_ntz"}
    texts = {
        "new": "2024-03-10 06:59:59.123456",
        "old": "1500-01-02 00:00:00.000001Z",
        "plain": "2024-03-10 02:30:00.000999",
    }
    table = lake.table()
    rows = table.frame([(1, "a", 1, "x")])
    for name, kind in kinds.items():
        rows = rows.withColumn(name, F.lit(texts[name]).cast(kind))
    table.write(rows)
    with settings(spark, {ZONE: zone}):
        held = table.df().select(*kinds)
        image = F.from_json("after", held.schema).alias("image")
        assert frame(table, form="cdc").select(image).select("image.*").collect() == held.collect()


def test_sql_reads_changes_by_name_and_by_path(spark: SparkSession, table: HudiTable) -> None:
    one = table.instants()[0]
    call = f"select op from hudi_table_changes('{table.path}', 'cdc', '{one}')"
    assert {r[0] for r in spark.sql(call).collect()} <= {"i", "u", "d"}
    joined = (
        f"select c.op from hudi_table_changes('{table.path}', 'cdc_columns', 'earliest') c "
        f"join pyhudi.`{table.path}` t on t.id = c.after.id and c.op = 'u'"
    )
    assert [r[0] for r in spark.sql(joined).collect()] == ["u"]


def test_a_table_that_spark_knows_by_name_has_no_other_columns(
    spark: SparkSession, table: HudiTable, name: str, tmp_path: Path
) -> None:
    spark.sql(f"create table {name} using pyhudi location '{table.path}'")
    options = {KIND: "incremental", BEGIN: "earliest", FORM: "cdc", **ORDER}
    with refused("CONFIG_ERROR", tmp_path, "Write hudi_table_changes"):
        spark.read.options(**options).table(name).collect()
    call = f"select op from hudi_table_changes('{name}', 'cdc', 'earliest')"
    assert len(spark.sql(call).collect()) == 6


def test_a_cleaned_slice_is_an_error_of_pyhudi(table: HudiTable, tmp_path: Path) -> None:
    one = table.instants()[0]
    for path in Path(table.path).rglob(f"*_{one}.parquet"):
        path.unlink()
    with refused("HISTORY_EXPIRED", tmp_path, "let the range begin"):
        frame(table, one).collect()
