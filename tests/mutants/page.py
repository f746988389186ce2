"""docs/mutants.md: which mutant of which guard turned which test red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.mutants.mutant import ROOT, Guard, Mutant
from tests.mutants.run import Outcome, Ran

PAGE: Final = ROOT / "docs" / "mutants.md"
NOT_RUN: Final = "not run yet"
_HEAD: Final = """\
<!-- Made by `make mutants`, which runs what the table says. -->

# Each guard, taken away

`make mutants` removes each guard of ARCHITECTURE.md's table from a scratch copy of the code, one at a
time, and runs the guard's tests (`tests/mutants`). Before that these tests are green on the unchanged
code. A guard is proven if a test turns red without it. A run of some of the mutants
(`make mutants ARGS='--only lease'`) replaces only their lines.
"""

#: by ``Mutant.what``: the cells that tell what turned red, and in how many seconds
Told = dict[str, tuple[str, str]]


def page(guards: Sequence[Guard], told: Mapping[str, tuple[str, str]]) -> str:
    """The page; what ``told`` lacks was not run."""
    mutants = [mutant for guard in guards for mutant in guard.mutants]
    red = sum(told.get(mutant.what, ("", ""))[0].startswith("`") for mutant in mutants)
    lines = [
        _HEAD,
        f"{red} of {len(mutants)} mutants turn a test red.\n",
        "| what could go wrong | without its guard | red | seconds |",
        "| --- | --- | --- | --- |",
        *(row for guard in guards for row in _rows(guard, told)),
        "\n## What no mutant takes away\n",
        "| what could go wrong | why, and what shows it |",
        "| --- | --- |",
        *(f"| {g.row} | {g.unproven} |" for g in guards if g.unproven),
    ]
    return "\n".join(lines) + "\n"


def _rows(guard: Guard, told: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    for number, mutant in enumerate(guard.mutants):
        row = guard.row if number == 0 else ""
        red, seconds = told.get(mutant.what, (NOT_RUN, ""))
        yield f"| {row} | {mutant.what} | {red} | {seconds} |"


def read(text: str) -> Told:
    """What a page tells."""
    rows = (line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {cells[1]: (cells[2], cells[3]) for cells in rows if len(cells) == 4}


def cells_of(mutant: Mutant, ran: Ran) -> tuple[str, str]:
    """What a run tells."""
    return verdict(mutant, ran), f"{ran.seconds:.0f}"


def verdict(mutant: Mutant, ran: Ran) -> str:
    """The test that turned red, or that none did."""
    if ran.outcome is Outcome.RED:
        return ", ".join(f"`{node.partition('::')[2]}`" for node in ran.red)
    if ran.outcome is Outcome.ENDLESS:
        return f"`{mutant.tests[0]}`, which does not end"
    return "**nothing**" if ran.outcome is Outcome.GREEN else "**the tests cannot run**"
