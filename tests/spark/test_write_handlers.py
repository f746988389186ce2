"""What the handlers of writes settle before and after Spark's part; no Spark session is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation
from pyhudi.errors import CommitConflict, ConfigError, UnsupportedTable
from pyhudi.format.properties import render_properties
from pyhudi.locks.in_process import InProcessLock
from pyhudi.reads.pins import PinnedQueries
from pyhudi.reads.scan import open_query
from pyhudi.spark import protocol
from pyhudi.spark.protocol import Place, Reads, Scan
from pyhudi.spark.questions import Target
from pyhudi.spark.write_handlers import WriteHandlers
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import PROPERTIES
from pyhudi.writes.intent import Intent, Overwrite, Route, SaveMode
from pyhudi.writes.own_reads import OwnReads
from tests.reads.conditions import compare
from tests.transactions.world import World

NOBODY = cast(Any, None)
NONE: Mapping[str, str] = {}
NO_READS = Reads((), None)
OPTIONS = {
    "hoodie.write.concurrency.mode": "PESSIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.datasource.write.insert.drop.duplicates": "true",
}
EMPTY = {"type": "struct", "fields": []}
#: an option of another format, and one of nobody's
FOREIGN, WRONG = {"replaceWhere": "p = 'a'"}, {"hoodie.tabel.name": "t"}


class Statements:
    """The handlers of an application, and a table that its statements read and write."""

    def __init__(self, root: Path) -> None:
        self.world = World()
        properties = self.world.memory.read(PROPERTIES)
        self.storage = self.world.memory = LocalStorage(str(root))  # type: ignore[assignment]
        self.storage.put_if_absent(PROPERTIES, properties)
        self.path, clock = str(root), self.world.clock
        runtime = Runtime(
            clock, lambda root: self.storage, NOBODY,
            lambda table, options: InProcessLock(self.world.locks, "t", clock), NOBODY,
        )  # fmt: skip
        self.runtime, self.pins = runtime, PinnedQueries(runtime)
        # Rows of no files are the only ones that are asked of this session.
        session = SimpleNamespace(createDataFrame=lambda rows, schema: None)
        sessions = SimpleNamespace(asking=lambda: session)
        self.handlers = WriteHandlers(cast(Any, sessions), runtime, self.pins)

    def target(
        self, options: Mapping[str, str] = NONE, properties: Mapping[str, str] = NONE
    ) -> Target:
        return Target.at(Place(self.path, options, properties, {}, None, None))

    def scan(self) -> Scan:
        """A scan of the table as it is, as the shim tells of it."""
        query = open_query(self.runtime, self.path, {}, {})
        return Scan(self.path, {}, self.pins.pin(query), query.instant)

    def reads(self, *scans: Scan) -> OwnReads | None:
        return self.handlers._reads(Reads(scans, 0), {})

    def check(self, scan: Scan) -> None:
        self.handlers.check_row_changes(self.target(), protocol.AtPin(scan.pin, scan.instant))

    def held(self) -> Scan:
        """A scan of a statement that changes rows: its state is held."""
        scan = self.scan()
        self.check(scan)
        assert list(self.pins._held) == [scan.pin]
        return scan

    def spool(self) -> str:
        spool = self.handlers.spool_begin(self.target(), protocol.Nothing())
        self.storage.put_if_absent(f"{spool.partition(f'{self.path}/')[2]}/rows.parquet", b"rows")
        return spool

    def spooled(self) -> list[str]:
        return [file.path for file in self.storage.walk("") if "spool" in file.path]


@pytest.fixture
def statements(tmp_path: Path) -> Iterator[Statements]:
    found = Statements(tmp_path)
    yield found
    found.world.close()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["older first", "newer first"])
def test_a_write_is_judged_from_what_all_scans_of_its_table_saw(
    statements: Statements, order: tuple[int, int]
) -> None:
    first = statements.world.upsert({"k": "1"})
    scans = [statements.scan()]
    statements.world.upsert({"k": "2"})
    scans.append(statements.scan())
    reads = statements.reads(*(scans[i] for i in order))
    assert reads is not None
    assert [commit.time for commit in reads.state.commits] == [first.instant]


def test_a_write_one_of_whose_scans_nobody_remembers_is_judged_from_no_state(
    statements: Statements,
) -> None:
    statements.world.upsert({"k": "1"})
    known = statements.scan()
    digest, layout, last = known.pin.split("-")
    forgotten = replace(known, pin=f"{'0' * len(digest)}-{layout}-{last}")
    reads = statements.reads(known, forgotten)
    assert reads is not None
    with pytest.raises(CommitConflict, match="no longer known"):
        _ = reads.state


def test_a_write_that_reads_nothing_of_its_table_is_judged_from_its_begin(
    statements: Statements,
) -> None:
    assert statements.reads() is None


def test_every_way_to_write_refuses_what_other_formats_would_heed(statements: Statements) -> None:
    handlers, at = statements.handlers, statements.target(FOREIGN)
    save = protocol.Save(SaveMode.OVERWRITE, (), NO_READS)
    for write in (
        lambda: handlers.write(None, at, save),
        lambda: handlers._insert(NOBODY, at, Intent(Route.SQL), NO_READS),
        lambda: handlers.spool_begin(at, protocol.Nothing()),
    ):
        with pytest.raises(ConfigError, match="'replaceWhere' is not a pyhudi option"):
            write()
    assert statements.spooled() == []


OPERATION = "hoodie.datasource.write.operation"


@pytest.mark.parametrize(
    ("overwrite", "operation", "told"),
    [
        (Overwrite.FILTER, "insert_overwrite_table", "no locks of file groups"),
        (Overwrite.NONE, "bulk_insert", "bulk_insert looks up no keys"),
    ],
)
def test_an_overwrite_alone_passes_over_the_operation_of_its_table(
    statements: Statements, overwrite: Overwrite, operation: str, told: str
) -> None:
    """Both operations contradict something; beyond that the runtime of these tests has no locks."""
    intent = Intent(Route.SQL, overwrite, (compare("p", "<", "b"),))
    at = statements.target(OPTIONS, {OPERATION: operation})
    with pytest.raises((ConfigError, RuntimeError), match=told):
        statements.handlers._insert(NOBODY, at, intent, NO_READS)


def test_rows_of_a_table_that_is_only_read_here_are_not_changed(statements: Statements) -> None:
    scan, raw = statements.scan(), statements.world.table().config.raw
    kept = {**raw, "hoodie.record.merge.mode": "CUSTOM"}
    statements.storage.replace(PROPERTIES, render_properties(kept))
    with pytest.raises(UnsupportedTable, match="CUSTOM"):
        statements.check(scan)
    assert not statements.pins._held


def test_a_statement_that_changes_no_row_commits_nothing_and_leaves_nothing(
    statements: Statements,
) -> None:
    scan, spool = statements.held(), statements.spool()
    assert statements.spooled()
    reads = Reads((scan,), 0)
    ask = protocol.ChangeRows(spool, (), EMPTY, protocol.Command.UPDATE, (), reads)
    assert statements.handlers.change_rows(statements.target(), ask) is None
    assert not statements.pins._held
    assert statements.spooled() == []


def test_a_statement_that_fails_gives_its_state_and_its_spool_back(statements: Statements) -> None:
    scan = statements.held()
    with pytest.raises(ConfigError, match="hoodie.tabel.name"):
        statements.handlers._change(
            NOBODY, statements.target(WRONG), Operation.UPSERT, Reads((scan,), 0), None
        )
    assert not statements.pins._held

    ask = protocol.InsertSpooled(statements.spool(), (), EMPTY, Overwrite.DYNAMIC, NO_READS)
    with pytest.raises(ConfigError, match="hoodie.tabel.name"):
        statements.handlers.insert_spooled(statements.target(WRONG), ask)
    assert statements.spooled() == []
