"""A state of the past is given exactly or refused, whatever services have done since."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.timeline.view import FileSystemView
from tests.timeline.bare import Bare, t
from tests.timeline.histories import History

HISTORIES, STEPS = 80, 28


def seen(view: FileSystemView, as_of: int | None) -> list[object]:
    """Group, base file and committed logs of each slice that is read."""
    done, found = view.committed(), []
    for each in view.slices(None if as_of is None else t(as_of)):
        logs = sorted(log.instant for log in each.logs if done(log.instant))
        counted = tuple(time for time in logs if as_of is None or time <= t(as_of))
        if each.base or counted:
            found.append((each.file_id, each.base and each.base.instant, counted))
    return sorted(found, key=str)


def looked_at(history: History) -> Counter[str]:
    """What became of a look at each state of the active timeline."""
    found: Counter[str] = Counter()
    view = history.view()
    for as_of in (None, *(commit.time for commit in history.state("active"))):
        wanted = [
            (group, None if base is None else t(base), tuple(map(t, logs)))
            for group, (base, logs) in history.slices(as_of).items()
        ]
        try:
            assert seen(view, as_of) == sorted(wanted, key=str), as_of
        except (HistoryExpired, TableCorrupt) as refused:
            past = as_of is not None and isinstance(refused, HistoryExpired)
            assert history.restoring or past, as_of
            found["refused, but there"] += history.exist(history.paths(as_of))
            found["refused"] += 1
        else:
            found["exact"] += 1
    return found


@pytest.mark.parametrize("kind", ["layout 1", "layout 2", "logs"])
def test_a_state_of_the_past_is_given_exactly_or_refused(kind: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(HISTORIES):
        history = History(Random(seed), Bare(1 if kind == "layout 1" else 2), kind == "logs")
        history.write()
        for _ in range(STEPS):
            history.step()
            found += looked_at(history)
    assert found["exact"] > found["refused"] > 0
    assert found["refused, but there"] == 0
