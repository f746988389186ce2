"""What SQL calls: services by one question, and what the questions of others say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CalledService(Enum):
    """A service by the name of its procedure."""

    ARCHIVE = "archive"
    CLEAN = "clean"
    CLUSTER = "cluster"
    DOCTOR = "doctor"
    REMOVE_ORPHANS = "remove_orphans"
    RUN_COMPACTION = "run_compaction"
    RUN_SERVICES = "run_services"
    SHOW_COMPACTION = "show_compaction"


@dataclass(frozen=True, slots=True)
class ServiceArguments:
    """The further arguments of a call; None for one that was not given, or is another service's.

    ``services`` and ``instants`` are separated by commas. The others mean what they mean in Python.
    """

    budget_s: float | None
    forget_lost: bool | None
    instants: str | None
    max_bytes: int | None
    max_cpu_minutes: float | None
    max_files: int | None
    max_instants: int | None
    older_than_hours: float | None
    op: str | None
    read_files: bool | None
    services: str | None


@dataclass(frozen=True, slots=True)
class CleanFailedWrites:
    """Whether to only list what would be rolled back."""

    dry_run: bool


@dataclass(frozen=True, slots=True)
class MakeSavepoint:
    """The commit to keep, None for the newest, and why."""

    instant: str | None
    comment: str


@dataclass(frozen=True, slots=True)
class DropSavepoint:
    """The commit whose savepoint is deleted."""

    instant: str


@dataclass(frozen=True, slots=True)
class PutBack:
    """The bin of the repair that is undone."""

    name: str
