"""Apache Hudi undoing completed commits, step by step, as runs of version 1.2.0 were seen to do it.

``CALL rollback_to_instant`` requests a rollback, deletes the completed file of its target, then the
data files, then the target's other files, and completes. ``CALL rollback_to_savepoint`` does the
same for each commit after the savepoint within a restore, but completes the restore alone: the
rollbacks stay pending until then and are deleted. Versions 6, 8 and 9 are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyhudi.format.filenames import parse_base_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import (
    InstantInfo,
    RestoreMetadata,
    RestorePlan,
    RollbackMetadata,
    RollbackPlan,
    render_restore_metadata,
    render_restore_plan,
    render_rollback_metadata,
    render_rollback_plan,
)
from pyhudi.timeline.table import Table

Step = Callable[[], None]
FIRST = InstantTime("20231114231320000")


@dataclass(frozen=True)
class Undoing:
    """What runs on ``table``; the times of its own instants begin at ``first``."""

    table: Table
    first: InstantTime = FIRST

    def rollback(self, target: InstantTime) -> Iterator[Step]:
        """``rollback_to_instant``."""
        yield from self._roll_back(self.first, target)
        metadata = RollbackMetadata(self.first, 1, 1, (target,), {}, (_info(target),))
        yield self._put(
            self.first, Action.ROLLBACK, State.COMPLETED, render_rollback_metadata(metadata)
        )

    def restore(self, saved: InstantTime, targets: list[InstantTime]) -> Iterator[Step]:
        """``rollback_to_savepoint``; ``targets`` are the commits after it, newest first."""
        plan = RestorePlan(tuple(map(_info, targets)), saved)
        yield self._put(self.first, Action.RESTORE, State.REQUESTED, render_restore_plan(plan))
        yield self._put(self.first, Action.RESTORE, State.INFLIGHT)
        own = [InstantTime(str(int(self.first) + n)) for n in range(1, len(targets) + 1)]
        for time, target in zip(own, targets, strict=True):
            yield from self._roll_back(time, target)
        metadata = RestoreMetadata(self.first, 1, tuple(targets), {})
        yield self._put(
            self.first, Action.RESTORE, State.COMPLETED, render_restore_metadata(metadata)
        )
        for time in own:
            for state in (State.INFLIGHT, State.REQUESTED):
                yield self._delete(time, Action.ROLLBACK, state)

    def _roll_back(self, time: InstantTime, target: InstantTime) -> Iterator[Step]:
        plan = render_rollback_plan(RollbackPlan(_info(target)))
        yield self._put(time, Action.ROLLBACK, State.REQUESTED, plan)
        yield self._put(time, Action.ROLLBACK, State.INFLIGHT)
        yield lambda: self._uncomplete(target)
        yield lambda: self.table.storage.delete(self._data_files(target))
        yield self._delete(target, Action.COMMIT, State.INFLIGHT)
        yield self._delete(target, Action.COMMIT, State.REQUESTED)

    def _uncomplete(self, target: InstantTime) -> None:
        timeline = self.table.timeline()
        done = [i for i in timeline.at(target) if i.action is not Action.SAVEPOINT]
        self.table.storage.delete([timeline.file_of(i) for i in done])

    def _data_files(self, target: InstantTime) -> list[str]:
        named = [(f.path, parse_base_file_name(f.name)) for f in self.table.storage.walk("")]
        return [path for path, name in named if name is not None and name.instant == target]

    def _put(self, time: InstantTime, action: Action, state: State, data: bytes = b"") -> Step:
        return lambda: self.table.storage.put_if_absent(self._path(time, action, state), data)

    def _delete(self, time: InstantTime, action: Action, state: State) -> Step:
        return lambda: self.table.storage.delete([self._path(time, action, state)])

    def _path(self, time: InstantTime, action: Action, state: State) -> str:
        config = self.table.config
        ends = config.layout == 2 and state is State.COMPLETED
        completion = InstantTime(str(int(time) + 500)) if ends else None
        name = instant_file_name(Instant(time, action, state, completion), config.layout)
        return f"{config.timeline_folder}/{name}"


def _info(target: InstantTime) -> InstantInfo:
    return InstantInfo(target, "commit")
