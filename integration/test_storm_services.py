"""A small storm with Apache Hudi's services, and that its model sees what it is there to see.

``python -m integration.storm_services`` raises the whole storms and publishes what they did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from integration.storm_check import Told
from integration.storm_chronicle import (
    Chronicle,
    Entry,
    Listing,
    Undoing,
    outcome_problems,
    row_problems,
)
from integration.storm_hudi import uncrossed
from integration.storm_page import (
    COLUMNS,
    HEADING,
    LOG_COLUMNS,
    LOGS,
    part_of,
    with_services,
)
from integration.storm_puts import Fate, LatePuts
from integration.storm_services import PAGE, TYPES, storm
from integration.storm_weather import SAMPLE, SMALL, Report
from pyhudi.errors import StorageError
from pyhudi.storage.base import StoredFile
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.active import timeline_of

GROUP = frozenset({("p", "g")})


def told(*completions: str) -> Told:
    """Upserts of one key by as many writers, acknowledged in the times 1, 2, 3..."""
    found = Told()
    for number, completion in enumerate(completions):
        found.hear(number, {"event": "begin", "number": 0, "keys": [["k", "p"]]})
        instant = {"instant": str(number + 1), "completion": completion}
        found.hear(number, {"event": "committed", "number": 0, **instant})
    return found


def chronicle(*completions: str, **undone: Undoing) -> Chronicle:
    """The same commits; ``undone`` are named t1, t2, t3..."""
    entries = {
        str(n + 1): Entry(str(n + 1), completion, (n, 0), GROUP)
        for n, completion in enumerate(completions)
    }
    return Chronicle(entries, {time.removeprefix("t"): by for time, by in undone.items()})


def listing(*commits: str, pending: tuple[str, ...] = (), saved: tuple[str, ...] = ()) -> Listing:
    return Listing(frozenset(commits), frozenset(pending), frozenset(saved))


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_savepoint_is_made_of_a_commit_that_no_other_has_crossed(version: int) -> None:
    started = [f"202401010000{n:05d}" for n in (1, 2, 3, 4)]
    ended = {0: 5, 1: 9, 2: 8, 3: 10}
    files = []
    for number, time in enumerate(started):
        done = ended[number]
        name = time if version == 6 else f"{time}_202401010000{done:05d}"
        files.append(StoredFile(f".hoodie/{name}.commit", 0, 1_000 * done))
    found = uncrossed(timeline_of(files, 1 if version == 6 else 2, ".hoodie"))
    assert found == [started[0], started[3]]


def row(writer: int, time: str) -> tuple[str, str, int, int, str]:
    return "k", "p", writer, 0, time


ROLLBACK = Undoing("25", "rollback")
TIMES = ("11", "21", "31")


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (listing("1", "2", "3"), ["1", "2", "3"]),
        (listing("3"), ["1", "2", "3"]),
        (listing("2"), ["1", "2"]),
        (listing("3", pending=("2",)), ["1", "3"]),
        (listing("1", "3", saved=("1",)), ["1", "2", "3"]),
        (listing("1", saved=("1",)), ["1"]),
    ],
)
def test_a_look_shows_what_is_listed_and_what_was_archived(seen: Listing, shown: list[str]) -> None:
    found = chronicle(*TIMES).seen_by(seen, None)
    assert [entry.time for entry in found] == shown


def test_a_look_shows_no_commit_that_was_undone_and_none_after_its_time() -> None:
    undone = chronicle(*TIMES, t2=ROLLBACK)
    assert [entry.time for entry in undone.seen_by(listing("3"), None)] == ["1", "3"]
    assert [entry.time for entry in undone.seen_by(listing("1", "2", "3"), "2")] == ["1", "2"]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([], "1 rows missing"),
        ([row(0, "1")], "1 that must not be there"),
        ([row(2, "3"), row(0, "1")], "1 double keys"),
    ],
)
def test_a_lost_an_old_and_a_double_row_are_problems(
    rows: list[tuple[str, str, int, int, str]], complaint: str
) -> None:
    kept = chronicle(*TIMES)
    problems, borne = row_problems("a look", told(*TIMES), kept, kept.in_order(), rows)
    assert borne == 0
    assert complaint in problems[0]


def test_a_row_that_was_undone_is_a_problem_unless_others_had_built_on_it_before() -> None:
    said = told(*TIMES)
    said.keys[2, 0] = [("other", "p")]
    rows = [row(1, "2"), ("other", "p", 2, 0, "3")]

    early = chronicle("11", "21", "24", t2=ROLLBACK)
    shown = early.seen_by(listing("1", "3"), None)
    assert row_problems("a look", said, early, shown, rows) == ([], 1)

    late = chronicle(*TIMES, t2=ROLLBACK)
    shown = late.seen_by(listing("1", "3"), None)
    problems, _ = row_problems("a look", said, late, shown, rows)
    assert "1 rows missing" in problems[0]


def test_a_row_that_was_undone_is_a_problem_where_others_only_added_logs_after_it() -> None:
    said = told(*TIMES)
    said.keys[2, 0] = [("other", "p")]
    rows = [row(1, "2"), ("other", "p", 2, 0, "3")]
    kept = chronicle("11", "21", "24", t2=ROLLBACK)
    kept.entries["3"] = replace(kept.entries["3"], added_to=GROUP)
    problems, borne = row_problems(
        "a look", said, kept, kept.seen_by(listing("1", "3"), None), rows
    )
    assert (len(problems), borne) == (1, 0)


def test_a_row_has_its_own_time_or_that_of_a_log_compaction_after_it() -> None:
    said = told("11")
    kept = chronicle("11")
    for time, operation in (("2", "LOG_COMPACT"), ("3", "COMPACT")):
        kept.entries[time] = Entry(time, time + "1", None, GROUP, operation=operation)
    shown = kept.in_order()
    assert row_problems("a look", said, kept, shown, [row(0, "1")]) == ([], 0)
    assert row_problems("a look", said, kept, shown, [row(0, "2")]) == ([], 0)
    assert row_problems("a look", said, kept, shown, [row(0, "3")])[0]
    assert row_problems("a look", said, kept, shown, [row(0, "2"), row(0, "2")])[0]


def test_an_acknowledged_commit_may_be_gone_only_by_what_came_after_it() -> None:
    final = listing("1", "3")
    lost = chronicle("11", "99", "31")
    del lost.entries["2"]
    (problem,) = outcome_problems(told(*TIMES), lost, final)
    assert problem == "upsert (1, 0) was acknowledged as 2, but is not there"
    assert outcome_problems(told(*TIMES), chronicle(*TIMES, t2=ROLLBACK), final) == []
    before = chronicle(*TIMES, t2=Undoing("20", "restore"))
    (problem,) = outcome_problems(told(*TIMES), before, final)
    assert "the restore 20 undid it before it completed at 21" in problem


@pytest.mark.parametrize(
    ("fate", "lands", "answered"),
    [
        (Fate.LATE, True, True),
        (Fate.LATE_ANSWER, True, True),
        (Fate.NO_ANSWER, True, False),
        (Fate.LOST, False, False),
    ],
)
def test_a_late_put_has_its_effect_in_time_or_never(
    fate: Fate, lands: bool, answered: bool
) -> None:
    waited: list[float] = []
    seed = next(s for s in map(str, range(99)) if LatePuts.fate_by(s) is fate)
    inner = MemoryStorage()
    storage = LatePuts(inner, 40.0, 1_000, seed, lambda *_, **__: None, waited.append)
    if answered:
        storage.put_if_absent("a", b"1")
    else:
        with pytest.raises(StorageError) as caught:
            storage.put_if_absent("a", b"1")
        assert not caught.value.had_no_effect
    assert inner.exists("a") is lands
    assert 0 < sum(waited) <= 40.0 < storage.put_timeout_s


def test_the_page_has_a_line_for_each_storm_and_keeps_the_rest() -> None:
    report = Report(9, SMALL, "1", told())
    page = with_services("# The storm\n", [report])
    assert page.startswith("# The storm\n")
    assert f"| {' | '.join(COLUMNS)} |" in page
    assert with_services(page, []) == page
    report.problems.append("a row is gone")
    assert part_of(with_services(page, [report])).count("\n| 9 |") == 1


def test_storms_on_merge_on_read_tables_have_a_part_of_their_own() -> None:
    logs = replace(SMALL, scale=replace(SMALL.scale, merge_on_read=True))
    page = with_services("# The storm\n", [Report(9, SMALL, "1", told())])
    both = with_services(page, [Report(9, logs, "1", told(), figures=Counter(COMPACT=7))])
    assert part_of(both).count("\n| 9 |") == part_of(both, LOGS).count("\n| 9 |") == 1
    (line,) = (each for each in part_of(both, LOGS).splitlines() if each.startswith("| 9 |"))
    values = dict(zip(LOG_COLUMNS, line.strip("| ").split(" | "), strict=True))
    assert (values["compactions"], values["log compactions"]) == ("7", "0")
    assert with_services(both, []) == both


@pytest.mark.parametrize(("heading", "columns"), [(HEADING, COLUMNS), (LOGS, LOG_COLUMNS)])
def test_the_published_page_has_a_storm_of_each_version_and_names_no_problem(
    heading: str, columns: tuple[str, ...]
) -> None:
    rows = [row for row in part_of(PAGE.read_text(), heading).splitlines() if row.startswith("| ")]
    names, _, *storms = [row.strip("| ").split(" | ") for row in rows]
    assert tuple(names) == columns
    assert [storm[0] for storm in storms] == ["6", "8", "9"]
    assert {storm[-1] for storm in storms} == {"none"}
    assert all(int(storm[names.index("restores")]) for storm in storms)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_beside_hudis_services_no_acknowledged_write_is_lost_and_no_view_is_torn(
    version: int, kind: str
) -> None:
    report = storm(version, SAMPLE, "sample", kind)
    assert report.problems == []
    assert report.services.total() > 0
    assert report.reads["look"] > 0
