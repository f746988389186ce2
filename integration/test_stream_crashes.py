"""Drivers of streams killed with SIGKILL at each step of an epoch: each row comes once.

``python -m integration.stream_crashes`` draws where they die, and publishes what it found.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.peers import HudiRs, SparkPeer
from integration.stream_kills import ANSWERED, IN_A_TASK, Trouble
from integration.stream_lives import Lives, problems_of
from integration.stream_source import Source, options_of

matrix = pytest.mark.matrix
Peers = Callable[[str], SparkPeer]

#: what drivers die of, one after the other, on one table
DEATHS = {
    "before the request": Trouble("CRASH_BEFORE", "*.commit.requested", 2),
    "after the request": Trouble("CRASH_AFTER", "*.commit.requested"),
    "in a task": Trouble("CRASH_BEFORE", IN_A_TASK),
    "settling": Trouble("CRASH_BEFORE", "*.rollback"),
    "sealed": Trouble("CRASH_BEFORE", ".hoodie/lock", methods="put_if_absent"),
    "before the put": Trouble("CRASH_BEFORE", "*.commit"),
    "after the put": Trouble("CRASH_AFTER", "*.commit"),
    "before Spark's log": Trouble("CRASH_AFTER", ANSWERED),
}
FEW = ("in a task", "settling", "before the put", "before Spark's log")
STEPS = {"request", "in a task", "settling", "lock", "the put", "answered, not noted"}
LOST = (Trouble("LOSE_REPLY", "*.commit"), Trouble("LOSE_REQUEST", "*.commit", 2))


@pytest.mark.parametrize(
    ("deaths", "operation", "version"),
    [
        pytest.param(FEW, "insert", 9, id="few"),
        pytest.param(tuple(DEATHS), "insert", 9, id="all-9", marks=matrix),
        pytest.param(tuple(DEATHS), "upsert", 8, id="all-8", marks=matrix),
        pytest.param(tuple(DEATHS), "insert", 6, id="all-6", marks=matrix),
    ],
)
def test_a_driver_killed_at_a_step_of_an_epoch_neither_loses_nor_doubles_rows(
    tmp_path: Path, peers: Peers, hudi_rs: HudiRs, deaths: tuple[str, ...], operation: str,
    version: int,
) -> None:  # fmt: skip
    table, source = tmp_path / "table", Source("a", operation, len(deaths))
    stream = Lives.begin(source, tmp_path, table, options_of(operation, version))
    for step in deaths:
        told = {"staged": step == "in a task", "dying_s": 5.0 if step == "settling" else 1.0}
        assert stream.live(DEATHS[step], **told) == "killed", f"{step}: {stream.errors}"
    assert stream.live(*LOST) == "done"
    assert stream.deaths.total() == len(deaths)
    assert deaths is FEW or stream.deaths.keys() == STEPS
    assert stream.noted() == set(range(source.files))
    readers = (peers("hudi-1.2.0"), hudi_rs)
    assert problems_of(table, source.wanted(), readers, stream.spec.options) == []
