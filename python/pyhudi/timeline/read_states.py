"""A state of a table that was read once, among the commits that came after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi.format.instants import Instant, InstantTime, State
from pyhudi.timeline.active import Timeline, instant_key
from pyhudi.timeline.states import COMMIT_ACTIONS


@dataclass(frozen=True, slots=True)
class ReadState:
    """The newest visible instant, the timeline's layout, and the last completion among commits.

    In layout 1 ``last`` is a modification time in milliseconds, as a text (``completed``).
    """

    instant: InstantTime
    layout: int
    last: str

    def on(self, timeline: Timeline) -> Timeline:
        """``timeline`` without commits that completed later though they began before.

        Later instants stay, since the state's own instant excludes them. After a change of the
        layout, times cannot be compared, and nothing is left out.
        """
        if timeline.layout != self.layout:
            return timeline

        def then(instant: Instant) -> Instant:
            late = (
                instant.action in COMMIT_ACTIONS
                and instant.state is State.COMPLETED
                and instant.time <= self.instant
                and completed(timeline, instant) > self.last
            )
            return replace(instant, state=State.INFLIGHT, completion_time=None) if late else instant

        return timeline.only(map(then, timeline.instants))


def completed(timeline: Timeline, commit: Instant) -> str:
    """The completion time of a commit, as a text to compare with others of the same layout.

    Layout 1 has no such times, so the storage's modification time is used. In layout 2 a commit
    without one comes from before an upgrade, and is older than all others.
    """
    if timeline.layout == 1:
        return f"{timeline.modified_ms[instant_key(commit)]:015d}"
    return commit.completion_time or ""
