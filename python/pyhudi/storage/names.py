"""Files beside a table's files that are not part of the table.

Hadoop's local file system keeps a checksum of ``name`` in ``.name.crc`` and verifies it on each
read (spec/other_files.md O3). pyhudi writes a file under a temporary name before it gets its real
name. Hudi ignores hidden files with an unknown extension, and so do pyhudi's listings.
"""

from __future__ import annotations

from typing import Final

TEMPORARY_PREFIX: Final = ".pyhudi-tmp-"
#: the largest number of temporary files that one storage remembers
MOST_PASSED: Final = 1_000


def crc_neighbour(name: str) -> str:
    """The name of the file in which Hadoop keeps the checksum of ``name``."""
    return f".{name}.crc"


def is_listed(name: str) -> bool:
    """Whether a listing shows the file ``name``: no checksum, and no temporary file of pyhudi."""
    return not (
        (name.startswith(".") and name.endswith(".crc")) or name.startswith(TEMPORARY_PREFIX)
    )
