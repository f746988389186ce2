"""What each index means for the steps of a write: a row of facts for each kind.

A step asks for the fact that it needs, so a new index is a new row and the code of its own facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.choices import IndexType
from pyhudi.config import WriteOptions


@dataclass(frozen=True, slots=True)
class Index:
    """The facts of an index.

    ``everywhere``: a key has one place in the whole table, instead of one in each partition.
    ``hashed``: the hash of a key names its file group, and nothing is looked up.
    ``filtered``: base files carry Bloom filters of their keys, which a lookup asks first.
    """

    everywhere: bool = False
    hashed: bool = False
    filtered: bool = False


INDEXES: Final[Mapping[IndexType, Index]] = {
    IndexType.SIMPLE: Index(),
    IndexType.GLOBAL_SIMPLE: Index(everywhere=True),
    IndexType.BLOOM: Index(filtered=True),
    IndexType.BUCKET: Index(hashed=True),
}


def index_of(options: WriteOptions) -> Index:
    """The index that a write's options name."""
    return INDEXES[options.index_type]
