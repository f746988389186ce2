"""``integration.peers.worker`` for pyhudi, which also notes how long tasks wait for markers.

Each request for markers (``ServedMarkers``) or empty file (direct markers) adds its seconds to a
file of its process in the folder that ``MARKER_TIMES`` names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.peers import worker
from pyhudi.rows.announce import ServedMarkers
from pyhudi.rows.base_file import TableFiles

FOLDER = "MARKER_TIMES"


def timed(method: Callable[..., Any], folder: str) -> Callable[..., Any]:
    """``method``, its wall seconds appended to a file of this process."""

    def run(*args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return method(*args)
        finally:
            taken = time.perf_counter() - begin
            with open(f"{folder}/{os.getpid()}", "a") as file:
                file.write(f"{taken}\n")

    return run


def waited(folder: Path) -> tuple[int, float]:
    """How often tasks asked, and the sum of the seconds that they waited; the notes are dropped."""
    seconds = []
    for file in folder.iterdir():
        seconds += [float(line) for line in file.read_text().split()]
        file.unlink()
    return len(seconds), sum(seconds)


def main() -> None:
    """Patch what asks for markers, then serve as the worker does."""
    folder = os.environ[FOLDER]
    ServedMarkers._ask = timed(ServedMarkers._ask, folder)  # type: ignore[method-assign]
    TableFiles._put_marker = timed(TableFiles._put_marker, folder)  # type: ignore[method-assign]
    worker.main()


if __name__ == "__main__":
    main()
