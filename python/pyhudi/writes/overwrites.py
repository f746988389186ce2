"""Writes that replace whole partitions or the table, by a replace commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pyhudi.config import ConcurrencyMode, Operation
from pyhudi.errors import ConfigError, InvalidRecord
from pyhudi.reads.filters import matching_partitions, spared_partitions
from pyhudi.slices.files import BaseFile, FileSlice
from pyhudi.writes.intent import Overwrite
from pyhudi.writes.keys.expressions import PARTITION_PATH
from pyhudi.writes.keys.partition_paths import delete_pattern_matches
from pyhudi.writes.plan import Plan, Replaced, Way
from pyhudi.writes.stage import Written, job
from pyhudi.writes.write_context import Write

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Overwriting:
    """New groups beside the old ones; the same commit replaces the old ones.

    ``rows`` writes the new groups. ``locked`` is what a pessimistic write is known to replace.
    """

    write: Write
    rows: Way
    locked: Replaced | None = None

    @classmethod
    def of(cls, write: Write, way: Callable[[Write], Way]) -> Overwriting:
        """The replaced partitions are known only after the rows are written.

        But a pessimistic write needs the locks of all groups that it will replace before that: its
        rows are kept, and their partitions are found first.
        """
        if write.options.concurrency_mode is not ConcurrencyMode.PESSIMISTIC:
            return cls(write, way(write))
        named: set[str] = set()
        if write.operation is not Operation.INSERT_OVERWRITE_TABLE:
            rows = write.kept_rows()
            write = replace(write, prepared=replace(write.prepared, rows=rows))
            named = partitions_of(write)
        return cls(write, way(write), swept_by(write, named))

    @property
    def targets(self) -> Sequence[BaseFile | FileSlice]:
        """The slices to replace, as far as they are known."""
        return self.rows.targets if self.locked is None else self.locked.slices

    def plan(self) -> Plan:
        """The plan of the rows, with what a pessimistic write has to lock."""
        plan = self.rows.plan()
        if self.locked is None:
            return plan
        updated = self.locked.groups() | frozenset(plan.updated)
        return replace(plan, updated=updated, swept=self.locked.partitions)

    def replaced(self, written: Written) -> Replaced:
        """The partitions that have new files, and those that the statement names."""
        return swept_by(self.write, {f.partition_path for f in written.files})


@dataclass(frozen=True, slots=True)
class PartitionsDeleted:
    """A replace commit without data: whole partitions vanish."""

    write: Write
    gone: Replaced

    @classmethod
    def of(cls, write: Write) -> PartitionsDeleted:
        """Find the partitions; ``ConfigError`` if the table has none."""
        doomed = doomed_partitions(write)
        if not write.config.partition_fields:
            raise ConfigError(
                "The table is not partitioned, so it has no partition to delete. To empty it use "
                "TRUNCATE TABLE or insert_overwrite_table.",
                key="hoodie.datasource.write.operation",
            )
        return cls(write, Replaced(write.view.live(partitions=doomed), frozenset(doomed)))

    @property
    def targets(self) -> Sequence[FileSlice]:
        """The slices of the partitions."""
        return self.gone.slices

    def plan(self) -> Plan:
        """Nothing is written."""
        return Plan(Written, updated=self.gone.groups(), swept=self.gone.partitions)

    def replaced(self, written: Written) -> Replaced:
        """The partitions."""
        return self.gone


def doomed_partitions(write: Write) -> list[str]:
    """The existing partitions that a delete_partition names."""
    patterns = write.options.partitions_to_delete
    existing = write.view.partitions()
    if write.intent.overwrite is Overwrite.FILTER:
        return chosen_partitions(write)
    if not patterns:
        wanted = partitions_of(write)
        return [p for p in existing if p in wanted]
    unknown = [x for x in patterns if not any(delete_pattern_matches(x, p) for p in existing)]
    if unknown:
        log.warning("delete_partition: the table has no partition %s", ", ".join(unknown))
    return [p for p in existing if any(delete_pattern_matches(x, p) for x in patterns)]


def swept_by(write: Write, named: Collection[str]) -> Replaced:
    """What an overwrite with rows in the partitions ``named`` replaces."""
    view, swept = write.view, set(named)
    if write.operation is Operation.INSERT_OVERWRITE_TABLE:
        old = view.live()
        swept |= {f.partition_path for f in old}
        return Replaced(old, frozenset(swept))
    if write.intent.overwrite is Overwrite.FILTER:
        _require_chosen(write, sorted(named))
        swept |= set(chosen_partitions(write))
    return Replaced(view.live(partitions=swept), frozenset(swept))


def _require_chosen(write: Write, named: Sequence[str]) -> None:
    """``InvalidRecord`` if new rows lie where the condition is false: old rows there stay."""
    config, types = write.config, write.prepared.schema.types
    spared = spared_partitions(config, types, named, write.intent.filters)
    if spared:
        raise InvalidRecord(
            f"New rows lie in partition '{spared[0]}', but the condition of the overwrite does not "
            "choose it, and the rows that it has would be lost. Nothing of it is visible. Let "
            "the condition name this partition, or INSERT these rows by a statement of their own.",
            column=", ".join(config.partition_fields),
        )


def chosen_partitions(write: Write) -> list[str]:
    """The partitions that the filters of a statement choose."""
    types = write.prepared.schema.types
    return matching_partitions(write.config, types, write.view.partitions(), write.intent.filters)


def partitions_of(write: Write) -> set[str]:
    """The partition paths of the prepared rows."""
    with job(write.spark, write.describe("find partitions")):
        named = write.prepared.rows.select(PARTITION_PATH).distinct().collect()
    return {row[0] for row in named}
