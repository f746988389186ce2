"""Logs that writers add without coordination: the rows do not depend on who is done first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName
from pyhudi.format.instants import Action, State
from pyhudi.rows.change_spec import Slice
from pyhudi.rows.log_parts import parts_of
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.slice_merge import merge
from pyhudi.rows.spec import KEY_COLUMN
from tests.rows.logs import ROWS, avro_block, spec
from tests.timeline.bare import Bare, t

GROUP = FileId("00000003-0000-0000-0000-000000000000-0")
COLUMNS = {"ts": "long", "v": "string", "_hoodie_is_deleted": "boolean"}
KEYS = "abc"
BASE, BEGIN, DONE = 1, 100, 1_000


@dataclass(frozen=True)
class Put:
    """A row of an append: its ordering value, and whether it is deleted."""

    ts: int
    gone: bool = False


#: by key
Append = Mapping[str, Put]
#: by key: ordering value, value
Rows = dict[str, tuple[int, str]]


class Group(Bare):
    """A bucket in memory, with real rows; the append of number n begins at ``BEGIN + n``."""

    def __init__(self, ordering: Sequence[str], base: Append | None) -> None:
        super().__init__()
        self.ordering = ordering
        if base is not None:
            self.put_base(BASE, {key: (row.ts, "base") for key, row in base.items()})

    def put_base(self, time: int, rows: Rows) -> None:
        columns = {
            KEY_COLUMN: pa.array(list(rows), pa.string()),
            "ts": pa.array([ts for ts, _ in rows.values()], pa.int64()),
            "v": pa.array([v for _, v in rows.values()], pa.string()),
        }
        sink = BytesIO()
        pq.write_table(pa.table(columns), sink)
        path = f"p/{BaseFileName(GROUP, '0-0-0', t(time)).render()}"
        self._committed(path, sink.getvalue(), time, time, Action.COMMIT)

    def append(self, number: int, rows: Append, done: int) -> None:
        """The log of an append, and its commit, which completes at ``done``."""
        self.log_of(number, rows)
        path = self.path_of(number)
        self._committed(path, None, BEGIN + number, done, Action.DELTACOMMIT)

    def log_of(self, number: int, rows: Append) -> None:
        """A log, whose write is pending."""
        if self.storage.exists(self.path_of(number)):
            return
        written = [
            {"key": key, "ts": row.ts, "v": f"{number}", "_hoodie_is_deleted": row.gone}
            for key, row in rows.items()
        ]
        block = avro_block(t(BEGIN + number), written, COLUMNS)
        self.storage.put_if_absent(self.path_of(number), block)
        self.put(Action.DELTACOMMIT, State.REQUESTED, BEGIN + number)

    def path_of(self, number: int) -> str:
        return f"p/{LogFileName(GROUP, t(BEGIN + number), 1, '0-1-0').render()}"

    def compact(self, time: int) -> None:
        self.put_base(time, self.rows())

    def rows(self) -> Rows:
        """What a reader sees."""
        done = {commit.time for commit in self.timeline().commits}
        slices = self.view().slices()
        if not slices:
            return {}
        (seen,) = slices
        paths = [log.path for log in seen.logs if log.instant in done]
        how = spec(*self.ordering, completed=sorted(done))
        parts = parts_of(how, [(path, self.storage.read(path)) for path in paths], {})
        base, found = None, []
        if seen.base is not None:
            data = pa.BufferReader(self.storage.read(seen.base.path))
            base = SliceFile(data, Slice(seen.base.path))
            found = pq.ParquetFile(data).read().to_pylist()
        merged = merge(how, parts, base, seen.instant)
        masked = set(merged.masked.tolist())
        found = [row for at, row in enumerate(found) if at not in masked]
        for part, kept in zip(parts, merged.kept, strict=True):
            found += part.images(kept, ROWS).to_pylist()
        assert len({row[KEY_COLUMN] for row in found}) == len(found)
        return {row[KEY_COLUMN]: (row["ts"], row["v"]) for row in found}

    def _committed(
        self, path: str, data: bytes | None, time: int, done: int, action: Action
    ) -> None:
        if data is not None:
            self.storage.put_if_absent(path, data)
        size = len(self.storage.read(path))
        stat = WriteStat(GROUP, path, "p", t(time), num_writes=1, file_size_bytes=size)
        self.put(action, State.COMPLETED, time, done + 1, (stat,))


PUTS = st.builds(Put, st.integers(0, 3), st.booleans())
APPENDS = st.lists(st.dictionaries(st.sampled_from(KEYS), PUTS, min_size=1), min_size=2, max_size=4)
BASES = st.none() | st.dictionaries(st.sampled_from(KEYS), st.builds(Put, st.integers(0, 3)))


@pytest.mark.parametrize("ordering", [(), ("ts",)], ids=["commit time", "event time"])
@given(appends=APPENDS, base=BASES, data=st.data())
@settings(deadline=None, max_examples=60)
def test_every_order_of_completion_gives_the_same_rows(
    ordering: tuple[str, ...], appends: list[Append], base: Append | None, data: st.DataObject
) -> None:
    in_turn = Group(ordering, base)
    for number, rows in enumerate(appends):
        in_turn.append(number, rows, DONE + 10 * number)

    raced = Group(ordering, base)
    for number, rows in enumerate(appends):
        raced.log_of(number, rows)
    for turn, number in enumerate(data.draw(st.permutations(range(len(appends))))):
        raced.append(number, appends[number], DONE + 10 * turn)

    assert raced.rows() == in_turn.rows()
    if not ordering:
        told = {key: (row.ts, "base") for key, row in (base or {}).items()}
        for number, rows in enumerate(appends):
            lay(told, number, rows)
        assert raced.rows() == told


@pytest.mark.parametrize("ordering", [(), ("ts",)], ids=["commit time", "event time"])
@given(count=st.integers(2, 4), based=st.booleans(), data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_compaction_in_between_changes_the_order_by_commit_time_alone(
    ordering: tuple[str, ...], count: int, based: bool, data: st.DataObject
) -> None:
    """By event time rows of different values; deletes are forgotten by a compaction."""
    values = data.draw(st.permutations(range(count + 1)))
    base = dict.fromkeys(KEYS, Put(values[-1])) if based else None
    keys = st.lists(st.sampled_from(KEYS), min_size=1, unique=True)
    appends = [dict.fromkeys(data.draw(keys), Put(values[n])) for n in range(count)]
    order = data.draw(st.permutations(range(count)))
    at = data.draw(st.integers(1, count))

    raced = Group(ordering, base)
    for number, rows in enumerate(appends):
        raced.log_of(number, rows)
    for turn, number in enumerate(order):
        if turn == at:
            before = raced.rows()
            raced.compact(DONE + 10 * turn - 5)
            assert raced.rows() == before
        raced.append(number, appends[number], DONE + 10 * turn)

    told = {key: (row.ts, "base") for key, row in (base or {}).items()}
    for number in (*sorted(order[:at]), *sorted(order[at:])):
        lay(told, number, appends[number], larger=bool(ordering))
    assert raced.rows() == told
    if ordering:
        most = {key: max(row[key].ts for row in (*appends, base or {}) if key in row)
                for key in told}  # fmt: skip
        assert {key: ts for key, (ts, _) in told.items()} == most


def lay(told: Rows, number: int, rows: Append, larger: bool = False) -> None:
    """Put an append on top; with ``larger`` only what has no smaller ordering value."""
    for key, row in rows.items():
        if larger and key in told and told[key][0] > row.ts:
            continue
        told.pop(key, None)
        if not row.gone:
            told[key] = row.ts, f"{number}"


def test_a_pending_log_that_began_first_hides_no_later_one() -> None:
    """Apache Hudi's readers miss the rows of such a group until the first log has completed."""
    group = Group((), None)
    group.log_of(0, {"a": Put(1)})
    group.append(1, {"b": Put(1)}, DONE)
    assert group.rows() == {"b": (1, "1")}
