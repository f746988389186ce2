"""`make mutants`: take each guard away, see its tests turn red, and publish docs/mutants.md.

``--only TEXT`` runs the mutants whose name or row has the text, ``--plain`` those whose tests need
no Spark, ``--spark`` the others; the page keeps what it tells of those that were not run.
``--find PATH...`` runs other tests instead, all of them, and prints those that turn red: how a
mutant gets its tests. Ends with 1 where a mutant survives, or where the tests are red already.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.page import PAGE, cells_of, page, read, verdict
from tests.mutants.run import Outcome, Ran, in_place, node_ids, run_all, run_tests, scratch
from tests.mutants.table import GUARDS

AT_ONCE = 2
#: seconds that the tests of one mutant may take, and those of all together on the code as it is
LIMIT_S, BASELINE_S = 300.0, 1_800.0

WHY = re.compile(r"^E +(.*)$", re.MULTILINE)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell(mutant: Mutant, ran: Ran) -> None:
    say(
        f"{'red ' if ran.killed else 'GREEN'} {ran.seconds:4.0f} s  {mutant.what}: "
        f"{verdict(mutant, ran)}"
    )
    if ran.outcome is Outcome.BROKEN:
        say(ran.said[-3_000:])
    elif found := WHY.search(ran.said):
        say(f"      {found[1][:200]}")


def chosen(arguments: argparse.Namespace) -> list[Mutant]:
    return [
        mutant
        for guard in GUARDS
        for mutant in guard.mutants
        if not (arguments.plain and mutant.spark)
        and not (arguments.spark and not mutant.spark)
        and (arguments.only in mutant.what or arguments.only in guard.row)
    ]


def baseline(mutants: Sequence[Mutant]) -> bool:
    """Whether the tests are green without any mutant: a process for each folder, as sessions of
    Spark that differ cannot share one."""
    names = sorted({name for mutant in mutants for name in mutant.tests})
    green = True
    with scratch(1) as (copy,):
        folders: dict[str, list[str]] = {}
        for node in node_ids(names, copy):
            folders.setdefault(node.partition("::")[0].rpartition("/")[0], []).append(node)
        for folder, nodes in folders.items():
            ran = run_tests(copy, nodes, BASELINE_S)
            say(f"{folder} as it is: {ran.outcome.value}, {ran.seconds:.0f} s")
            if ran.outcome is not Outcome.GREEN:
                say(ran.said[-6_000:])
                green = False
    return green


def find(mutants: Sequence[Mutant], paths: Sequence[str]) -> None:
    with scratch(1) as (copy,):
        for mutant in mutants:
            with in_place(copy, mutant):
                ran = run_tests(copy, paths, BASELINE_S, ("-m", "not matrix and not long"))
            say(f"{mutant.what}: {ran.outcome.value}, {ran.seconds:.0f} s")
            for node in ran.red:
                say(f"  {node}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--find", nargs="+", metavar="PATH")
    arguments = parser.parse_args()
    mutants = chosen(arguments)
    if arguments.find:
        find(mutants, arguments.find)
        return 0
    if not baseline(mutants):
        return 1
    with scratch(AT_ONCE) as copies:
        ran = run_all([m for m in mutants if not m.scala], copies, LIMIT_S, tell)
        # In one copy, where sbt compiles only what a mutant has changed.
        ran |= run_all([m for m in mutants if m.scala], copies[:1], LIMIT_S, tell)
    survivors = [what for what, result in ran.items() if not result.killed]
    say(f"{len(ran) - len(survivors)} of {len(ran)} mutants turned a test red")
    for what in survivors:
        say(f"nothing is red without: {what}")
    told = read(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    told |= {mutant.what: cells_of(mutant, ran[mutant.what]) for mutant in mutants}
    PAGE.write_text(page(GUARDS, told), "utf-8")
    say(f"published {PAGE.relative_to(ROOT)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
