"""What a writer learns of logs that delete: each log is looked at once in a process.

A log does not change. So what a look at it has told is remembered by its path and its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from pyhudi.errors import HudiError
from pyhudi.format.log_blocks import BlockType, find_blocks
from pyhudi.recent import Recent
from pyhudi.rows.log_parts import DATA, LogPart
from pyhudi.rows.log_spec import MergeSpec
from pyhudi.rows.slice_merge import forced_deletes
from pyhudi.slices.files import FileSlice, LogFile
from pyhudi.timeline.active import COMMITS
from pyhudi.writes.write_context import Write

#: logs that are looked at together
THREADS: Final = 8
MOST_KNOWN: Final = 50_000


@dataclass(frozen=True, slots=True)
class _Question:
    """A question about the blocks of logs; ``known`` are answers by root, path and size of a log.

    A log that cannot be read is answered with True: its merge tells why.
    """

    is_so: Callable[[MergeSpec, LogPart], bool]
    known: Recent[tuple[str, str, int], bool]

    def ask(self, root: str, spec: MergeSpec, logs: Iterable[LogFile]) -> Mapping[str, bool]:
        """The answer for each of ``logs``, by its path."""
        places = {log.path: (root, log.path, log.size_bytes) for log in logs}
        known = {path: self.known.get(place) for path, place in places.items()}
        asked = [path for path, answer in known.items() if answer is None]
        if asked:
            look = partial(self._look, spec, spec.fs.open())
            with ThreadPoolExecutor(THREADS) as threads:
                for path, answer in zip(asked, threads.map(look, asked), strict=True):
                    known[path] = answer
                    self.known.put(places[path], answer)
        return {path: bool(answer) for path, answer in known.items()}

    def _look(self, spec: MergeSpec, filesystem: pa.fs.FileSystem, path: str) -> bool:
        try:
            with filesystem.open_input_file(f"{spec.root}/{path}") as source:
                parts = (LogPart(block, source, path, None) for block in find_blocks(source))
                return any(self.is_so(spec, p) for p in parts if p.deletes or p.kind in DATA)
        except (HudiError, OSError, pa.ArrowException):
            return True


def _has_deletes(spec: MergeSpec, part: LogPart) -> bool:
    return part.kind is BlockType.DELETE or bool(part.taken_away(spec).any())


def _has_forced_deletes(spec: MergeSpec, part: LogPart) -> bool:
    return _has_deletes(spec, part) and bool(forced_deletes(spec, part).any())


_DELETES: Final = _Question(_has_deletes, Recent(MOST_KNOWN))
_FORCED: Final = _Question(_has_forced_deletes, Recent(MOST_KNOWN))


class Deleting:
    """Which logs may delete rows: by the metadata of their commits, else by a look at them.

    A commit leaves the active timeline while its logs stay.
    """

    def __init__(self, write: Write, spec: MergeSpec) -> None:
        self._root, self._spec = write.table.storage.root, spec
        self._deletes: dict[str, int] = {}
        timeline = write.transaction.timeline
        for commit in timeline.commits:
            for stat in COMMITS.get(write.table.storage, timeline, commit).stats:
                if stat.log_version is not None:  # on HDFS several commits may append to one file
                    known = self._deletes.get(stat.path, 0)
                    self._deletes[stat.path] = known + stat.num_deletes
                    if write.config.logs_name_their_write:
                        place = self._root, stat.path, stat.file_size_bytes
                        _DELETES.known.put(place, stat.num_deletes > 0)

    def slices(self, of: Iterable[FileSlice], forced: bool = False) -> list[FileSlice]:
        """The slices with a log that may delete rows; ``forced``: by deletes that always win."""
        slices = list(of)
        logs = [log for each in slices for log in each.logs]
        unknown = [log for log in logs if log.path not in self._deletes]
        told = _DELETES.ask(self._root, self._spec, unknown)
        found = {log.path: log for log in logs if self._deletes.get(log.path) or told.get(log.path)}
        if forced:
            answers = _FORCED.ask(self._root, self._spec, found.values())
            found = {path: log for path, log in found.items() if answers[path]}
        return [each for each in slices if any(log.path in found for log in each.logs)]


def forget_logs() -> None:
    """Forget what was learned of logs, as a new process knows nothing."""
    _DELETES.known.forget()
    _FORCED.known.forget()
