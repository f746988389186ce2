"""Scan plans: which files a query reads, in which schema each was written, and which rows count.

A plan comes from one state of the table, that of its query (``reads/scan.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyhudi.application.handed_files import FILES
from pyhudi.reads.conditions import Filter
from pyhudi.reads.log_slices import Elsewhere, home_of, masks, merges, passing, shown_root
from pyhudi.reads.scan import Query, changed
from pyhudi.rows.log_spec import Merged
from pyhudi.slices.files import BaseFile, FileSlice

#: longer plans go to the JVM as an Arrow file
INLINE_FILES = 500


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The files of a scan: inline, or for a long plan in an Arrow file, which the reader deletes.

    A file is its path, size in bytes, number of rows or -1, and the number of its schema.
    ``pruned`` counts the files of the state that are left out. ``log_rows``, which may pass the
    filters, come from log files of ``log_bytes``, by another question; ``log_homes`` has a file of
    each of their slices, if that was asked. In the Arrow file ``masked`` has the positions of rows
    that do not count, as little-endian 32-bit numbers, or null.
    """

    schemas: tuple[Mapping[str, Any], ...]
    pruned: int
    log_rows: int = 0
    log_homes: tuple[str, ...] = ()
    files: tuple[tuple[str, int, int, int], ...] | None = None
    arrow_file: str | None = None
    log_bytes: int = 0


def plan_scan(
    query: Query,
    filters: Sequence[Filter],
    taken: Sequence[Filter] = (),
    limit: int | None = None,
    narrowed: Callable[[Sequence[FileSlice]], Sequence[FileSlice]] | None = None,
    elsewhere: Elsewhere | None = None,
    homes: bool = False,
) -> ScanPlan:
    """The files of a scan with the physical schemas they were written in.

    Spark evaluates ``filters`` on the rows, but not ``taken``: partitions have decided them.
    ``HistoryExpired`` if they have not, since the state in which they were taken is gone.
    ``narrowed`` says which of the slices that partitions leave are read. Many logs are merged
    ``elsewhere``. ``homes`` asks for the ``log_homes``.
    """
    every = [*taken, *filters]
    kept = query.slices(every)
    chosen = narrowed(kept) if narrowed else kept
    files = query.view().with_rows([each.base for each in chosen if each.base is not None])
    with_logs = [each for each in chosen if each.logs]
    found_merges = merges(query, with_logs, elsewhere) if with_logs else {}
    masked = masks(found_merges, with_logs)
    asked = () if narrowed else filters  # rows of logs are not asked for by what joins tell
    left = passing(query, with_logs, asked, elsewhere) if with_logs else {}
    log_rows = sum(len(kept) for parts in left.values() for kept in parts)
    log_bytes = sum(log.size_bytes for each in with_logs for log in each.logs)
    if masked:
        files = [_less(file, masked.get(file.path)) for file in files]
    if taken and not all(query.decided(every)[: len(taken)]):
        raise changed(query)
    if query.rows is not None:  # their number is not that of the changed rows
        files = [replace(file, rows=-1) for file in files]
    elif limit is not None and not filters:
        files = _enough(files, limit)
    schemas = query.file_schemas()
    numbers = schemas.numbers(files, query.schema())
    meta = query.table.config.populate_meta_fields
    found = tuple((s.with_meta_columns() if meta else s).json() for s in schemas.found)
    start = shown_root(query)
    homes_found = tuple(f"{start}/{home_of(each)}" for each in with_logs) if homes else ()
    pruned = query.pruned(every) + sum(each.base is not None for each in kept) - len(files)
    if len(files) > INLINE_FILES or masked:
        arrow_file = _arrow_file(start, files, numbers, masked)
        return ScanPlan(
            found, pruned, log_rows, homes_found, arrow_file=arrow_file, log_bytes=log_bytes
        )
    rows = (
        (f"{start}/{f.path}", f.size_bytes, f.rows, n) for f, n in zip(files, numbers, strict=True)
    )
    return ScanPlan(found, pruned, log_rows, homes_found, files=tuple(rows), log_bytes=log_bytes)


def _less(file: BaseFile, merged: Merged | None) -> BaseFile:
    """A file whose masked rows do not count."""
    if merged is None or file.rows < 0:
        return file
    return replace(file, rows=max(0, file.rows - len(merged.masked)))


def _enough(files: Sequence[BaseFile], limit: int) -> list[BaseFile]:
    """The first files whose known rows reach ``limit``."""
    found, rows = [], 0
    for file in files:
        found.append(file)
        rows += max(0, file.rows)
        if rows >= limit:
            break
    return found


def _arrow_file(
    start: str,
    files: Sequence[BaseFile],
    numbers: Sequence[int],
    masked: Mapping[str, Merged],
) -> str:
    """The plan as a file of ``FILES``."""
    table = pa.table(
        {
            "path": pa.array([f"{start}/{f.path}" for f in files], pa.string()),
            "size": pa.array([f.size_bytes for f in files], pa.int64()),
            "rows": pa.array([f.rows for f in files], pa.int64()),
            "schema": pa.array(numbers, pa.int32()),
            "masked": pa.array([_positions(masked.get(f.path)) for f in files], pa.binary()),
        }
    )
    return FILES.make("plan", table)


def _positions(merged: Merged | None) -> bytes | None:
    return None if merged is None else merged.masked.astype("<i4").tobytes()
