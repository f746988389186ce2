"""One log file on its way to the storage: its marker, its blocks, its row of the report."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa

from pyhudi.format.log_blocks import BlockType, HeaderKey, render_block
from pyhudi.format.roaring import bitmap_of
from pyhudi.rows.base_file import Counts, TableFiles
from pyhudi.rows.merge_rules import Positions
from pyhudi.rows.spec import GroupPlan

#: bytes of rows in memory that become one block
BLOCK_BYTES = 32 << 20


class LogStream:
    """A log file that is announced now, and opened with its first block."""

    def __init__(self, files: TableFiles, plan: GroupPlan) -> None:
        self._files, self._plan = files, plan
        self._marker = files.file_of(plan)
        self.path = self._marker.data_path
        self._stream: pa.NativeFile | None = None
        files.markers.announce(self._marker.render())
        files.ensure_partition(plan.partition_path)

    def write(
        self, kind: BlockType, header: Mapping[int, str], content: bytes, places: Positions | None
    ) -> None:
        """Add a block of the write's instant; ``places`` are its rows' in the base file, ascending,
        None if they have none."""
        entries: dict[int, str] = {HeaderKey.INSTANT_TIME: self._files.spec.instant, **header}
        if places is not None and self._plan.base_instant is not None:
            entries[HeaderKey.RECORD_POSITIONS] = base64.b64encode(bitmap_of(places)).decode()
            at = HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS
            entries[at] = self._plan.base_instant
        self._opened().write(render_block(kind, entries, content))

    def abandon(self) -> None:
        """Close the stream of a log that no commit will name."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.close()

    def close(self, counts: Counts, previous: str | None) -> dict[str, object]:
        """Finish the log; its row of ``STAT_SCHEMA``, with ``previous`` as the commit before.

        There is no log, and no path, if each row was outdated.
        """
        plan = self._plan
        if self._stream is None and counts.outdated:
            group = {"file_id": plan.file_id, "partition_path": plan.partition_path}
            return {**group, "outdated": counts.outdated}
        stream = self._opened()
        size = stream.tell()
        stream.close()
        del self._files.unfinished[self.path]
        base = (plan.base_file or "").rpartition("/")[2]
        return {
            "file_id": plan.file_id,
            "path": self.path,
            "partition_path": plan.partition_path,
            "prev_base_file": base if self._files.spec.layout == 1 else "",
            "prev_instant": previous,
            "num_writes": counts.inserts + counts.updates,
            "num_inserts": counts.inserts,
            "num_updates": counts.updates,
            "num_deletes": counts.deletes,
            "forced": counts.forced,
            "outdated": counts.outdated,
            "file_size_bytes": size,
            "marker": self._marker.kind.value,
            "log_version": plan.log_version,
        }

    def _opened(self) -> pa.NativeFile:
        if self._stream is None:
            self._files.markers.settle(self._marker.render())
            self._stream = self._files.open_output(self.path)
            self._files.unfinished[self.path] = self
        return self._stream
