"""Writers without coordination converge: the rows are those that the rule names, in every order.

The rule is stated here once more, and looks at no file: by event time the row with the highest
ordering value stays. Otherwise it is the one of the latest log: logs are in the order of their
instants, and those that completed after a compaction was planned are on top of it. What replaces
the groups of a partition takes away what was there. Each read shows the rows of the commits that
were visible then, of all of them and of no other.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.format.instants import InstantTime
from tests.simulation.shared_buckets import NO_VALUE, Drop, Share, Sweep, bucket_of
from tests.simulation.truth import Fact
from tests.simulation.world import Observation, Run, initial_rows

Table = dict[str, list[str]]


def every_order_gives_the_same_rows(run: Run) -> Iterator[str]:
    for who, committed in run.committed.items():
        if isinstance(run.scenario.programs[who], Share) and (
            committed.instant not in run.truth.published or committed.instant in run.truth.undone
        ):
            yield f"{who} was told that it had committed, but {committed.instant} is no commit"
            return
    for read in run.observations:
        if read.error or read.refused:
            continue
        seen = {key: values for key, values in read.seen.items() if values}
        wanted = [_rows(run, point) for point in _points(run, read)]
        if not any(seen == {key: [row] for key, row in rows.items()} for rows in wanted):
            yield f"a read at step {read.step} saw {_shown(seen)}, not {_told(wanted[-1])}"
            return


def _points(run: Run, read: Observation) -> list[int]:
    """The steps at one of which the read may have listed the timeline."""
    if not read.reader:
        return [read.step]
    changes = [fact.step for fact in run.truth.published.values()]
    changes += [undoing.step for undoing in run.truth.undone.values()]
    return sorted({read.began, *(step for step in changes if read.began < step <= read.step)})


def _rows(run: Run, point: int) -> Table:
    """The rows of the commits that are visible after this step."""
    found: dict[str, tuple[tuple[int, InstantTime, InstantTime], list[str] | None]] = {}
    for key, row in initial_rows(run.scenario).items():
        found[key] = (NO_VALUE, InstantTime(""), InstantTime("")), row
    for fact in _visible(run, point):
        program = run.scenario.programs.get(fact.writer)
        if isinstance(program, Sweep):
            found = {}
        elif isinstance(program, Share):
            for key in program.keys:
                if isinstance(program, Drop) and not _groups(fact, key):
                    continue  # the bucket had no group, so nothing was there to be deleted
                rank = program.at, _slice(run, fact, key), fact.time
                if key not in found or rank >= found[key][0]:
                    found[key] = rank, _row(run, fact, program, key)
    return {key: row for key, (_, row) in found.items() if row is not None}


def _row(run: Run, fact: Fact, program: Share, key: str) -> list[str] | None:
    if isinstance(program, Drop):
        return None
    return program.row(fact.writer, _rows(run, fact.step - 1).get(key, []))


def _visible(run: Run, point: int) -> list[Fact]:
    """In the order in which they became visible."""
    gone = {time for time, undoing in run.truth.undone.items() if undoing.step <= point}
    found = (fact for fact in run.truth.published.values() if 0 <= fact.step <= point)
    return sorted((f for f in found if f.time not in gone), key=lambda fact: fact.step)


def _slice(run: Run, fact: Fact, key: str) -> InstantTime:
    """The last compaction of the key's bucket that was planned when the commit completed.

    By event time it decides nothing.
    """
    if run.scenario.by_event:
        return InstantTime("")
    groups = _groups(fact, key)
    plans = (
        plan.time
        for plan in run.truth.plans
        if plan.time < fact.completed and plan.time not in run.truth.dropped
        if groups & plan.groups.keys()
    )
    return max(plans, default=InstantTime(""))


def _groups(fact: Fact, key: str) -> set[tuple[str, str]]:
    """The file groups of the key's bucket to which the commit added."""
    stats = (s for s in fact.metadata.stats if int(s.file_id[:8]) == bucket_of(key))
    return {(stat.partition_path, stat.file_id) for stat in stats}


def _shown(seen: dict[str, list[list[str]]]) -> str:
    told = (f"{k}={' and '.join('+'.join(v) for v in vs)}" for k, vs in sorted(seen.items()))
    return ", ".join(told) or "no row"


def _told(rows: Table) -> str:
    return ", ".join(f"{key}={'+'.join(row)}" for key, row in sorted(rows.items())) or "no row"
