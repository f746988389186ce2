"""The hash of record keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.rows.hashing import key_hashes


@pytest.mark.parametrize("pattern", ["{}", "order-{}", "{}-user@example.com", "{:032d}", "键{}é"])
def test_keys_that_differ_in_a_number_do_not_share_their_upper_bits(pattern: str) -> None:
    keys = pa.array([pattern.format(number) for number in range(200_000)])
    hashes = key_hashes(keys)
    assert len(np.unique(hashes >> np.uint64(12))) == len(keys)
    # And they spread: a sixteenth in each sixteenth.
    shares = np.bincount((hashes >> np.uint64(60)).astype(np.int64), minlength=16) / len(keys)
    assert np.abs(shares - 1 / 16).max() < 0.003


@given(st.lists(st.text(max_size=40), min_size=1, max_size=30), st.data())
def test_a_key_has_one_hash_wherever_it_stands(texts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts) - 1))
    array = pa.array(texts, pa.string())
    whole = key_hashes(array)
    np.testing.assert_array_equal(key_hashes(array.slice(start)), whole[start:])
    alone = np.concatenate([key_hashes(pa.array([text], pa.string())) for text in texts])
    np.testing.assert_array_equal(alone, whole)
    assert len(set(whole.tolist())) == len(set(texts))


def test_trailing_zero_bytes_and_lengths_count() -> None:
    keys = pa.array(["", "\0", "\0\0", "a", "a\0", "a" * 8, "a" * 8 + "\0", "a" * 16, "a" * 5000])
    assert len(set(key_hashes(keys).tolist())) == len(keys)


def test_no_keys_have_no_hashes() -> None:
    assert len(key_hashes(pa.array([], pa.string()))) == 0
