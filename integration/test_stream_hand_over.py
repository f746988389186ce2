"""A stream that Apache Hudi's sink began and pyhudi's goes on with, and back, by one checkpoint.

And what a user reads who starts a query that the table's batches do not fit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from integration.peers import HudiRs, SparkPeer
from integration.stream_driver import DriverSpec, stream
from integration.stream_lives import on_disk, problems_of
from integration.stream_source import NAME, SCHEMA, Source, differences, options_of
from pyhudi.errors import StreamConflict
from pyhudi.format.stream_marks import HUDI_KEY
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.table import open_table
from pyhudi.transactions.epochs import REPLACES

matrix = pytest.mark.matrix
Peers = Callable[[str], SparkPeer]
BATCHES = 3


class Stream:
    """One query's folder, on a table: either sink may go on with it."""

    def __init__(
        self, spark: SparkSession, hudi: SparkPeer | None, table: Path, name: str, version: int
    ) -> None:
        self._spark, self._hudi = spark, hudi
        self.table, self.source = table, Source(name, "insert", 0)
        self.files, self.checkpoint = table.parent / f"{name}-files", table.parent / f"{name}-check"
        self.options = options_of("insert", version) | {"hoodie.write.auto.upgrade": "false"}
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


@pytest.mark.parametrize("version", [9, pytest.param(6, marks=matrix)])
@pytest.mark.parametrize("repeated", [pytest.param(False, marks=matrix), True])
def test_a_stream_is_handed_to_the_other_sink_and_back_without_loss_or_doubles(
    spark: SparkSession, peers: Peers, hudi_rs: HudiRs, tmp_path: Path, version: int,
    repeated: bool,
) -> None:  # fmt: skip
    hudi = peers("hudi-1.2.0")
    ours = Stream(spark, hudi, tmp_path / "table", "a", version)
    forms = []
    for turn, write in enumerate((ours.by_hudi, ours.by_pyhudi, ours.by_hudi, ours.by_pyhudi)):
        ours.more()
        write()
        wanted = ours.source.wanted(range(ours.end))
        assert differences(f"turn {turn}", on_disk(ours.table), wanted) == []
        forms.append(said(ours.table)[-1])
        if repeated:
            ours.forget_last()
    assert problems_of(ours.table, wanted, (hudi, hudi_rs), ours.options) == []
    assert forms == [f'{{"default_single_writer":"{last}"}}' for last in (2, 5, 8, 11)]


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
    old, new, third = (Stream(spark, hudi, table, name, 9) for name in "abc")
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


def test_a_second_query_and_an_older_copy_of_a_checkpoint_are_refused_and_settled(
    spark: SparkSession, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    table = tmp_path / "table"
    first, second, rest = (Stream(spark, None, table, name, 9) for name in "abc")
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
    stream = Stream(spark, None, tmp_path / "table", "a", 9)
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
