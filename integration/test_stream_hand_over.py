"""A stream that Apache Hudi's sink began and pyhudi's goes on with, and back, by one checkpoint.

And what a user reads who starts a query that the table's batches do not fit.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from integration.peers import HudiRs, SparkPeer
from integration.stream_driver import DriverSpec, stream
from integration.stream_lives import on_disk, problems_of
from integration.stream_seeds import MANY
from integration.stream_source import NAME, SCHEMA, Source, differences, options_of, rows_of
from pyhudi.errors import StreamConflict
from pyhudi.format.instants import Action
from pyhudi.format.stream_marks import HUDI_KEY
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.table import open_table
from pyhudi.transactions.epoch_conflicts import REPLACES
from tests.spark.racing import overtaken

matrix = pytest.mark.matrix
Peers = Callable[[str], SparkPeer]
BATCHES = 3
#: no service of Apache Hudi runs on when its query has ended
IN_TURN = {"hoodie.datasource.compaction.async.enable": "false"}
#: both sides compact after each second commit
INLINE = IN_TURN | {
    "hoodie.compact.inline": "true",
    # Without it pyhudi's would spare slices whose few logs are young.
    "hoodie.compaction.strategy": (
        "org.apache.hudi.table.action.compact.strategy.LogFileSizeBasedCompactionStrategy"
    ),
}
#: none does; Apache Hudi's sink plans. Its compaction would make a metadata table anew, which in
#: version 6 lacks the logs that name this compaction, and Apache Hudi would not read them.
PLANNED = IN_TURN | {
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "true",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What is handed over; ``compaction`` are options of a merge-on-read table."""

    operation: str = "insert"
    version: int = 9
    compaction: Mapping[str, str] | None = None

    @property
    def options(self) -> dict[str, str]:
        logs = self.compaction is not None
        kept = {"hoodie.write.auto.upgrade": "false", **(self.compaction or {})}
        return options_of(self.operation, self.version, logs) | kept


class Stream:
    """One query's folder, on a table: either sink may go on with it."""

    def __init__(
        self, spark: SparkSession, hudi: SparkPeer | None, table: Path, name: str, kind: Kind
    ) -> None:
        self._spark, self._hudi = spark, hudi
        self.table, self.source = table, Source(name, kind.operation, 0)
        self.files, self.checkpoint = table.parent / f"{name}-files", table.parent / f"{name}-check"
        self.options = kind.options
        self.end = 0

    def more(self, count: int = BATCHES) -> None:
        """More files for the source."""
        self.source.put(self.files, self.end, self.end + count)
        self.end += count

    def by_hudi(self) -> None:
        """Write what is not in yet."""
        assert self._hudi is not None
        self._hudi.call(
            "stream", path=str(self.table), source=str(self.files), schema=SCHEMA,
            checkpoint=str(self.checkpoint), options=self.options,
        )  # fmt: skip

    def by_pyhudi(self, more: Mapping[str, str] | None = None) -> None:
        """The same, with further options."""
        options = {**self.options, **(more or {})}
        places = (str(self.table), str(self.files), str(self.checkpoint))
        stream(self._spark, DriverSpec(*places, "", options))

    def compact_by_hudi(self) -> None:
        """Run each plan that waits."""
        assert self._hudi is not None
        told = ("hoodie.write.table.version", "hoodie.write.auto.upgrade", "hoodie.metadata.enable")
        options = ",".join(f"{key}={self.options[key]}" for key in told)
        self._hudi.sql(
            f"call run_compaction(op => 'run', path => '{self.table}', options => '{options}')"
        )

    def more_by_pyhudi(self) -> None:
        """More files, and they are written."""
        self.more()
        self.by_pyhudi()

    def forget_last(self) -> None:
        """As if the driver had died before Spark's own commit log had the last batch."""
        (self.checkpoint / "commits" / str(self.end - 1)).unlink()
        (self.checkpoint / "commits" / f".{self.end - 1}.crc").unlink(missing_ok=True)

    @property
    def query(self) -> str:
        found: str = json.loads((self.checkpoint / "metadata").read_text())["id"]
        return found


def said(table: Path) -> list[str]:
    """Hudi's key in each commit that has it, oldest first."""
    opened = open_table(LocalStorage(str(table)))
    timeline = opened.timeline()
    extras = [COMMITS.get(opened.storage, timeline, each).extra for each in timeline.commits]
    return [extra[HUDI_KEY] for extra in extras if HUDI_KEY in extra]


def everything(table: Path) -> list[Path]:
    return sorted(file for file in table.rglob("*") if file.is_file())


def timeline(table: Path) -> Timeline:
    return open_table(LocalStorage(str(table))).timeline()


