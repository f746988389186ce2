"""Every read equals a serial history of the commits.

There must be one order of the writes that were acknowledged or published, such that each read
shows the state after some prefix of it; a write that was over before another, or before a read,
began comes before it, and a read never sees a write that began later. A restore or rollback takes
a write out again: it is an event of that order too. A read as of an instant shows just what had
been written by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from tests.simulation.appends import Remove
from tests.simulation.hudi_compact import HudiDelta
from tests.simulation.programs import Upsert
from tests.simulation.streams import keys_by_epoch
from tests.simulation.world import Observation, Run, initial_rows

State = dict[str, tuple[str, ...]]
_NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Deed:
    """What changed the rows: a write, or the undoing of one."""

    who: str
    keys: tuple[str, ...]
    begun: int
    ended: int
    undoes: bool = False
    deletes: bool = False

    def apply(self, state: State) -> State:
        if self.undoes:
            left = {k: tuple(w for w in v if w != self.who) for k, v in state.items()}
            return {k: v for k, v in left.items() if v}
        if self.deletes:
            return {key: value for key, value in state.items() if key not in self.keys}
        return state | {key: (*state.get(key, ()), self.who) for key in self.keys}


def every_read_is_serial(run: Run) -> Iterator[str]:
    kept = [o for o in run.observations if not o.error and not o.refused]
    reads = sorted((o for o in kept if o.as_of is None), key=lambda o: o.step)
    initial = {k: tuple(v) for k, v in initial_rows(run.scenario).items()}
    for read in kept:
        if read.as_of is not None and (wrong := _travelled(run, initial, read)):
            yield wrong
            return
    if any(_explains(initial, order, reads) for order in _orders(run)):
        return
    last = {k: " and ".join("+".join(v) for v in vs) for k, vs in sorted(reads[-1].seen.items())}
    told = ", ".join(sorted(run.committed)) or "nobody"
    yield f"no serial order of the commits explains the reads: {last} in the end; told: {told}"


def _travelled(run: Run, initial: State, read: Observation) -> str:
    """What is wrong with the rows as of a commit that was there before the run."""
    later = {f.writer for f in run.truth.published.values() if f.time > (read.as_of or "")}
    then = {k: v for k, v in initial.items() if not later & set(v)}
    seen = {k: tuple(vs[0]) if len(vs) == 1 else () for k, vs in read.seen.items()}
    return "" if seen == then else f"as of {read.as_of} the rows are {seen} instead of {then}"


def _explains(initial: State, order: Sequence[Deed], reads: Sequence[Observation]) -> bool:
    """Whether each read shows a prefix, and none that began after another's end a shorter one."""
    states = [initial]
    for deed in order:
        states.append(deed.apply(states[-1]))
    shown: list[tuple[Observation, int]] = []
    for read in reads:
        least = max((n for other, n in shown if other.step < read.began), default=0)
        # What was over when it began must be among them.
        least = max((n for n, d in enumerate(order, 1) if d.ended < read.began), default=least)
        count = _prefix(states, read, least)
        if count is None:
            return False
        shown.append((read, count))
    return True


def _orders(run: Run) -> Iterator[tuple[Deed, ...]]:
    """Every order of those that count, which real time allows; first that of their publishing."""
    programs = run.scenario.programs
    steps = {f.writer: f.step for f in run.truth.published.values()}
    deeds = [
        Deed(
            who,
            program.keys,
            run.begun[who],
            run.ended.get(who, _NEVER),
            deletes=isinstance(program, Remove),
        )
        for who, program in programs.items()
        if isinstance(program, Upsert | HudiDelta) and (who in run.committed or who in steps)
    ]
    epochs = keys_by_epoch(programs)
    deeds += [
        Deed(fact.writer, epochs[fact.writer], fact.step, fact.step)
        for fact in run.truth.published.values()
        if fact.writer in epochs
    ]
    undoings = [
        Deed(u.fact.writer, (), u.step, u.step, undoes=True) for u in run.truth.undone.values()
    ]
    # A batch that was undone may be written again, under the same name.
    at = [d.begun if d.who in epochs else steps.get(d.who, _NEVER) for d in deeds]
    timed = [*zip(at, deeds, strict=True), *((u.begun, u) for u in undoings)]
    yield tuple(deed for _, deed in sorted(timed, key=lambda one: one[0]))
    if undoings:
        return
    for order in permutations(deeds):
        if all(
            later.ended >= earlier.begun
            for at, earlier in enumerate(order)
            for later in order[at + 1 :]
        ):
            yield order


def _prefix(states: Sequence[State], read: Observation, least: int) -> int | None:
    """How many deeds the read shows, at least ``least``; None where it is no prefix's state."""
    if any(len(values) != 1 for values in read.seen.values()):
        return None
    seen: Mapping[str, tuple[str, ...]] = {k: tuple(vs[0]) for k, vs in read.seen.items()}
    return next((n for n in range(least, len(states)) if states[n] == seen), None)
