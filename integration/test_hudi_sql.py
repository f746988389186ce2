"""Cases of Hudi's SQL: pyhudi gives what Apache Hudi gave, or differs for a reason.

`make hudi-sql` asks Apache Hudi about new cases and writes a page; here its kept answers are
compared. The matrix asks Apache Hudi again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.hudi_sql import answers
from integration.hudi_sql.cases import Case, Statement, all_cases
from integration.hudi_sql.play import Outcome, differences, play, same
from integration.peers import SparkPeer

CASES = all_cases()
SAMPLE = frozenset(
    {
        "insert of a key that is there, table with an ordering column",
        "insert with some of the columns of a partitioned table",
    }
)


def unexplained(case: Case, hudi: list[Outcome], peer: SparkPeer, folder: Path) -> str:
    """The statements that differ without a reason, or no longer although there is one."""
    found = differences(case, hudi, play(peer, case, folder))
    apart = {id(each.statement) for each in found}

    def surprising(statement: Statement) -> bool:
        return (id(statement) in apart) != bool(statement.differs)

    surprises = [each.text for each in case.statements if surprising(each)]
    return "\n".join([*surprises, *map(str, found)]) if surprises else ""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in SAMPLE else pytest.mark.matrix)
        for case in CASES
    ],
)
def test_a_case_gives_what_apache_hudi_gave_or_says_why_not(
    case: Case, peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    hudi = answers.load()[answers.key(case)]
    assert not unexplained(case, hudi, peers("pyhudi"), tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_apache_hudi_still_gives_its_kept_answers(
    case: Case, peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    kept = answers.load()[answers.key(case)]
    found = play(peers("hudi-1.2.0"), case, tmp_path)
    assert all(same(one, two) for one, two in zip(kept, found, strict=True))


def test_there_are_at_least_two_hundred_cases_and_hudis_answer_to_each() -> None:
    assert len(CASES) >= 200
    assert len({case.name for case in CASES}) == len(CASES)
    known = answers.load()
    for case in CASES:
        assert len(known[answers.key(case)]) == len(case.statements), case.name
