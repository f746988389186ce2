"""What a suite of `make test` says of its own cost."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.budget import BUDGETS, CORES, HEAD_START, MINUTES, Pace, line

ROOT = Path(__file__).parents[1]
LEFT_OUT = [
    "6 skipped",
    "the time of `make test` is over",
    "NOT SHOWN: 6 of 6 cases",
]


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


def paced(done: int, at: float) -> Pace:
    """A suite of a hundred cases and a hundred seconds, some of both gone."""
    pace = Pace(1_000, 1_100, lambda: 1_000 + at)
    pace.all, pace.done, pace.seen = 100, done, {"seen"}
    return pace


def test_a_suite_in_time_runs_every_case() -> None:
    for done, at in ((0, 100 * HEAD_START), (50, 60), (99, 99)):
        assert not paced(done, at).reason("seen")


def test_a_suite_that_is_late_runs_one_case_of_each_function() -> None:
    for done, at in ((0, 100 * HEAD_START + 1), (50, 65), (80, 90)):
        assert "is late" in paced(done, at).reason("seen")
        assert not paced(done, at).reason("new")


def test_no_case_begins_after_the_end() -> None:
    assert "is over" in paced(99, 100).reason("new")


@pytest.mark.parametrize(("seconds_left", "told"), [(600, ["6 passed"]), (-1, LEFT_OUT)])
def test_what_is_left_out_is_told_with_its_reason(
    tmp_path: Path, seconds_left: float, told: list[str]
) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n@pytest.mark.parametrize('case', range(5))\n"
        "def test_many(case):\n    pass\n\ndef test_other():\n    pass\n"
    )
    asked = ["-p", "tests.budget", "--until", str(time.time() + seconds_left)]
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-ra", "-c", "/dev/null"),
            *(*asked, "-p", "no:cacheprovider", str(tmp_path)),
        ],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert all(text in run.stdout for text in told)
    assert ("NOT SHOWN" in run.stdout) == (told == LEFT_OUT)


def test_the_spark_suites_look_where_tests_need_spark() -> None:
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    places = re.findall(r"^SPARK_TESTS := (.+)$", made, re.M)[0].split()
    marked = [
        path.parent if path.name == "conftest.py" else path
        for path in (ROOT / "tests").glob("*/**/*.py")
        if "mark.spark" in path.read_text(encoding="utf-8")
    ]
    assert marked
    for path in marked:
        name = path.relative_to(ROOT).as_posix()
        assert any(name == place or name.startswith(f"{place}/") for place in places), name
