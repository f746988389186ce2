"""RFC-82's eight cases on real tables: two writers, what each declares, and the table in the end.

Each test is one case, drawn as in the RFC's appendix. ``theirs`` begins first and commits first;
``ours`` begins before that and commits after. Their rows lie in partitions of their own, so that
schemas are all that they can differ about. Apache Hudi 1.2.0 must read the same rows and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.peers import SparkPeer
from pyhudi.errors import SchemaConflict
from tests.spark.racing import SlowInput

Peers = Callable[[str], SparkPeer]
Row = tuple[Any, ...]

S1 = "ride string, city string, fare int, v int"
TOLL, TIP = S1 + ", toll int", S1 + ", tip int"
LONG, DOUBLE = (S1.replace("fare int", f"fare {kind}") for kind in ("long", "double"))
TOLL_TEXT = S1 + ", toll string"

OPTIONS = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.recordkey.field": "ride",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
}
VERSION = "hoodie.write.table.version"
RULE = "hoodie.write.concurrency.schema.conflict.resolution.strategy"

matrix = pytest.mark.matrix
BOTH = [
    ("9", "simple"),
    ("9", "reconcile"),
    *(pytest.param((v, rule), marks=matrix) for v in "86" for rule in ("simple", "reconcile")),
]
#: where the rule makes no difference
EITHER = [("9", "simple"), *((v, "reconcile") for v in "986")]
RECONCILED = [("9", "reconcile"), *(pytest.param((v, "reconcile"), marks=matrix) for v in "86")]


@dataclass
class Writer:
    """A write that has begun and waits, its input held back."""

    name: str
    rows: SlowInput
    done: Future[None]

    def commits(self) -> None:
        """Let the input come, and see the write succeed."""
        self.rows.go()
        self.done.result()

    def is_refused(self) -> SchemaConflict:
        """Let the input come, and see the write fail for its schema."""
        self.rows.go()
        with pytest.raises(SchemaConflict) as failed:
            self.done.result()
        return failed.value


@dataclass
class Story:
    """One table, its writers, and what every reader must find."""

    spark: SparkSession
    folder: Path
    options: dict[str, str]
    hudi: SparkPeer
    pool: ThreadPoolExecutor
    writers: list[Writer] = field(default_factory=list)

    @property
    def simple(self) -> bool:
        return self.options[RULE] == "simple"

    @property
    def table(self) -> Path:
        return self.folder / "rides"

    def exists(self, ddl: str, *rows: Row) -> None:
        """A commit that is there when the story begins."""
        self._save(self.spark.createDataFrame(list(rows), ddl))

    def begins(self, name: str, ddl: str, *rows: Row) -> Writer:
        """A write that has its instant, and so has seen the table's schema."""
        slow = SlowInput(self.spark.createDataFrame(list(rows), ddl), self.folder / name)
        writer = Writer(name, slow, self.pool.submit(self._save, slow.df))
        self.writers.append(writer)
        slow.wait_until_read()
        return writer

    def ends(self, columns: str, *rows: Row) -> None:
        """Who reads now finds these columns and rows; that goes for pyhudi and Apache Hudi."""
        names = columns.split(", ")
        ours = self.spark.read.format("pyhudi").load(str(self.table))
        assert ours.columns == names
        assert sorted(tuple(row) for row in ours.collect()) == sorted(rows)
        theirs = self.hudi.read(self.table).without_meta()
        assert [name for name, _ in theirs.schema] == names
        assert sorted(tuple(row[n] for n in names) for row in theirs.rows) == sorted(rows)

    def let_go(self) -> None:
        """Hold no input back any more, whatever became of the test."""
        for writer in self.writers:
            writer.rows.go()

    def _save(self, rows: Any) -> None:
        rows.write.format("pyhudi").options(**self.options).mode("append").save(str(self.table))


@pytest.fixture
def story(
    request: pytest.FixtureRequest, spark: SparkSession, peers: Peers, tmp_path: Path
) -> Iterator[Story]:
    version, rule = request.param
    options = {**OPTIONS, VERSION: version, RULE: rule}
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        told = Story(spark, tmp_path, options, peers("hudi-1.2.0"), pool)
        stack.callback(told.let_go)
        yield told


