"""What a suite of `make test` says of its own cost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.budget import BUDGETS, CORES, MINUTES, line

ROOT = Path(__file__).parents[1]


def test_the_budgets_together_are_within_the_minutes_of_make_test() -> None:
    assert sum(BUDGETS.values()) <= MINUTES * 60 * CORES


def test_each_suite_of_make_test_has_a_budget() -> None:
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\(COST\) (\S+)", made)) == set(BUDGETS)


def test_a_suite_over_its_budget_says_by_how_much() -> None:
    assert line("plain", 7, 61.2, 10).endswith(
        f"7 cases, 61 s wall, 10 s CPU, budget {BUDGETS['plain']} s CPU"
    )
    assert line("plain", 7, 61.2, BUDGETS["plain"] + 12.4).endswith("s CPU, 12 s over it")


def test_a_run_ends_with_its_costly_tests_and_its_line_and_no_time_fails_it(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_one():\n    pass\n")
    asked = ["-p", "tests.budget", "--suite", "plain", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", *asked],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    told = run.stdout.splitlines()
    assert any(text.endswith("test_some.py::test_one") for text in told)
    assert any(text.startswith("plain: 1 cases, ") for text in told)
