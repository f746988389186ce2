"""Table services between random statements: each leaves the rows as they are."""

from __future__ import annotations

from tests.sql_domains import BUCKETS, VERSION
from tests.sql_draws import Chance, Made
from tests.sql_model import Model

COMPACTION = "call pyhudi.system.run_compaction(table => '{{t}}', op => '{op}')"


def serve(chance: Chance, model: Model) -> Made:
    """A compaction, the plan of one, the run of planned ones, a log compaction or a clustering."""
    of = model.definition
    calls = [COMPACTION.format(op=op) for op in ("scheduleAndRun", "schedule", "schedule", "run")]
    if (VERSION, "6") not in of.properties and not of.fills:
        calls += [COMPACTION.format(op=op) for op in ("scheduleAndLogCompact", "logCompact")]
    if BUCKETS not in of.properties:
        calls.append("call pyhudi.system.cluster(table => '{t}')")
    return Made(chance.one(calls), lambda: model)
