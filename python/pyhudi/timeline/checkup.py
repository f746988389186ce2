"""What is wrong with a table, and what waits in it: read from its timeline, listing and files.

Nothing is changed. A finding says what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.errors import HudiError
from pyhudi.format.instants import Instant
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import Table
from pyhudi.timeline.view import VIEWS


class Severity(str, Enum):
    #: rows cannot be read, or are lost
    ERROR = "error"
    #: all rows are there
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that an operator should know; ``about`` is an instant, or a file's path."""

    severity: Severity
    about: str
    what: str


def findings(table: Table, read_files: bool = False) -> Iterator[Finding]:
    """What there is to tell of ``table``: broken commits, lost files, writes that are pending.

    ``read_files`` also reads each base file of the newest snapshot and counts its rows.
    """
    timeline = table.timeline()
    for instant in timeline.commits:
        if instant.action in COMMIT_ACTIONS:
            yield from _unreadable(table, timeline, instant)
    VIEWS.forget(table.storage)  # what was listed before may be gone
    try:
        files = table.now(lambda view: view.with_rows(view.latest()))
    except HudiError as e:
        yield Finding(Severity.ERROR, getattr(e, "path", None) or table.storage.root, str(e))
        files = []
    for file in files if read_files else ():
        yield from _broken(table, file)
    for instant in timeline.pending:
        yield Finding(
            Severity.NOTE,
            instant.time,
            f"A {instant.action.value} is {instant.state.value}: its writer is at work, or it is "
            "dead and the next writer rolls it back. pyhudi clean --failed-writes says which.",
        )


def _unreadable(table: Table, timeline: Timeline, instant: Instant) -> Iterator[Finding]:
    try:
        COMMITS.get(table.storage, timeline, instant)
    except HudiError as e:
        yield Finding(Severity.ERROR, instant.time, str(e))


def _broken(table: Table, file: BaseFile) -> Iterator[Finding]:
    try:
        rows = pq.read_metadata(pa.BufferReader(table.storage.read(file.path))).num_rows
    except (HudiError, OSError, pa.ArrowException) as e:
        text = f"The file cannot be read: {e}. Restore it from a backup, or roll its commit back."
        yield Finding(Severity.ERROR, file.path, text)
        return
    if file.rows >= 0 and rows != file.rows:
        yield Finding(
            Severity.ERROR,
            file.path,
            f"The file has {rows} rows, but its commit recorded {file.rows}. Somebody replaced it: "
            "restore it from a backup.",
        )
