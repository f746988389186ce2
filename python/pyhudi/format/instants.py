"""Instants: the entries of the timeline, their file names and their times.

Rules: spec/timeline.md T2, T3.

The names are a table, easy to compare with spec/timeline.md T2. In both layouts a name has action
and state, with three exceptions: a completed compaction has the name of a commit, a completed log
compaction that of a delta commit, and a clustering that of a replace commit (in layout 1 already
its requested file).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import lru_cache
from typing import NewType

from pyhudi.errors import ConfigError

InstantTime = NewType("InstantTime", str)


class Action(str, Enum):
    """The action of an instant."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"


class State(str, Enum):
    """The state of an instant."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Instant:
    """One timeline entry in one state.

    ``completion_time`` is set only for completed instants of layout 2; layout 1 has none. A
    completed file of layout 2 without one comes from before an upgrade; its modification time is
    used instead.
    """

    time: InstantTime
    action: Action
    state: State
    completion_time: InstantTime | None = None


# (requested, inflight, completed) suffixes; None: the state has no file.
_COMMON: dict[Action, tuple[str | None, str, str]] = {
    Action.COMMIT: ("commit.requested", "inflight", "commit"),
    Action.DELTACOMMIT: ("deltacommit.requested", "deltacommit.inflight", "deltacommit"),
    Action.REPLACECOMMIT: ("replacecommit.requested", "replacecommit.inflight", "replacecommit"),
    Action.CLUSTERING: ("clustering.requested", "clustering.inflight", "replacecommit"),
    Action.COMPACTION: ("compaction.requested", "compaction.inflight", "commit"),
    Action.LOGCOMPACTION: ("logcompaction.requested", "logcompaction.inflight", "deltacommit"),
    Action.CLEAN: ("clean.requested", "clean.inflight", "clean"),
    Action.ROLLBACK: ("rollback.requested", "rollback.inflight", "rollback"),
    Action.RESTORE: ("restore.requested", "restore.inflight", "restore"),
    Action.SAVEPOINT: (None, "savepoint.inflight", "savepoint"),
    Action.INDEXING: ("indexing.requested", "indexing.inflight", "indexing"),
    Action.SCHEMACOMMIT: ("schemacommit.requested", "schemacommit.inflight", "schemacommit"),
}
_STATES = (State.REQUESTED, State.INFLIGHT, State.COMPLETED)

NAMES: dict[int, dict[Action, tuple[str | None, str, str]]] = {
    1: {**_COMMON, Action.CLUSTERING: _COMMON[Action.REPLACECOMMIT]},
    2: _COMMON,
}


def _readings(layout: int) -> dict[str, tuple[Action, State]]:
    """Suffix -> action and state; if two actions share a suffix, the plain action is used."""
    readings: dict[str, tuple[Action, State]] = {}
    for action, suffixes in NAMES[layout].items():
        for state, suffix in zip(_STATES, suffixes, strict=True):
            if suffix is not None:
                readings.setdefault(suffix, (action, state))
    return readings


_READINGS = {layout: _readings(layout) for layout in NAMES}
_NAME = re.compile(r"(\d{14,20})(?:_(\d{14,20}))?\.([a-z]+(?:\.[a-z]+)?)", re.ASCII)


@lru_cache(maxsize=100_000)  # a timeline is listed again and again, with the same names
def parse_instant(file_name: str, layout: int) -> Instant | None:
    """The instant of a file in the timeline folder (spec/timeline.md T2).

    ``None`` for other names: temporary files, checksums, folders. Completed compactions are
    ``COMMIT``, log compactions ``DELTACOMMIT``, clusterings ``REPLACECOMMIT``: only their requested
    file shows what they are.
    """
    found = _NAME.fullmatch(file_name)
    if found is None:
        return None
    time, completion, suffix = found.groups()
    reading = _READINGS[layout].get(suffix)
    if reading is None:
        return None
    action, state = reading
    if completion is None:
        return Instant(InstantTime(time), action, state)
    if layout == 1 or state is not State.COMPLETED:
        return None
    return Instant(InstantTime(time), action, state, InstantTime(completion))


def instant_file_name(instant: Instant, layout: int) -> str:
    """The file name of an instant in its state.

    ``ValueError`` if the format has no such file: a requested savepoint, or a completed instant of
    layout 2 without its completion time.
    """
    suffix = NAMES[layout][instant.action][_STATES.index(instant.state)]
    if suffix is None:
        raise ValueError(f"{instant.action.value} has no {instant.state.value} file")
    if layout == 1 or instant.state is not State.COMPLETED:
        return f"{instant.time}.{suffix}"
    if instant.completion_time is None:
        raise ValueError(f"completed instant {instant.time} lacks its completion time")
    return f"{instant.time}_{instant.completion_time}.{suffix}"


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECONDS_ONLY = 14
_WITH_MILLIS = 17


def format_time(epoch_ms: int, utc: bool) -> InstantTime:
    """The 17-digit time of ``epoch_ms``, in UTC or in this machine's zone (spec/timeline.md T3).

    ``ConfigError`` outside the years 1 to 9999, for which it has digits.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=epoch_ms)
        return _digits(moment if utc else moment.astimezone())
    except (OverflowError, ValueError) as e:
        raise ConfigError(
            f"{epoch_ms} milliseconds since 1970 is a time outside the years 1 to 9999, so no "
            "instant can have it. Choose another time.",
            key="as.of.instant",
        ) from e


