"""``python -m integration.hudi_sql [WORD]``: runs the cases and writes ``docs/hudi_sql.md``.

With a word it runs the cases whose chapter or name has it, prints what differs and writes nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from integration.hudi_sql import answers
from integration.hudi_sql.cases import Case, all_cases
from integration.hudi_sql.page import PAGE, render
from integration.hudi_sql.play import Difference, differences, play
from integration.peers import SparkPeer, apache_hudi, pyhudi_on_spark


def run(cases: list[Case], folder: Path) -> list[list[Difference]]:
    """What differs in each case; Apache Hudi runs the cases that have no answers yet."""
    known = answers.load()
    missing = [case for case in cases if answers.key(case) not in known]
    if missing:
        _ask_hudi(missing, known, folder)
    peer = pyhudi_on_spark()
    try:
        return [_differences(peer, case, known, folder) for case in cases]
    finally:
        peer.close()


def _ask_hudi(cases: list[Case], known: answers.Answers, folder: Path) -> None:
    """Add the answers of ``cases`` to ``known``; each is kept at once."""
    peer = apache_hudi("1.2.0")
    try:
        for case in cases:
            known[answers.key(case)] = play(peer, case, _own(folder, case))
            answers.save(known, all_cases())
            print(f"Hudi: {case.chapter}: {case.name}", flush=True)
    finally:
        peer.close()


def _differences(
    peer: SparkPeer, case: Case, known: answers.Answers, folder: Path
) -> list[Difference]:
    found = differences(case, known[answers.key(case)], play(peer, case, _own(folder, case)))
    for each in found:
        print(f"{case.chapter}: {case.name}\n  {each}", flush=True)
    return found


def _own(folder: Path, case: Case) -> Path:
    return folder / answers.key(case)


def main(word: str | None) -> int:
    """Returns how many statements differ, or stopped to differ, without a reason."""
    cases = [each for each in all_cases() if not word or word in f"{each.chapter} {each.name}"]
    with tempfile.TemporaryDirectory(prefix="hudi-sql-") as folder:
        found = run(cases, Path(folder))
    if word is None:
        PAGE.write_text(render(cases, found), encoding="utf-8")
    apart = [each.statement for case in found for each in case]
    said = [s for case in cases for s in case.statements if s.differs]
    known = {id(each) for each in apart}
    wrong = [s for s in apart if not s.differs] + [s for s in said if id(s) not in known]
    print(f"{len(cases)} cases, {len(apart)} statements differ, {len(wrong)} of them unexplained")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1] if len(sys.argv) > 1 else None) else 0)
