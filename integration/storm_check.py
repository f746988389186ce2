"""What must be true of a table after a storm, told from the table and what its writers said.

The model: commits in the order of their completion, each with the rows that its writer named
before it began. Whatever differs is a problem, in one line that says where to look.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from integration.peers import Answer
from integration.storm_writer import FIELDS, TAG, Key
from integration.strays import is_data, named_files
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action
from pyhudi.reads.scan import Query
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.table import Table, open_table
from tests.reads.merged_table import rows as merged_rows

#: writer and number of an upsert
Name = tuple[int, int]
#: key, partition, writer, number and instant time
Row = tuple[str, str, int, int, str]
META = "_hoodie_commit_time"


@dataclass(slots=True)
class Told:
    """What the writers of a storm said, by upsert."""

    keys: dict[Name, list[Key]] = field(default_factory=dict)
    #: instant times of acknowledged commits; empty where a writer cannot know it
    acknowledged: dict[Name, str] = field(default_factory=dict)
    #: their completion times
    completed: dict[Name, str] = field(default_factory=dict)
    failed: dict[Name, str] = field(default_factory=dict)
    why_failed: dict[Name, str] = field(default_factory=dict)
    unknown: set[Name] = field(default_factory=set)
    broken: dict[Name, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    #: of failures that a storm does not have to bring
    texts: list[str] = field(default_factory=list)
    #: what each lost race said that was tried again
    races: list[tuple[Name, str]] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def hear(self, writer: int, event: Mapping[str, Any]) -> None:
        """Take one line of a writer in; any thread may call."""
        with self._guard:
            self._take(writer, event)

    def _take(self, writer: int, event: Mapping[str, Any]) -> None:
        name, kind = (writer, int(event["number"])), event["event"]
        self.counts[kind] += 1
        if kind == "begin":
            self.keys[name] = [(key, place) for key, place in event["keys"]]
        elif kind == "committed":
            self.acknowledged[name] = event.get("instant", "")
            self.completed[name] = event.get("completion", "")
        elif kind == "retry":
            self.races.append((name, event["text"]))
        elif kind == "unknown":
            self.unknown.add(name)
        elif kind == "failed":
            self.failed[name] = event["kind"]
            self.why_failed[name] = event["text"]
            if event["kind"] not in ("CommitConflict", "WriterFenced"):
                self.texts.append(f"upsert {name} failed: {event['text']}")
            self.counts[event["kind"]] += 1
        elif kind == "broken":
            self.broken[name] = event["text"]

    @property
    def silent(self) -> set[Name]:
        """Upserts whose writer was killed before it could say how they ended."""
        ended = {*self.acknowledged, *self.failed, *self.unknown, *self.broken}
        return set(self.keys) - ended


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the table: which commits there were, in order, and the rows that it gave."""

    commits: tuple[tuple[str, Name], ...]
    rows: tuple[Row, ...]


def look(query: Query) -> Seen:
    """The table as a query sees it."""
    return Seen(commits_of(query.table, query.timeline), seen_rows(query))


def seen_rows(query: Query) -> tuple[Row, ...]:
    """The rows of base files and logs that count, sorted."""
    return tuple(sorted(_row(each) for each in merged_rows(query, *FIELDS)))


def rows_in(storage: Storage, paths: Iterable[str]) -> list[Row]:
    """The rows of these data files."""
    rows: list[Row] = []
    for path in paths:
        found = pq.read_table(io.BytesIO(storage.read(path)), columns=[*FIELDS, META])
        rows += zip(*(found[name].to_pylist() for name in (*FIELDS, META)), strict=True)
    return rows


def commits_of(table: Table, timeline: Timeline) -> tuple[tuple[str, Name], ...]:
    """Instant time and upsert of each commit, in the order of completion.

    Compactions are left out, those of logs too: they change no row.
    """
    done = sorted(timeline.commits, key=lambda i: (i.completion_time or i.time, i.time))
    found = []
    for commit in done:
        metadata = COMMITS.get(table.storage, timeline, commit)
        if is_compaction(metadata):
            continue
        tag = metadata.extra[TAG]
        writer, _, number = tag.partition("/")
        found.append((str(commit.time), (int(writer), int(number))))
    return tuple(found)


