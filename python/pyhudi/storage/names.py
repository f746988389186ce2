"""Names that live beside a table's files without being part of the table.

Hadoop's local file system keeps a checksum of ``name`` in ``.name.crc`` and verifies it on each
read (spec/other_files.md O3); pyhudi builds a file under a temporary name before it gets its real
one. Hudi ignores hidden names of unknown extension, and so do our listings.
"""

from __future__ import annotations

from typing import Final

TEMPORARY_PREFIX: Final = ".pyhudi-tmp-"
#: temporary files that one storage remembers to have passed over
MOST_PASSED: Final = 1_000


def crc_neighbour(name: str) -> str:
    """The name of the file in which Hadoop keeps the checksum of ``name``."""
    return f".{name}.crc"


def is_listed(name: str) -> bool:
    """Whether a listing shows the file ``name``: neither a checksum nor one of our temporaries."""
    return not (
        (name.startswith(".") and name.endswith(".crc")) or name.startswith(TEMPORARY_PREFIX)
    )
