"""One running clustering: requested under the lock, committed group by group.

Invariant: a group is replaced only if, under the lock, no commit since the plan has changed it and
no living write has announced that it will. The new files of other groups are deleted before the
commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyhudi.choices import FailedWrites
from pyhudi.errors import CommitConflict, StorageError, TableCorrupt, WriterFenced
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, parse_commit
from pyhudi.format.filenames import FileId, parse_data_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import RequestedReplace, render_requested_replace
from pyhudi.format.schema_history import LATEST_SCHEMA_KEY, SchemaVersion, render_version
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.locks.base import LockOwner
from pyhudi.locks.renewal import kept
from pyhudi.services.clustering_plan import Group
from pyhudi.services.planned_groups import compacting_groups
from pyhudi.services.written_columns import have_ids, have_moved
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.table import Table
from pyhudi.transactions.conflicts.comparison import footprint_of
from pyhudi.transactions.conflicts.meanwhile import Meanwhile
from pyhudi.transactions.conflicts.schema_conflicts import same_schema
from pyhudi.transactions.heartbeat import Heartbeat, HeartbeatPolicy, has_passed, last_beat_ms
from pyhudi.transactions.instants import take_time
from pyhudi.transactions.markers.markers import delete_files, marked_files
from pyhudi.transactions.metadata_table import drop_metadata_table
from pyhudi.transactions.pessimistic import refuse_without_locks
from pyhudi.transactions.phases import Phase, check_move
from pyhudi.transactions.presence import while_there
from pyhudi.transactions.recovery.rollback import WRITES, was_rolled_back
from pyhudi.transactions.recovery.settle import settled_timeline
from pyhudi.transactions.recovery.undoing import check_undoing, grounds
from pyhudi.transactions.transaction import Transaction
from pyhudi.transactions.writer import Writer

log = logging.getLogger(__name__)

OPERATION = "cluster"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A group of the plan, and the files that it became."""

    inputs: frozenset[Group]
    stats: tuple[WriteStat, ...]


class RunningClustering(Transaction):
    """A clustering in progress; other than a write it commits what does not conflict."""

    @classmethod
    def planned(
        cls, writer: Writer, plan: Callable[[Timeline], RequestedReplace | None]
    ) -> RunningClustering | None:
        """Request what ``plan`` answers for the table as it is under the lock; None for nothing.

        The first heartbeat comes before the request, as for writes.
        """
        layout = writer.table.config.layout
        action = Action.REPLACECOMMIT if layout == 1 else Action.CLUSTERING
        policy = writer.policy
        if policy.failed_writes is FailedWrites.EAGER:
            # A service does not wait until a writer falls silent: it leaves its groups to it.
            policy = replace(policy, failed_writes=FailedWrites.LAZY)
        settled_timeline(replace(writer, policy=policy), "A clustering")
        self = cls(writer, action, OPERATION)
        check_move(self.phase, Phase.REQUESTED, State.REQUESTED)
        with writer.locked():
            with kept(writer.lock):  # a listing of the whole table may take longer than a lease
                timeline = writer.table.timeline()
                check_undoing(writer.table, timeline, "A clustering", None)
                requested = plan(timeline)
            if requested is None:
                return None
            content = render_requested_replace(requested)

            def alive(time: InstantTime) -> None:
                self._beats(time)
                writer.lock.check(writer.table.storage.put_timeout_s)

            self.instant, _ = take_time(writer, action, content, timeline, alive)
            # What a writer without the lock commits from here on is not in the plan.
            self.timeline = timeline
        self._move(Phase.REQUESTED, State.REQUESTED)
        self._heartbeat.go_on()
        return self

    @classmethod
    def found(cls, writer: Writer, instant: Instant) -> RunningClustering:
        """Go on with a clustering that was requested, and that nobody has begun."""
        self = cls(writer, instant.action, OPERATION)
        self.instant, self.timeline = instant.time, writer.table.timeline()
        self._beats(instant.time)
        self._move(Phase.REQUESTED, State.REQUESTED)
        self._heartbeat.go_on()
        return self

    def _beats(self, time: InstantTime) -> None:
        """Send the first heartbeat of this clustering."""
        writer = self.writer
        self._heartbeat = Heartbeat(
            writer.table.storage, writer.clock, time, writer.policy.heartbeat
        )
        self._heartbeat.beat()

    def leave(self) -> None:
        """Leave a clustering that was found to another program, which has begun it first."""
        self._heartbeat.stop()

    def complete(
        self,
        groups: Sequence[Rewritten],
        schema: SparkSchema,
        version: SchemaVersion | None = None,
    ) -> tuple[CommitMetadata | None, dict[Group, str]]:
        """Commit the groups that nobody changed; why the others were left out, by input group.

        ``schema`` is the table's of the new files, of the ``version`` if columns have ids. If
        nothing is left, nothing is committed, and the caller has to ``abort``. ``CommitConflict``
        if the table was restored, or its columns changed; errors of ``FinalPut.send``.
        """
        check_move(self.phase, Phase.COMMITTED, State.COMPLETED)
        owner = LockOwner.this_process(self.instant)
        self.writer.lock.acquire(self.writer.policy.lock_timeout_s, owner)
        try:
            with while_there(self.table), kept(self.writer.lock):
                now = self.table.timeline()
                self._check_fences(now)
                left = self._left_out(now, schema, version)
            for group in groups:
                if hit := sorted(group.inputs & left.keys()):
                    why = f"{'/'.join(hit[0])} of its group is left out: {left[hit[0]]}"
                    left = {**dict.fromkeys(group.inputs, why), **left}
            kept_ones = [g for g in groups if not g.inputs & left.keys()]
            if not kept_ones:
                return None, left
            completion = self.writer.next_time(now)
            self.writer = self.writer.on(drop_metadata_table(self.table, self.writer.lock))
            refuse_without_locks(self.table, self.who)
            gone = [s.path for g in groups if g.inputs & left.keys() for s in g.stats]
            if gone:
                delete_files(self.table.storage, gone)
            declared = {SCHEMA_KEY: schema.declaration(self.table.config.name)}
            if version is not None:
                declared[LATEST_SCHEMA_KEY] = render_version(version)
            metadata = _metadata(kept_ones, declared)

            def compare(later: Timeline) -> None:
                if grounds(later) == grounds(now):
                    return
                both = self._changed(later).keys() & {i for g in kept_ones for i in g.inputs}
                if both:
                    raise CommitConflict(
                        f"{self.who} and another commit changed the same file groups. Nothing of "
                        "the clustering is visible. Run it again.",
                        ours=self.instant,
                        overlap=tuple(f"{p}/{g}" for p, g in sorted(both)),
                    )

            self._publish(completion, metadata, compare)
        finally:
            self._release()
        self._clean_up()
        return metadata, left

    def _left_out(
        self, now: Timeline, schema: SparkSchema, version: SchemaVersion | None
    ) -> dict[Group, str]:
        """The groups that must not be replaced, and why."""
        if was_rolled_back(self.table, now, self.instant):
            # Apache Hudi takes any pending clustering back to run it itself. What is pending under
            # our time is its run now, so nothing of it is undone.
            self._may_still_write = True
            raise WriterFenced(
                f"{self.who} was rolled back by another program, which may run its plan again. "
                "Nothing of this run is visible. Run the clustering again when that has ended.",
                instant=self.instant,
            )
        check_undoing(self.table, now, self.who, self.instant)
        # Where columns have ids, the history says by the instant what the files hold.
        by_ids = have_ids(self.table, self.timeline)
        current = table_schema(self.table, now, self.instant if by_ids else None)
        changed = current is not None and not same_schema(current, schema)
        if changed or have_moved(self.table, self.timeline, now, self.instant, version):
            raise CommitConflict(
                f"The columns of the table changed while {self.who} ran. Nothing of it is visible. "
                "Run it again: it then writes the new columns.",
                ours=self.instant,
                overlap=("schema",),
            )
        busy = announced(self.writer, now, self.instant) | compacting_groups(self.table, now)
        return {**busy, **self._changed(now)}

    def _changed(self, now: Timeline) -> dict[Group, str]:
        """The groups that commits since the plan changed; ``CommitConflict`` if one was undone."""
        meanwhile = Meanwhile(self.table, self.timeline, now)
        if undone := meanwhile.undone():
            raise CommitConflict(
                f"Commit {undone[0]}, on which {self.who} was planned, was undone meanwhile. "
                "Nothing of the clustering is visible. Run it again.",
                ours=self.instant,
                theirs=undone[0],
                overlap=tuple(undone),
            )
        found: dict[Group, str] = {}
        for theirs, metadata in meanwhile.commits():
            if theirs.time == self.instant:
                continue
            why = f"{metadata.operation.lower()} {theirs.time} changed it meanwhile"
            changed = footprint_of(theirs, metadata)
            found |= dict.fromkeys(changed.updated | changed.logged | changed.compacted, why)
        return found