def is_compaction(metadata: CommitMetadata) -> bool:
    """Whether a commit only merged logs, into base files or into other logs."""
    return metadata.operation.upper() == "COMPACT" or metadata.log_compacted


def compactions_of(table: Table) -> Counter[str]:
    """How many compactions of each operation have completed."""
    timeline = table.timeline()
    done = (COMMITS.get(table.storage, timeline, commit) for commit in timeline.commits)
    return Counter(each.operation.upper() for each in done if is_compaction(each))


def expected(
    told: Told, commits: Iterable[tuple[str, Name]], by_event: bool = False
) -> tuple[Row, ...]:
    """The rows that these commits make, one after the other.

    ``by_event``: of a key the row of the highest writer and number stays, in any order of commits.
    """
    rows: dict[Key, Row] = {}
    for instant, name in sorted(commits, key=lambda each: each[1]) if by_event else commits:
        for key, place in told.keys[name]:
            rows[key, place] = (key, place, *name, instant)
    return tuple(sorted(rows.values()))


def differences(what: str, seen: Iterable[Row], wanted: Iterable[Row]) -> list[str]:
    """How rows differ, in at most one line."""
    got, want = Counter(seen), Counter(wanted)
    if got == want:
        return []
    missing, extra = sorted((want - got).elements()), sorted((got - want).elements())
    double = sorted(key for key, n in Counter(row[:2] for row in got.elements()).items() if n > 1)
    text = (
        f"{what}: {len(missing)} rows missing, such as {missing[:2]}; {len(extra)} that must not "
        f"be there, such as {extra[:2]}; {len(double)} double keys, such as {double[:2]}"
    )
    return [text]


def rows_of(answer: Answer) -> list[Row]:
    """A peer's answer, meta columns included, as rows."""
    return [_row(row) for row in answer.rows]


def _row(of: Mapping[str, Any]) -> Row:
    key, place, writer, number, instant = (of[name] for name in (*FIELDS, META))
    return key, place, writer, number, instant


def outcome_problems(told: Told, final: Seen) -> list[str]:
    """Whether what the writers were told of their commits is what the timeline says."""
    problems = [f"upsert {name} broke: {text}" for name, text in told.broken.items()]
    landed: dict[Name, list[str]] = {}
    for instant, name in final.commits:
        landed.setdefault(name, []).append(instant)
    for name, instants in landed.items():
        if len(instants) > 1:
            problems.append(f"upsert {name} has landed {len(instants)} times: {instants}")
        if name in told.failed:
            problems.append(f"upsert {name} failed ({told.failed[name]}), yet is {instants}")
        if name not in told.keys:
            problems.append(f"commit {instants} is of upsert {name}, which never began")
    for name, instant in told.acknowledged.items():
        if name not in landed or instant not in ("", *landed[name]):
            problems.append(f"upsert {name} was acknowledged as {instant}, but is not there")
    return problems


def orphans(storage: Storage) -> list[str]:
    """What failed writes left: files that no commit names, markers, heartbeats, open instants."""
    table = open_table(storage)
    timeline = table.timeline()
    named = named_files(storage, timeline)
    files = [file.path for file in storage.walk("")]
    data = set(filter(is_data, files))
    traces = {p for p in files if p.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/"))}
    pending = {f"{i.time}.{i.action.value}.{i.state.value}" for i in timeline.pending}
    lost = {f"{path} is missing" for path in named - data}
    return sorted((data - named) | traces | pending | lost)


def rollbacks(timeline: Timeline) -> int:
    """Completed rollbacks."""
    return sum(i.action is Action.ROLLBACK for i in timeline.completed)