def compactions(table: Path) -> list[str]:
    """The compactions of a merge-on-read table, of which only these are plain commits."""
    return [str(each.time) for each in timeline(table).commits if each.action is Action.COMMIT]


def plans(table: Path) -> list[str]:
    pending = timeline(table).pending
    return [str(each.time) for each in pending if each.action is Action.COMPACTION]


KINDS = {
    f"{operation}-{name}-{version}": Kind(operation, version, compaction)
    for version in (9, 8, 6)
    for operation in ("insert", "upsert")
    for name, compaction in (("cow", None), ("logs", INLINE))
}
#: each kind with a batch whose note in Spark's log is lost at each hand-over, and without
HANDED = [
    pytest.param(
        kind, repeated, id=f"{name}-repeated" if repeated else name,
        marks=() if repeated and name in ("insert-cow-9", "upsert-logs-9") else matrix,
    )
    for name, kind in KINDS.items()
    for repeated in (True, False)
]  # fmt: skip


@pytest.mark.parametrize(("kind", "repeated"), HANDED)
def test_a_stream_is_handed_to_the_other_sink_and_back_without_loss_or_doubles(
    spark: SparkSession, peers: Peers, hudi_rs: HudiRs, tmp_path: Path, kind: Kind, repeated: bool
) -> None:
    hudi = peers("hudi-1.2.0")
    ours = Stream(spark, hudi, tmp_path / "table", "a", kind)
    forms, compacted = [], [0]
    for turn, write in enumerate((ours.by_hudi, ours.by_pyhudi, ours.by_hudi, ours.by_pyhudi)):
        ours.more()
        write()
        wanted = ours.source.wanted(range(ours.end))
        assert differences(f"turn {turn}", on_disk(ours.table), wanted) == []
        forms.append(said(ours.table)[-1])
        compacted.append(len(compactions(ours.table)))
        if repeated:
            ours.forget_last()
    assert forms == [f'{{"default_single_writer":"{last}"}}' for last in (2, 5, 8, 11)]
    assert len(timeline(ours.table).commits) == 4 * BATCHES + (compacted[-1] if logged(kind) else 0)
    if logged(kind):
        assert all(map(int.__lt__, compacted, compacted[1:])), "each side compacts in each turn"
        assert list(ours.table.rglob(".*.log.*")), "and has logs to compact"
    assert problems_of(ours.table, wanted, (hudi, hudi_rs), ours.options) == []


def logged(kind: Kind) -> bool:
    """Whether the table is merge-on-read and its keys come again."""
    return kind.compaction is not None and kind.operation == "upsert"


@pytest.mark.parametrize("version", [pytest.param(each, marks=matrix) for each in (9, 8, 6)])
def test_a_compaction_that_one_sink_leaves_to_the_other_neither_loses_nor_doubles_rows(
    spark: SparkSession, peers: Peers, hudi_rs: HudiRs, tmp_path: Path, version: int
) -> None:
    """Each plans, the other's stream writes past the plan, repeats a batch, and runs it."""
    hudi = peers("hudi-1.2.0")
    ours = Stream(spark, hudi, tmp_path / "table", "a", Kind("upsert", version, PLANNED))
    for write, run in (
        (ours.by_hudi, lambda: pyhudi.compact(str(ours.table), op="run", options=ours.options)),
        (ours.by_pyhudi, ours.compact_by_hudi),
    ) * 2:  # fmt: skip
        ours.more()
        write()
        if write == ours.by_pyhudi:
            pyhudi.compact(str(ours.table), op="schedule", options=ours.options)
        waiting = plans(ours.table)
        assert waiting, "a plan waits at the hand-over"
        ours.forget_last()
        ours.more(1)
        (ours.by_pyhudi if write == ours.by_hudi else ours.by_hudi)()
        wanted = ours.source.wanted(range(ours.end))
        assert differences("past the plan", on_disk(ours.table), wanted) == []
        run()
        assert set(waiting) <= set(compactions(ours.table))
        assert differences("compacted", on_disk(ours.table), wanted) == []
        assert differences("Apache Hudi", rows_of(hudi.read(ours.table).rows), wanted) == []
    assert problems_of(ours.table, wanted, (hudi, hudi_rs), ours.options) == []