@matrix
@pytest.mark.parametrize("story", EITHER, indirect=True)
def test_case_1_the_first_commit_ever(story: Story) -> None:
    """
    ours    [begins] ----------- [commits S1]
    table   nothing              S1
    """
    ours = story.begins("ours", S1, ("r1", "Porto", 12, 1))
    ours.commits()
    story.ends("ride, city, fare, v", ("r1", "Porto", 12, 1))


@matrix
@pytest.mark.parametrize("story", EITHER, indirect=True)
def test_case_2_both_make_the_table_alike(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1]
    ours        [begins] ---------------- [commits S1]
    table   nothing         S1            S1
    """
    theirs = story.begins("theirs", S1, ("r1", "Porto", 12, 1))
    ours = story.begins("ours", S1, ("r2", "Turin", 8, 1))
    theirs.commits()
    ours.commits()
    story.ends("ride, city, fare, v", ("r1", "Porto", 12, 1), ("r2", "Turin", 8, 1))


@pytest.mark.parametrize("story", BOTH, indirect=True)
def test_case_3_both_make_the_table_and_differ(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1 + toll]
    ours        [begins] ------------------------ [S1 + tip: refused | reconciled]
    table   nothing         S1 + toll             S1 + toll          | S1 + toll + tip
    """
    theirs = story.begins("theirs", TOLL, ("r1", "Porto", 12, 1, 3))
    ours = story.begins("ours", TIP, ("r2", "Turin", 8, 1, 2))
    theirs.commits()
    if story.simple:
        refused = ours.is_refused()
        assert refused.facts["column"] == "tip"
        assert "did not exist" in str(refused)
        story.ends("ride, city, fare, v, toll", ("r1", "Porto", 12, 1, 3))
        return
    ours.commits()
    story.ends(
        "ride, city, fare, v, toll, tip",
        ("r1", "Porto", 12, 1, 3, None),
        ("r2", "Turin", 8, 1, None, 2),
    )


@matrix
@pytest.mark.parametrize("story", EITHER, indirect=True)
def test_case_4_nobody_changes_the_schema(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1]
    ours        [begins] ---------------- [commits S1]
    table   S1              S1            S1
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", S1, ("r1", "Porto", 12, 1))
    ours = story.begins("ours", S1, ("r2", "Turin", 8, 1))
    theirs.commits()
    ours.commits()
    story.ends(
        "ride, city, fare, v",
        ("r0", "Rome", 5, 1), ("r1", "Porto", 12, 1), ("r2", "Turin", 8, 1),
    )  # fmt: skip


@matrix
@pytest.mark.parametrize("story", EITHER, indirect=True)
def test_case_5_only_we_change_it(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1]
    ours        [begins] ---------------- [commits S1 + tip]
    table   S1              S1            S1 + tip
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", S1, ("r1", "Porto", 12, 1))
    ours = story.begins("ours", TIP, ("r2", "Turin", 8, 1, 2))
    theirs.commits()
    ours.commits()
    story.ends(
        "ride, city, fare, v, tip",
        ("r0", "Rome", 5, 1, None), ("r1", "Porto", 12, 1, None), ("r2", "Turin", 8, 1, 2),
    )  # fmt: skip


@pytest.mark.parametrize("story", BOTH, indirect=True)
def test_case_6_only_they_change_it(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1 + toll]
    ours        [begins] ----------------------- [S1: commits S1 + toll]
    table   S1              S1 + toll            S1 + toll
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", TOLL, ("r1", "Porto", 12, 1, 3))
    ours = story.begins("ours", S1, ("r2", "Turin", 8, 1))
    theirs.commits()
    ours.commits()
    story.ends(
        "ride, city, fare, v, toll",
        ("r0", "Rome", 5, 1, None), ("r1", "Porto", 12, 1, 3), ("r2", "Turin", 8, 1, None),
    )  # fmt: skip


