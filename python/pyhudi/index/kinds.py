"""The facts of each kind of index for the steps of a write.

A step asks for the fact that it needs, so a new index is a new row and the code for its facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.choices import IndexType
from pyhudi.config import WriteOptions


@dataclass(frozen=True, slots=True)
class IndexKind:
    """The facts of a kind of index.

    ``everywhere``: a key has one place in the whole table, instead of one in each partition.
    ``hashed``: the hash of a key names its file group, and nothing is looked up.
    ``filtered``: base files carry Bloom filters of their keys, which a lookup asks first.
    """

    everywhere: bool = False
    hashed: bool = False
    filtered: bool = False


KINDS: Final[Mapping[IndexType, IndexKind]] = {
    IndexType.SIMPLE: IndexKind(),
    IndexType.GLOBAL_SIMPLE: IndexKind(everywhere=True),
    IndexType.BLOOM: IndexKind(filtered=True),
    IndexType.GLOBAL_BLOOM: IndexKind(everywhere=True, filtered=True),
    IndexType.BUCKET: IndexKind(hashed=True),
}


def kind_of(options: WriteOptions) -> IndexKind:
    """The kind of index in a write's options."""
    return KINDS[options.index_type]


def rows_move(options: WriteOptions) -> bool:
    """Whether a global index moves a row whose partition changed; each kind has its own option."""
    if kind_of(options).filtered:
        return options.bloom_update_partition_path
    return options.update_partition_path
