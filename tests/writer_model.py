"""What writes of DataFrames make of a Hudi table, in plain Python: rows by place and key.

The rules are those of spec/merging.md R1 and R2. ``Unclear`` is raised where a merge-on-read table
may keep another row than a copy-on-write table: a key comes back with a smaller ordering value than
that of the delete, which a log may still have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]
Rank = tuple[tuple[bool, int], ...]


class Unclear(Exception):
    """What a write leaves depends on where the table keeps its rows."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides which row stays.

    ``keys`` and ``partition`` are columns, ``ordering`` those that decide, without any the later
    write does. ``ints``: null is 0 in them. ``everywhere``: a key has one place in the table.
    ``moves``: a row goes to its new partition, else it stays in the old one.
    """

    keys: tuple[str, ...]
    partition: str
    ordering: tuple[str, ...]
    ints: bool = False
    everywhere: bool = False
    moves: bool = True
    logged: bool = True


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table by partition and key.

    ``graves`` has the places of deleted rows, and the largest ordering values of the deletes, none
    of one that always wins.
    """

    shape: Shape
    held: dict[tuple[Any, Any], Row]
    graves: dict[tuple[Any, Any], Rank]

    def place(self, row: Row) -> tuple[Any, Any]:
        """Partition and key."""
        shape = self.shape
        part = row[shape.partition] if shape.partition else None
        return part, tuple(row[name] for name in shape.keys)

    def rank(self, row: Row) -> Rank:
        """The row's place by event time: null is the smallest, of an int it is 0."""
        values = [row[name] for name in self.shape.ordering]
        if self.shape.ints:
            values = [value or 0 for value in values]
        return tuple((value is not None, value or 0) for value in values)

    def forced(self, row: Row) -> bool:
        """Whether the row deletes in any case."""
        if not row.get("_hoodie_is_deleted") or not self.shape.ordering:
            return False
        if self.shape.ints and len(self.shape.ordering) == 1:
            return not row[self.shape.ordering[0]]
        return all(row[name] is None for name in self.shape.ordering)

    def inserted(self, batch: Sequence[Row]) -> Rows:
        """New keys alone."""
        held = dict(self.held)
        for row in batch:
            place = self.place(row)
            assert place not in held
            self._check_grave(place, row)
            held[place] = row
        return replace(self, held=held)

    def upserted(self, batch: Sequence[Row]) -> Rows:
        """Winners of the batch by key, against the rows of the table."""
        shape = self.shape
        winners: dict[Any, Row] = {}
        for row in batch:
            part, key = self.place(row)
            at = key if shape.everywhere else (part, key)
            old = winners.get(at)
            if old is None or self._first(old) <= self._first(row):
                winners[at] = row
        after = replace(self, held=dict(self.held), graves=dict(self.graves))
        for row in winners.values():
            after._put(row)
        return after

    def _first(self, row: Row) -> tuple[bool, Rank]:
        return self.forced(row), self.rank(row)

    def _put(self, row: Row) -> None:
        place = self.place(row)
        old_place = place
        if self.shape.everywhere:
            old_place = next((each for each in self.held if each[1] == place[1]), place)
        old, gone = self.held.get(old_place), bool(row.get("_hoodie_is_deleted"))
        if old is None:
            if gone:
                self._check_grave(place, row)
                self.graves[place] = max(self.rank(row), self.graves.get(place, ()))
            else:
                self._check_grave(place, row)
                self.held[place] = row
            return
        forced = self.forced(row)
        moves = old_place != place
        if moves and not self.shape.moves:
            row = {**row, self.shape.partition: old_place[0]}
            moves = False
        if not forced and self.rank(row) < self.rank(old):
            return
        if gone or moves:
            del self.held[old_place]
            always = forced or moves
            self.graves[old_place] = () if always else max(self.rank(old), self.rank(row))
        if not gone:
            if moves:
                self._check_grave(place, row)
            self.held[place if moves else old_place] = row

    def deleted(self, batch: Iterable[Row]) -> Rows:
        """The operation delete, of keys and partitions."""
        held, graves = dict(self.held), dict(self.graves)
        for row in batch:
            place = self.place(row)
            everywhere = self.shape.everywhere
            for each in [p for p in held if p == place or (everywhere and p[1] == place[1])]:
                del held[each]
                graves[each] = ()
        return replace(self, held=held, graves=graves)

    def overwritten(self, batch: Sequence[Row]) -> Rows:
        """The operation insert_overwrite: the partitions of the batch have its rows alone."""
        parts = {self.place(row)[0] for row in batch}
        held = {place: row for place, row in self.held.items() if place[0] not in parts}
        graves = {place: rank for place, rank in self.graves.items() if place[0] not in parts}
        return replace(self, held=held, graves=graves).inserted(batch)

    def _check_grave(self, place: tuple[Any, Any], row: Row) -> None:
        grave = self.graves.get(place)
        if grave is not None and self.shape.logged and self.rank(row) < grave:
            raise Unclear
