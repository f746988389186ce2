"""Every instant settles: one settling after all have ended leaves nothing half done.

A compaction that nobody carries out is no write of ours: it stays as it was left.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import open_table
from tests.simulation.hudi_compact import HudiCompact
from tests.simulation.world import SETTLER, Run


def every_instant_settles(run: Run) -> Iterator[str]:
    error = run.outcomes[SETTLER]
    if error is not None:
        yield f"settling failed: {error}"
    timeline = open_table(run.files).timeline()
    left = _left(run, timeline)
    for time in run.truth.dropped:
        yield f"the plan of compaction {time} was deleted"
    for instant in timeline.pending:
        if instant.time in left:
            continue
        if instant.action is Action.SAVEPOINT:
            continue  # one that died on its way stops nobody, and stays in Hudi's tables as well
        yield f"{instant.action.value} {instant.time} is still {instant.state.value}"
    named = {stat.path for fact in run.truth.live for stat in fact.metadata.stats}
    for file in run.files.walk(""):
        if any(time in file.path for time in left):
            continue
        data = file.path.endswith(".parquet") and not file.path.startswith(".hoodie/")
        if data and file.path not in named:
            yield f"{file.path} belongs to no commit"
        if file.path.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/")):
            yield f"{file.path} was left"


def _left(run: Run, timeline: Timeline) -> set[InstantTime]:
    programs = (p for p in run.scenario.programs.values() if isinstance(p, HudiCompact))
    if all(program.dies_after is State.COMPLETED for program in programs):
        return set()
    return {i.time for i in timeline.pending if i.action is Action.COMPACTION}
