"""What `make simulate` tells is the same in however many processes it runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import FileId
from pyhudi.timeline.active import COMMITS
from tests.simulation.__main__ import Told, run, searched
from tests.simulation.explore import Seeded
from tests.simulation.rows import STORM
from tests.simulation.scenarios import ROWS
from tests.simulation.world import World


def test_what_is_told_is_the_same_in_however_many_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts = [partial(searched, row, range(4)) for row in ROWS[:4]]
    found: list[list[Told]] = []
    said = []
    for jobs in (1, 3):
        told = run(parts, jobs)
        found.append([replace(one, explored=replace(one.explored, seconds=0)) for one in told])
        said.append(capsys.readouterr().out)

    assert found[0] == found[1]
    assert said[0] == said[1] == "".join(f"{row.name}: 4 schedules\n" for row in ROWS[:4])


def test_a_run_does_not_depend_on_what_the_runs_before_it_have_read() -> None:
    """The cache of commits is bounded by what it holds: a run empties it."""
    large = CommitMetadata(replaced={"": (FileId("g-0"),) * 4_000_000})
    steps = []
    for before in ("empty", "full"):
        if before == "full":
            COMMITS._entries.put(("memory:/other", "a commit"), large)
        pilot = Seeded(0, STORM)
        world = pilot.world = World(ROWS[0].scenario, pilot)
        steps.append([(e.who, e.op, e.now) for e in world.run().events])
    assert steps[0] == steps[1]
