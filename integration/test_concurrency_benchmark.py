"""The page of writers beside each other says what was measured, and nothing else."""

from __future__ import annotations

import json

from benchmarks.concurrency import (
    APART,
    PAGE,
    RESULTS,
    Findings,
    count_row,
    heal_row,
    page,
    row,
)


def test_a_line_tells_what_landed_and_what_failed() -> None:
    writes = [{"seconds": s, "error": e} for s, e in ((1.0, ""), (3.0, ""), (9.0, "no"))]
    found = row(APART, "delta", {"seconds": 4.0, "result": writes})
    assert found == (APART, "Delta 3.3.2", "2", "1", "4.0", "0.50", "2.00 (at most 3.00)")


def test_healing_costs_what_a_write_takes_longer_than_alone() -> None:
    alone, healed = {"seconds": 1.0, "errors": 0}, {"seconds": 2.5, "errors": 0}
    line = heal_row("pyhudi", [{"alone": alone, "overtaken": healed}])
    assert line == ("pyhudi", "1.00 (1.00 to 1.00)", "2.50 (2.50 to 2.50)", "1.50", "itself")

    failed = {"seconds": 2.5, "errors": 1}
    line = heal_row("delta", [{"alone": alone, "overtaken": failed}] * 3)
    assert line[-1] == "the user, 3 times in 3 writes"


def test_a_statement_that_landed_and_does_not_show_is_lost() -> None:
    writes = [{"seconds": s, "error": e} for s, e in ((1.0, ""), (3.0, ""), (9.0, "no"))]
    line = count_row("hudi", {"seconds": 4.0, "result": writes, "counted": 1})
    assert line == ("Apache Hudi 1.2.0", "2", "1", "1", "4.0", "2.00 (at most 3.00)")


def test_the_published_page_is_made_from_the_findings() -> None:
    found = Findings(**json.loads(RESULTS.read_text(encoding="utf-8")))
    assert PAGE.read_text(encoding="utf-8") == page(found)
