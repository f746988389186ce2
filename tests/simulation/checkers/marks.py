"""The marks of streams never go back: each commit that has any has all, and none is an older one.

A reader of the table takes the marks of the last commit that has some, so that commit must know at
least what those before it knew.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.stream_marks import Mark, own_marks
from tests.simulation.world import Run


def marks_never_go_back(run: Run) -> Iterator[str]:
    known: dict[str, Mark] = {}
    for fact in sorted(run.truth.live, key=lambda fact: fact.step):
        marks = own_marks(fact.metadata.extra)
        if marks is None:
            continue
        for name, before in known.items():
            mark = marks.get(name)
            if mark is None:
                yield f"commit {fact.time} has forgotten stream {name}"
            elif mark.query == before.query and _place(mark) < _place(before):
                back = f"{_place(mark)}, after {_place(before)}"
                yield f"commit {fact.time} has stream {name} at {back}"
        known |= marks


def _place(mark: Mark) -> tuple[int, int]:
    return mark.batch, mark.writes
