"""Base files that are missing or cut off when a worker reads them.

It is sent by value. The driver judges the worker's error again: it knows whether the file still
counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from pyhudi.errors import TableCorrupt


@contextmanager
def readable(path: str) -> Iterator[None]:
    """``TableCorrupt`` if the base file at ``path`` is missing or not a whole Parquet file."""
    try:
        yield
    except FileNotFoundError as error:
        raise damaged(path, "is not there") from error
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise damaged(path, f"is not a whole Parquet file ({reason})") from error


def damaged(path: str, fault: str) -> TableCorrupt:
    """The worker's error, before the driver has judged it."""
    return TableCorrupt(
        f"The data file {path} {fault}. Nothing was committed. Restore the file from a copy, "
        "or set the table back to a savepoint or an earlier commit with Apache Hudi.",
        path=path,
        rule="spec/data_files.md D2",
    )
