"""Writers of merge-on-read tables: which group gets a log, and which a new base file.

That is decided by the product's placement (``writes/placement``). Like a lookup there, the one here
reads base files alone, and knows of each row that a log has deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa

from pyhudi.config import resolve_write
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import InstantTime
from pyhudi.format.markers import MarkerKind
from pyhudi.index.kinds import kind_of
from pyhudi.rows.spec import GroupPlan
from pyhudi.slices.files import BaseFile
from pyhudi.transactions.conflicts.comparison import Footprint, footprint
from pyhudi.transactions.transaction import Transaction
from pyhudi.writes.placement import dead_keys, log_groups
from pyhudi.writes.placement.assign import Assignment, Sizing, assign
from tests.simulation.data_files import Mark, put_marked, token_of
from tests.simulation.logs import Rows, log_data, log_path, snapshot
from tests.simulation.programs import (
    PARTITION,
    Evaluated,
    Machine,
    Upsert,
    put_file,
    rows_of_file,
)

#: files are never full, and several writers write: new keys go to a group that is updated anyway
SIZING: Final = Sizing(1 << 20, 1 << 19, 10, fill_small_files=False)


@dataclass(slots=True)
class Found:
    """What a write knows of the table: ``rows`` by the file group, dead ones left out.

    ``homes`` is the position in ``files`` of the base file that has a key. ``returns`` has those to
    which keys may come back that a log has deleted there.
    """

    files: list[BaseFile]
    rows: Mapping[FileId, Rows]
    homes: dict[str, int] = field(default_factory=dict)
    returns: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Append(Upsert):
    """Change ``keys`` in logs; those that are nowhere are added to base files."""

    def _write(
        self,
        transaction: Transaction,
        machine: Machine,
        who: str,
        mark: Mark | None,
        read: Evaluated | None,
    ) -> tuple[WriteStat, ...]:
        """Look keys up, assign, and write logs and base files."""
        view = transaction.table.view(transaction.timeline)
        view.check()
        files = view.latest(partitions=[PARTITION])
        transaction.check_targets(files)
        # As much of a ``Write`` as placement asks for.
        write = cast("Any", SimpleNamespace(
            table=transaction.table, config=transaction.table.config, view=view,
            transaction=transaction,
            index=kind_of(resolve_write({}, transaction.table.config.raw, {})), only_logs=False,
        ))  # fmt: skip
        found = self._found(write, machine, files)
        placed, assignment = self._placed(write, machine, found)
        transaction.check_updates(assignment.updated())
        transaction.inflight(None)
        stats = []
        for ordinal, keys in sorted(placed.items()):
            plan = assignment.groups[ordinal]
            old = files[ordinal] if ordinal < len(files) else None
            rows = found.rows.get(FileId(plan.file_id), {})
            if plan.log_version is not None:
                stats.append(self._log(transaction, machine, plan, who, rows, keys, mark))
                continue
            held = rows_of_file(machine.storage, old) if old is not None else {}
            new = held | self._changed(who, held, keys)
            added = len(new) - len(held)
            place = transaction.instant, machine.storage, machine.clock
            stats.append(put_file(*place, FileId(plan.file_id), new, added, old, mark))
        return tuple(stats)

    def _found(self, write: Any, machine: Machine, files: list[BaseFile]) -> Found:
        """Where the keys are, and which have died there."""
        seen = snapshot(write.view)
        alive = dict(zip((s.file_id for s in seen.slices), seen.rows(machine.storage), strict=True))
        found = Found(files, alive)
        dead: dict[int, pa.Array] = {}
        logged = {each.file_id for each in seen.slices if each.logs}
        for at, file in enumerate(files):
            held = rows_of_file(machine.storage, file)
            found.homes |= {key: at for key in held if key in alive[file.file_id]}
            gone = [key for key in held if key not in alive[file.file_id]]
            if gone and file.file_id in logged:
                dead[at] = pa.array(gone, pa.string())
        write.transaction.revived |= {(files[at].partition_path, files[at].file_id) for at in dead}
        for at, keys in dead_keys.homes_of(write, files, dead).items():
            found.returns |= dict.fromkeys(keys.to_pylist(), at)
        return found

    def _placed(
        self, write: Any, machine: Machine, found: Found
    ) -> tuple[dict[int, list[str]], Assignment]:
        """Keys by the ordinal of their group, and what each group becomes."""
        placed: dict[int, list[str]] = {}
        new = []
        for key in self.keys:
            home = found.homes.get(key, found.returns.get(key))
            if home is None:
                new.append(key)
            else:
                placed.setdefault(home, []).append(key)
        updates = {at: len(keys) for at, keys in placed.items()}
        inserts = {PARTITION: len(new)} if new else {}
        logs = log_groups.log_groups(write, found.files, inserts)
        name = lambda _: f"{machine.clock.uuid()}-0"  # noqa: E731
        assignment = assign(found.files, updates, inserts, SIZING, name, logs)
        slots = assignment.slots.get(PARTITION, ())
        for key in new:
            placed.setdefault(slots[sum(key.encode()) % len(slots)], []).append(key)
        return placed, assignment

    def _log(
        self,
        transaction: Transaction,
        machine: Machine,
        plan: GroupPlan,
        who: str,
        rows: Rows,
        keys: list[str],
        mark: Mark | None,
    ) -> WriteStat:
        """One task writes one log (``rows/log_writer.py``); its statistic as of ``stat_of``."""
        time, layout = transaction.instant, transaction.table.config.layout
        began = InstantTime(plan.base_instant or "") if layout == 1 else time
        version, token = plan.log_version or 1, token_of(machine.clock)
        path = log_path(PARTITION, FileId(plan.file_id), began, version, token)
        data = self._log_data(time, who, rows, keys)
        kind = MarkerKind.APPEND if layout == 1 else MarkerKind.CREATE
        put_marked(time, machine.storage, path, kind, data, mark)
        return WriteStat(
            file_id=FileId(plan.file_id),
            path=path,
            partition_path=PARTITION,
            prev_commit=began,
            num_writes=len(keys),
            num_updates=len(keys),
            file_size_bytes=len(data),
            log_version=version,
            log_offset=0,
            base_file=(plan.base_file or "").rpartition("/")[2] if layout == 1 else "",
            log_files=(path.rpartition("/")[2],),
        )

    def _changed(self, who: str, rows: Mapping[str, list[str]], keys: list[str]) -> Rows:
        return {key: [*rows.get(key, []), who] for key in keys}

    def _log_data(self, time: InstantTime, who: str, rows: Rows, keys: list[str]) -> bytes:
        return log_data(time, self._changed(who, rows, keys))

    def _footprint(self, transaction: Transaction, metadata: CommitMetadata) -> Footprint:
        """A writer that shares its groups with others would claim fewer."""
        return footprint(f"upsert {transaction.instant}", metadata, frozenset(), False)


@dataclass(frozen=True, slots=True)
class Remove(Append):
    """Delete ``keys``: what is not there is left out."""

    def _placed(
        self, write: Any, machine: Machine, found: Found
    ) -> tuple[dict[int, list[str]], Assignment]:
        held = replace(self, keys=tuple(key for key in self.keys if key in found.homes))
        return super(Remove, held)._placed(write, machine, found)

    def _log_data(self, time: InstantTime, who: str, rows: Rows, keys: list[str]) -> bytes:
        return log_data(time, {}, keys)
