"""Primary-key conflicts: two writes that bring one new key at the same time.

Each of them looked the key up before the other had committed, so both would add it, in different
file groups: no conflict of groups, but a key in two files. The second one to commit compares the
keys of the files that got new rows (RFC-22, unique records): on the driver if that has the input's
keys, otherwise by a Spark join.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from pyhudi.config import DuplicatePolicy, Operation
from pyhudi.errors import CommitConflict, HudiError, TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.instants import Instant, InstantTime
from pyhudi.index.lookup import KEY
from pyhudi.timeline.active import COMMITS
from pyhudi.timeline.states import COMMIT_ACTIONS
from pyhudi.writes.collected import Keys
from pyhudi.writes.key_lookup import find_keys
from pyhudi.writes.placement.tag import BASE_PARTITION, base_keys
from pyhudi.writes.stage import job, worker_error
from pyhudi.writes.write_context import Write

log = logging.getLogger(__name__)

SHOWN: Final = 5
CLUSTER: Final = "CLUSTER"
_STEP: Final = "compare keys with a concurrent write"


def checks_keys(write: Write) -> bool:
    """Whether this write looks up keys, so that it can promise one place for each.

    An insert makes no such promise, and a bucket is the only place of its keys.
    """
    if not write.options.key_conflicts or not write.config.record_key_fields:
        return False
    if write.index.hashed:
        return False
    if write.operation is Operation.INSERT:
        return write.options.duplicate_policy is not DuplicatePolicy.NONE
    return write.operation is Operation.UPSERT


class KeyCheck:
    """Compares our new rows with those of each commit in between, every commit once."""

    def __init__(self, write: Write, written: Sequence[WriteStat]) -> None:
        self._write = write
        self._ours = [file for file in written if file.num_inserts]
        self._seen: set[InstantTime] = set()
        self._incoming: dict[str, pa.Array] | None = None

    def look_ahead(self) -> None:
        """Compare with commits so far, so that less work remains under the lock."""
        if not self._ours:
            return
        table, loaded = self._write.table, self._write.transaction.timeline
        now = table.timeline()
        for theirs in now.since(loaded):
            if theirs.action not in COMMIT_ACTIONS:
                continue
            try:
                metadata = COMMITS.get(table.storage, now, theirs)
            except TableCorrupt as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue  # archived since: the commit finds it in the archive
                raise
            self(theirs, metadata)

    def __call__(self, theirs: Instant, metadata: CommitMetadata) -> None:
        """``CommitConflict`` with some of the keys that both have brought.

        Also if a file of theirs is gone, for example by a clean: then nobody knows whether it had
        one of our keys.
        """
        if not self._ours or theirs.time in self._seen:
            return
        if metadata.operation.upper() == CLUSTER:
            return  # it moves rows: each of its keys came by another commit
        everywhere = self._write.index.everywhere
        partitions = {file.partition_path for file in self._ours}
        others = [
            stat
            for stat in metadata.stats
            if stat.path and stat.num_inserts and stat.log_version is None
            if everywhere or stat.partition_path in partitions
        ]
        found = self._compared(theirs, others, everywhere) if others else []
        self._seen.add(theirs.time)
        if found:
            raise CommitConflict(
                f"{self._write.operation.value} {self._write.instant} and {theirs.time} both "
                f"brought rows with keys that the table did not have: {', '.join(found)}. "
                f"{theirs.time} was first. Nothing of this write is visible. Run it again: it "
                "then updates the rows of these keys.",
                ours=self._write.instant,
                theirs=theirs.time,
                overlap=tuple(found),
            )

    def _compared(
        self, theirs: Instant, others: Sequence[WriteStat], everywhere: bool
    ) -> list[str]:
        write, error = self._write, None
        try:
            if write.kept.table is not None:
                return self._found_here(others)
            return self._joined(others, everywhere)
        except HudiError as e:
            error = e
        except write.runtime.spark_errors as e:
            error = worker_error(e, write.describe(_STEP))
        gone = [stat.path for stat in others if not write.table.storage.exists(stat.path)]
        if not gone:
            raise error
        raise CommitConflict(
            f"{write.operation.value} {write.instant} and {theirs.time} both brought rows with "
            f"new keys, and these cannot be compared: {gone[0]} of {theirs.time}, which was first, "
            "is gone already, as a clean takes it once a newer commit has followed. Nothing of "
            "this write is visible. Run it again: it then starts from the new state.",
            ours=write.instant,
            theirs=theirs.time,
            overlap=tuple(gone),
        ) from error

    def _joined(self, others: Sequence[WriteStat], everywhere: bool) -> list[str]:
        """Some keys that our files and ``others`` both hold, in any partition or in the same."""
        columns = [KEY] if everywhere else [KEY, BASE_PARTITION]
        with job(self._write.spark, self._write.describe(_STEP)):
            mine = base_keys(self._write, self._ours).select(*columns)
            both = mine.join(base_keys(self._write, others).select(*columns), columns, "semi")
            return sorted(row[0] for row in both.select(F.col(KEY)).limit(SHOWN).collect())

    def _found_here(self, others: Sequence[WriteStat]) -> list[str]:
        """The same for an input whose keys the driver has; its index is within partitions.

        Only incoming keys that our files hold count: a deletion leaves none there.
        """
        if self._incoming is None:
            keys = Keys.of(self._write.kept.table)
            self._incoming = dict(zip(keys.partitions, keys.distinct, strict=True))
        both = self._held(self._held(self._incoming, others), self._ours)
        return sorted(key for keys in both.values() for key in keys.to_pylist())[:SHOWN]

    def _held(
        self, wanted: Mapping[str, pa.Array], files: Iterable[WriteStat]
    ) -> dict[str, pa.Array]:
        """By partition, those of ``wanted`` that ``files`` hold; partitions with none are left out.

        ``files`` of other partitions than the wanted ones are not opened.
        """
        asked = [file for file in files if file.partition_path in wanted]
        if not asked:
            return {}
        sizes = {file.path: file.file_size_bytes for file in asked}
        places = [(o, f.path, f.partition_path) for o, f in enumerate(asked)]
        found: dict[str, list[np.ndarray[tuple[int], np.dtype[np.int32]]]] = {}
        for ordinal, at, _ in find_keys(self._write, wanted, places, sizes, _STEP):
            if at:
                held = found.setdefault(asked[ordinal].partition_path, [])
                held.append(np.frombuffer(at, np.int32))
        return {p: wanted[p].take(pa.array(np.unique(np.concatenate(f)))) for p, f in found.items()}
