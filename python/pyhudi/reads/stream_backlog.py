"""What a stream has not read yet, for its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.format.instants import InstantTime, parse_time
from pyhudi.reads.stream_admission import Load
from pyhudi.reads.stream_look import StreamLook
from pyhudi.reads.stream_offsets import Offset, StreamOffset

#: unread commits whose metadata is read for their rows and bytes; of more these are the least
LOOKED_AT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Backlog:
    """Commits that lie ahead, their changed rows and the bytes of their files.

    ``age_ms`` is how long ago the oldest of them completed, 0 if there is none. Rows and bytes of
    the first state count as well; ``rows`` and ``size_bytes`` are those of the first thousand
    commits at most. Commits that wait for the pending write ``waits_for`` count as commits alone.
    """

    commits: int = 0
    rows: int = 0
    size_bytes: int = 0
    age_ms: int = 0
    waits_for: InstantTime | None = None

    def metrics(self) -> dict[str, str]:
        """By the names that Spark shows in a query's progress."""
        return {
            "backlogCommits": str(self.commits),
            "backlogRows": str(self.rows),
            "backlogBytes": str(self.size_bytes),
            "backlogAgeMs": str(self.age_ms),
            **({} if self.waits_for is None else {"waitsFor": str(self.waits_for)}),
        }


def backlog_of(look: StreamLook, place: Offset, rest: Load, now_ms: int) -> Backlog:
    """What lies behind ``place``; ``rest`` is what is left of the first state."""
    if not isinstance(place, StreamOffset):
        return Backlog()
    partly = not place.whole and place.snapshot is None
    begin = place.at if not partly else look.before(place.at) or InstantTime("")
    steps = look.between(begin)
    held = [step for step in look.held if step.at > begin]
    load = rest
    for step in steps[:LOOKED_AT]:
        ahead = look.ahead(step)
        done = (place.files or 0) if partly and step.at == place.at else 0
        load = sum(ahead.files[done:], load)
    ahead_of = (*steps, *held)
    oldest = place.at if not place.whole else (ahead_of[0].at if ahead_of else None)
    age_ms = max(0, now_ms - parse_time(oldest, look.table.config.utc)) if oldest else 0
    commits = sum(len(step.commits) for step in ahead_of)
    return Backlog(commits, load.rows, load.size_bytes, age_ms, look.waits_for)
