"""Drivers of streams killed with SIGKILL at each step of an epoch: each row comes once.

``python -m integration.stream_crashes`` draws where they die, and publishes what it found.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from integration.peers import HudiRs, SparkPeer
from integration.stream_crashes import BEGIN, END, HEAD, KINDS, PAGE, SEEDS, publish, run, summary
from integration.stream_kills import ANSWERED, IN_A_TASK, Trouble
from integration.stream_lives import Lives, problems_of
from integration.stream_seeds import Played, Pool, stream_of
from integration.stream_source import Row, Source, differences, options_of
from integration.stream_tables import Growing, is_served, splits
from integration.stream_writer import make_table

matrix = pytest.mark.matrix
Peers = Callable[[str], SparkPeer]

#: what drivers die of, one after the other, on one table
DEATHS = {
    "before the request": Trouble("CRASH_BEFORE", "*commit.requested", 2),
    "after the request": Trouble("CRASH_AFTER", "*commit.requested"),
    "in a task": Trouble("CRASH_BEFORE", IN_A_TASK),
    "settling": Trouble("CRASH_BEFORE", "*.rollback"),
    "sealed": Trouble("CRASH_BEFORE", ".hoodie/lock", methods="put_if_absent"),
    "before the put": Trouble("CRASH_BEFORE", "*commit"),
    "after the put": Trouble("CRASH_AFTER", "*commit"),
    "before Spark's log": Trouble("CRASH_AFTER", ANSWERED),
}
FEW = ("in a task", "settling", "before the put", "before Spark's log")
STEPS = {"request", "in a task", "settling", "lock", "the put", "answered, not noted"}
LOST = (Trouble("LOSE_REPLY", "*commit"), Trouble("LOSE_REQUEST", "*commit", 2))


@pytest.mark.parametrize(
    ("deaths", "operation", "version", "logs"),
    [
        pytest.param(FEW, "upsert", 9, True, id="few"),
        pytest.param(tuple(DEATHS), "insert", 9, False, id="all-9", marks=matrix),
        pytest.param(tuple(DEATHS), "upsert", 8, False, id="all-8", marks=matrix),
        pytest.param(tuple(DEATHS), "insert", 6, False, id="all-6", marks=matrix),
        pytest.param(tuple(DEATHS), "upsert", 8, True, id="all-logs-8", marks=matrix),
        pytest.param(tuple(DEATHS), "upsert", 6, True, id="all-logs-6", marks=matrix),
    ],
)
def test_a_driver_killed_at_a_step_of_an_epoch_neither_loses_nor_doubles_rows(
    tmp_path: Path, peers: Peers, hudi_rs: HudiRs, deaths: tuple[str, ...], operation: str,
    version: int, logs: bool,
) -> None:  # fmt: skip
    table, source = tmp_path / "table", Source("a", operation, len(deaths))
    stream = Lives.begin(source, tmp_path, table, options_of(operation, version, logs))
    for step in deaths:
        told = {"staged": step == "in a task", "dying_s": 5.0 if step == "settling" else 1.0}
        assert stream.live(DEATHS[step], **told) == "killed", f"{step}: {stream.errors}"
    assert stream.live(*LOST) == "done"
    assert stream.deaths.total() == len(deaths)
    assert deaths is FEW or stream.deaths.keys() == STEPS
    assert stream.noted() == set(range(source.files))
    readers = (peers("hudi-1.2.0"), hudi_rs)
    assert problems_of(table, source.wanted(), readers, stream.spec.options) == []


@pytest.mark.parametrize(
    ("version", "logs"),
    [
        (9, True),
        pytest.param(9, False, marks=matrix),
        pytest.param(6, False, marks=matrix),
        pytest.param(6, True, marks=matrix),
    ],
)
def test_without_spark_each_step_is_died_at_and_each_row_comes_once(
    tmp_path: Path, hudi_rs: HudiRs, version: int, logs: bool
) -> None:
    """The model of the seeds, at the same steps."""
    operation = "upsert" if logs else "insert"
    table, source = tmp_path / "table", Source("a", operation, len(DEATHS) - 1)
    options = options_of(operation, version, logs)
    make_table(str(table), options)
    spec = stream_of(tmp_path, source, table, options)
    with Pool(1, tmp_path / "log") as pool:
        for step, trouble in DEATHS.items():
            if step != "in a task":
                code = pool.live(replace(spec, troubles=(trouble,)))
                assert code == -signal.SIGKILL, f"{step}: {Path(spec.log).read_text()}"
        assert pool.live(replace(spec, troubles=LOST)) == 0
    assert problems_of(table, source.wanted(), [hudi_rs], options) == []


@pytest.mark.parametrize("kind", ["alone", "two"])
def test_a_few_seeds_find_no_problem(tmp_path: Path, hudi_rs: HudiRs, kind: str) -> None:
    def judge(played: Played) -> list[str]:
        return problems_of(played.table, played.wanted, [hudi_rs], played.options)

    played = run(kind, ["2", "3"], tmp_path, judge)
    assert [each.logs for each in played] == [False, True]
    assert [each.problems for each in played] == [[], []]
    # Some deaths come by the clock: a quick machine may be done with a seed before its first.
    assert sum(each.deaths.total() for each in played)


#: how a stream goes from one table into another: by the sink, or by `df.write` in two parts. Its
#: drivers die at a step, and of the fifth batch amid a commit: between two parts, or after it.
BETWEEN = {
    "sink": (0, "in a task", Trouble("CRASH_AFTER", ANSWERED, 5)),
    "foreachBatch": (2, "before the put", Trouble("CRASH_AFTER", ANSWERED, 9)),
}


@pytest.mark.parametrize("kind", BETWEEN)
def test_a_driver_between_two_tables_that_is_killed_neither_loses_nor_doubles_rows(
    tmp_path: Path, hudi_rs: HudiRs, kind: str
) -> None:
    """The source is compacted, cleaned and archived meanwhile, and batches are parts of commits."""
    source, table, options = Source("a", "upsert", 5), tmp_path / "table", options_of("upsert", 9)
    parts, step, amid = BETWEEN[kind]
    own = tmp_path / "stream"
    own.mkdir()
    with Pool(1, tmp_path / "log") as pool:
        growing = Growing.begin(source, tmp_path, options_of("upsert", 9, logs=True), pool)
        growing.grow(served=False)
        limit = {"maxRowsPerTrigger": "9"}
        stream = Lives.of_table(own, growing.spec.root, table, options, limit, parts)
        checkpoint = Path(stream.spec.checkpoint)
        assert stream.live(DEATHS[step], staged=step == "in a task") == "killed", stream.errors
        growing.grow(is_served(checkpoint))
        assert stream.live(amid) == "killed", stream.errors
        assert is_served(checkpoint), "the first state was read"
        assert splits(checkpoint), "a batch is a part of a commit"
        growing.grow(served=True, commits=source.files)
        stream.finish()
        assert growing.problems() == []
    assert problems_of(table, source.wanted(), [hudi_rs], options) == []


@matrix
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["spark", "beside", "tables", "batches"])
def test_a_seed_with_other_processes_finds_no_problem(
    tmp_path: Path, peers: Peers, hudi_rs: HudiRs, kind: str
) -> None:
    readers = (hudi_rs, peers("hudi-1.2.0"))

    def judge(played: Played) -> list[str]:
        return problems_of(played.table, played.wanted, readers, played.options)

    (played,) = run(kind, ["0"], tmp_path, judge)
    assert played.problems == []


def test_a_lost_and_a_double_row_are_problems_and_name_their_files() -> None:
    source = Source("a", "insert", 3, rows=2)
    wanted = source.wanted()
    assert differences("a reader", wanted, source.wanted()) == []
    (lost,) = differences("a reader", source.wanted(range(2)), wanted)
    assert "2 rows lost, of the files [2]" in lost
    twice = wanted + source.wanted([1])
    (double,) = differences("a reader", twice, wanted)
    assert "2 too many, of the files [1]" in double


def test_of_upserted_rows_the_last_file_counts() -> None:
    source = Source("a", "upsert", 2, rows=2)
    assert source.wanted() == Counter[Row](
        [("af0r0", "p0", 0), ("af1r0", "p0", 1), ("as0", "p1", 1)]
    )


def test_the_page_has_two_hundred_seeds_and_none_with_a_problem() -> None:
    def lines(page: str) -> list[list[str]]:
        table = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
        return [row.strip("| ").split(" | ") for row in table]

    head, _, *kinds = lines(PAGE.read_text(encoding="utf-8"))
    assert tuple(head) == HEAD
    seeds = {kind[0]: int(kind[1]) for kind in kinds}
    assert seeds.keys() <= set(KINDS.values())
    logs = {kind[0]: int(kind[2]) for kind in kinds}
    for kind in ("alone", "two"):
        assert seeds[KINDS[kind]] == SEEDS[kind] == 200
        assert logs[KINDS[kind]] > SEEDS[kind] / 4, "the page is older than the seeds"
    assert {kind[-1] for kind in kinds} == {"none"}
    again = summary("alone", [], 1.0)
    assert lines(publish(PAGE.read_text(encoding="utf-8"), [again]))[2] == [*again]
