"""Whether a table's writers place rows by buckets: no property of the table says so.

Rules: spec/keys.md K6. Consistent hashing keeps the ranges of its buckets beside the timeline.
"""

from __future__ import annotations

from typing import Final

from pyhudi.format.filenames import bucket_number
from pyhudi.storage.base import Storage
from pyhudi.timeline.view import FileSystemView

#: random file ids begin with digits by chance; with a number below this and in every file, hardly
PLAUSIBLE_BUCKETS: Final = 4096
BUCKETS: Final = ".hoodie/.bucket_index"
CONSISTENT_HASHING: Final = f"{BUCKETS}/consistent_hashing_metadata"
PARTITION_BUCKETS: Final = f"{BUCKETS}/partition_bucket_index_meta"


def named_for_buckets(view: FileSystemView) -> bool:
    """Whether the table has file groups, and all have names of buckets."""
    held = (*view.groups.values(), *view.logs.values())
    numbers = (bucket_number(file_id) for groups in held for file_id in groups)
    # One ordinary name is enough, so this ends at the first file of nearly every table.
    return any(held) and all(n is not None and n < PLAUSIBLE_BUCKETS for n in numbers)


def has_buckets(storage: Storage, view: FileSystemView) -> bool:
    """Whether the hash of a key names its file group, by either kind of Apache Hudi's buckets."""
    return named_for_buckets(view) or unserved_buckets(storage) is not None


def unserved_buckets(storage: Storage) -> str | None:
    """What a table has of buckets that pyhudi cannot fill; None if it can."""
    folders = storage.list_folders(BUCKETS)
    if CONSISTENT_HASHING in folders:
        return "the consistent hashing bucket index"
    if PARTITION_BUCKETS in folders:
        return "a bucket index with numbers of buckets by partition"
    return None
