"""Rows of logs that lack columns or values, which come from the rows below them.

Rules: spec/merging.md R5 and R6. A row that the MERGE INTO of Apache Hudi writes has some columns
only; in tables of partial updates some values stand for none. Such a row lies over another one of
its key: over the row that it won against, or at the end over the row of the base file. Where the
row of the base file wins, it lies over the log's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.errors import UnsupportedTable
from pyhudi.rows.filled import stands_for_none
from pyhudi.rows.log_parts import LogPart
from pyhudi.rows.log_spec import MergeSpec, Positions
from pyhudi.rows.ordering import Mask
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import Stack, stacks
from pyhudi.rows.spec import COMMIT_TIME_COLUMN

#: instead of the number of a row that lies below: a row of the base file is ``BASE`` less its place
NOTHING: Final = -1
BASE: Final = -2

IGNORED: Final = "hoodie.table.partial.update.mode=IGNORE_DEFAULTS"

Opener = Callable[[], AbstractContextManager[SliceFile]]


class PartialPart(LogPart):
    """A block whose rows lack columns or values; its images are whole rows."""

    def __init__(self, own: LogPart, number: int, layers: Layers) -> None:
        self.__dict__.update(own.__dict__)
        self.number, self.layers = number, layers

    @property
    def partial(self) -> bool:
        """True: no reader has its rows from the block alone."""
        return True

    def images(self, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """The rows at ``at`` in the columns of ``kind``, with those that lie below them."""
        return self.layers.images(self.number, at, kind)


class Layers:
    """Which row lies below each row of ``parts`` that lacks columns or values.

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
        self._above: Positions | None = None
        if spec.filled is not None and spec.filled.marker is None:
            for part in self.parts:
                _refuse_defaults(part)

    def below(self) -> Positions:
        """For each row the number of the row below; ``NOTHING``, or ``BASE`` less a place.

        A row with all columns has ``NOTHING`` below.
        """
        return self._laid()[0]

    def _laid(self) -> tuple[Positions, Positions]:
        """(``below``, for each row the row of the base file above it or ``NOTHING``)."""
        if self._below is None or self._above is None:
            self._below = np.full(int(self.starts[-1]), NOTHING, np.int64)
            self._above = self._below.copy()
            with ExitStack() as opening:
                base = None if self._opened is None else opening.enter_context(self._opened())
                for each in stacks(self._spec, self.parts, base, self._instant):
                    self._lay(each, self._below, self._above)
        return self._below, self._above

    def _lay(self, stack: Stack, below: Positions, above: Positions) -> None:
        """Note what lies below and above the rows of one pass of the merge."""
        pieces = zip(self.starts[:-1], stack.rows, strict=True)
        numbers = np.concatenate([start + rows for start, rows in pieces])
        own = np.flatnonzero(stack.partial)
        under, place = stack.under[own], stack.at[own]
        last = np.where(place >= 0, BASE - place, NOTHING)
        below[numbers[own]] = np.where(under >= 0, numbers[np.maximum(under, 0)], last)
        above[numbers[stack.over]] = BASE - stack.at[stack.over]

    def kept(self, part: int, at: Positions) -> Mask:
        """Which rows of a part are below their rows of the base file, which so stay."""
        above: Positions = self._laid()[1][self.starts[part] + at]
        return np.asarray(above != NOTHING, np.bool_)

    def images(self, part: int, at: Positions, kind: pa.StructType) -> pa.StructArray:
        """Rows of a part in the columns of ``kind``: each value from the highest row with it.

        The commit of a row is that of the last one in the order of the merge which gave it a value:
        by event time this may be a row below.
        """
        own = self.starts[part] + at
        above = self._laid()[1][own]
        covered = above != NOTHING
        rows, under = np.where(covered, above, own), np.where(covered, own, self._under(own))
        columns, _ = self._stacked(rows, under, list(kind))
        when = kind.get_field_index(COMMIT_TIME_COLUMN)
        deep = np.flatnonzero(under != NOTHING)
        if self._spec.ordering_paths and when >= 0 and len(deep):
            rows[deep] = self._stacked(rows[deep], under[deep], list(self._spec.data))[1]
            columns[when] = self._own(rows, kind.field(when))
        return pa.StructArray.from_arrays(columns, fields=list(kind))

    def _stacked(
        self, rows: Positions, under: Positions, fields: list[pa.Field]
    ) -> tuple[list[pa.Array], Positions]:
        """(columns of the ``rows``, of which others lie ``under``; for each row the last one in the
        order of the merge that gave it one of these values)."""
        pieces: dict[str, list[pa.Array]] = defaultdict(list)
        places: dict[str, list[Positions]] = defaultdict(list)
        last = rows.copy()
        left = [(np.arange(len(rows)), rows, under, fields)]
        while left:
            every, rows, under, wanted = left.pop()
            sources = self._source_of(rows)
            for source in np.unique(sources):
                chosen = np.flatnonzero(sources == source)
                where, deeper = every[chosen], under[chosen]
                gives = np.zeros(len(chosen), np.bool_)
                falling: dict[bytes, list[pa.Field]] = defaultdict(list)
                for field, column, lacks in self._read(int(source), rows[chosen], wanted):
                    gives |= ~lacks
                    stays = ~lacks | (deeper == NOTHING)
                    pieces[field.name].append(column.filter(pa.array(stays)))
                    places[field.name].append(where[stays])
                    falling[stays.tobytes()].append(field)
                last[where[gives]] = np.maximum(last[where[gives]], rows[chosen][gives])
                for stayed, lacked in falling.items():
                    falls = np.flatnonzero(~np.frombuffer(stayed, np.bool_))
                    if len(falls):
                        lower = deeper[falls]
                        left.append((where[falls], lower, self._under(lower), lacked))
        joined = [_joined(pieces[field.name], places[field.name], field.type) for field in fields]
        return joined, last

    def _own(self, rows: Positions, field: pa.Field) -> pa.Array:
        """The values that the rows of these numbers have themselves."""
        found, places = [], []
        sources = self._source_of(rows)
        for source in np.unique(sources):
            chosen = np.flatnonzero(sources == source)
            found += [column for _, column, _ in self._read(int(source), rows[chosen], [field])]
            places.append(chosen)
        return _joined(found, places, field.type)

    def _under(self, rows: Positions) -> Positions:
        """The numbers of the rows below; nothing lies below one of the base file."""
        return np.where(rows >= 0, self.below()[np.maximum(rows, 0)], NOTHING)

    def _source_of(self, numbers: Positions) -> Positions:
        """The number of each row's part, ``BASE`` for the base file."""
        found = np.searchsorted(self.starts, numbers, side="right") - 1
        return np.where(numbers >= 0, found, BASE)

    def _read(
        self, source: int, rows: Positions, fields: list[pa.Field]
    ) -> Iterator[tuple[pa.Field, pa.Array, np.ndarray]]:
        """Each field with its values, and which of them the row below decides if there is one."""
        kind = pa.struct(fields)
        if source == BASE:
            assert self._opened is not None
            with self._opened() as base:
                columns = base.images(BASE - rows, kind).flatten()
        else:
            columns = self.parts[source].images(rows - self.starts[source], kind).flatten()
        some = source != BASE and self.parts[source].partial
        for field, column in zip(fields, columns, strict=True):
            if some and not self.parts[source].has(field.name):
                yield field, column, np.ones(len(rows), np.bool_)
            elif self._spec.filled is None:
                yield field, column, np.zeros(len(rows), np.bool_)
            else:
                yield field, column, stands_for_none(column, self._spec.filled)


