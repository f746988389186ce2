"""Apache Hudi's answers, kept: a case whose text has not changed need not run there again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from integration.hudi_sql.cases import Case
from integration.hudi_sql.play import Outcome

FILE = Path(__file__).parent / "answers.json"
#: the outcomes of the statements of a case, by its key
Answers = dict[str, list[Outcome]]


def key(case: Case) -> str:
    """Tells the text of a case: the same for the same statements."""
    text = "\n".join(each.text for each in case.statements)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def load() -> Answers:
    """The kept answers; none if there is no file."""
    if not FILE.exists():
        return {}
    raw = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: [_outcome(each["rows"], each["error"]) for each in found]
        for name, found in raw.items()
    }


def _outcome(rows: list[list[object]], error: str | None) -> Outcome:
    return Outcome(tuple(tuple(row) for row in rows), error)


def save(known: Answers, cases: Iterable[Case]) -> None:
    """Keep the answers of ``cases``; others are dropped."""
    lines = [
        f'"{key(case)}": ' + json.dumps([_raw(each) for each in known[key(case)]])
        for case in cases
        if key(case) in known
    ]
    FILE.write_text("{\n" + ",\n".join(sorted(set(lines))) + "\n}\n", encoding="utf-8")


def _raw(outcome: Outcome) -> dict[str, object]:
    return {"rows": outcome.rows, "error": outcome.error}
