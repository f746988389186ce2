"""The services that SQL calls by one question: a table, options, and whether only to look."""

from __future__ import annotations

from enum import Enum


class CalledService(Enum):
    """A service by the name of its procedure."""

    ARCHIVE = "archive"
    CLEAN = "clean"
    CLUSTER = "cluster"
    REMOVE_ORPHANS = "remove_orphans"
