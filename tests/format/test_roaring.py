"""Bitmaps of positions: each form of container, the golden tables' own, and torn ones."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.format.delete_block import deleted_keys
from pyhudi.format.log_blocks import BlockType, HeaderKey, avro_count
from pyhudi.format.roaring import bitmap_of, positions_in
from tests.format.test_golden_files import log_blocks

NUMBERS = st.integers(0, 3 << 32)
#: so many neighbours that a container of them is one of bits
DENSE = st.tuples(NUMBERS, st.integers(4_000, 9_000), st.integers(1, 3)).map(
    lambda given: range(given[0], given[0] + given[1] * given[2], given[2])
)


def as_array(numbers: object) -> np.ndarray:
    return np.array(sorted(numbers), np.int64)  # type: ignore[call-overload]


@settings(deadline=None)
@given(st.sets(NUMBERS, max_size=50), st.lists(DENSE, max_size=3))
def test_a_bitmap_gives_its_numbers_back(few: set[int], dense: list[range]) -> None:
    numbers = as_array(few.union(*dense))
    found = positions_in(bitmap_of(numbers))
    assert found.dtype == np.int64
    assert found.tolist() == numbers.tolist()


@pytest.mark.parametrize("size", [1, 4_096, 4_097, 65_536, 65_537, 200_000])
def test_the_sizes_at_which_containers_change_their_form(size: int) -> None:
    numbers = as_array(range(7, 7 + size))
    assert np.array_equal(positions_in(bitmap_of(numbers)), numbers)


def with_runs(containers: dict[int, list[tuple[int, int]]], lists: dict[int, list[int]]) -> bytes:
    """A bitmap in the form with runs, each the first number and how many follow it."""
    keys = sorted(containers | lists)
    flags = np.packbits([key in containers for key in keys], bitorder="little").tobytes()
    described, contents = b"", []
    for key in keys:
        if key in containers:
            runs = containers[key]
            size = sum(more + 1 for _, more in runs)
            contents.append(struct.pack(f"<{1 + 2 * len(runs)}H", len(runs), *sum(runs, ())))
        else:
            size = len(lists[key])
            contents.append(struct.pack(f"<{size}H", *lists[key]))
        described += struct.pack("<HH", key, size - 1)
    cookie = struct.pack("<I", 12_347 | (len(keys) - 1) << 16)
    offsets = b""
    if len(keys) >= 4:
        at = len(cookie + flags + described) + 4 * len(keys)
        for content in contents:
            offsets += struct.pack("<I", at)
            at += len(content)
    whole = cookie + flags + described + offsets + b"".join(contents)
    return struct.pack("<qI", 1, 0) + whole


def test_runs_of_few_containers_have_no_offsets() -> None:
    data = with_runs({0: [(3, 2), (10, 0)], 2: [(0, 65_535)]}, {1: [5, 9]})
    second = [(1 << 16) + 5, (1 << 16) + 9]
    third = range(2 << 16, 3 << 16)
    assert positions_in(data).tolist() == [3, 4, 5, 10, *second, *third]


def test_runs_of_many_containers_have_offsets() -> None:
    data = with_runs({key: [(key, 1)] for key in range(9)}, {20: [1]})
    wanted = [(key << 16) + key + n for key in range(9) for n in (0, 1)]
    assert positions_in(data).tolist() == [*wanted, (20 << 16) + 1]


def test_a_bitmap_without_numbers_is_empty() -> None:
    assert positions_in(bitmap_of(as_array([]))).tolist() == []
    assert positions_in(struct.pack("<qIIi", 1, 0, 12_346, 0)).tolist() == []


@pytest.mark.parametrize("positions", [[1, 0], [3, 3], [1, 1 << 33, 2]])
def test_positions_that_do_not_ascend_are_no_bitmap(positions: list[int]) -> None:
    with pytest.raises(ValueError, match="ascend"):
        bitmap_of(np.array(positions, np.int64))


WHOLE = [
    bitmap_of(as_array([1, 5, 70_000, 1 << 33])),
    bitmap_of(as_array(range(5_000))),
    with_runs({0: [(3, 2)]}, {1: [5, 9]}),
    with_runs({key: [(key, 1)] for key in range(5)}, {}),
]


@pytest.mark.parametrize("whole", WHOLE, ids=["lists", "bits", "runs", "offsets"])
def test_a_torn_bitmap_is_told(whole: bytes) -> None:
    for cut in {*range(min(len(whole), 200)), len(whole) - 1}:
        with pytest.raises(ValueError, match="bitmap"):
            positions_in(whole[:cut])


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<q", -1),
        struct.pack("<q", 1 << 60),
        struct.pack("<qII", 1, 0, 99),
        struct.pack("<qIIi", 1, 0, 12_346, -1),
        struct.pack("<qIIi", 1, 0, 12_346, (1 << 31) - 1),
        struct.pack("<qI", 1, 1 << 31) + bitmap_of(as_array([1]))[12:],
        with_runs({0: [(65_535, 2)]}, {}),
    ],
    ids=["buckets", "many buckets", "cookie", "containers", "many containers", "high", "run"],
)
def test_what_no_bitmap_can_say_is_told(data: bytes) -> None:
    with pytest.raises(ValueError, match="bitmap"):
        positions_in(data)


@settings(deadline=None)
@given(st.sampled_from(WHOLE), st.data())
def test_a_changed_bitmap_is_told_or_gives_numbers(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, min(len(whole), 100) - 1))
    changed = bytearray(whole)
    changed[at] = data.draw(st.integers(0, 255))
    try:
        found = positions_in(bytes(changed))
    except ValueError:
        return
    assert found.dtype == np.int64
    assert (found >= 0).all()


def test_the_golden_tables_have_a_position_for_each_record() -> None:
    checked = 0
    for _, path, block in log_blocks():
        if HeaderKey.RECORD_POSITIONS in block.header:
            data = base64.b64decode(block.header[HeaderKey.RECORD_POSITIONS])
            found = positions_in(data)
            if block.block_type is BlockType.AVRO_DATA:
                records = avro_count(block.content, path)
            else:
                records = len(deleted_keys(block.content, path))
            assert len(found) == records, path
            assert (np.diff(found) > 0).all(), path
            assert bitmap_of(found) == data, path
            checked += 1
    assert checked > 20
