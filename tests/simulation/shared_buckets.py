"""Writers without coordination, and who meets them: logs of whole rows in buckets that all share.

Where a key goes, which id a bucket gets, what is a conflict and whether the order of logs decides
is the product's code: ``writes/placement``, ``writes/non_blocking.py``, ``transactions/conflicts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, cast

from pyhudi.choices import ConflictRule, IndexType
from pyhudi.config import Operation, resolve_write
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, InstantTime
from pyhudi.index.kinds import kind_of
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.rows.spec import GroupPlan
from pyhudi.timeline.table import open_table
from pyhudi.transactions.conflicts.comparison import STRATEGIES, Footprint, footprint
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writer import WriterPolicy
from pyhudi.writes.non_blocking import is_ordered
from pyhudi.writes.placement import indexes, log_groups
from pyhudi.writes.placement.assign import existing_group
from pyhudi.writes.placement.buckets import bucket_files
from tests.simulation.appends import Append
from tests.simulation.data_files import Mark
from tests.simulation.logs import Rows, log_data, snapshot
from tests.simulation.programs import PARTITION, Evaluated, Machine, Upsert, put_file

BUCKETS: Final = 2
OPTIONS: Final = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
}
#: of rows whose order is that of their logs
NO_VALUE: Final = -1


def bucket_of(key: str) -> int:
    """The bucket of a key."""
    return sum(key.encode()) % BUCKETS


@dataclass(frozen=True, slots=True)
class Share(Append):
    """Set ``keys``, without coordination; ``at`` is the ordering value of the rows.

    An ``optimist`` does the same as a writer with coordination: its new buckets have ids of their
    own, and begin with base files.
    """

    checks_keys: bool = False
    at: int = NO_VALUE
    optimist: bool = False

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> Committed:
        """As every write, by the judgement of its mode (``transactions/policy.py``)."""
        rule = replace(STRATEGIES[ConflictRule.SIMPLE], logs_pass=not self.optimist)
        return Upsert.run(self, machine, who, replace(policy, conflicts=rule))

    def _write(
        self,
        transaction: Transaction,
        machine: Machine,
        who: str,
        mark: Mark | None,
        read: Evaluated | None,
    ) -> tuple[WriteStat, ...]:
        """Find the buckets, and write a log for each."""
        view, config = transaction.table.view(transaction.timeline), transaction.table.config
        view.check()
        transaction.ordered = is_ordered(config, self._operation())
        files = indexes.INDEXES[IndexType.BUCKET].candidates(view, [PARTITION])
        transaction.check_targets(files)
        # As much of a ``Write`` as placement asks for.
        write = cast("Any", SimpleNamespace(
            table=transaction.table, config=config, view=view, transaction=transaction,
            index=kind_of(resolve_write(OPTIONS, config.raw, {})),
            only_logs=not self.optimist, runtime=SimpleNamespace(clock=machine.clock),
        ))  # fmt: skip
        known, logs = bucket_files(files, BUCKETS), log_groups.log_groups(write, files)
        assert logs is not None
        placed: dict[int, list[str]] = {}
        for key in self.keys:
            placed.setdefault(bucket_of(key), []).append(key)
        plans: dict[int, GroupPlan] = {}
        for bucket in placed:
            ordinal = known.get((PARTITION, bucket))
            if ordinal is not None:
                plans[bucket] = logs.logged(existing_group(ordinal, files[ordinal]))
            elif self._operation() is not Operation.DELETE:
                plans[bucket] = indexes._new_bucket(write, len(files), PARTITION, bucket)
        old = [(PARTITION, FileId(p.file_id)) for b, p in plans.items() if (PARTITION, b) in known]
        new = [(PARTITION, FileId(plan.file_id)) for plan in plans.values()]
        transaction.check_updates(old, [group for group in new if group not in old])
        transaction.inflight(None)
        rows: Mapping[str, list[str]] = read.rows if read is not None else {}
        stats = []
        for bucket, plan in sorted(plans.items()):
            given, keys = {key: rows.get(key, []) for key in placed[bucket]}, placed[bucket]
            if plan.log_version is not None:
                stats.append(self._log(transaction, machine, plan, who, given, keys, mark))
                continue
            made = self._changed(who, given, keys)
            place = transaction.instant, machine.storage, machine.clock
            stats.append(put_file(*place, FileId(plan.file_id), made, len(made), mark=mark))
        return tuple(stats)

    def _operation(self) -> Operation:
        return Operation.UPSERT

    def _changed(self, who: str, rows: Mapping[str, list[str]], keys: list[str]) -> Rows:
        return dict.fromkeys(keys, self.row(who, []))

    def row(self, who: str, before: list[str]) -> list[str]:
        """The row that this writer puts under a key in place of ``before``."""
        return [who] if self.at == NO_VALUE else [who, str(self.at)]

    def _footprint(self, transaction: Transaction, metadata: CommitMetadata) -> Footprint:
        return footprint(f"upsert {transaction.instant}", metadata, frozenset(), bucketed=True)


@dataclass(frozen=True, slots=True)
class Drop(Share):
    """Delete ``keys``, without coordination."""

    def _operation(self) -> Operation:
        return Operation.DELETE

    def _log_data(self, time: InstantTime, who: str, rows: Rows, keys: list[str]) -> bytes:
        return log_data(time, {}, keys)


@dataclass(frozen=True, slots=True)
class Compute(Share):
    """An UPDATE: the new rows of ``keys`` are computed from those that it has read.

    ``judged`` as ``writes/write.py`` does it: by the rules of an optimistic writer.
    """

    judged: bool = True

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> Committed:
        rule = replace(STRATEGIES[ConflictRule.SIMPLE], logs_pass=not self.judged)
        return Upsert.run(self, machine, who, replace(policy, conflicts=rule))

    def _evaluated(self, machine: Machine) -> Evaluated:
        table = open_table(machine.storage)
        timeline = table.timeline()
        found: dict[str, list[str]] = {}
        for rows in snapshot(table.view(timeline)).rows(machine.storage):
            found |= rows
        return Evaluated(found, timeline)

    def _changed(self, who: str, rows: Mapping[str, list[str]], keys: list[str]) -> Rows:
        return {key: self.row(who, rows[key]) for key in keys}

    def row(self, who: str, before: list[str]) -> list[str]:
        return [*before, who]


@dataclass(frozen=True, slots=True)
class Sweep(Share):
    """Delete the partition: each of its file groups is replaced, by none."""

    keys: tuple[str, ...] = ()
    optimist: bool = True

    def _attempt(
        self, machine: Machine, who: str, policy: WriterPolicy, groups: GroupLocks | None
    ) -> Committed:
        table = open_table(machine.storage)
        writer = machine.writer(table, policy)
        transaction = Transaction.begin(writer, Action.REPLACECOMMIT, "delete_partition", groups)
        with transaction:
            slices = transaction.table.view(transaction.timeline).slices(partitions=[PARTITION])
            transaction.check_targets(slices)
            gone = [(each.partition_path, each.file_id) for each in slices]
            transaction.check_updates(gone, swept=[PARTITION])
            transaction.inflight(None)
            transaction.seal(lambda timeout_s: True, [])
            replaced = {PARTITION: tuple(file_id for _, file_id in gone)}
            metadata = CommitMetadata("DELETE_PARTITION", (), {"writer": who}, replaced)
            swept = frozenset({PARTITION})
            ours = footprint(f"delete_partition {transaction.instant}", metadata, swept, True)
            return transaction.commit(metadata, ours)
