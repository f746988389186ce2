"""The facts by which the steps of a write know an index."""

from __future__ import annotations

from pathlib import Path

import pyhudi
from pyhudi.choices import IndexType
from pyhudi.config import resolve_write
from pyhudi.index.kinds import INDEXES, index_of

WRITES = Path(str(pyhudi.__file__)).parent / "writes"


def test_each_index_has_its_row_of_facts() -> None:
    assert set(INDEXES) == set(IndexType)
    assert len(set(INDEXES.values())) == len(INDEXES), "each differs from the others"


def test_a_write_has_the_index_that_its_options_name() -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    assert index_of(resolve_write(options)).hashed
    assert not index_of(resolve_write({})).hashed


def test_no_step_of_a_write_asks_for_an_index_by_its_name() -> None:
    assert [p.name for p in WRITES.rglob("*.py") if "IndexType" in p.read_text()] == []
