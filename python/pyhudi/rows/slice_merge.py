"""What the logs of a slice leave of its base file, and which of their rows count.

Rules: spec/merging.md R1, R2 and R4. A row of the base file is masked, not compared
with others: by its position where all blocks say it, by its key where one does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.rows.hashing import key_hashes
from pyhudi.rows.log_ordering import ordering_columns
from pyhudi.rows.log_parts import LogPart, check_places, check_sizes, every
from pyhudi.rows.log_spec import Merged, MergeSpec, Positions
from pyhudi.rows.ordering import comparable, valueless
from pyhudi.rows.slice_file import SliceFile

#: rows and deletes of logs that are merged at once: each takes about 200 bytes
EVENTS_AT_ONCE: Final = 2_000_000
#: is told the winners and the losers of a round of a merge
Met = Callable[[Positions, Positions], None]


def _unnoticed(winners: Positions, losers: Positions) -> None:
    pass


@dataclass(frozen=True, slots=True)
class _Share:
    """Of all rows of logs those whose key or place falls to one of ``of`` passes.

    A pass has all rows of a key, so it merges them as if there were no others.
    """

    number: int
    of: int

    def of_places(self, at: Positions) -> Positions:
        """Which of the rows with these places it has."""
        return np.flatnonzero(at % self.of == self.number)

    def of_keys(self, keys: pa.Array) -> Positions:
        """Which of the rows with these keys it has."""
        if self.of == 1:
            return np.arange(len(keys))
        return np.flatnonzero(key_hashes(keys) % np.uint64(self.of) == np.uint64(self.number))


@dataclass(frozen=True, slots=True)
class _Events:
    """The rows and deletes of some logs: which ``rows`` of each part; for each of them, one part
    after the other, the number (``ids``) of its key, and for each number the place ``at`` of the
    base file's row, -1 if it has none."""

    rows: list[Positions]
    ids: Positions
    at: Positions


def merge(
    spec: MergeSpec, parts: Sequence[LogPart], base: SliceFile | None, instant: str
) -> Merged:
    """The merge of ``parts``, in their order, over the base file that ``instant`` wrote.

    More than ``EVENTS_AT_ONCE`` rows are merged in several passes, to bound the memory.
    """
    placed = every(parts, instant) if base is not None else None
    if base is not None and placed is not None:
        check_places(spec, parts, placed, base.rows)
    found = [_of_share(spec, parts, base, placed, share) for share in _shares(parts, placed)]
    if len(found) == 1:
        return found[0]
    kept = tuple(_joined([each.kept[at] for each in found]) for at in range(len(parts)))
    return Merged(_joined([each.masked for each in found]), kept)


