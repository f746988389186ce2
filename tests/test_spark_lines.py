"""Each case that needs Spark runs on one line, the chosen ones on every line, and none on none."""

from __future__ import annotations

import pytest

from tests.spark_lines import LINES, home_line, runs_on

CASES = [f"tests/spark/test_keys.py::test_a_key_of_{n}_columns[way-{n % 3}]" for n in range(200)]


def test_a_case_runs_on_exactly_one_line() -> None:
    for case in CASES:
        assert sum(runs_on(line, case, ["spark"]) for line in LINES) == 1


def test_each_line_runs_about_half_of_the_cases() -> None:
    share = [home_line(case) for case in CASES]
    assert min(share.count(line) for line in LINES) > len(CASES) / 3


def test_a_case_stays_on_its_line_from_run_to_run() -> None:
    assert [home_line(name) for name in ("one", "two", "three")] == ["3.5", "4.3", "4.3"]


@pytest.mark.parametrize("marks", [["spark", "every_line"], []], ids=["marked", "without Spark"])
def test_a_case_with_code_per_line_runs_on_each(marks: list[str]) -> None:
    assert all(runs_on(line, case, marks) for line in LINES for case in CASES)