@matrix
def test_a_batch_that_a_write_with_a_greater_instant_overtook_does_not_come_again_by_hudi(
    spark: SparkSession, peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Hudi's sink takes the number of the greatest instant that has its key."""
    ours = Stream(spark, peers("hudi-1.2.0"), tmp_path / "table", "a", Kind())
    ours.more(2)
    ours.by_pyhudi()
    ours.more(1)

    def other() -> None:
        rows = spark.createDataFrame([("other", "elsewhere", 0, 0)], SCHEMA)
        writer = rows.write.format("pyhudi").options(**ours.options | MANY).mode("append")
        writer.save(str(ours.table))

    overtaken(monkeypatch, other)
    ours.by_pyhudi(MANY)
    first, second = timeline(ours.table).commits[-2:]
    assert (first.completion_time or "") > (second.completion_time or ""), "the batch was overtaken"
    ours.forget_last()
    ours.more(1)
    ours.by_hudi()
    wanted = ours.source.wanted(range(ours.end)) + Counter([("other", "elsewhere", 0)])
    assert differences("after Apache Hudi", on_disk(ours.table), wanted) == []


def refused(write: Callable[[], None], table: Path) -> str:
    """What the user reads; nothing on the table has changed."""
    before = everything(table)
    with pytest.raises(StreamConflict) as error:
        write()
    assert everything(table) == before
    return str(error.value)


def test_a_fresh_checkpoint_after_hudis_stream_is_refused_until_it_is_told_what_it_is(
    spark: SparkSession, peers: Peers, tmp_path: Path
) -> None:
    hudi, table = peers("hudi-1.2.0"), tmp_path / "table"
    old, new, third = (Stream(spark, hudi, table, name, Kind()) for name in "abc")
    for each in (old, new, third):
        each.more(2)
    old.by_hudi()
    text = refused(new.by_pyhudi, table)
    assert "Apache Hudi's sink has written this table up to batch 1" in text
    assert f"batch 0 of query {new.query}" in text

    new.by_pyhudi({NAME: "beside"})
    text = refused(third.by_pyhudi, table)
    assert f"set {REPLACES} to *" in text
    third.by_pyhudi({REPLACES: "*"})
    assert "up to batch 1" in refused(old.more_by_pyhudi, table)
    wanted = old.source.wanted(range(2)) + new.source.wanted(range(2))
    wanted += third.source.wanted(range(2))
    assert problems_of(table, wanted, [hudi], old.options) == []


@matrix
def test_batch_0_of_hudi_that_spark_did_not_note_is_skipped_by_hudi_and_then_handed_over(
    spark: SparkSession, peers: Peers, tmp_path: Path
) -> None:
    ours = Stream(spark, peers("hudi-1.2.0"), tmp_path / "table", "a", Kind())
    ours.more(1)
    ours.by_hudi()
    ours.forget_last()
    assert "run Hudi's sink once more" in refused(ours.by_pyhudi, ours.table)
    ours.by_hudi()
    ours.more_by_pyhudi()
    assert on_disk(ours.table) == ours.source.wanted(range(ours.end))


def test_a_second_query_and_an_older_copy_of_a_checkpoint_are_refused_and_settled(
    spark: SparkSession, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    first, second, rest = (Stream(spark, None, table, name, Kind()) for name in "abc")
    first.more_by_pyhudi()
    shutil.copytree(first.checkpoint, tmp_path / "copy")
    first.more_by_pyhudi()
    text = refused(second.more_by_pyhudi, table)
    assert f"Query {first.query} has written this table up to batch 5" in text
    assert f"query {second.query} writes its batch 0" in text
    assert NAME in text
    assert f"set {REPLACES} to {first.query}" in text
    second.by_pyhudi({NAME: "second"})
    wanted = first.source.wanted(range(6)) + second.source.wanted(range(3))
    assert problems_of(table, wanted, [hudi_rs], first.options) == []

    shutil.rmtree(first.checkpoint)
    (tmp_path / "copy").rename(first.checkpoint)
    text = refused(first.by_pyhudi, table)
    assert "batch 5" in text
    assert "asks for batch 3: the checkpoint is older than the table" in text
    refused(rest.more_by_pyhudi, table)
    rest.by_pyhudi({REPLACES: first.query})
    wanted += rest.source.wanted(range(3))
    assert problems_of(table, wanted, [hudi_rs], first.options) == []


def test_a_fresh_checkpoint_after_pyhudis_stream_is_refused_and_its_query_may_replace_the_old(
    spark: SparkSession, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    stream = Stream(spark, None, tmp_path / "table", "a", Kind())
    stream.more_by_pyhudi()
    old = stream.query
    shutil.rmtree(stream.checkpoint)
    shutil.rmtree(stream.files)
    stream.more(2)
    text = refused(stream.by_pyhudi, stream.table)
    assert stream.query != old
    assert f"set {REPLACES} to {old}" in text

    stream.by_pyhudi({REPLACES: old})
    stream.more_by_pyhudi()  # the option is needed once
    wanted = stream.source.wanted(range(stream.end))
    assert problems_of(stream.table, wanted, [hudi_rs], stream.options) == []
