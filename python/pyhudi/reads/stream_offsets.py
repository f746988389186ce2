"""Where a stream stands: the offsets that Spark keeps in its checkpoints.

Invariants: an offset means the same in every process and after every commit; offsets of one stream
ascend. Their text is JSON of one strict form, version 1: a key too many, a missing one or a value
of another type is an error, never a guess. Only ``commit`` and ``recent`` may be missing: such a
place names no commit, or none before it. Two offsets are the same place if their texts are equal.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pyhudi.choices import Order
from pyhudi.errors import ConfigError
from pyhudi.format.instants import InstantTime

VERSION: Final = 1
#: commits before its last one that a place names at most: their text is 1 KB of each checkpoint
RECENT: Final = 50
_KEYS: Final = frozenset({"version", "order", "at", "files", "snapshot"})
_TIME: Final = re.compile(r"|\d{17,20}", re.ASCII)
_INSTANT: Final = re.compile(r"\d{14,20}", re.ASCII)


class Beginning(str, Enum):
    """The place of a stream that has read nothing, and does not know a commit yet."""

    EARLIEST = "earliest"
    LATEST = "latest"

    def render(self) -> str:
        """The text for the checkpoint."""
        return json.dumps({"version": VERSION, "begin": self.value})


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """All commits up to the time ``at`` of ``order`` (``""``: none) have been read.

    With ``files`` only so many of the files of the commit at ``at``, and all commits before it.
    With ``snapshot``, a digest of the state after ``at``, the files are those of this state, and
    what came before ``at`` has been read by it. ``commit`` is the instant of the commit at ``at``,
    by which the table is known again; None for a time that a user gave. ``recent`` are commits that
    the stream has read before it and that were not archived yet, in the order of reading: at most
    the last ``RECENT``.
    """

    order: Order
    at: InstantTime
    files: int | None = None
    snapshot: str | None = None
    commit: InstantTime | None = None
    recent: tuple[InstantTime, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is left of what is at ``at``."""
        return self.files is None

    def render(self) -> str:
        """The text for the checkpoint."""
        return json.dumps(
            {
                "version": VERSION,
                "order": self.order.value,
                "at": self.at,
                "files": self.files,
                "snapshot": self.snapshot,
                **({} if self.commit is None else {"commit": self.commit}),
                **({"recent": list(self.recent)} if self.recent else {}),
            }
        )

    @property
    def rank(self) -> tuple[str, float]:
        """What ascends from batch to batch."""
        return self.at, float("inf") if self.files is None else self.files


Offset = Beginning | StreamOffset


def in_snapshot(start: Offset, end: StreamOffset) -> bool:
    """Whether a batch between two places reads files of the first state."""
    if isinstance(start, Beginning):
        return True
    return start.snapshot is not None and not start.whole and start.at == end.at


def just_before(at: InstantTime) -> InstantTime:
    """The greatest time below ``at``."""
    return InstantTime(f"{int(at) - 1:0{len(at)}}")


def parse_offset(text: str) -> Offset:
    """The offset of a checkpoint; ``ConfigError`` if another program wrote it, or another version.

    What Hudi's own source keeps is such a text, too: the two do not share checkpoints.
    """
    try:
        said = json.loads(text)
    except ValueError:
        raise _foreign(text, "it is no JSON") from None
    if not isinstance(said, dict):
        raise _foreign(text, "it is no object")
    if said.get("version") != VERSION:
        raise _foreign(text, f"its version is {said.get('version')!r}, not {VERSION}")
    if said.keys() == {"version", "begin"}:
        begins = [each for each in Beginning if each.value == said["begin"]]
        if not begins:
            raise _foreign(text, f"it begins at {said['begin']!r}")
        return begins[0]
    if said.keys() - {"commit", "recent"} != _KEYS:
        raise _foreign(text, f"its keys are {', '.join(sorted(said))}")
    orders = [each for each in Order if each.value == said["order"]]
    if not orders:
        raise _foreign(text, f"its order is {said['order']!r}")
    at, files, snapshot = said["at"], said["files"], said["snapshot"]
    if not isinstance(at, str) or not _TIME.fullmatch(at):
        raise _foreign(text, f"{at!r} is no time")
    if files is not None and not _is_count(files):
        raise _foreign(text, f"{files!r} is no number of files")
    if snapshot is not None and not isinstance(snapshot, str):
        raise _foreign(text, f"{snapshot!r} is no digest")
    known = _instant(text, said["commit"]) if "commit" in said else None
    recent = said.get("recent", [])
    if not isinstance(recent, list):
        raise _foreign(text, f"{recent!r} is no list of instants")
    named = tuple(_instant(text, each) for each in recent)
    return StreamOffset(orders[0], InstantTime(at), files, snapshot, known, named)


def _instant(text: str, value: Any) -> InstantTime:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise _foreign(text, f"{value!r} is no instant")
    return InstantTime(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _foreign(text: str, why: str) -> ConfigError:
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    return ConfigError(
        f"The checkpoint of this stream has the offset {shown}, which is not one of pyhudi: {why}. "
        "Nothing was read. Start the query with a checkpoint location of its own.",
        key="checkpointLocation",
        value=shown,
    )
