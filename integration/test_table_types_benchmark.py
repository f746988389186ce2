"""The page of table types says what was measured, and the advisor knows the same figures."""

from __future__ import annotations

from benchmarks.table_types_report import CLUSTERED, PAGE, SPREAD, load, page
from pyhudi.diagnosis.table_types import MEASURED


def test_the_published_page_is_made_from_the_findings() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(load())


def test_the_advisor_has_the_measured_costs() -> None:
    found = load()
    assert [*found.costs(SPREAD), *found.costs(CLUSTERED)] == list(MEASURED)
