"""Nothing that was acknowledged is lost: it is on the timeline, and its changes are in the rows.

But for what a restore or rollback undid that came later, by whose will it is gone. What an archiver
took off the timeline is in the archive, and no two commits have one instant.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.table import open_table
from tests.simulation.appends import Remove
from tests.simulation.world import Run


def nothing_committed_is_lost(run: Run) -> Iterator[str]:
    last = run.observations[-1].seen
    removed = _removed(run)
    for who, committed in run.committed.items():
        undoing = run.truth.undone.get(committed.instant)
        if undoing is not None and undoing.fair:
            continue
        for key in getattr(run.scenario.programs[who], "keys", ()):
            if key not in removed and not any(who in value for value in last.get(key, [])):
                yield f"{who} was told that it had committed, but {key} is {_shown(last, key)}"
    for time in run.truth.shared:
        yield f"two commits have the instant {time}"
    if any(getattr(program, "moves", False) for program in run.scenario.programs.values()):
        yield from _nowhere(run)


def _removed(run: Run) -> set[str]:
    """Keys that somebody has deleted: of them a serial order tells."""
    programs = run.scenario.programs.items()
    return {key for _, program in programs if isinstance(program, Remove) for key in program.keys}


def _nowhere(run: Run) -> Iterator[str]:
    table = open_table(run.files)
    known = {i.time for i in table.timeline().commits}
    known |= {entry.instant.time for entry in archived_instants(table.storage, table.config)}
    for fact in run.truth.live:
        if fact.time not in known:
            yield f"commit {fact.time} is neither on the timeline nor in the archive"


def _shown(seen: object, key: str) -> str:
    values = getattr(seen, "get")(key, [])  # noqa: B009
    return " and ".join("+".join(v) for v in values) or "gone"
