"""How a task puts a data file: its marker first, then the file under a token of its own."""

from __future__ import annotations

from collections.abc import Callable

from pyhudi.clock import Clock
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.storage.base import Storage

#: has the marker of a data file on storage
Mark = Callable[[str, MarkerKind], None]


def token_of(clock: Clock) -> str:
    """A write token that no other task has."""
    return f"0-{clock.random_int(1_000_000)}-0"


def put_marked(
    time: InstantTime,
    storage: Storage,
    path: str,
    kind: MarkerKind,
    data: bytes,
    mark: Mark | None = None,
) -> None:
    """A data file after its marker."""
    if mark is not None:
        mark(path, kind)
    else:
        storage.put_if_absent(marker_path(time, path, kind), b"")
    storage.put_if_absent(path, data)
