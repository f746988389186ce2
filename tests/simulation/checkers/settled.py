"""Every instant settles: one settling after all have ended leaves nothing half done."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.instants import Action
from pyhudi.timeline.table import open_table
from tests.simulation.world import SETTLER, Run


def every_instant_settles(run: Run) -> Iterator[str]:
    error = run.outcomes[SETTLER]
    if error is not None:
        yield f"settling failed: {error}"
    timeline = open_table(run.files).timeline()
    for instant in timeline.pending:
        if instant.action is Action.SAVEPOINT:
            continue  # one that died on its way stops nobody, and stays in Hudi's tables as well
        yield f"{instant.action.value} {instant.time} is still {instant.state.value}"
    named = {stat.path for fact in run.truth.live for stat in fact.metadata.stats}
    for file in run.files.walk(""):
        data = file.path.endswith(".parquet") and not file.path.startswith(".hoodie/")
        if data and file.path not in named:
            yield f"{file.path} belongs to no commit"
        if file.path.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/")):
            yield f"{file.path} was left"