def _shares(parts: Sequence[LogPart], placed: Sequence[Positions] | None) -> list[_Share]:
    """The passes of a merge; none if the logs have no row."""
    total = sum(part.size for part in parts) if placed is None else sum(map(len, placed))
    passes = -(-total // EVENTS_AT_ONCE)
    return [_Share(number, passes) for number in range(passes)]


def _joined(found: Sequence[Positions]) -> Positions:
    """The positions that several passes gave, ascending."""
    return np.sort(np.concatenate([np.zeros(0, np.int64), *found]))


def _of_share(
    spec: MergeSpec,
    parts: Sequence[LogPart],
    base: SliceFile | None,
    placed: Sequence[Positions] | None,
    share: _Share,
) -> Merged:
    events = _by_key(parts, base, share) if placed is None else _by_position(placed, share)
    if not len(events.ids):
        none = np.zeros(0, np.int64)
        return Merged(none, (none,) * len(parts))
    if spec.ordering_paths:
        winners, counts = _by_event_time(spec, parts, base, events)
        if spec.filled is not None:
            # A row below the base file's may have values that this one lacks.
            counts |= ~_gone(spec, parts, events.rows)[winners]
        winners = winners[counts]
    else:
        winners = _last_of_each(events.ids)
    held = events.at[events.ids[winners]]
    masked = np.unique(held[held >= 0])
    return Merged(masked, _kept(spec, parts, events.rows, winners))


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """The events of a slice's logs that still decide: for each row or key one, a row or a delete.

    ``kept`` are their numbers in each block, ascending. ``places`` are their positions in the base
    file; None if not all blocks say them.
    """

    kept: tuple[Positions, ...]
    places: tuple[Positions, ...] | None


def newest_events(spec: MergeSpec, parts: Sequence[LogPart], instant: str) -> NewestEvents:
    """The merge of ``parts`` alone: what meets the base file that ``instant`` wrote, if any.

    ``merge`` gives the same of these events as of all: it merges the logs first, one event after
    the other (spec/merging.md R4).
    """
    placed = every(parts, instant) if instant else None
    if placed is not None:
        check_sizes(parts, placed)
    shares = [_newest(spec, parts, placed, share) for share in _shares(parts, placed)]
    kept = tuple(_joined([each[at] for each in shares]) for at in range(len(parts)))
    if placed is None:
        return NewestEvents(kept, None)
    places = tuple(each[own] for each, own in zip(placed, kept, strict=True))
    return NewestEvents(kept, places)


def forced_deletes(spec: MergeSpec, part: LogPart) -> np.ndarray:
    """For each row of a block whether it is a delete that wins in any case, by event time."""
    found, always = part.ordering(spec)
    values = [comparable(each) for each in found]
    return _forced(values, np.asarray(always), part.taken_away(spec))


def _forced(found: Sequence[pa.Array], always: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Which rows win in any case, by their ``comparable`` ordering values and what is ``gone``."""
    forced: np.ndarray = always | (valueless(found) & gone)
    return forced


def _newest(
    spec: MergeSpec,
    parts: Sequence[LogPart],
    placed: Sequence[Positions] | None,
    share: _Share,
) -> list[Positions]:
    events = _by_key(parts, None, share) if placed is None else _by_position(placed, share)
    if not len(events.ids):
        winners = np.zeros(0, np.int64)
    elif spec.ordering_paths:
        winners = _by_event_time(spec, parts, None, events)[0]
    else:
        winners = _last_of_each(events.ids)
    return list(_of_parts(events.rows, winners))


def _by_position(placed: Sequence[Positions], share: _Share) -> _Events:
    rows = [share.of_places(each) for each in placed]
    own = [each[of] for each, of in zip(placed, rows, strict=True)]
    at, ids = np.unique(np.concatenate(own), return_inverse=True)
    return _Events(rows, ids.reshape(-1), at)


def _by_key(parts: Sequence[LogPart], base: SliceFile | None, share: _Share) -> _Events:
    rows, keys = [], [pa.array([], pa.string())]
    for part in parts:
        every_key = part.keys()
        rows.append(share.of_keys(every_key))
        keys.append(every_key if share.of == 1 else every_key.take(pa.array(rows[-1])))
    encoded = pa.concat_arrays(keys).dictionary_encode()
    ids = np.asarray(encoded.indices).astype(np.int64)
    at = np.full(len(encoded.dictionary), -1, np.int64)
    for start, stored in base.keys_by_group() if base is not None else ():
        found = pc.index_in(stored, value_set=encoded.dictionary)
        places = np.flatnonzero(np.asarray(found.is_valid())) + start
        numbers = np.asarray(found.drop_null()).astype(np.int64)
        # A key that a file has twice: the first row meets the log, as in Apache Hudi.
        new = at[numbers] < 0
        at[numbers[new][::-1]] = places[new][::-1]
    return _Events(rows, ids, at)


def _last_of_each(ids: Positions) -> Positions:
    """The last event of each number, in the order of the numbers."""
    last = np.zeros(int(ids.max()) + 1, np.int64)
    last[ids] = np.arange(len(ids))
    return last


def _by_event_time(
    spec: MergeSpec,
    parts: Sequence[LogPart],
    base: SliceFile | None,
    events: _Events,
    met: Met = _unnoticed,
) -> tuple[Positions, np.ndarray]:
    """(the winner among the events of each number, whether it wins against the base file's row).

    The logs are merged first, and their winner meets the base file, as in Apache Hudi: that counts
    where a delete that always wins stands between two rows. ``met`` is that of ``_winners``.
    """
    ids, at = events.ids, events.at
    columns, always, deletes = _compared(spec, parts, events.rows)
    held = np.flatnonzero(at >= 0)
    if base is not None and len(held):
        stored = ordering_columns(base.images(at[held], spec.ordering), spec)
        for column, values in zip(columns, stored, strict=True):
            column.append(comparable(values))
    ranks = _ranks([pa.concat_arrays(column) for column in columns])
    winners = _winners(ids, ranks[: len(ids)], always, deletes, met)
    stays = np.ones(len(winners), np.bool_)
    if base is not None and len(held):
        against = ranks[len(ids) :]
        ours = winners[held]
        stays[held] = (ranks[ours] >= against) | always[ours]
    return winners, stays


def _compared(
    spec: MergeSpec, parts: Sequence[LogPart], rows: Sequence[Positions]
) -> tuple[list[list[pa.Array]], np.ndarray, np.ndarray]:
    """Of the ``rows`` of all parts: (ordering values, column by column; whether each wins in any
    case; whether it is of a delete block)."""
    columns: list[list[pa.Array]] = [[] for _ in spec.ordering_paths]
    forced, deletes = [], []
    for part, own in zip(parts, rows, strict=True):
        found, always = part.ordering(spec)
        found = [comparable(values.take(pa.array(own))) for values in found]
        for column, values in zip(columns, found, strict=True):
            column.append(values)
        forced.append(_forced(found, np.asarray(always)[own], part.taken_away(spec)[own]))
        deletes.append(np.full(len(own), part.deletes))
    return columns, np.concatenate(forced), np.concatenate(deletes)


def _winners(
    ids: Positions,
    ranks: Positions,
    forced: np.ndarray,
    deletes: np.ndarray,
    met: Met = _unnoticed,
) -> Positions:
    """The winner of each number: its events meet one after the other, in rounds.

    A delete of a delete block does not take the place of one that wins in any case. ``met`` is told
    the winners and the losers of each round.
    """
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    first = np.flatnonzero(np.append(True, sorted_ids[1:] != sorted_ids[:-1]))
    counts = np.diff(np.append(first, len(order)))
    winners = order[first].copy()
    for turn in range(1, int(counts.max())):
        numbers = np.flatnonzero(counts > turn)
        challengers = order[first[numbers] + turn]
        champions = winners[numbers]
        wins = (ranks[challengers] >= ranks[champions]) | forced[challengers] | forced[champions]
        wins &= ~(forced[champions] & deletes[challengers])
        winners[numbers[wins]] = challengers[wins]
        met(np.where(wins, challengers, champions), np.where(wins, champions, challengers))
    return winners


@dataclass(frozen=True, slots=True)
class Stack:
    """What lies below the rows of logs that lack columns or values (spec/merging.md R5 and R6).

    The events are ``rows`` of each part, one part after the other. Of each event: whether it is
    ``partial``, the event ``under`` it, -1 if none is, the place ``at`` of its row in the base
    file, -1 if it has none, and whether that row lies ``over`` it.
    """

    rows: list[Positions]
    partial: np.ndarray
    under: Positions
    at: Positions
    over: np.ndarray


def stacks(
    spec: MergeSpec, parts: Sequence[LogPart], base: SliceFile | None, instant: str
) -> Iterator[Stack]:
    """What lies below which row, by the merge of ``parts``; one for each of its passes."""
    placed = every(parts, instant) if base is not None else None
    for share in _shares(parts, placed):
        events = _by_key(parts, base, share) if placed is None else _by_position(placed, share)
        if len(events.ids):
            yield _stacked(spec, parts, base, events)


def _stacked(
    spec: MergeSpec, parts: Sequence[LogPart], base: SliceFile | None, events: _Events
) -> Stack:
    ids, rows = events.ids, events.rows
    of_parts = zip(parts, rows, strict=True)
    filled = spec.filled is not None
    partial = np.concatenate([np.full(len(own), part.partial or filled) for part, own in of_parts])
    gone = _gone(spec, parts, rows)
    partial &= ~gone
    under, lowest = np.full(len(ids), -1, np.int64), np.arange(len(ids))

    def met(winners: Positions, losers: Positions) -> None:
        lies = partial[lowest[winners]] & ~gone[losers]
        above, below = winners[lies], losers[lies]
        under[lowest[above]] = below
        lowest[above] = lowest[below]

    over = np.zeros(len(ids), np.bool_)
    if spec.ordering_paths:
        winners, stays = _by_event_time(spec, parts, base if filled else None, events, met)
        over[winners] = ~stays
    else:
        never = np.zeros(len(ids), np.bool_)
        _winners(ids, np.zeros(len(ids), np.int64), never, never, met)
    return Stack(rows, partial, under, events.at[ids], over)


def _gone(spec: MergeSpec, parts: Sequence[LogPart], rows: Sequence[Positions]) -> np.ndarray:
    """Which of the ``rows`` of all parts are deletes."""
    of_parts = zip(parts, rows, strict=True)
    found = [part.taken_away(spec)[own] for part, own in of_parts]
    return np.concatenate([np.zeros(0, np.bool_), *found])


def _ranks(columns: Sequence[pa.Array]) -> Positions:
    """Numbers that compare as the rows of ``comparable`` columns do, one after the other.

    Null is smaller than any value.
    """
    found = np.stack([_rank(column) for column in columns], axis=1)
    if found.shape[1] == 1:
        return found[:, 0]
    _, ranks = np.unique(found, axis=0, return_inverse=True)
    return ranks.reshape(-1).astype(np.int64)


def _rank(column: pa.Array) -> Positions:
    encoded = column.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    codes = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    return np.append(ranks, -1)[codes]


def _kept(
    spec: MergeSpec, parts: Sequence[LogPart], rows: Sequence[Positions], winners: Positions
) -> tuple[Positions, ...]:
    """Of each part's ``rows`` those among ``winners`` that are no deletes, ascending."""
    kept = []
    for part, won in zip(parts, _of_parts(rows, winners), strict=True):
        if part.deletes or not len(won):
            kept.append(np.zeros(0, np.int64))
        else:
            kept.append(won[~part.taken_away(spec)[won]])
    return tuple(kept)


def _of_parts(rows: Sequence[Positions], winners: Positions) -> Iterator[Positions]:
    """Which of each part's ``rows`` are among the ``winners``, ascending."""
    ends = np.cumsum([0, *map(len, rows)])
    ascending = np.sort(winners)
    for number, own in enumerate(rows):
        low, high = np.searchsorted(ascending, ends[number : number + 2])
        yield own[ascending[low:high] - ends[number]]
