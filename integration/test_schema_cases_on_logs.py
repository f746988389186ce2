"""RFC-82's cases where both writers append to one bucket: log blocks of several schemas in a slice.

``theirs`` and ``ours`` are writers without coordination, as in ``test_schema_cases.py``; here they
change the same rows. Apache Hudi 1.2.0 reads the same rows and columns after each step, and so it
does after a compaction that ran beside a writer with wider types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import pyhudi
from integration.peers import SparkPeer
from integration.test_schema_cases import OPTIONS, RULE, VERSION, Story
from pyhudi.errors import SchemaConflict
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.rows.log_spec import CompactTask, MergeSpec
from pyhudi.rows.spec import WriteSpec
from pyhudi.services.compaction import SlicesHere
from pyhudi.transactions import transaction

matrix = pytest.mark.matrix
S1 = "ride string, city string, fare int, x float, v int"
WIDE = "ride string, city string, fare long, x double, v int"
TOLL, TIP = WIDE + ", toll string", WIDE + ", tip int"
NAMES = "ride, city, fare, x, v"
BIG = 1 << 40
APPENDS = {
    **OPTIONS,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
}


@pytest.fixture
def story(
    request: pytest.FixtureRequest, spark: SparkSession, peers: Callable[[str], SparkPeer],
    tmp_path: Path,
) -> Iterator[Story]:  # fmt: skip
    version, rule = request.param
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        options = {**APPENDS, VERSION: version, RULE: rule}
        told = Story(spark, tmp_path, options, peers("hudi-1.2.0"), pool)
        stack.callback(told.let_go)
        yield told


@pytest.mark.parametrize(
    "story",
    [("9", "reconcile"), *(pytest.param((v, r), marks=matrix) for v, r in
     (("8", "reconcile"), ("9", "simple"), ("8", "simple")))],
    indirect=True,
)  # fmt: skip
def test_blocks_of_several_schemas_in_one_slice(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    theirs  --- [fare long, x double] ------------ [+ toll] ---------------------------
    ours    [begins S1] ------------- [commits] -- [begins + tip] --- [refused | both]
    """
    story.exists(S1, *((f"r{n}", "Porto", n, 0.5, 1) for n in range(5)))
    pyhudi.compact(str(story.table))

    # Case 6: ours declares the wider types over an older block.
    ours = story.begins("old", S1, ("r1", "Porto", 7, 1.5, 2))
    theirs = story.begins("wide", WIDE, ("r2", "Porto", BIG, 0.1, 2))
    theirs.commits()
    ours.commits()
    rows = {
        "r0": (0, 0.5, 1), "r1": (7, 1.5, 2), "r2": (BIG, 0.1, 2), "r3": (3, 0.5, 1),
        "r4": (4, 0.5, 1),
    }  # fmt: skip
    ends(story, NAMES, rows)

    # Case 8: both add a column, and change one row.
    ours = story.begins("tip", TIP, ("r3", "Porto", 8, 0.1, 4, 9), ("r5", "Porto", 5, 0.5, 2, 1))
    news = ("r3", "Porto", 9, 0.2, 3, "t"), ("r0", "Porto", 1, 2.5, 2, "u")
    theirs = story.begins("toll", TOLL, *news)
    theirs.commits()
    names = NAMES + ", toll"
    rows = {ride: (*row, None) for ride, row in rows.items()}
    rows |= {"r0": (1, 2.5, 2, "u"), "r3": (9, 0.2, 3, "t")}
    if story.simple:
        assert ours.is_refused().facts["column"] == "tip"
    else:
        ours.commits()
        names += ", tip"
        rows = {ride: (*row, None) for ride, row in rows.items()}
        rows |= {"r3": (8, 0.1, 4, None, 9), "r5": (5, 0.5, 2, None, 1)}
    ends(story, names, rows)

    # A compaction, beside which a column widens.
    more = ", toll string" + ("" if story.simple else ", tip int")
    wider = "ride string, city string, fare double, x double, v int" + more
    last = ("r4", "Porto", 4.5, 0.25, 5, "w", 2)[: len(names.split(", "))]
    beside(story, monkeypatch, lambda: story.exists(wider, last))
    assert pyhudi.compact(str(story.table))
    rows = {ride: (float(row[0]), *row[1:]) for ride, row in rows.items()}
    rows["r4"] = (4.5, 0.25, 5, *last[5:])
    ends(story, names, rows)


ORDER = "ride string, city string, fare int, v int, _hoodie_is_deleted boolean"
WIDER = ORDER.replace("v int", "v long")


@pytest.mark.parametrize("story", [("9", "simple"), pytest.param(("8", "simple"), marks=matrix)],
                         indirect=True)  # fmt: skip
def test_an_ordering_column_that_widens_over_deletes_is_not_read_by_apache_hudi(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.exists(ORDER, *((f"r{n}", "Porto", n, 5, False) for n in range(3)))
    pyhudi.compact(str(story.table))
    story.exists(ORDER, ("r0", "Porto", 0, 6, True), ("r1", "Porto", 1, 4, True))
    wide = ("r2", "Porto", 2, BIG, False)
    with pytest.raises(SchemaConflict, match="while logs have deletes"):
        story.exists(WIDER, wide)

    with monkeypatch.context() as patch:
        patch.setattr(transaction, "check_ordering_types", lambda *given: None)
        story.exists(WIDER, wide)
    with pytest.raises(Exception, match="ClassCastException"):
        story.hudi.read(story.table)
    pyhudi.compact(str(story.table))
    names = "ride, city, fare, v, _hoodie_is_deleted"
    ends(story, names, {"r1": (1, 5, False), "r2": (2, BIG, False)})


def beside(story: Story, monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Has ``work`` done after the next compaction has written its files."""
    compact = SlicesHere.compact

    def late(
        self: SlicesHere, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        stats = compact(self, spec, order, tasks)
        work()
        return stats

    monkeypatch.setattr(SlicesHere, "compact", late)


def ends(story: Story, names: str, rows: Mapping[str, tuple[object, ...]]) -> None:
    story.ends(names, *((ride, "Porto", *row) for ride, row in rows.items()))
