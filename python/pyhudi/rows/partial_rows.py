"""Rows of logs that have some columns only, as the MERGE INTO of Apache Hudi writes them.

Rule: spec/merging.md R5. Such a row lies over another one of its key, from which its other columns
come: over the row that it won against, or at the end over the row of the base file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.rows.log_parts import LogPart
from pyhudi.rows.log_spec import MergeSpec, Positions
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import Stack, stacks

#: instead of the number of a row that lies below: a row of the base file is ``BASE`` less its place
NOTHING: Final = -1
BASE: Final = -2

Opener = Callable[[], AbstractContextManager[SliceFile]]


class PartialPart(LogPart):
    """A block whose rows have some columns only; its images are whole rows."""

    def __init__(self, own: LogPart, number: int, layers: Layers) -> None:
        self.__dict__.update(own.__dict__)
        self.number, self.layers = number, layers

    def images(self, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """The rows at ``at`` in the columns of ``kind``, with those that lie below them."""
        return self.layers.images(self.number, at, kind)


class Layers:
    """Which row lies below each row of ``parts`` that has some columns only.

    Rows are numbered over all parts. ``opened`` opens the base file that ``instant`` wrote; None if
    the slice has none.
    """

    def __init__(
        self, spec: MergeSpec, parts: Sequence[LogPart], opened: Opener | None, instant: str
    ) -> None:
        self._spec, self.parts = spec, list(parts)
        self._opened, self._instant = opened, instant
        self.starts = np.cumsum([0, *(part.size for part in parts)]).astype(np.int64)
        self._below: Positions | None = None

    def below(self) -> Positions:
        """For each row the number of the row below; ``NOTHING``, or ``BASE`` less a place.

        A row with all columns has ``NOTHING`` below.
        """
        if self._below is None:
            found = np.full(int(self.starts[-1]), NOTHING, np.int64)
            with ExitStack() as opening:
                base = None if self._opened is None else opening.enter_context(self._opened())
                for each in stacks(self._spec, self.parts, base, self._instant):
                    self._lay(each, found)
            self._below = found
        return self._below

    def _lay(self, stack: Stack, found: Positions) -> None:
        """Note what lies below the rows of one pass of the merge."""
        pieces = zip(self.starts[:-1], stack.rows, strict=True)
        numbers = np.concatenate([start + rows for start, rows in pieces])
        own = np.flatnonzero(stack.partial)
        under, place = stack.under[own], stack.at[own]
        last = np.where(place >= 0, BASE - place, NOTHING)
        found[numbers[own]] = np.where(under >= 0, numbers[np.maximum(under, 0)], last)

    def images(self, part: int, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """Rows of a part in the columns of ``kind``: each column from the highest row with it."""
        pieces: dict[str, list[pa.Array]] = defaultdict(list)
        places: dict[str, list[Positions]] = defaultdict(list)
        left = [(np.arange(len(at)), self.starts[part] + at, list(kind))]
        while left:
            where, numbers, fields = left.pop()
            for source in np.unique(self._source_of(numbers)):
                chosen = np.flatnonzero(self._source_of(numbers) == source)
                held, rest, columns = self._read(int(source), numbers[chosen], fields)
                for field, column in zip(held, columns, strict=True):
                    pieces[field.name].append(column)
                    places[field.name].append(where[chosen])
                if rest:
                    left.append((where[chosen], self.below()[numbers[chosen]], rest))
        joined = [_joined(pieces[field.name], places[field.name], field.type) for field in kind]
        return pa.StructArray.from_arrays(joined, fields=list(kind))

    def _source_of(self, numbers: Positions) -> Positions:
        """The number of each row's part; ``NOTHING`` and ``BASE`` stay."""
        found = np.searchsorted(self.starts, numbers, side="right") - 1
        return np.where(numbers >= 0, found, np.where(numbers <= BASE, BASE, NOTHING))

    def _read(
        self, source: int, numbers: Positions, fields: list[pa.Field]
    ) -> tuple[list[pa.Field], list[pa.Field], list[pa.Array]]:
        """(the fields that a source decides, the others, the columns of the former)."""
        if source == NOTHING:
            return fields, [], [pa.nulls(len(numbers), field.type) for field in fields]
        if source == BASE:
            assert self._opened is not None
            with self._opened() as base:
                return fields, [], base.images(BASE - numbers, pa.struct(fields)).flatten()
        part, at = self.parts[source], numbers - self.starts[source]
        held = [f for f in fields if part.has(f.name)] if part.partial else fields
        rest = [f for f in fields if f not in held]
        columns = part.images(at, pa.struct(held)).flatten() if held else []
        return held, rest, columns


def whole_rows(
    spec: MergeSpec, parts: Sequence[LogPart], opened: Opener | None, instant: str
) -> list[LogPart]:
    """``parts`` with images that are whole rows, over the base file that ``instant`` wrote."""
    if not any(part.partial for part in parts):
        return list(parts)
    layers = Layers(spec, parts, opened, instant)
    return [
        PartialPart(part, number, layers) if part.partial else part
        for number, part in enumerate(parts)
    ]


def relaid(then: PartialPart, now: PartialPart, rows: Positions, kind: pa.StructType) -> Positions:
    """Those of the ``rows`` of a block that have other values in ``kind`` ``now`` than ``then``.

    The blocks of the merge ``then`` are some of those of ``now``. Only rows are compared under
    which other ones lie now.
    """
    old, new = then.layers, now.layers
    moved = _moved(old, new)
    one, other = old.starts[then.number] + rows, new.starts[now.number] + rows
    differs = np.zeros(len(rows), np.bool_)
    while (one >= 0).any() or (other >= 0).any():
        one = np.where(one >= 0, old.below()[np.maximum(one, 0)], one)
        other = np.where(other >= 0, new.below()[np.maximum(other, 0)], other)
        differs |= np.where(one >= 0, moved[np.maximum(one, 0)], one) != other
        one, other = (np.where(differs, NOTHING, each) for each in (one, other))
    found: Positions = rows[differs]
    other_values = _differ(then.images(found, kind), now.images(found, kind))
    return np.asarray(found[other_values], np.int64)


def _differ(old: pa.StructArray, new: pa.StructArray) -> np.ndarray:
    """Which rows of two arrays of one type differ in a column."""
    found = np.zeros(len(old), np.bool_)
    for was, now_is in zip(old.flatten(), new.flatten(), strict=True):
        try:
            coded = pa.concat_arrays([was, now_is]).dictionary_encode().indices.fill_null(-1)
        except pa.ArrowNotImplementedError:  # a list, a map or a struct
            pairs = zip(was.to_pylist(), now_is.to_pylist(), strict=True)
            found |= np.array([before != after for before, after in pairs], np.bool_)
        else:
            found |= np.asarray(coded[: len(old)]) != np.asarray(coded[len(old) :])
    return found


def _moved(old: Layers, new: Layers) -> Positions:
    """The numbers in ``new`` of all rows of ``old``."""
    starts = {part.block: start for part, start in zip(new.parts, new.starts[:-1], strict=True)}
    found = [starts[part.block] + np.arange(part.size) for part in old.parts]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _joined(pieces: Sequence[pa.Array], places: Sequence[Positions], kind: pa.DataType) -> pa.Array:
    """The pieces of a column, each value at its place."""
    whole = pa.concat_arrays([pa.array([], kind), *pieces])
    order = np.concatenate([np.zeros(0, np.int64), *places])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return whole.take(pa.array(back))
