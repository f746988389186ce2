"""Statements about a table as a whole, as the shim asks for them; no Spark session is needed."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import WriteOptions
from pyhudi.errors import ConfigError, LockTimeout, SchemaConflict, TableExists
from pyhudi.locks.base import LockOwner
from pyhudi.locks.in_process import InProcessLock, InProcessLocks
from pyhudi.spark import protocol
from pyhudi.spark.questions import Target
from pyhudi.spark.table_handlers import TableHandlers
from pyhudi.storage.faults import Call, FaultyStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import PROPERTIES, Table, open_table, table_exists
from pyhudi.transactions.presence import ID
from tests.fakes import FakeClock

ID_COLUMN = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
TEXT_COLUMN = {"name": "id", "type": "string", "nullable": True, "metadata": {}}
NOT_SERVED = "hoodie.table.version=9", "hoodie.table.version=99"


class Place:
    """A path at which statements make and take away tables."""

    numbers = itertools.count()

    def __init__(self) -> None:
        self.path = f"memory:///handlers{next(self.numbers)}"
        self.clock, self.locks = FakeClock(), InProcessLocks()
        self.memory = MemoryStorage(self.path, self.clock)
        self.handlers = self.on(self.memory)

    def on(self, storage: Any) -> TableHandlers:
        """The handlers of a driver that reaches the place by ``storage``."""
        absent = cast(Any, None)
        runtime = Runtime(self.clock, lambda root: storage, absent, self.lock, absent)
        return TableHandlers(absent, runtime)

    def lock(self, table: Table, options: WriteOptions) -> InProcessLock:
        return InProcessLock(self.locks, "t", self.clock)

    def target(self, properties: dict[str, str], options: dict[str, str] | None = None) -> Target:
        return Target.at(protocol.Place(self.path, options or {}, properties, {}, None, None))

    def create(
        self,
        *columns: dict[str, Any],
        adopt: bool = True,
        handlers: TableHandlers | None = None,
        properties: dict[str, str] | None = None,
        options: dict[str, str] | None = None,
    ) -> str | None:
        """The id of the table, if it was made."""
        schema = {"type": "struct", "fields": list(columns or (ID_COLUMN,))}
        ask = protocol.CreateTable("d.t", schema, (), adopt)
        at = self.target({"primaryKey": "id", **(properties or {})}, options)
        return (handlers or self.handlers).create_table(at, ask).made

    def made(self) -> str:
        """The id of a table that is made here."""
        made = self.create()
        assert made is not None
        return made

    def discard(self, made: str) -> bool:
        return self.handlers.discard_table(self.target({}), protocol.DiscardTable(made))

    def check(self, given: dict[str, str], stored: dict[str, str] | None = None) -> None:
        """What ALTER TABLE SET TBLPROPERTIES asks first."""
        ask = protocol.SetProperties(given, ("dropped",))
        self.handlers.check_properties(self.target(stored or {}), ask)

    def drop(self, **properties: str) -> bool:
        given = {key.replace("__", "."): text for key, text in properties.items()}
        return self.handlers.drop_table(self.target(given), protocol.Nothing())


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.mark.parametrize(
    "given",
    [
        {"primaryKey": "city"},
        {"type": "mor"},
        {"hoodie.table.name": "other"},
        {"hoodie.datasource.write.partitionpath.field": "city"},
        {"hoodie.write.concurrency.mdoe": "optimistic_concurrency_control"},
        {"hoodie.write.concurrency.mode": "both"},
        {"primarykeys": "id"},
    ],
)
def test_properties_with_which_the_next_write_would_fail_are_refused(
    place: Place, given: dict[str, str]
) -> None:
    place.made()
    with pytest.raises(ConfigError) as refused:
        place.check(given)
    assert refused.value.facts["key"] == next(iter(given))


def test_properties_that_agree_with_the_table_and_notes_may_be_set(place: Place) -> None:
    place.made()
    place.check({"primaryKey": "ID", "team": "fares", "comment": "rides", "type": "cow"})
    place.check({"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"})


def test_properties_are_judged_with_those_that_the_table_keeps(place: Place) -> None:
    place.made()
    older = {"hoodie.datasource.write.operation": "insert"}
    newer = {"Hoodie.Datasource.Write.Operation": "upsert"}
    with pytest.raises(ConfigError, match="two names of one option"):
        place.check(newer, older)
    place.check({"dropped": "", "team": "x"}, {"dropped": "1"})


def test_a_table_is_not_made_with_names_that_mean_nothing(place: Place) -> None:
    with pytest.raises(ConfigError, match="nearly is 'primaryKey'"):
        place.create(properties={"primarykeys": "id"})
    codec = {"compression": "zstd"}
    with pytest.raises(ConfigError, match="option of other sources"):
        place.create(properties=codec, options=codec)
    assert place.memory.walk("") == []
    place.create(properties={"compression": "a note of ours"})


def test_a_statement_that_fails_takes_its_own_table_away(place: Place) -> None:
    made = place.made()
    assert place.discard(made)
    assert place.memory.walk("") == []
    assert place.discard(made), "it is gone"


def test_a_statement_that_fails_leaves_the_table_that_another_made_in_its_place(
    place: Place,
) -> None:
    first = place.made()
    place.drop()
    second = place.made()
    assert first != second
    assert not place.discard(first)
    assert open_table(place.memory).config.raw[ID] == second


def test_a_statement_that_fails_leaves_the_table_that_another_has_adopted(place: Place) -> None:
    first = place.made()
    assert place.create() is None
    assert not place.discard(first)
    assert table_exists(place.memory)


def test_of_two_statements_at_once_the_second_adopts_the_table_of_the_first(place: Place) -> None:
    place.create()
    properties = place.memory.read(PROPERTIES)
    place.drop()

    def first(call: Call) -> None:
        if call.method == "put_if_absent" and PROPERTIES in call.paths:
            place.memory.put_if_absent(PROPERTIES, properties)

    assert place.create(handlers=place.on(FaultyStorage(place.memory, before=first))) is None


def test_a_table_is_adopted_only_where_the_statement_may_and_says_the_same(place: Place) -> None:
    made = place.made()
    with pytest.raises(TableExists, match="adopt the table by CREATE TABLE"):
        place.create(adopt=False)
    with pytest.raises(SchemaConflict, match="column 'id' is bigint there and string here"):
        place.create(TEXT_COLUMN)
    assert place.discard(made), "nobody has adopted it"


@pytest.mark.parametrize("content", [None, b"no properties", b"unknown"], ids=str)
def test_what_pyhudi_cannot_open_is_not_dropped(place: Place, content: bytes | None) -> None:
    if content == b"unknown":
        place.create()
        served = place.memory.read(PROPERTIES).decode()
        content = served.replace(*NOT_SERVED).encode()
    if content is not None:
        place.memory.replace(PROPERTIES, content)
    assert not place.drop()
    assert place.memory.exists(PROPERTIES) == (content is not None)


def test_a_drop_waits_for_the_lock_as_long_as_the_table_says(place: Place) -> None:
    place.create()
    InProcessLock(place.locks, "t", place.clock).acquire(1, LockOwner("another", "there", 1))
    with pytest.raises(LockTimeout, match="2 s"):
        place.drop(hoodie__write__lock__wait_time_ms="2000")
    assert table_exists(place.memory)
