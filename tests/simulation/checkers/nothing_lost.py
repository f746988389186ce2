"""Nothing that was acknowledged is lost: it is on the timeline, and its changes are in the rows.

But for what a restore or rollback undid that came later, by whose will it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.world import Run


def nothing_committed_is_lost(run: Run) -> Iterator[str]:
    last = run.observations[-1].seen
    for who, committed in run.committed.items():
        undoing = run.truth.undone.get(committed.instant)
        if undoing is not None and undoing.fair:
            continue
        for key in getattr(run.scenario.programs[who], "keys", ()):
            if not any(who in value for value in last.get(key, [])):
                yield f"{who} was told that it had committed, but {key} is {_shown(last, key)}"


def _shown(seen: object, key: str) -> str:
    values = getattr(seen, "get")(key, [])  # noqa: B009
    return " and ".join("+".join(v) for v in values) or "gone"
