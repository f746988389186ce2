"""What the published page (docs/invariants.md) must say of configurations and guards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.simulation.guards import Case
from tests.simulation.invariants import PAGE, guard_line
from tests.simulation.rows import Row


def check_published(
    rows: Iterable[Row], cells_of: Callable[[Row], Sequence[str]], cases: Iterable[Case]
) -> None:
    """Each row has a line with its cells, and each guard has a line and a part."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for row in rows:
        line = next(line for line in lines if line.startswith(f"| {row.name} |"))
        assert line.split(" | ")[1:-1] == cells_of(row)
    for case in cases:
        assert f"| {' | '.join(guard_line(case))} |" in lines
        assert f"### {case.guard}" in lines
