"""Which data files belong to no commit: a function of values, without storage, clock or lock.

Invariant: a file goes only if it is known that its instant neither completed nor is pending. Known
are the instants that a rollback or a restore names, those that begin after the first completed
write of the active timeline and are not on it, and those between two archived commits that the
archive lacks.
A log of layout 1 never goes: its name does not say whose blocks it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyhudi.clock import HOUR_MS
from pyhudi.format.filenames import BaseFileName, parse_data_file_name
from pyhudi.format.instants import InstantTime, State
from pyhudi.services.budget import Budget
from pyhudi.storage.base import StoredFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.states import COMMIT_ACTIONS


@dataclass(frozen=True, slots=True)
class OrphanFacts:
    """What is known of a table.

    ``named``: the paths of each readable commit's files, by its time, empty if it names none.
    ``archived``: archived commits, ascending; None if the archive cannot be read. ``undone``: what
    rollbacks and restores name. ``held``: paths that savepoints keep, and why. ``beating``: those
    with a fresh heartbeat. ``reading``: whether a query runs. ``now_ms`` is the storage's time.
    """

    timeline: Timeline
    named: Mapping[InstantTime, frozenset[str]]
    archived: tuple[InstantTime, ...] | None
    undone: frozenset[InstantTime]
    held: Mapping[str, str]
    beating: frozenset[InstantTime]
    reading: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A file that no commit names; ``seen``: other readers take it for archived data, or
    may do so once a pending write before it is gone.

    ``later``: it would go, but not with this removal, which has a bound.
    """

    file: StoredFile
    instant: InstantTime
    goes: bool
    seen: bool
    why: str
    later: bool = False


def plan_orphans(
    files: Iterable[StoredFile], facts: OrphanFacts, older_than_ms: int
) -> list[JudgedFile]:
    """Every data file that no commit names, ascending by path, and whether it goes."""
    found = []
    for file in sorted(files, key=lambda file: file.path):
        name = parse_data_file_name(file.name)
        if name is None or (facts.timeline.layout == 1 and not isinstance(name, BaseFileName)):
            continue
        if _is_named(file, name.instant, facts):
            continue
        first = _begins(facts)
        seen = first is not None and name.instant < first
        spared = _spared(file, name.instant, facts, older_than_ms, seen)
        origin, known = _origin(name.instant, facts)
        why = spared if known and spared else origin
        found.append(JudgedFile(file, name.instant, known and not spared, seen, why))
    return found


def cut(judged: list[JudgedFile], budget: Budget) -> list[JudgedFile]:
    """The same files, of which only the first that ``budget`` lets go do so."""
    goes = [each for each in judged if each.goes]
    most = budget.first_of([each.file.size_bytes for each in goes])
    late = {each.file.path for each in goes[most:]}
    why = f"for the next removal: this one moves {most} of {len(goes)} files"
    return [
        replace(each, goes=False, why=why, later=True) if each.file.path in late else each
        for each in judged
    ]


def _is_named(file: StoredFile, instant: InstantTime, facts: OrphanFacts) -> bool:
    """Whether the file is one of its commit, as far as that says which it has."""
    there = facts.timeline.at(instant)
    active = any(i.state is State.COMPLETED and i.action in COMMIT_ACTIONS for i in there)
    committed = active or instant in (facts.archived or ())
    names = facts.named.get(instant, frozenset())
    return committed and (not names or file.path in names)


def _origin(instant: InstantTime, facts: OrphanFacts) -> tuple[str, bool]:
    """What is known of a file's instant, and whether that proves that it never completed."""
    there = facts.timeline.at(instant)
    if any(i.state is not State.COMPLETED for i in there):
        return f"{there[0].action.value} {instant} is pending", False
    if there:
        return f"instant {instant} completed, though it does not name the file", False
    if facts.archived is None:
        return "the archive cannot be read, so its instant may have completed", False
    if instant in facts.archived:
        return f"commit {instant} is archived, though it does not name the file", False
    if instant in facts.undone:
        return f"instant {instant} was rolled back", True
    first = _begins(facts)
    if first is not None and instant >= first:
        return f"instant {instant} is not on the timeline, which begins at {first}", True
    if facts.archived and facts.archived[0] < instant < facts.archived[-1]:
        return f"instant {instant} is not in the archive, which has commits around it", True
    return f"neither the timeline nor the archive reaches back to instant {instant}", False


def _begins(facts: OrphanFacts) -> InstantTime | None:
    """The first completed write: the state of a pending one may have come late (``strays.py``), and
    an archive that somebody has shortened does not tell."""
    return facts.timeline.only(facts.timeline.completed).first_time


def _spared(
    file: StoredFile, instant: InstantTime, facts: OrphanFacts, older_than_ms: int, seen: bool
) -> str:
    """Why a file stays though its instant never completed; empty if nothing keeps it."""
    if file.path in facts.held:
        return facts.held[file.path]
    if instant in facts.beating:
        return f"the writer of instant {instant} is alive"
    if facts.now_ms - file.modified_ms < older_than_ms:
        return f"it is younger than {older_than_ms / HOUR_MS:g} h"
    if seen and facts.reading:
        return "a query runs, and may read it as archived data"
    return ""
