"""Apache Hudi's upgrade of a table from version 6 to 9, which any of its writers does by default.

Under the lock. Each file of the timeline is moved into the new folder, completed ones with the time
of their last change as completion time; then the properties are changed, in four steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pyhudi.format.commit_metadata import parse_commit, render_commit
from pyhudi.format.instants import Instant, State, format_time, instant_file_name, parse_instant
from pyhudi.format.properties import parse_properties, render_properties
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.timeline.table import BACKUP, PROPERTIES
from tests.simulation.hudi_services import HudiService
from tests.simulation.hudi_steps import Steps

NEW_FOLDER = ".hoodie/timeline"
NEW = {
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}


@dataclass(frozen=True, slots=True)
class HudiUpgrade(HudiService):
    """Upgrade the table, where it is one of version 6."""

    moves: ClassVar[bool] = True

    def start(self, steps: Steps) -> None:
        with steps.lock():
            if steps.table.config.layout == 1:
                self._move(steps)
                self._change(steps)

    def _move(self, steps: Steps) -> None:
        storage, config = steps.machine.storage, steps.table.config
        for file in storage.list(config.timeline_folder):
            old = parse_instant(file.name, 1)
            if old is None:
                continue
            data, new = storage.read(file.path), old
            if old.state is State.COMPLETED:
                completion = format_time(file.modified_ms, config.utc)
                new = replace(old, completion_time=completion)
                if old.action in COMMIT_ACTIONS:
                    data = render_commit(parse_commit(data, file.path), 2)
            self._put(steps, new, data)
            storage.delete([file.path])

    def _put(self, steps: Steps, instant: Instant, data: bytes) -> None:
        path = f"{NEW_FOLDER}/{instant_file_name(instant, 2)}"
        steps.machine.storage.replace(path, data)

    def _change(self, steps: Steps) -> None:
        storage = steps.machine.storage
        old = storage.read(PROPERTIES)
        new = render_properties(parse_properties(old, PROPERTIES) | NEW)
        storage.put_if_absent(BACKUP, old)
        storage.delete([PROPERTIES])
        storage.put_if_absent(PROPERTIES, new)
        storage.delete([BACKUP])