def _digits(moment: datetime) -> InstantTime:
    return InstantTime(
        f"{moment.year:04d}{moment.month:02d}{moment.day:02d}{moment.hour:02d}"
        f"{moment.minute:02d}{moment.second:02d}{moment.microsecond // 1000:03d}"
    )


def parse_time(time: InstantTime, utc: bool) -> int:
    """Milliseconds since the epoch; 14 digits mean the end of that second (``.999``).

    Hudi's special instants, which begin with 0000, give 0. ``ValueError`` if it is not a date.
    """
    if time.startswith("0000"):
        return 0
    padded = padded_time(time)[:_WITH_MILLIS]
    if len(padded) != _WITH_MILLIS or not padded.isdecimal():
        raise ValueError(f"'{time}' is not an instant time")
    try:
        moment = datetime.strptime(padded[:_SECONDS_ONLY], "%Y%m%d%H%M%S")
    except ValueError as cause:
        raise ValueError(f"'{time}' is not an instant time") from cause
    moment = moment.replace(tzinfo=timezone.utc) if utc else moment.astimezone()
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int(padded[_SECONDS_ONLY:])


def moment_of(time: InstantTime, utc: bool) -> datetime:
    """An instant time with its zone: UTC, else that of this machine; errors of ``parse_time``."""
    moment = _EPOCH + timedelta(milliseconds=parse_time(time, utc))
    return moment if utc else moment.astimezone()


def padded_time(time: str) -> InstantTime:
    """A time that can be compared as text: 14 digits get ``999`` (spec/timeline.md T3)."""
    return InstantTime(time + "999" if len(time) == _SECONDS_ONLY else time)


_AS_OF = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?\s?(Z|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)


def parse_as_of(text: str, utc: bool, key: str = "as.of.instant") -> InstantTime:
    """The instant time for ``as.of.instant``; a query sees instants at or before it.

    Accepts Hudi's forms (17 or 14 digits, ``yyyy-MM-dd``, ``yyyy-MM-dd HH:mm:ss[.SSS]``) and ISO
    times with ``T`` and an offset. A date means its first millisecond, a time without fraction
    the last millisecond of its second, as in Hudi. Without an offset a time is in the table's zone.
    ``ConfigError`` for other text and for dates that do not exist; it names the option ``key``.
    """
    cleaned = text.strip()
    try:
        if re.fullmatch(r"\d{14}|\d{17}", cleaned, re.ASCII):
            parse_time(InstantTime(cleaned), utc)
            return padded_time(cleaned)
        found = _AS_OF.fullmatch(cleaned)
        if found is not None:
            return _from_calendar(found, utc)
    except (ValueError, OverflowError):
        pass
    raise ConfigError(
        f"'{text}' is not a point in time. Give {key} as yyyyMMddHHmmssSSS, "
        "yyyyMMddHHmmss, yyyy-MM-dd, 'yyyy-MM-dd HH:mm:ss[.SSS]' or an ISO time.",
        key=key,
        value=text,
    )


def _from_calendar(found: re.Match[str], utc: bool) -> InstantTime:
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    moment = datetime(
        int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0)
    )
    if hour is None:
        return _digits(moment)
    millis = 999 if fraction is None else int(fraction[:3].ljust(3, "0"))
    moment = moment.replace(microsecond=millis * 1000)
    if offset is None:
        return _digits(moment)
    zone = timezone.utc if offset == "Z" else datetime.strptime(offset, "%z").tzinfo
    moment = moment.replace(tzinfo=zone)
    return _digits(moment.astimezone(timezone.utc) if utc else moment.astimezone())
