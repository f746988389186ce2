"""Base files that are gone or cut off by the time a worker reads them.

Travels by value. What a worker says is judged once more in the driver, which knows whether the
file still counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from pyhudi.errors import TableCorrupt


@contextmanager
def readable(path: str) -> Iterator[None]:
    """``TableCorrupt`` where the base file at ``path`` is not there or is no whole Parquet file."""
    try:
        yield
    except FileNotFoundError as error:
        raise damaged(path, "is not there") from error
    except pa.ArrowInvalid as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise damaged(path, f"is no whole Parquet file ({reason})") from error


def damaged(path: str, fault: str) -> TableCorrupt:
    """The error of a worker, before the driver has judged it."""
    return TableCorrupt(
        f"The data file {path} {fault}. Nothing was committed. Bring the file back from a copy, "
        "or set the table back to a savepoint or an earlier commit with Apache Hudi.",
        path=path,
        rule="spec/data_files.md D2",
    )
