"""What an INSERT OVERWRITE keeps, beside Apache Hudi 1.2.0."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.overwrites import (
    CLAUSE_LOST,
    INSERTS,
    Case,
    Overwriter,
    difference,
    empty_cases,
    few_cases,
    places_that_disagree,
    sample_cases,
    sql_cases,
)
from integration.peers import SparkPeer

matrix = pytest.mark.matrix
Peers = Callable[[str], SparkPeer]


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(tuple(sample_cases()), id="sample"),
        pytest.param(
            (*few_cases(), *places_that_disagree(), *empty_cases()), id="some", marks=matrix
        ),
        pytest.param(tuple(sql_cases()), id="all", marks=matrix),
    ],
)
def test_an_overwrite_keeps_the_rows_that_hudi_keeps(
    peers: Peers, tmp_path: Path, cases: tuple[Case, ...]
) -> None:
    ours = Overwriter(peers("pyhudi"), tmp_path)
    hudi = Overwriter(peers("hudi-1.2.0"), tmp_path)
    wrong = []
    for case in cases:
        kept, why = ours.kept(case), difference(case)
        if why is CLAUSE_LOST:
            right = kept.startswith("refused")
        elif why is INSERTS:
            right = "1" not in kept.split(",")
        else:
            theirs = hudi.kept(case)
            right = kept == theirs
            why = f"Hudi keeps {theirs}"
        if not right:
            wrong.append(f"{case}: {kept}; {why}")
    assert not wrong, "\n".join(wrong)
