"""The page of Hudi's SQL is the one of the cases that the harness has now."""

from __future__ import annotations

import re

import pytest

from integration.hudi_sql.cases import Case, all_cases
from integration.hudi_sql.page import FOLLOWS, PAGE, UNKNOWN

TEXT = PAGE.read_text(encoding="utf-8")
#: the part of each case, by its heading without the verdict
PARTS = {
    heading: (verdict, part)
    for heading, verdict, part in re.findall(
        r"^### ([^\n]*): (different|the same)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL
    )
}


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_the_page_has_each_case_and_the_reason_of_each_difference(case: Case) -> None:
    verdict, part = PARTS[case.name[0].upper() + case.name[1:]]
    lines = part.splitlines()
    shown = [line for line in lines if line.endswith(";") and not line.startswith("-- ")]
    assert shown == [f"{each.text};" for each in case.statements], "run `make hudi-sql`"
    reasons = list(dict.fromkeys(each.differs for each in case.statements if each.differs))
    assert verdict == ("different" if reasons else "the same")
    assert [line for line in lines if line.startswith("Different: ")] == [
        f"Different: {reason}" for reason in reasons
    ]


def test_the_page_counts_its_cases_and_explains_every_difference() -> None:
    cases = all_cases()
    same = sum(not any(each.differs for each in case.statements) for case in cases)
    assert len(PARTS) == len(cases)
    apart = len(cases) - same
    assert f"**{len(cases)} cases: {same} give the same, {apart} differ.**" in TEXT
    assert UNKNOWN not in TEXT


def test_the_page_begins_with_every_reason_to_differ() -> None:
    summary = TEXT.split("## What differs, and why\n\n")[1].split("\n\n")[0].splitlines()
    reasons = {each.differs for case in all_cases() for each in case.statements if each.differs}
    assert sorted(summary) == sorted(f"* {reason}" for reason in reasons - {FOLLOWS})
