"""Every instant settles: one settling after all have ended leaves nothing half done.

A compaction that nobody carries out is no write of ours: it stays as it was left.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import open_table
from tests.simulation.hudi_compact import HudiCompact
from tests.simulation.logs import instants_in, is_data, named_log, taken_back
from tests.simulation.own_compaction import OwnCompact
from tests.simulation.world import SETTLER, Run


def every_instant_settles(run: Run) -> Iterator[str]:
    error = run.outcomes[SETTLER]
    if error is not None:
        yield f"settling failed: {error}"
    timeline = open_table(run.files).timeline()
    left = _left(run, timeline)
    ours = any(isinstance(program, OwnCompact) for program in run.scenario.programs.values())
    for time in run.truth.dropped if not ours else ():
        yield f"the plan of compaction {time} was deleted"
    for instant in timeline.pending:
        if instant.time in left:
            continue
        if instant.action is Action.SAVEPOINT:
            continue  # one that died on its way stops nobody, and stays in Hudi's tables as well
        yield f"{instant.action.value} {instant.time} is still {instant.state.value}"
    named = {stat.path for fact in run.truth.live for stat in fact.metadata.stats}
    logs = [file.path for file in run.files.walk("") if named_log(file.path) is not None]
    gone = taken_back(run.files, logs)
    for file in run.files.walk(""):
        if any(time in file.path for time in left):
            continue
        if is_data(file.path) and file.path not in named and not _taken_back(run, file.path, gone):
            yield f"{file.path} belongs to no commit"
        if file.path.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/")):
            yield f"{file.path} was left"
    yield from _failed_blocks(run, logs, gone)


def _taken_back(run: Run, path: str, gone: set[str]) -> bool:
    """Whether a log has nothing but rows that commands have taken back, or is such a command."""
    return named_log(path) is not None and instants_in(run.files, path) <= gone


def _failed_blocks(run: Run, logs: list[str], gone: set[str]) -> Iterator[str]:
    """Blocks of failed writes in the logs of others, which no command takes back."""
    live = {fact.time for fact in run.truth.live}
    for path in logs:
        for instant in instants_in(run.files, path) - live - gone:
            yield f"{path} has rows of {instant}, which is no commit"


def _left(run: Run, timeline: Timeline) -> set[InstantTime]:
    programs = (p for p in run.scenario.programs.values() if isinstance(p, HudiCompact))
    if any(isinstance(program, OwnCompact) for program in run.scenario.programs.values()):
        return set()  # it runs what others have left
    if all(program.dies_after is State.COMPLETED for program in programs):
        return set()
    return {i.time for i in timeline.pending if i.action is Action.COMPACTION}
