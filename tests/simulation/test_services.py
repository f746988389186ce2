"""Apache Hudi's services beside writers and readers: what is found, and what each service does."""

from __future__ import annotations

import pytest

from tests.simulation.history import report
from tests.simulation.invariants import PAGE, cells
from tests.simulation.rows import Row
from tests.simulation.service_scenarios import SERVICE_ROWS

pytestmark = pytest.mark.long

SEEDS = range(30)


@pytest.mark.parametrize("row", SERVICE_ROWS, ids=lambda row: row.name)
def test_beside_a_service_breaks_what_the_published_table_says_and_no_more(row: Row) -> None:
    # What cannot hold ends the search where it is found.
    explored = row.search(range(2_000) if row.broken else SEEDS)

    for finding in explored.findings:
        beyond = finding.broken - row.broken
        assert not beyond, report(finding, min(beyond))
    assert {invariant for f in explored.findings for invariant in f.broken} == row.broken


def test_the_published_page_has_each_service_with_what_breaks_beside_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for row in SERVICE_ROWS:
        line = next(line for line in page.splitlines() if line.startswith(f"| {row.name} |"))
        assert line.split(" | ")[1:-1] == cells(row)
