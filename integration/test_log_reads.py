"""Tables with log files that Apache Hudi wrote: pyhudi's snapshot is Apache Hudi's own.

After each write both read the whole table, meta columns included. What pyhudi gives for a filter, a
projection or a count is compared with Apache Hudi's whole snapshot: its own filter on the key reads
wrong rows of Parquet log blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.peers import Answer, HudiRs, SparkPeer, difference
from integration.peers.canonical import sort_rows
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests import golden_tables

DS = "hoodie.datasource.write."
KEYGEN = "org.apache.hudi.keygen."
OLD_HUDI, HUDI, PYHUDI = "hudi-0.15.0", "hudi-1.2.0", "pyhudi"
Peers = Callable[[str], SparkPeer]

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
COMPLEX = {
    DS + "recordkey.field": "id,k",
    DS + "keygenerator.class": KEYGEN + "ComplexKeyGenerator",
}
EVENT_TIME = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
COMMIT_TIME = {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}
#: for Hudi 0.15.0, which knows no merge modes
BY_PAYLOAD = {
    DS + "payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
PARQUET_LOGS = {"hoodie.logfile.data.block.format": "parquet"}
AVRO_LOGS = {"hoodie.logfile.data.block.format": "avro"}
PLANS_COMPACTION = {
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
COMPACTS_LOGS = {
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
}
CLUSTERS = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
RECONCILES = {DS + "reconcile.schema": "true"}


@dataclass(frozen=True)
class Write:
    """One write: ``rows`` are (id, ts, v) and more columns by name."""

    operation: str
    rows: Sequence[tuple[int, int | None, str]]
    more: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, pa.Array] = field(default_factory=dict)

    def table(self) -> pa.Table:
        ids, times, texts = zip(*self.rows, strict=True)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([f"k{n % 3}" for n in ids]),
            "ts": pa.array(times, pa.int32()),
            "n": pa.array(ids, pa.int32()),
            "v": pa.array(texts),
            "p": pa.array([f"p{n % 2}" for n in ids]),
            **self.columns,
        }
        return pa.table(columns)


NAMES = {
    BlockType.AVRO_DATA: "Avro",
    BlockType.PARQUET_DATA: "Parquet",
    BlockType.DELETE: "deletes",
    BlockType.COMMAND: "rollback",
}
MARKS = {
    int(HeaderKey.RECORD_POSITIONS): "positions",
    int(HeaderKey.COMPACTED_BLOCK_TIMES): "log compaction",
}
TIMELINE = {"compaction.requested": "planned compaction", "replacecommit": "clustering"}


@dataclass(frozen=True)
class Story:
    """The life of a table; ``features`` are what is special in its files in the end."""

    name: str
    writer: str
    version: int
    options: Mapping[str, str]
    features: set[str]
    writes: Sequence[Write]

    def given(self, write: Write) -> dict[str, str]:
        known = {
            "hoodie.table.name": "logged",
            "hoodie.write.table.version": str(self.version),
            "hoodie.write.auto.upgrade": "false",
            DS + "table.type": "MERGE_ON_READ",
            DS + "recordkey.field": "id",
            DS + "partitionpath.field": "p",
            DS + "precombine.field": "ts",
            DS + "operation": write.operation,
            "hoodie.metadata.enable": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.compact.inline": "false",
        }
        return {**known, **self.options, **write.more}


def rows(*ids: int, ts: int = 10, v: str = "a") -> list[tuple[int, int, str]]:
    return [(n, ts, f"{v}{n}") for n in ids]


def soft(*flags: bool) -> dict[str, pa.Array]:
    return {"_hoodie_is_deleted": pa.array(flags)}


FIRST = Write("bulk_insert", rows(*range(8)), columns=soft(*[False] * 8))
#: a newer row, an older one, one of the same time, a new key
MIXED = Write("upsert", [(0, 11, "b0"), (1, 9, "b1"), (2, 10, "b2"), (20, 10, "b20")],
              columns=soft(*[False] * 4))  # fmt: skip
#: a newer soft delete, an older one, and a row
SOFT = Write("upsert", [(3, 11, "c3"), (4, 9, "c4"), (5, 12, "c5")],
             columns=soft(True, True, False))  # fmt: skip
GONE = Write("delete", rows(6, 20), columns=soft(False, False))
LATER = Write("upsert", rows(0, 1, 6, ts=14, v="x"), columns=soft(*[False] * 3))
ROLLED_BACK = Write("rollback", [])
AGAIN = Write("upsert", rows(0, 4, 6, ts=15, v="d"), columns=soft(*[False] * 3))


def wider(*ids: int) -> dict[str, pa.Array]:
    """A new column, and another one as long."""
    return {
        "n": pa.array(ids, pa.int64()),
        **soft(*[False] * len(ids)),
        "added": pa.array([float(n) for n in ids]),
    }


EVOLVED = Write("upsert", rows(1, 7, ts=30, v="e"), RECONCILES, wider(1, 7))


def beside(write: Write, more: Mapping[str, str]) -> Write:
    """The same write, with a service after it."""
    return replace(write, more=more)


CLUSTERED = Write("upsert", rows(2, 7, ts=31, v="f"), CLUSTERS, wider(2, 7))
LAST = Write("upsert", rows(1, 2, ts=32, v="g"), {}, wider(1, 2))
#: nulls, zeros and numbers below 0, which Apache Hudi orders in its own way
START = Write("bulk_insert", [(0, 0, "a"), (1, -1, "b"), (2, None, "c"), (3, 5, "d"), (4, 5, "e")],
              columns=soft(*[False] * 5))  # fmt: skip
NULLS = Write("upsert", [(0, None, "A"), (1, None, "B"), (2, -1, "C"), (3, 0, "D"), (4, None, "E")],
              columns=soft(False, False, False, True, True))  # fmt: skip
STORIES = [
    Story("v9-event-time", HUDI, 9, EVENT_TIME | AVRO_LOGS,
          {"Avro", "deletes", "positions", "clustering"},
          [FIRST, MIXED, SOFT, GONE, EVOLVED, CLUSTERED, LAST]),
    Story("v9-commit-time-parquet-bucket", HUDI, 9,
          COMMIT_TIME | PARQUET_LOGS | BUCKETS | COMPLEX,
          {"Parquet", "deletes"},
          [FIRST, MIXED, SOFT, GONE, AGAIN, EVOLVED]),
    Story("v9-log-compaction", HUDI, 9, EVENT_TIME | AVRO_LOGS | BUCKETS,
          {"Avro", "deletes", "log compaction"},
          [FIRST, MIXED, beside(SOFT, COMPACTS_LOGS), AGAIN]),
    Story("v9-nulls", HUDI, 9, EVENT_TIME | AVRO_LOGS, {"Avro", "deletes", "positions"},
          [START, NULLS]),
    Story("v8-event-time-parquet", HUDI, 8, EVENT_TIME | PARQUET_LOGS,
          {"Parquet", "deletes", "positions", "planned compaction"},
          [FIRST, MIXED, beside(SOFT, PLANS_COMPACTION), AGAIN, GONE]),
    Story("v6-event-time", HUDI, 6, EVENT_TIME | AVRO_LOGS,
          {"Avro", "deletes", "planned compaction"},
          [FIRST, MIXED, beside(SOFT, PLANS_COMPACTION), AGAIN, GONE]),
    Story("v6-by-0.15-bucket", OLD_HUDI, 6, BY_PAYLOAD | BUCKETS | COMPLEX,
          {"Avro", "deletes", "rollback", "planned compaction"},
          [FIRST, MIXED, LATER, ROLLED_BACK, GONE, beside(AGAIN, PLANS_COMPACTION), EVOLVED]),
]  # fmt: skip


#: of each kind of log and version one is in `make test`, the others in `make integration`
IN_TEST = {"v9-event-time", "v9-nulls", "v8-event-time-parquet", "v6-by-0.15-bucket"}


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(each, id=each.name, marks=[] if each.name in IN_TEST else pytest.mark.matrix)
        for each in STORIES
    ],
)
def test_pyhudi_reads_what_apache_hudi_reads_after_each_write(
    story: Story, peers: Peers, tmp_path: Path
) -> None:
    path, pyhudi, hudi = tmp_path / "logged", peers(PYHUDI), peers(HUDI)
    wrong: list[str] = []
    for number, write in enumerate(story.writes):
        label = f"{number + 1}. {write.operation}"
        mode = "append" if number else "overwrite"
        if write is ROLLED_BACK:
            roll_back(peers(story.writer), path)
        else:
            peers(story.writer).write(path, write.table(), story.given(write), mode)
        truth = hudi.read(path)
        wrong += [f"{label}: {each}" for each in faults(pyhudi, path, truth)]
    with in_rows(pyhudi):
        wrong += [f"in rows: {each}" for each in faults(pyhudi, path, truth)]
    for commit in open_table(LocalStorage(str(path))).timeline().commits:
        wanted = hudi.read(path, as_of=str(commit.time))
        apart = difference(pyhudi.read(path, as_of=str(commit.time)), wanted)
        wrong += [f"as of {commit.time}: {apart}"] if apart else []
    wrong += ranges(pyhudi, path, truth)
    assert not wrong, "\n".join(wrong)
    assert features(path) == story.features


def ranges(pyhudi: SparkPeer, path: Path, truth: Answer) -> list[str]:
    """What sets the changes after a commit apart from the rows of later ones in Hudi's snapshot.

    Apache Hudi's own answer also has rows of logs that lose against the base file, and lacks rows
    that a log compaction wrote again.
    """
    commits, wrong = open_table(LocalStorage(str(path))).timeline().commits, []
    ends = {str(each.time): each.completion_time or each.time for each in commits}
    for begin in (commits[0], commits[len(commits) // 2], commits[-1]):
        asked = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": str(ends[begin.time]),
        }
        held = [r for r in truth.rows if ends[r["_hoodie_commit_time"]] > ends[begin.time]]
        apart = difference(pyhudi.read(path, asked), replace(truth, rows=tuple(held)))
        wrong += [f"changes after {begin.time}: {apart}"] if apart else []
    return wrong


def roll_back(hudi: SparkPeer, path: Path) -> None:
    """Takes the newest commit back."""
    last = open_table(LocalStorage(str(path))).timeline().commits[-1].time
    hudi.sql(f"create table rolled using hudi location '{path}'")
    hudi.sql(f"call rollback_to_instant(table => 'rolled', instant_time => '{last}')")
    hudi.sql("drop table rolled")


@contextmanager
def in_rows(pyhudi: SparkPeer) -> Iterator[None]:
    """Spark reads without batches, and its Parquet reader without vectors."""
    settings = ("spark.sql.codegen.wholeStage", "spark.sql.parquet.enableVectorizedReader")
    for name in settings:
        pyhudi.sql(f"set {name}=false")
    yield
    for name in settings:
        pyhudi.sql(f"reset {name}")


def faults(pyhudi: SparkPeer, path: Path, truth: Answer) -> list[str]:
    """What sets pyhudi's answers apart from the rows of Apache Hudi's snapshot."""
    every = [name for name, _ in truth.schema]
    key = truth.rows[0]["_hoodie_record_key"] if truth.rows else ""
    newest = max((row["ts"] or 0 for row in truth.rows), default=0)
    conditions: list[tuple[str | None, Callable[[dict[str, Any]], bool]]] = [
        (None, lambda row: True),
        (f"_hoodie_record_key = '{key}'", lambda row: row["_hoodie_record_key"] == key),
        ("id = 2", lambda row: row["id"] == 2),
        ("v > 'b' and p = 'p0'", lambda row: row["v"] > "b" and row["p"] == "p0"),
        (f"ts = {newest}", lambda row: row["ts"] == newest),
    ]
    columns = [every, ["v", "id"], ["_hoodie_commit_time"]]
    questions: list[tuple[str | None, list[str], bool]] = []
    wanted: list[object] = []
    for condition, holds in conditions:
        held = [row for row in truth.rows if holds(row)]
        for names in columns if condition is None else columns[:1]:
            questions.append((condition, names, False))
            wanted.append(sort_rows({name: row[name] for name in names} for row in held))
        questions.append((condition, [], True))
        wanted.append(len(held))
    found = pyhudi.call("ask", path=str(path), options={}, questions=questions)
    kinds = dict(truth.schema)
    apart = []
    for question, answer, right in zip(questions, found, wanted, strict=True):
        if isinstance(answer, int):
            seen: object = answer
        else:
            seen = answer["rows"]
            if answer["schema"] != [[name, kinds[name]] for name in question[1]]:
                apart.append(f"{question}: the schema is {answer['schema']}")
        if seen != right:
            apart.append(f"{question}: {seen} instead of {right}")
    return apart


def features(path: Path) -> set[str]:
    """What the log files and the timeline of a table have, so that no story loses its point."""
    files = [file for file in path.rglob(".*.log.*") if ".hoodie" not in file.parts]
    blocks = [block for file in files for block in read_blocks(file.read_bytes())]
    found = {NAMES[block.block_type] for block in blocks}
    found |= {MARKS[key] for block in blocks for key in block.header.keys() & MARKS.keys()}
    instants = {file.name.partition(".")[2] for file in path.rglob(".hoodie/**/*.*")}
    return found | {name for suffix, name in TIMELINE.items() if suffix in instants}


def nested(*ids: int, ts: int) -> pa.Table:
    """Rows with a column of each kind of vector."""
    fields = [("a", pa.int32()), ("b", pa.list_(pa.string()))]
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "id": (list(ids), pa.int64()),
        "ts": ([ts] * len(ids), pa.int64()),
        "text": ([f"text {n % 13}" for n in ids], pa.string()),
        "raw": ([bytes([n % 256]) * (n % 4) for n in ids], pa.binary()),
        "price": ([Decimal(n).scaleb(-2) for n in ids], pa.decimal128(20, 2)),
        "small": ([Decimal(n).scaleb(-2) for n in ids], pa.decimal128(9, 2)),
        "day": ([n + ts for n in ids], pa.date32()),
        "at": ([n * 1_000_003 + ts for n in ids], pa.timestamp("us", "UTC")),
        "flag": ([n % 2 == 0 for n in ids], pa.bool_()),
        "half": ([n / 2 for n in ids], pa.float32()),
        "whole": ([n + ts if n % 5 else None for n in ids], pa.int32()),
        "one": ([{"a": n, "b": [f"{n}", "y"]} if n % 7 else None for n in ids], pa.struct(fields)),
        "many": ([[{"x": n}] * (n % 3) for n in ids], pa.list_(pa.struct([("x", pa.int64())]))),
        "named": ([[(f"k{n % 2}", n)] for n in ids], pa.map_(pa.string(), pa.int64())),
    }
    return pa.table({name: pa.array(*each) for name, each in columns.items()})


@pytest.mark.parametrize("options", [AVRO_LOGS, PARQUET_LOGS], ids=["avro", "parquet"])
def test_masked_rows_are_left_out_of_every_column_batch_and_row_group(
    options: Mapping[str, str], peers: Peers, tmp_path: Path
) -> None:
    path, pyhudi, hudi = tmp_path / "nested", peers(PYHUDI), peers(HUDI)
    many = 6_000
    story = Story("nested", HUDI, 9, EVENT_TIME | options, set(), [])
    more = {
        DS + "partitionpath.field": "",
        DS + "keygenerator.class": KEYGEN + "NonpartitionedKeyGenerator",
        "hoodie.parquet.block.size": "60000",
        "hoodie.parquet.page.size": "4000",
    }
    for operation, table in (
        ("bulk_insert", nested(*range(many), ts=1)),
        ("upsert", nested(*range(0, many, 7), ts=2)),
        ("delete", nested(*sorted({*range(0, many, 11), *range(4_000, 4_300)}), ts=3)),
        ("upsert", nested(*range(2, many, 70), many, ts=4)),
    ):
        given = {k: v for k, v in story.given(Write(operation, [], more)).items() if v}
        hudi.write(path, table, given, "append" if operation != "bulk_insert" else "overwrite")
    groups = [pq.ParquetFile(file).num_row_groups for file in path.rglob("[!.]*.parquet")]
    assert max(groups) > 3
    truth = hudi.read(path)
    assert not difference(pyhudi.read(path), truth)
    with in_small_splits(pyhudi):
        assert not difference(pyhudi.read(path), truth)
    with in_rows(pyhudi):
        assert not difference(pyhudi.read(path), truth)
    held = [row for row in truth.rows if 4_200 <= row["id"] < 4_400]
    question = ["id >= 4200 and id < 4400", [name for name, _ in truth.schema], False]
    count = ["one.a % 2 = 0", [], True]
    found, number = pyhudi.call("ask", path=str(path), options={}, questions=[question, count])
    assert found["rows"] == held
    assert number == sum(row["one"] is not None and row["one"]["a"] % 2 == 0 for row in truth.rows)


@contextmanager
def in_small_splits(pyhudi: SparkPeer) -> Iterator[None]:
    """Spark cuts files into many tasks."""
    pyhudi.sql("set spark.sql.files.maxPartitionBytes=50000")
    yield
    pyhudi.sql("reset spark.sql.files.maxPartitionBytes")


DISPUTED = "h0150_v6-mor_bucket_consistent"


def test_apache_hudi_1_2_0_reads_the_disputed_golden_table_as_pyhudi_does(
    peers: Peers, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    """Its writer, Hudi 0.15.0, takes the larger ordering value among rows of logs."""
    table = next(each for each in golden_tables.ALL if each.name == DISPUTED)
    path = table.unzip(tmp_path)
    truth = peers(HUDI).read(path)
    assert not difference(peers(PYHUDI).read(path), truth)
    assert hudi_rs.read(path).without_meta().rows == truth.without_meta().rows
    kept = {row["id"]: row["name"] for row in truth.rows}
    assert kept != {row["id"]: row["name"] for row in table.expected() or []}
    old = {row["id"]: row["name"] for row in peers(OLD_HUDI).read(path).rows}
    assert old == {row["id"]: row["name"] for row in table.expected() or []}
