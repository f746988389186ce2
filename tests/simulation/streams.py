"""Streams that write their micro-batches to the table, as Spark drives them.

A driver logs a batch's offsets before the batch and its end after it, in a checkpoint beside the
table, each by a put that refuses a taken name. One that starts goes on after the last end, so it
repeats a batch whose end is missing. The rows of a batch are a function of its number. Spark's part
and the user's function are this program's; which write of its batch a statement is, the epoch, its
judgement, the retries and the commit are the product's code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyhudi.application.batches import MicroBatch, Ordinals
from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict, HistoryExpired, HudiError
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action
from pyhudi.format.stream_marks import Epoch
from pyhudi.locks.group_locks import GroupLocks
from pyhudi.storage.base import Storage
from pyhudi.timeline.table import Table, open_table
from pyhudi.transactions.epoch_conflicts import NAME, REPLACES
from pyhudi.transactions.epochs import EpochDone, check_epoch
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
    read_table,
)

CHECKPOINTS = "checkpoints"
OFFSETS, ENDS = "offsets", "commits"
#: what the statements of a function are; ``writeStream`` tells no name of its one write
KINDS = ("append", "merge")
#: how long a function waits before it makes a statement again that failed
AGAIN_S = 0.3


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
    an older one still runs; ``after``: when the drivers of these names are gone. ``every_s`` passes
    between batches. ``tries``: so often the function makes a statement that fails. ``looks``: it
    leaves the first statement out if its row is there, as Spark does with ``ALTER TABLE ... DROP IF
    EXISTS PARTITION``.
    """

    name: str
    query: str
    batches: int = 2
    writes: int = 1
    upserts: tuple[str, ...] = ()
    late_s: float = 0.0
    after: tuple[str, ...] = ()
    every_s: float = 0.0
    replaces: str | None = None
    tries: int = 1
    looks: bool = False

    def run(self, machine: Machine, who: str, policy: WriterPolicy) -> None:
        ordinals = Ordinals()
        for number in self._due(machine):
            # Each start of a query has an id of its own.
            batch = MicroBatch(self.query, who, number)
            for statement in self._statements(machine, number):
                self._make(machine, policy, ordinals, batch, statement)

    def epochs(self, number: int) -> list[str]:
        """What the writes of a batch are called in the rows."""
        return [tag(self.query, number, statement) for statement in range(self.writes)]

    def _due(self, machine: Machine) -> Iterator[int]:
        """The batches that the checkpoint asks for; it is told when each begins and ends."""
        for other in self.after:
            machine.wait_for(other)
        if self.late_s:
            machine.clock.sleep(self.late_s)
        checkpoint = Checkpoint(machine.storage, self.query)
        begun = checkpoint.last(OFFSETS)
        for number in range(checkpoint.last(ENDS) + 1, self.batches):
            if number > begun:
                checkpoint.put(OFFSETS, number)
            yield number
            checkpoint.put(ENDS, number)
            if self.every_s:
                machine.clock.sleep(self.every_s)

    def _statements(self, machine: Machine, number: int) -> Iterator[int]:
        """The statements that the function makes of the batch."""
        for statement, name in enumerate(self.epochs(number)):
            there = self.looks and name in read_table(open_table(machine.storage))
            if statement or not there:
                yield statement

    def _make(
        self,
        machine: Machine,
        policy: WriterPolicy,
        ordinals: Ordinals,
        batch: MicroBatch,
        statement: int,
    ) -> None:
        """One statement; the function makes it again if it fails."""
        kind = KINDS[statement] if self.writes > 1 else ""
        named = {NAME: self.name} | ({REPLACES: self.replaces} if self.replaces else {})
        name = tag(self.query, batch.number, statement)
        for left in reversed(range(self.tries)):
            try:
                with ordinals.turn(machine.storage.root, batch, kind) as turn:
                    assert turn is not None
                    self._write(machine, policy, turn.epoch(resolve_write(named)), name)
                return
            except HudiError:
                if not left:
                    raise
                machine.clock.sleep(AGAIN_S)

    def _write(self, machine: Machine, policy: WriterPolicy, epoch: Epoch, name: str) -> None:
        """The loop of ``writes/write.py``; the table may have the epoch already."""
        keys, checks = (name, *self.upserts), bool(self.upserts)
        rows = EpochRows(keys, epoch=epoch, name=name, checks_keys=checks)
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


def tag(query: str, batch: int, statement: int) -> str:
    """The name of a write in the rows that it writes, which is also the key of its own row."""
    return f"{query}#{batch}.{statement}"


@dataclass(frozen=True, slots=True)
class EpochRows(Upsert):
    """The rows of an epoch: its own new one, which no other file has, and those that it changes."""

    epoch: Epoch = field(default_factory=lambda: Epoch("", "", 0))
    name: str = ""

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
        who = self.name
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
