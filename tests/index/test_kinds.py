"""The facts by which the steps of a write know an index."""

from __future__ import annotations

from pathlib import Path

import pyhudi
from pyhudi.choices import IndexType
from pyhudi.config import resolve_write
from pyhudi.index.kinds import KINDS, kind_of
from pyhudi.writes.placement.indexes import INDEXES

WRITES = Path(str(pyhudi.__file__)).parent / "writes"


def test_each_index_has_its_row_of_facts() -> None:
    assert set(KINDS) == set(IndexType)
    assert len(set(KINDS.values())) == len(KINDS), "each differs from the others"


def test_a_write_has_the_index_that_its_options_name() -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
    assert kind_of(resolve_write(options)).hashed
    assert not kind_of(resolve_write({})).hashed


def test_each_index_has_its_class() -> None:
    assert set(INDEXES) == set(IndexType)
    assert len({type(index) for index in INDEXES.values()}) == len(IndexType)


def test_no_step_of_a_write_asks_for_an_index_by_its_name() -> None:
    found = [path.name for path in WRITES.rglob("*.py") if "IndexType" in path.read_text()]
    assert found == ["indexes.py"]
