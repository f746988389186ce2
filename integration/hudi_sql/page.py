"""Renders ``docs/hudi_sql.md``: statement by statement the same, or different with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from integration.hudi_sql.cases import ORDER, Case, Statement
from integration.hudi_sql.play import Difference, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "hudi_sql.md"
UNKNOWN = "Not explained yet."
#: the reason of a statement that shows what an earlier one of its case did
FOLLOWS = "The statement before was refused."
HEAD = """\
<!-- Written by `make hudi-sql`: change the cases in integration/hudi_sql/cases, not this page. -->
# Hudi's SQL, statement by statement

Each case ran on Apache Hudi 1.2.0 and on pyhudi, both on Spark 3.5, in databases of their own.
"The same" means the same rows, or an error on both sides; texts of errors are not compared. Meta
columns that a query does not name are left out, since pyhudi hides them. Only pyhudi's UPDATE,
DELETE and MERGE answer how many rows they changed; what these statements answer is not compared.
"""


def render(cases: Sequence[Case], found: Sequence[Sequence[Difference]]) -> str:
    """The page of all cases and their differences."""
    same = sum(not each for each in found)
    count = f"**{len(cases)} cases: {same} give the same, {len(cases) - same} differ.**\n"
    parts = [HEAD, count, _summary(found)]
    for chapter in ORDER:
        parts.append(f"## {chapter.replace('_', ' ').capitalize()}\n")
        parts.extend(
            _case(case, differences)
            for case, differences in zip(cases, found, strict=True)
            if case.chapter == chapter
        )
    return "\n".join(parts)


def _summary(found: Sequence[Sequence[Difference]]) -> str:
    reasons = dict.fromkeys(each.statement.differs or UNKNOWN for case in found for each in case)
    listed = "\n".join(f"* {reason}" for reason in reasons if reason != FOLLOWS)
    return f"## What differs, and why\n\n{listed}\n"


def _case(case: Case, found: Sequence[Difference]) -> str:
    apart = {id(each.statement): each for each in found}
    lines = [f"### {case.name[0].upper()}{case.name[1:]}: {'different' if found else 'the same'}\n"]
    lines.append("```sql")
    for statement in case.statements:
        lines.append(f"{statement.text};")
        if difference := apart.get(id(statement)):
            lines.append(f"-- Hudi: {_shown(difference.hudi, statement)}")
            lines.append(f"-- pyhudi: {_shown(difference.pyhudi, statement)}")
    lines.append("```\n")
    reasons = dict.fromkeys(each.statement.differs or UNKNOWN for each in found)
    lines.extend(f"Different: {reason}\n" for reason in reasons)
    return "\n".join(lines)


def _shown(outcome: Outcome, statement: Statement) -> str:
    if outcome.error is not None:
        return "an error"
    if not statement.is_query:
        return "succeeds"
    rows = [", ".join("null" if cell is None else str(cell) for cell in r) for r in outcome.rows]
    return " / ".join(rows) if rows else "no rows"