def _metadata(groups: Sequence[Rewritten], extra: Mapping[str, str]) -> CommitMetadata:
    replaced: dict[str, list[FileId]] = {}
    for partition, file_id in sorted(i for g in groups for i in g.inputs):
        replaced.setdefault(partition, []).append(file_id)
    stats = tuple(stat for group in groups for stat in group.stats)
    by_partition = {partition: tuple(ids) for partition, ids in replaced.items()}
    return CommitMetadata("CLUSTER", stats, extra, by_partition)


def announced(
    writer: Writer, now: Timeline, instant: InstantTime | None = None
) -> dict[Group, str]:
    """The groups that living writes change, by their profiles and the markers of their files."""
    table, found = writer.table, dict[Group, str]()
    for pending in now.pending:
        if pending.time == instant or pending.action not in WRITES:
            continue
        if not is_alive(table, writer, pending.time):
            continue
        why = f"the running write {pending.time} changes it"
        found |= dict.fromkeys(_groups_of(table, now, pending), why)
    return found


def _groups_of(table: Table, now: Timeline, pending: Instant) -> set[Group]:
    found: set[Group] = set()
    if pending.state is State.INFLIGHT:
        path = now.file_of(pending)
        try:
            stats = parse_commit(table.storage.read(path), path).stats
            found |= {(s.partition_path, s.file_id) for s in stats if s.prev_commit is not None}
        except (FileNotFoundError, TableCorrupt, StorageError):
            log.info("%s has no profile that can be read", pending.time)
    for path in marked_files(table.storage, pending.time) or ():
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file_name(name)
        if parsed is not None:
            found.add((partition, parsed.file_id))
    return found


def is_alive(table: Table, writer: Writer, time: InstantTime) -> bool:
    """Whether a heartbeat shows that the owner of a pending instant may live."""
    policy: HeartbeatPolicy = writer.policy.heartbeat
    beat = last_beat_ms(table.storage, time)
    return beat is not None and not has_passed(table.storage, writer.clock, beat, policy.lapse_ms)