@pytest.mark.parametrize("story", RECONCILED, indirect=True)
def test_case_6_with_a_column_that_they_widen(story: Story) -> None:
    """Our file has the narrow type, though our commit declares the wide one.

    theirs  [begins] ------ [commits fare double]
    ours        [begins] ------------------------ [fare int: commits fare double]
    table   fare int        fare double           fare double
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", DOUBLE, ("r1", "Porto", 8.5, 1))
    ours = story.begins("ours", S1, ("r2", "Turin", 8, 1))
    theirs.commits()
    ours.commits()
    story.ends(
        "ride, city, fare, v",
        ("r0", "Rome", 5.0, 1), ("r1", "Porto", 8.5, 1), ("r2", "Turin", 8.0, 1),
    )  # fmt: skip


@matrix
@pytest.mark.parametrize("story", EITHER, indirect=True)
def test_case_7_both_change_it_alike(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1 + toll]
    ours        [begins] ----------------------- [commits S1 + toll]
    table   S1              S1 + toll            S1 + toll
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", TOLL, ("r1", "Porto", 12, 1, 3))
    ours = story.begins("ours", TOLL, ("r2", "Turin", 8, 1, 2))
    theirs.commits()
    ours.commits()
    story.ends(
        "ride, city, fare, v, toll",
        ("r0", "Rome", 5, 1, None), ("r1", "Porto", 12, 1, 3), ("r2", "Turin", 8, 1, 2),
    )  # fmt: skip


@pytest.mark.parametrize("story", BOTH, indirect=True)
def test_case_8_both_change_it_and_differ(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1 + toll]
    ours        [begins] ------------------------ [S1 + tip: refused | reconciled]
    table   S1              S1 + toll             S1 + toll          | S1 + toll + tip
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", TOLL, ("r1", "Porto", 12, 1, 3))
    ours = story.begins("ours", TIP, ("r2", "Turin", 8, 1, 2))
    theirs.commits()
    if story.simple:
        refused = ours.is_refused()
        assert refused.facts["column"] == "tip"
        assert "was another" in str(refused)
        story.ends(
            "ride, city, fare, v, toll", ("r0", "Rome", 5, 1, None), ("r1", "Porto", 12, 1, 3)
        )
        return
    ours.commits()
    story.ends(
        "ride, city, fare, v, toll, tip",
        ("r0", "Rome", 5, 1, None, None),
        ("r1", "Porto", 12, 1, 3, None),
        ("r2", "Turin", 8, 1, None, 2),
    )


@pytest.mark.parametrize("story", RECONCILED, indirect=True)
def test_case_8_with_a_column_that_both_widen(story: Story) -> None:
    """
    theirs  [begins] ------ [commits fare long]
    ours        [begins] ------------------------ [commits fare double]
    table   fare int        fare long             fare double
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", LONG, ("r1", "Porto", 1 << 40, 1))
    ours = story.begins("ours", DOUBLE, ("r2", "Turin", 8.5, 1))
    theirs.commits()
    ours.commits()
    story.ends(
        "ride, city, fare, v",
        ("r0", "Rome", 5.0, 1), ("r1", "Porto", float(1 << 40), 1), ("r2", "Turin", 8.5, 1),
    )  # fmt: skip


@pytest.mark.parametrize("story", RECONCILED, indirect=True)
def test_case_8_with_types_that_do_not_go_together(story: Story) -> None:
    """
    theirs  [begins] ------ [commits S1 + toll int]
    ours        [begins] --------------------------- [S1 + toll string: refused]
    table   S1              S1 + toll int            S1 + toll int
    """
    story.exists(S1, ("r0", "Rome", 5, 1))
    theirs = story.begins("theirs", TOLL, ("r1", "Porto", 12, 1, 3))
    ours = story.begins("ours", TOLL_TEXT, ("r2", "Turin", 8, 1, "two"))
    theirs.commits()
    refused = ours.is_refused()
    assert [refused.facts[what] for what in ("column", "ours", "theirs")] == [
        "toll", "string", "integer",
    ]  # fmt: skip
    assert "rule" in refused.facts
    story.ends("ride, city, fare, v, toll", ("r0", "Rome", 5, 1, None), ("r1", "Porto", 12, 1, 3))
