"""The log that a log compaction writes: with it the merge of a slice is the same."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import TableCorrupt
from pyhudi.format.log_blocks import BlockType, HeaderKey, read_blocks
from pyhudi.rows import log_compact
from pyhudi.rows.log_compact import merged_blocks
from pyhudi.rows.log_parts import every
from pyhudi.rows.log_spec import MergeSpec
from pyhudi.rows.slice_merge import newest_events
from pyhudi.rows.spec import KEY_COLUMN
from tests.rows import logs
from tests.rows.logs import T1, T2, T4, T5, avro_block, delete_block, positions
from tests.rows.test_slice_merge import (
    BASES,
    BLOCKS,
    KINDS,
    ORDERINGS,
    Event,
    expected,
    left,
    log_of,
    named,
    parts_in,
)


def compacted(spec: MergeSpec, data: bytes, base: str = "", says_so: bool = True) -> bytes:
    """The log that stands for ``data``; without ``says_so`` its blocks do not name what they
    replace."""
    parts = parts_in(spec, data)
    found = b""
    for block in merged_blocks(parts, newest_events(spec, parts, base)):
        header = {HeaderKey(key).name: text for key, text in block.header.items()}
        if not says_so:
            del header["COMPACTED_BLOCK_TIMES"]
        if block.places is not None:
            header |= positions(base, block.places.tolist())
        found += logs.rendered(block.kind, T4, block.content, **header)
    return found


@settings(max_examples=80, deadline=None)
@given(BASES, BLOCKS, BLOCKS, st.sampled_from(ORDERINGS))
def test_the_merge_stays_the_same_by_key(
    base: list[Event] | None,
    blocks: list[list[Event]],
    later: list[list[Event]],
    ordering: tuple[str, ...],
) -> None:
    first, *rest = named(base or [], [*blocks, *later])
    spec, file = logs.spec(*ordering, kinds=KINDS), first if base is not None else None
    old, new = log_of(rest[: len(blocks)], ordering, ()), log_of(rest[len(blocks) :], ordering, ())
    new = new.replace(T2.encode(), T5.encode())
    result = compacted(spec, old)

    events = [(event.key, event) for block in rest[: len(blocks)] for event in block]
    wanted = expected(ordering, first, events, "key")
    assert left(spec, old + result, file) == wanted
    # To a reader that knows nothing of log compactions the result is one more log.
    assert left(spec, old + compacted(spec, old, says_so=False), file) == wanted
    events += [(event.key, event) for block in rest[len(blocks) :] for event in block]
    wanted = expected(ordering, first, events, "key")
    assert left(spec, old + result + new, file) == wanted
    # A log that was begun later, and landed before the result.
    assert left(spec, old + new + result, file) == wanted


BASE = [Event(f"base{at}", key, 5, None) for at, key in enumerate("abcd")]


def placed(*blocks: tuple[Sequence[Event], Sequence[int]]) -> bytes:
    return log_of([rows for rows, _ in blocks], ("a",), [at for _, at in blocks])


def test_rows_keep_their_places_in_the_base_file() -> None:
    spec = logs.spec("a", kinds=KINDS)
    data = placed(
        ([Event("x0", "a", 6, None), Event("x2", "c", 4, None)], [0, 2]),
        ([Event("gone", "b", 7, None, delete=True), Event("g2", "c", 9, None, delete=True)],
         [1, 2]),
        ([Event("y0", "a", 8, None), Event("y3", "d", 8, None)], [0, 3]),
    )  # fmt: skip
    result = compacted(spec, data, T1)
    parts = parts_in(spec, data + result)
    assert [(part.deletes, part.keys().to_pylist()) for part in parts] == [
        (False, ["a", "d"]),
        (True, ["b", "c"]),
    ]
    assert [list(each) for each in every(parts, T1) or ()] == [[0, 3], [1, 2]]
    assert left(spec, data + result, BASE) == left(spec, data, BASE) == ["y0", "y3"]
    # Their bytes are those of the logs, and so is each ordering value of a delete.
    assert {block.header[HeaderKey.COMPACTED_BLOCK_TIMES] for block in read_blocks(result)} == {T2}


def test_one_block_without_places_leaves_all_without() -> None:
    spec = logs.spec("a", kinds=KINDS)
    data = placed(([Event("x0", "a", 6, None)], [0]))
    data += log_of([[Event("new", "z", 1, None)]], ("a",), ())
    result = compacted(spec, data, T1)
    assert [part.positions(T1) for part in parts_in(spec, data + result)] == [None]
    assert left(spec, data + result, BASE) == ["base1", "base2", "base3", "new", "x0"]


def test_rows_of_several_schemas_are_in_blocks_of_their_own() -> None:
    spec, wider = logs.spec(), {**logs.COLUMNS, "w": "int"}
    data = avro_block(T1, [{"key": "a", "ts": 1, "v": "x"}])
    data += avro_block(T2, [{"key": "b", "ts": 1, "v": "y", "w": 7}], wider)
    table = pa.table({KEY_COLUMN: ["c"], "ts": [3], "v": ["z"]})
    data += logs.parquet_block(T2, table) + delete_block(T2, "a")
    result = compacted(spec, data)
    blocks = list(read_blocks(result))
    assert [block.block_type for block in blocks] == [BlockType.AVRO_DATA] * 2 + [BlockType.DELETE]
    rows = [part.images(range(part.size), spec.rows).to_pylist()  # type: ignore[arg-type]
            for part in parts_in(spec, data + result) if not part.deletes]  # fmt: skip
    assert rows == [
        [{KEY_COLUMN: "b", "ts": 1, "v": "y"}],
        [{KEY_COLUMN: "c", "ts": 3, "v": "z"}],
    ]


def test_many_rows_become_blocks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_compact, "BLOCK_BYTES", 100)
    spec = logs.spec()
    data = avro_block(T1, [{"key": f"k{n}", "ts": n, "v": "x" * 40} for n in range(9)])
    result = compacted(spec, data)
    sizes = [len(block.content) for block in read_blocks(result)]
    assert len(sizes) > 2
    assert max(sizes) < 200
    keys = [key for part in parts_in(spec, data + result) for key in part.keys().to_pylist()]
    assert keys == [f"k{n}" for n in range(9)]


def test_places_that_do_not_fit_the_rows_are_a_corrupt_table() -> None:
    spec = logs.spec()
    data = avro_block(T1, [{"key": "a", "ts": 1, "v": "x"}], **positions(T1, [0, 1]))
    with pytest.raises(TableCorrupt, match="2 positions for 1 rows"):
        compacted(spec, data, T1)
