"""Nothing that was acknowledged is lost: it is on the timeline, and its changes are in the rows."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.world import Run


def nothing_committed_is_lost(run: Run) -> Iterator[str]:
    last = run.observations[-1].seen
    for who in run.committed:
        program = run.scenario.programs[who]
        for key in getattr(program, "keys", ()):
            if not any(who in value for value in last.get(key, [])):
                yield f"{who} was told that it had committed, but {key} is {_shown(last, key)}"


def _shown(seen: object, key: str) -> str:
    values = getattr(seen, "get")(key, [])  # noqa: B009
    return " and ".join("+".join(v) for v in values) or "gone"
