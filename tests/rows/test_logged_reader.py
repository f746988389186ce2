"""Which change of a key is its last one, among the changes of several commits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyhudi.rows.logged_reader import last_of_each


def last(*changes: tuple[int, str, object]) -> list[bool] | None:
    """Of changes, each a commit's number, an operation and a key."""
    steps, ops, keys = zip(*changes, strict=True)
    columns = pa.StructArray.from_arrays([pa.array(keys), pa.array([1] * len(keys))], ["k", "p"])
    found = last_of_each(columns, pa.array(ops), np.asarray(steps))
    return None if found is None else list(found.to_pylist())


def test_the_last_change_of_each_key_counts() -> None:
    assert last((0, "i", "a"), (0, "u", "b"), (1, "u", "a")) == [False, True, True]
    assert last((0, "u", "a"), (1, "d", "a"), (2, "i", "a")) == [False, False, True]
    assert last((0, "u", None), (0, "u", "None"), (1, "u", None)) == [False, True, True]


def test_a_key_of_several_rows_is_no_matter_of_logs() -> None:
    assert last((0, "u", "a"), (0, "u", "a"), (1, "u", "b")) is None
    assert last((0, "u", "a"), (1, "i", "a")) is None
