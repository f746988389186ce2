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
    reads = [o for o in run.observations if not o.error]
    for order in _orders(run, _seen_writers(reads)):
        if all(_fits(run, order, read) for read in reads):
            return
    last = {k: " and ".join("+".join(v) for v in vs) for k, vs in sorted(reads[-1].seen.items())}
    told = ", ".join(sorted(run.committed)) or "nobody"
    yield f"no serial order of the commits explains the reads: {last} in the end; told: {told}"


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


def _fits(run: Run, order: Sequence[str], read: Observation) -> bool:
    """Whether the read is the state after a prefix that holds all that was over by then."""
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
        if over <= set(order[:count]) and seen == {k: (v,) for k, v in state.items()}:
            return True
    return False
