"""Small storms, and that its checks see what they are there to see.

``make storm`` raises the whole storms, one for each lock, and publishes what they did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from integration.peers import HudiRs, SparkPeer
from integration.storm import COLUMNS, WHOLE, Report, page, rage, verify
from integration.storm_check import Name, Seen, Told, differences, expected, outcome_problems
from integration.storm_page import parts_of
from integration.storm_places import OPTIONS, PLACES, Place, place
from integration.storm_victims import LOGS_SAMPLE, MERGED_SAMPLE, SAMPLE, Scale, strikes
from integration.storm_waits import BEGIN, END, Turn, line, passed_by, publish
from pyhudi.clock import SystemClock
from pyhudi.config import resolve_write
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import LOCK_PATH
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.locks.lock_file import LockFile, render_lock_file
from pyhudi.tables.create import new_table_config
from pyhudi.timeline.table import Table
from pyhudi.transactions.presence import make_table
from pyhudi.transactions.writer import Writer, WriterPolicy

COMMITS: tuple[tuple[str, Name], ...] = (("1", (0, 0)), ("2", (1, 0)))


@dataclass(frozen=True, slots=True)
class Small:
    """A storm for the tests."""

    place: str
    scale: Scale
    marks: tuple[pytest.MarkDecorator, ...] = (pytest.mark.matrix,)


SMALL = {
    "logs": Small("filesystem", LOGS_SAMPLE, ()),
    "logs-merged": Small("numbered", MERGED_SAMPLE, ()),
    "files": Small("filesystem", SAMPLE),
    "logs-v6": Small("zookeeper", replace(LOGS_SAMPLE, version=6)),
    "logs-v8": Small("numbered", replace(LOGS_SAMPLE, version=8)),
    "logs-merged-v8": Small("zookeeper", replace(MERGED_SAMPLE, version=8)),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(each, id=name, marks=each.marks) for name, each in SMALL.items()],
)
def storm(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Report:
    """Four writers and compactors; of writers one is killed, one stopped past its lapse."""
    small: Small = request.param
    folder = tmp_path_factory.mktemp("storm")
    with place(small.place, folder) as where:
        return rage(where, small.scale, "sample", folder)


def told() -> Told:
    """Two upserts of one key, both acknowledged."""
    found = Told()
    for writer, instant in ((0, "1"), (1, "2")):
        found.hear(writer, {"event": "begin", "number": 0, "keys": [["k", "p"]]})
        found.hear(writer, {"event": "committed", "number": 0, "instant": instant})
    return found


def test_after_a_storm_the_table_is_what_its_commits_make_of_it(
    storm: Report, hudi_rs: HudiRs, peers: Callable[[str], SparkPeer]
) -> None:
    verify(storm, hudi_rs, peers("hudi-1.2.0"))
    assert storm.problems == []


def test_a_storm_strikes_and_every_upsert_has_one_outcome(storm: Report) -> None:
    said = storm.told
    assert (storm.struck["killed"], storm.struck["paused"]) == (SAMPLE.kills, SAMPLE.pauses)
    upserts = {(w, n) for w in range(SAMPLE.writers) for n in range(SAMPLE.upserts)}
    ended = [*said.acknowledged, *said.failed, *said.unknown, *said.silent]
    assert sorted(name for name in ended if name[0] >= 0) == sorted(upserts)
    assert len(said.silent) <= SAMPLE.kills
    assert storm.figures["snapshots"] > 0
    if storm.scale.merges_logs:
        assert storm.figures["LOG_COMPACT"] > 0


def test_without_coordination_the_highest_row_of_a_key_stays_in_any_order() -> None:
    for commits in (COMMITS, COMMITS[::-1]):
        assert expected(told(), commits, by_event=True) == (("k", "p", 1, 0, "2"),)


def test_rows_follow_the_order_of_completion() -> None:
    assert expected(told(), COMMITS) == (("k", "p", 1, 0, "2"),)
    assert expected(told(), COMMITS[::-1]) == (("k", "p", 0, 0, "1"),)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "1 rows missing"),
        ([("k", "p", 0, 0, "1")], "1 that must not be there"),
        ([("k", "p", 1, 0, "2"), ("k", "p", 0, 0, "1")], "1 double keys"),
    ],
)
def test_a_lost_an_old_and_a_double_row_are_problems(
    rows: list[tuple[str, str, int, int, str]], complaint: str
) -> None:
    (problem,) = differences("the table", rows, expected(told(), COMMITS))
    assert complaint in problem


def test_an_acknowledged_commit_that_is_gone_is_a_problem() -> None:
    assert outcome_problems(told(), Seen(COMMITS, ())) == []
    (problem,) = outcome_problems(told(), Seen(COMMITS[:1], ()))
    assert problem == "upsert (1, 0) was acknowledged as 2, but is not there"


def test_a_failed_write_that_is_visible_is_a_problem() -> None:
    said = told()
    said.hear(0, {"event": "begin", "number": 1, "keys": [["k", "p"]]})
    said.hear(0, {"event": "failed", "number": 1, "kind": "WriterFenced", "text": ""})
    assert outcome_problems(said, Seen(COMMITS, ())) == []
    (problem,) = outcome_problems(said, Seen((*COMMITS, ("3", (0, 1))), ()))
    assert problem == "upsert (0, 1) failed (WriterFenced), yet is ['3']"


def test_only_a_lock_whose_holder_lives_is_a_problem(tmp_path: Path) -> None:
    where = Place(str(tmp_path / "storm"), "filesystem", "local disk", {}, lease_s=0.0)
    storage = where.open()
    schema = SparkSchema((Column("key", "string"), Column("dt", "string")))
    config = new_table_config(where.root, resolve_write(OPTIONS), schema, record_schema=True)
    lock = InProcessLock(InProcessLocks(), "storm")
    make_table(Writer(Table(storage, config), lock, SystemClock(), WriterPolicy()))
    holder = LockOwner.this_process("20240501123005000")
    for lease_s, told in ((60.0, [str(holder)]), (0.1, [])):
        held = LockFile("token", holder, since_ms=1_714_566_605_000, lease_s=lease_s)
        storage.replace(LOCK_PATH, render_lock_file(held))
        problems = where.lock_problems(OPTIONS)
        assert [each for each in told if each in "".join(problems)] == told
        assert len(problems) == len(told)
    assert where.lock_problems(OPTIONS) == []


def test_a_write_that_landed_twice_is_a_problem() -> None:
    (problem,) = outcome_problems(told(), Seen((*COMMITS, ("3", (1, 0))), ()))
    assert problem == "upsert (1, 0) has landed 2 times: ['2', '3']"


def test_a_whole_storm_kills_a_third_and_strikes_holders_of_the_lock() -> None:
    scale = WHOLE[0].scale
    assert {plan.place for plan in WHOLE} == set(PLACES)
    plan = strikes(scale, "1", lease_s=8)
    killed = [s for s in plan if s.pause_s is None]
    paused = [s for s in plan if s.pause_s is not None]
    assert len(killed) >= scale.writers // 3
    assert {s.event for s in killed} == {s.event for s in paused} == {"begin", "locked"}
    assert all(s.pause_s and s.pause_s > 8 for s in paused if s.event == "locked")
    assert len({s.writer for s in plan}) == len(plan)


def test_the_page_has_a_line_for_each_storm_and_names_problems(storm: Report) -> None:
    text = page([storm])
    assert text.count(f"\n| {storm.place.lock} ") == 1
    assert f"| {' | '.join(COLUMNS)} |" in text
    again = page([], text)
    assert again == text
    other = text.replace(f"| {storm.place.lock} |", "| another |")
    assert page([storm], other).count(f" disk | {storm.scale} |") == 2
    storm.problems.append("a row is gone")
    try:
        assert f"* {storm.place.lock}, local disk: a row is gone" in page([storm])
    finally:
        storm.problems.pop()


def test_the_published_page_names_no_problem() -> None:
    text = (Path(__file__).parents[1] / "docs" / "storm.md").read_text(encoding="utf-8")
    text = text.removesuffix(parts_of(text))
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert tuple(lines[0]) == COLUMNS
    assert {len(line) for line in lines} == {len(COLUMNS)}
    assert {line[-1] for line in lines[2:]} == {"none"}


def test_who_asked_later_and_came_first_has_passed_by() -> None:
    in_order = [Turn(0, 1), Turn(0.5, 2), Turn(0.7, 3)]
    assert passed_by(in_order) == 0
    assert passed_by([Turn(0, 9), *in_order]) == 2


def test_the_table_of_waits_keeps_the_lines_of_other_runs() -> None:
    where = Place("/t", "ZooKeeper", "local disk", {})
    first = line(where, 2, [Turn(0, 1), Turn(0, 3)])
    other = line(where, 16, [Turn(0, 2), Turn(0, 4)])
    page = f"text\n{BEGIN}\n{END}\nmore\n"

    both = publish(publish(page, [first]), [other])
    assert both.startswith("text\n")
    assert both.endswith("\nmore\n")
    assert [row for row in both.splitlines() if "ZooKeeper" in row] == [
        "| ZooKeeper | local disk | 2 | 0.5 | 2.0 | 3.0 | 3.0 | 0 |",
        "| ZooKeeper | local disk | 16 | 0.5 | 3.0 | 4.0 | 4.0 | 0 |",
    ]
    assert publish(both, [first]) == both
