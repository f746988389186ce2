"""Streams of every kind under every trigger and every limit, beside writers, against an oracle.

The oracle knows no files but their sizes. A segment of a stream is what lies between two places at
ends of commits. It gives the rows that its commits changed, as its end has them; or each row that a
commit of it inserted; or each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.instants import Action, InstantTime
from pyhudi.reads.change_data import change_schema
from pyhudi.reads.stream_offsets import Offset, StreamOffset, in_snapshot
from tests.reads.filed_table import FORM, FiledTable, at, query_at, rows_of
from tests.reads.followed_table import LIMIT_FILES, LIMIT_ROWS
from tests.reads.logged_table import LoggedTable
from tests.reads.test_log_changes import APPENDS
from tests.reads.test_log_streams import FileFollower

BEGIN = "hoodie.datasource.read.begin.instanttime"
LIMIT_BYTES = "maxBytesPerTrigger"
LATEST: Mapping[str, str] = {}
ONLY_APPENDS = {APPENDS: "true"}
CHANGES = {"hoodie.datasource.query.type": "incremental", FORM: "cdc_columns"}
KINDS = {"latest": LATEST, "appends": ONLY_APPENDS, "changes": CHANGES}
#: of the name of a limit: the option, and the values of one to try
LIMITS = {"none": ("", ()), "files": (LIMIT_FILES, (1, 3)), "rows": (LIMIT_ROWS, (2, 5)),
          "bytes": (LIMIT_BYTES, (1_500, 7_000))}  # fmt: skip
TRIGGERS = ["once", "available now", "processing time"]
#: numbers that the commits of one table have at most
MOST = 30
#: files, bytes and rows
Size = tuple[int, int, int]


@dataclass(slots=True)
class Done:
    """A commit: what it wrote to each group, and the table after it."""

    number: int
    sizes: list[Size]
    state: dict[str, tuple[int, int]]
    noted: int


@dataclass(slots=True)
class Story:
    """A table and all that was done to it, in the order of completion."""

    table: FiledTable
    draw: Random
    done: list[Done] = field(default_factory=list)
    number: int = 0
    #: writers that have begun: their number, group and rows
    slow: list[tuple[int, str, dict[str, int | None]]] = field(default_factory=list)

    def note(self, number: int, metadata: CommitMetadata) -> None:
        moves = metadata.operation in ("CLUSTER", "COMPACT")
        sizes = [
            (1, s.file_size_bytes, s.num_inserts + s.num_updates or (
                0 if s.num_deletes else s.num_writes))
            for s in metadata.stats if not moves
        ]  # fmt: skip
        state = {k: row for rows, _ in self.table.groups.values() for k, row in rows.items()}
        self.done.append(Done(number, sizes, state, len(self.table.noted)))

    def completed(self, number: int) -> InstantTime:
        return at(self.table.done.get(number, number))

    def between(self, begin: InstantTime, end: InstantTime) -> Iterator[tuple[Done, int]]:
        """The commits, each with what had been noted before it."""
        before = 0
        for each in self.done:
            if begin < self.completed(each.number) <= end:
                yield each, before
            before = each.noted

    # ---- what a writer does

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def begin(self) -> None:
        """Three groups, the last of which has rows of two commits."""
        self.table.merge(self.fresh(), "g1", {f"k{n}": 1 for n in range(4)}, "BULK_INSERT")
        self.table.merge(self.fresh(), "g2", {f"k{n}": 2 for n in range(4, 8)}, "INSERT")
        self.table.merge(self.fresh(), "g3", {"x": 3, "y": 3}, "BULK_INSERT")
        self.table.merge(self.fresh(), "g3", {"x": 4})

    def beside(self) -> None:
        """What a writer may do while a stream reads."""
        if self.draw.random() < 0.3 and self.number < MOST:
            self.write()

    def write(self) -> None:
        """Anything; some writes begin now and end later."""
        chosen, busy = self.draw.random(), {group for _, group, _ in self.slow}
        free = [g for g in sorted(self.table.groups) if g not in busy]
        if (chosen < 0.12 and self.slow) or len(self.slow) > 2:
            self.end_slow()
        elif chosen < 0.3 and self.table.layout == 2:
            self.begin_slow()
        elif chosen < 0.38 and free:
            number = self.fresh()
            self.table.cluster(number, [self.draw.choice(free)], f"g{number}")
        elif chosen < 0.46 and free:
            number = self.fresh()
            self.table.replace(
                number, [self.draw.choice(free)], f"g{number}", {f"n{number}": number}
            )
        elif chosen < 0.54 and free and isinstance(self.table, LoggedTable) and not self.slow:
            self.table.compact(self.fresh(), self.draw.choice(free))
        elif chosen < 0.7 and len(free) > 1:
            self.wide(free)
        elif free:
            group = self.draw.choice(free)
            number = self.fresh()
            self.table.merge(number, group, self.rows(group, number))

    def rows(self, group: str, number: int) -> dict[str, int | None]:
        known = sorted(self.table.groups[group][0])
        some = self.draw.sample(known, min(len(known), self.draw.randint(0, 3)))
        rows: dict[str, int | None] = {k: self.draw.choice([number, number, None]) for k in some}
        return rows | {
            f"n{number}.{group}.{n}": number for n in range(self.draw.randint(0 if rows else 1, 2))
        }

    def wide(self, free: list[str]) -> None:
        """One commit of several groups, which a limit may cut."""
        number, stats = self.fresh(), []
        for group in free[:3]:
            rows = {k: v for k, v in self.rows(group, number).items() if v is not None}
            rows |= {f"{group}-{number}": number}
            old, name = self.table.groups[group]
            stats.append(self.table._write(
                number, group, old | {k: (v, number) for k, v in rows.items()}, name, rows, old
            ))  # fmt: skip
            for key, value in rows.items():
                before = {"id": key, "v": old[key][0]} if key in old else None
                self.table.noted.append(
                    ("u" if before else "i", at(number), before, {"id": key, "v": value})
                )
        self.table._commit(number, CommitMetadata("UPSERT", tuple(stats), self.table._extra()))

    def begin_slow(self) -> None:
        number = self.fresh()
        self.slow.append((number, f"g{number}", {f"s{number}": number}))

    def end_slow(self) -> None:
        number, group, rows = self.slow.pop(self.draw.randrange(len(self.slow)))
        self.table.done[number] = self.fresh()
        self.table.merge(number, group, rows, "INSERT")


@dataclass(slots=True)
class UncoordinatedStory(Story):
    """Writers that add logs to the same groups: the order of instants decides whose row stays."""

    #: key -> the last writer of it, which may have deleted it
    last: dict[str, int] = field(default_factory=dict)

    def write(self) -> None:
        if self.draw.random() < 0.5 and len(self.slow) < 3:
            group = self.draw.choice(sorted(self.table.groups))
            number = self.fresh()
            self.slow.append((number, group, self.rows(group, number)))
        elif self.slow:
            self.end_slow()
        elif self.draw.random() < 0.3:
            assert isinstance(self.table, LoggedTable)
            self.table.compact(self.fresh(), self.draw.choice(sorted(self.table.groups)))

    def end_slow(self) -> None:
        number, group, rows = self.slow.pop(self.draw.randrange(len(self.slow)))
        self.table.done[number] = self.fresh()
        old, name = self.table.groups[group]
        new = dict(old)
        for key, value in rows.items():
            if self.last.get(key, 0) > number:
                continue
            self.last[key] = number
            before = {"id": key, "v": old[key][0]} if key in old else None
            if value is not None:
                new[key] = value, number
                after = {"id": key, "v": value}
                op = "u" if before else "i"
                self.table.noted.append((op, at(number), before, after))
            elif new.pop(key, None) is not None:
                self.table.noted.append(("d", at(number), before, None))
        stat = self.table._write(number, group, new, name, rows, old)
        self.table._commit(number, CommitMetadata("UPSERT", (stat,), self.table._extra()))


def story(root: Path, kind: str, seed: int) -> Story:
    root.mkdir()
    table, of, version = FiledTable.at(root) if kind == "cow" else None, Story, 9
    if table is None:
        version = 6 if kind == "mor 6" else 8 + seed % 2
        table = LoggedTable.of(root, version, seed)
        of = UncoordinatedStory if kind == "uncoordinated" else Story
    told = of(table, Random(seed))
    commit = type(table)._commit

    class Noting(type(table)):  # type: ignore[misc]
        __slots__ = ()

        def _commit(self, number: int, metadata: CommitMetadata, *action: Action) -> None:
            commit(self, number, metadata, *action)
            told.note(number, metadata)

    table.__class__ = Noting
    told.begin()
    return told


@dataclass(slots=True)
class Crossing(FileFollower):
    """Reads rows or changes, and judges each batch by the oracle."""

    story: Story = None  # type: ignore[assignment]
    limit: tuple[str, int] = ("", 0)
    segment: list[Any] = field(default_factory=list)
    began: Offset | None = None

    def rows(self, start: Offset, end: StreamOffset) -> list[Any]:
        schema = self.stream.table_schema()
        changes = FORM in self.options
        if changes:
            schema = change_schema(
                query_at(self.table.world.root, {**self.options, BEGIN: "earliest"})
            )
        batch = self.stream.plan(start, end, schema)
        if batch.pieces is not None:
            found = rows_of(batch.pieces)
            if changes and in_snapshot(start, end):
                return [("i", None, None, r["after"]) for r in found]
            if changes:
                return [(r["op"], r["ts_ms"], r["before"], r["after"]) for r in found]
            return sorted((r["after"]["id"], r["after"]["v"]) for r in found)
        assert not changes or not batch.files
        return [(key, value) for key, value, _ in FileFollower.rows(self, start, end)]

    def turn(self, limited: bool, until: StreamOffset | None) -> bool:
        """One micro-batch, with writers beside each of its steps; False if there is none."""
        start, wanted = self.place, self.wanted_end(limited, until)
        end = self.ahead(until, limited).end
        if end is None or end.render() == self.offsets[-1]:
            assert wanted in (None, "none"), "a batch is missing"
            return False
        assert isinstance(end, StreamOffset)
        if wanted is not None:
            assert (end.at, end.files) == wanted
        self.offsets.append(end.render())
        self.story.beside()
        found = self.rows(start, end)
        self.story.beside()
        assert found == self.rows(start, end), "a batch that is planned again is the same"
        self.judge(start, end, found)
        self.stream.commit(end)
        return True

    def query(self, trigger: str) -> None:
        """What one query reads; one that does not end by itself is stopped after some batches."""
        self.restart()
        until = self.stream.begin()[1] if trigger == "available now" else None
        for _ in range(4 if trigger == "processing time" else 4 * MOST):
            if not self.turn(trigger != "once", until) or trigger == "once":
                return
        assert trigger == "processing time"

    # ---- the oracle

    def wanted_end(self, limited: bool, until: StreamOffset | None) -> Any:
        """The end of the next batch by the limit; "none" without one, None in the first state."""
        place = self.place
        if not isinstance(place, StreamOffset) or not (place.whole or place.snapshot is None):
            return None
        last = until.at if until is not None else InstantTime("9" * 20)
        which, most = self.limit if limited else ("", 0)
        limits = [most if name == which else 10**9 for name in ("files", "bytes", "rows")]
        ahead = sorted(
            (self.story.completed(d.number), d.sizes)
            for d in self.story.done
            if self.story.completed(d.number) <= last
        )
        if not place.whole:
            (sizes,) = (sizes for done, sizes in ahead if done == place.at)
            return place.at, cut(sizes, place.files or 0, limits)
        taken, end = [], None
        for done, sizes in ahead:
            if done <= place.at:
                continue
            if not fits([*taken, *sizes], limits):
                return end or (done, cut(sizes, 0, limits))
            taken += sizes
            end = done, None
        return end or "none"

    def judge(self, start: Offset, end: StreamOffset, found: list[Any]) -> None:
        if not isinstance(start, StreamOffset) or start.whole:
            self.segment, self.began = [], start
        self.segment += found
        if end.whole:
            self.batches.append(self.segment)
            first = in_snapshot(start, end)
            wanted = self.first(end) if first else self.later(self.began, end)
            assert sorted(self.segment, key=str) == sorted(wanted, key=str)

    def first(self, end: StreamOffset) -> list[Any]:
        rows = self.state(end).items()
        if FORM in self.options:
            return [("i", None, None, {"id": key, "v": value}) for key, (value, _) in rows]
        return [(key, value) for key, (value, _) in rows]

    def state(self, end: StreamOffset) -> Mapping[str, tuple[int, int]]:
        return [d for d in self.story.done if self.story.completed(d.number) <= end.at][-1].state

    def later(self, begin: Offset, end: StreamOffset) -> list[Any]:
        assert isinstance(begin, StreamOffset)
        inside = [*self.story.between(begin.at, end.at)]
        noted = [c for each, before in inside for c in self.story.table.noted[before : each.noted]]
        if FORM in self.options:
            return noted
        if APPENDS in self.options:
            return [(after["id"], after["v"]) for op, _, _, after in noted if op == "i"]
        commits = {each.number for each, _ in inside}
        return [(k, v) for k, (v, commit) in self.state(end).items() if commit in commits]


def fits(sizes: list[Size], limits: list[int]) -> bool:
    return all(sum(s[n] for s in sizes) <= most for n, most in enumerate(limits))


def cut(sizes: list[Size], done: int, limits: list[int]) -> int | None:
    """How many files have been read after a batch that begins with the file ``done``."""
    end = done + 1
    while end < len(sizes) and fits(sizes[done : end + 1], limits):
        end += 1
    return end if end < len(sizes) else None


@pytest.mark.long
@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("kind", ["cow", "mor", "mor 6", "uncoordinated"])
def test_every_batch_is_what_the_oracle_says(
    kind: str, form: str, limit: str, trigger: str, tmp_path: Path
) -> None:
    option, values = LIMITS[limit]
    seed = TRIGGERS.index(trigger) + len(TRIGGERS) * [*KINDS].index(form)
    most = values[seed % len(values)] if values else 0
    told = story(tmp_path / "t", kind, seed)
    options = {**KINDS[form], **({option: str(most)} if option else {})}
    stream = Crossing(told.table, options, story=told, limit=(limit, most))  # type: ignore[arg-type]
    for _ in range(3):
        stream.query(trigger)
        for _ in range(told.draw.randint(1, 3)):
            told.write()
    while told.slow:
        told.end_slow()
    while len(stream.offsets) < 4 * MOST:
        before = len(stream.offsets)
        stream.query(trigger)
        if len(stream.offsets) == before:
            break
    place = stream.place
    assert isinstance(place, StreamOffset)
    assert place.at == told.completed(told.done[-1].number), "all was read"