def _refuse_defaults(part: LogPart) -> None:
    """``UnsupportedTable`` if a column of a block has a default other than null.

    In such a column Apache Hudi takes some values for none and others not, by how Java holds them.
    """
    named = [] if part.deletes else part.defaults()
    if named:
        raise UnsupportedTable(
            f"The column '{named[0]}' of rows in {part.path} has a default other than null. Under "
            f"{IGNORED} Apache Hudi takes some of its values for none and others not, so pyhudi "
            "cannot merge them. Let Apache Hudi compact the table, or set "
            "hoodie.datasource.query.type=read_optimized to read the base files alone.",
            feature=f"{IGNORED} with the default of a column",
        )


def whole_rows(
    spec: MergeSpec, parts: Sequence[LogPart], opened: Opener | None, instant: str
) -> list[LogPart]:
    """``parts`` with images that are whole rows, over the base file that ``instant`` wrote."""
    lacking = [part.partial or (spec.filled is not None and not part.deletes) for part in parts]
    if not any(lacking):
        return list(parts)
    layers = Layers(spec, parts, opened, instant)
    return [
        PartialPart(part, number, layers) if lacks else part
        for number, (part, lacks) in enumerate(zip(parts, lacking, strict=True))
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
    other_values = differ(then.images(found, kind), now.images(found, kind))
    return np.asarray(found[other_values], np.int64)


def differ(old: pa.StructArray, new: pa.StructArray) -> np.ndarray:
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
