"""Streams that write their micro-batches to the table, as Spark drives them.

A driver logs a batch's offsets before the batch and its end after it, in a checkpoint beside the
table, each by a put that refuses a taken name. One that starts goes on after the last end, so it
repeats a batch whose end is missing. The rows of a batch are a function of its number. Spark's part
is this program's; the epoch, its judgement, the retries and the commit are the product's code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.application.batches import MicroBatch, Ordinals
from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict, HistoryExpired
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action
from pyhudi.format.stream_marks import Epoch
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.epochs import NAME, REPLACES, EpochDone, check_epoch
from pyhudi.transactions.transaction import Committed, Transaction
from pyhudi.transactions.writer import WriterPolicy
from pyhudi.writes.retries import Retries, most_retries
from tests.simulation.data_files import Mark
from tests.simulation.programs import (
    Evaluated,
    Machine,
    Program,
    Upsert,
    footprint_of,
    hand_of,
    put_file,
)

CHECKPOINTS = "checkpoints"
OFFSETS, ENDS = "offsets", "commits"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What Spark knows of a query: its batches that began, and those that ended."""

    storage: Storage
    query: str

    def path(self, log: str, number: int) -> str:
        return f"{CHECKPOINTS}/{self.query}/{log}/{number}"

    def put(self, log: str, number: int) -> None:
        """``FileExists`` where another driver was first: Spark ends the query then, too."""
        self.storage.put_if_absent(self.path(log, number), b"")

    def last(self, log: str) -> int:
        """The last batch of a log, -1 for none."""
        files = self.storage.list(f"{CHECKPOINTS}/{self.query}/{log}")
        return max((int(file.name) for file in files), default=-1)


@dataclass(slots=True)
class _Count:
    retries: int = 0
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """One driver of the query ``query``, which writes under the name ``name``.

    ``batches`` are numbered from 0, each is written by ``writes`` statements. A statement inserts
    one row, and changes the rows ``upserts``. ``late_s``: the driver starts so late, perhaps while
    an older one still runs.
    """

    name: str
    query: str
    batches: int = 2
    writes: int = 1
    upserts: tuple[str, ...] = ()
    late_s: float = 0.0
    replaces: str | None = None

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        if self.late_s:
            machine.clock.sleep(self.late_s)
        checkpoint, ordinals = Checkpoint(machine.storage, self.query), Ordinals()
        # Each start of a query has an id of its own.
        run, begun = who, checkpoint.last(OFFSETS)
        for number in range(checkpoint.last(ENDS) + 1, self.batches):
            if number > begun:
                checkpoint.put(OFFSETS, number)
            for _ in range(self.writes):
                batch = MicroBatch(self.query, run, number)
                with ordinals.turn(machine.storage.root, batch, "append") as turn:
                    assert turn is not None
                    named = {NAME: self.name} | ({REPLACES: self.replaces} if self.replaces else {})
                    self._write(machine, policy, turn.epoch(resolve_write(named)))
            checkpoint.put(ENDS, number)

    def epochs(self, number: int) -> list[str]:
        """What the writes of a batch are called in the rows: as ``tag`` has it."""
        return [f"{self.query}#{number}.{ordinal}" for ordinal in range(self.writes)]

    def _write(self, machine: Machine, policy: WriterPolicy, epoch: Epoch) -> None:
        """The loop of ``writes/write.py``; the table may have the epoch already."""
        rows = EpochRows((tag(epoch), *self.upserts), epoch=epoch, checks_keys=bool(self.upserts))
        with hand_of(machine) as groups:
            retries = Retries(
                machine.clock,
                most_retries(0, epoch),
                _Count(),
                lambda table: machine.writer(table, policy),
                epoch,
            )
            try:
                retries.run(
                    lambda table, again: rows.attempt(table, machine, policy, groups),
                    open_table(machine.storage),
                )
            except EpochDone:
                return


def tag(epoch: Epoch) -> str:
    """The name of an epoch in the rows that it writes, which is also the key of its own row.

    The ordinal is counted by the product, and must be right: so the tag is made of the epoch.
    """
    return f"{epoch.query}#{epoch.batch}.{epoch.ordinal}"


@dataclass(frozen=True, slots=True)
class EpochRows(Upsert):
    """The rows of an epoch: its own new one, which no other file has, and those that it changes."""

    epoch: Epoch = field(default_factory=lambda: Epoch("", "", 0))

    def attempt(
        self, table: Table, machine: Machine, policy: WriterPolicy, groups: GroupLocks | None
    ) -> Committed:
        """As ``writes/write.py`` has it: judged, begun, judged again if the table moved, written.

        A table that moves on while it is listed is a lost race.
        """
        try:
            before = table.timeline()
            check_epoch(table, before, self.epoch)
            writer = machine.writer(table, policy)
            transaction = Transaction.begin(writer, Action.COMMIT, "upsert", groups)
            with transaction:
                transaction.write_epoch(self.epoch, before)
                return self._written(transaction, machine)
        except HistoryExpired as expired:
            if not expired.moved:
                raise
            raise CommitConflict(f"It lost a race: {expired}", overlap=("table",)) from expired

    def _written(self, transaction: Transaction, machine: Machine) -> Committed:
        who = tag(self.epoch)
        stats = self._write(transaction, machine, who, None, None)
        transaction.seal(lambda timeout_s: True, [s.path for s in stats])
        metadata = CommitMetadata(operation="UPSERT", stats=stats, extra={"writer": who})
        return self._commit(transaction, machine, metadata, footprint_of(transaction, stats))

    def _write(
        self,
        transaction: Transaction,
        machine: Machine,
        who: str,
        mark: Mark | None,
        read: Evaluated | None,
    ) -> tuple[WriteStat, ...]:
        """An insert looks nothing up, so nothing but the epoch keeps its row from coming twice."""
        if len(self.keys) > 1:
            return Upsert._write(self, transaction, machine, who, mark, read)
        transaction.check_updates(())
        transaction.inflight(None)
        group = FileId(f"{machine.clock.uuid()}-0")
        place = transaction.instant, machine.storage, machine.clock
        return (put_file(*place, group, {key: [who] for key in self.keys}, 1, mark=mark),)


def streams_of(programs: Mapping[str, Program]) -> dict[str, Stream]:
    """The drivers among the programs."""
    return {name: p for name, p in programs.items() if isinstance(p, Stream)}


def keys_by_epoch(programs: Mapping[str, Program]) -> dict[str, tuple[str, ...]]:
    """What each epoch of each stream changes, by its name in the rows."""
    return {
        epoch: (epoch, *stream.upserts)
        for stream in streams_of(programs).values()
        for number in range(stream.batches)
        for epoch in stream.epochs(number)
    }
