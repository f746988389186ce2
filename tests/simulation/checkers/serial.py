"""Every read equals a serial history of the commits.

There must be one order of the writes that were acknowledged, and of any of those whose end is
unknown, such that each read shows the state after some prefix of it; a write that was over before
another, or before a read, began comes before it, and a read never sees a write that began later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from tests.simulation.programs import Upsert
from tests.simulation.world import Observation, Run, initial_rows

State = Mapping[str, tuple[str, ...]]


def every_read_is_serial(run: Run) -> Iterator[str]:
    reads = sorted((o for o in run.observations if not o.error), key=lambda o: o.step)
    if any(_explains(run, order, reads) for order in _orders(run, _seen_writers(reads))):
        return
    last = {k: " and ".join("+".join(v) for v in vs) for k, vs in sorted(reads[-1].seen.items())}
    told = ", ".join(sorted(run.committed)) or "nobody"
    yield f"no serial order of the commits explains the reads: {last} in the end; told: {told}"


def _explains(run: Run, order: Sequence[str], reads: Sequence[Observation]) -> bool:
    """Whether each read shows a prefix, and none that began after another's end a shorter one."""
    shown: list[tuple[Observation, int]] = []
    for read in reads:
        least = max((n for other, n in shown if other.step < read.began), default=0)
        count = _prefix(run, order, read, least)
        if count is None:
            return False
        shown.append((read, count))
    return True


def _seen_writers(reads: Sequence[Observation]) -> set[str]:
    return {w for read in reads for vs in read.seen.values() for v in vs for w in v}


def _orders(run: Run, seen: set[str]) -> Iterator[tuple[str, ...]]:
    """Every order of those that count, which real time allows."""
    writers = [w for w, p in run.scenario.programs.items() if isinstance(p, Upsert)]
    counting = [w for w in writers if w in run.committed or w in seen]
    for order in permutations(counting):
        if all(
            run.ended.get(later, _NEVER) >= run.begun[earlier]
            for at, earlier in enumerate(order)
            for later in order[at + 1 :]
        ):
            yield order


_NEVER = 1 << 60


def _prefix(run: Run, order: Sequence[str], read: Observation, least: int) -> int | None:
    """How many of ``order`` the read shows; None where it is the state after no prefix.

    What was over when it began must be among them.
    """
    over = {w for w in order if run.ended.get(w, _NEVER) < read.began}
    seen = {k: tuple(map(tuple, vs)) for k, vs in read.seen.items()}
    state = {k: tuple(v) for k, v in initial_rows(run.scenario).items()}
    for count in range(len(order) + 1):
        if count:
            who = order[count - 1]
            program = run.scenario.programs[who]
            assert isinstance(program, Upsert)
            for key in program.keys:
                state[key] = (*state.get(key, ()), who)
        fits = count >= least and over <= set(order[:count])
        if fits and seen == {k: (v,) for k, v in state.items()}:
            return count
    return None
