"""What a write does around its attempts; no test comes as far as the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.config import Operation, WriteOptions, resolve_write
from pyhudi.errors import (
    CommitConflict,
    CommitUnknown,
    ConfigError,
    TableNotFound,
    UnsupportedTable,
)
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import RestorePlan, render_restore_plan
from pyhudi.format.properties import render_properties
from pyhudi.locks.base import TableLock
from pyhudi.timeline.table import PROPERTIES, Table, table_exists
from pyhudi.transactions.pessimistic import is_pessimistic
from pyhudi.writes import write
from pyhudi.writes.intent import Intent, Route
from pyhudi.writes.own_reads import OwnReads
from pyhudi.writes.write import Request, write_changes, write_table
from tests.transactions.world import World, other_lock, put_instant

NO_ROWS = ABSENT = cast(Any, None)
PESSIMISTIC = {"hoodie.write.concurrency.mode": "PESSIMISTIC_CONCURRENCY_CONTROL"}
RETRIES = "hoodie.write.num.retries.on.conflict.failures"


class Writer:
    """A writer of the world's table, with what it asks for in the test's hand."""

    def __init__(self, group_lock: Callable[..., Any] = ABSENT) -> None:
        self.world, self.asked, self.locked = World(), [], 0  # type: tuple[World, list[bool], int]
        self.before_lock: Callable[[], object] = lambda: None
        self.runtime = Runtime(
            self.world.clock, lambda root: self.world.memory, ABSENT, self.lock, ABSENT,
            group_lock=group_lock,
        )  # fmt: skip

    def lock(self, table: Table, options: WriteOptions) -> TableLock:
        self.locked += 1
        self.before_lock()
        return other_lock(self.world)

    def writes(self, route: Route, options: dict[str, str], again: Intent | None = None) -> object:
        """Write once; where the table is looked for a second time, ``again`` is what is wanted."""

        def intent_of(exists: bool) -> Intent | None:
            self.asked.append(exists)
            return Intent(route) if len(self.asked) == 1 else again

        root = self.world.memory.root
        return write_table(self.runtime, NO_ROWS, root, options, {}, intent_of)

    def request(self, given: dict[str, str], changes: bool = False) -> Request:
        options = resolve_write(given, self.world.table().config.raw, {})
        upsert, sql = Operation.UPSERT, Intent(Route.SQL)
        return Request(self.runtime, NO_ROWS, options, upsert, sql, changes=changes)

    def make_read_only(self) -> None:
        raw = {**self.world.table().config.raw, "hoodie.record.merge.mode": "CUSTOM"}
        self.world.memory.replace(PROPERTIES, render_properties(raw))

    def take_away(self) -> None:
        self.world.memory.delete_folder("")


def begin_restore(world: World) -> None:
    plan = render_restore_plan(RestorePlan((), InstantTime("20240101000000000")))
    asked = Instant(InstantTime("20240102000000000"), Action.RESTORE, State.REQUESTED)
    put_instant(world, asked, plan)


# -- which table


def test_sql_names_the_table_that_its_catalog_has_and_its_storage_has_not() -> None:
    writer = Writer()
    writer.take_away()
    with pytest.raises(TableNotFound):
        writer.writes(Route.SQL, {})


def test_a_write_that_wants_nothing_asks_for_nothing_more() -> None:
    writer = Writer()
    root = writer.world.memory.root
    assert write_table(writer.runtime, NO_ROWS, root, {}, {}, lambda exists: None) is None
    assert writer.locked == 0


def test_a_table_that_is_only_read_here_is_not_written() -> None:
    writer = Writer()
    writer.make_read_only()
    with pytest.raises(UnsupportedTable, match="CUSTOM"):
        writer.writes(Route.SAVE, {})
    root, reads = writer.world.memory.root, OwnReads(None, 0)
    with pytest.raises(UnsupportedTable, match="CUSTOM"):
        write_changes(writer.runtime, NO_ROWS, root, {}, {}, Operation.UPSERT, reads)


def test_a_save_whose_table_was_taken_away_meanwhile_is_decided_anew() -> None:
    writer = Writer(lambda table, options: ABSENT)
    writer.before_lock = writer.take_away
    assert writer.writes(Route.SAVE, PESSIMISTIC) is None
    assert writer.asked == [True, False]


def test_sql_whose_table_was_taken_away_meanwhile_fails() -> None:
    writer = Writer(lambda table, options: ABSENT)
    writer.before_lock = writer.take_away
    with pytest.raises(TableNotFound):
        writer.writes(Route.SQL, PESSIMISTIC)
    assert writer.asked == [True]


# -- a table that was made for the write


def failing(error: Exception) -> Callable[..., Any]:
    def group_lock(table: Table, options: WriteOptions) -> Any:
        raise error

    return group_lock


@pytest.mark.parametrize("created", [True, False], ids=["made", "found"])
def test_a_write_that_fails_takes_away_the_table_that_it_made_and_no_other(created: bool) -> None:
    writer = Writer(failing(ConfigError("No such lock.", key="lock")))
    request = writer.request(PESSIMISTIC)
    with pytest.raises(ConfigError, match="No such lock"):
        write._written(request, writer.world.table(), created)
    assert table_exists(writer.world.memory) == (not created)


def test_a_write_that_may_have_landed_leaves_the_table_that_it_made() -> None:
    writer = Writer(failing(CommitUnknown("No answer.", instant="1", path="p")))
    request = writer.request(PESSIMISTIC)
    with pytest.raises(CommitUnknown):
        write._written(request, writer.world.table(), True)
    assert table_exists(writer.world.memory)


# -- an attempt that a restore keeps from beginning


def test_a_first_pessimistic_write_records_that_the_table_is_one_and_later_ones_ask_no_lock() -> (
    None
):
    writer = Writer(lambda table, options: ABSENT)
    begin_restore(writer.world)
    for locked in (1, 1):
        request = replace(writer.request(PESSIMISTIC), since=writer.world.table().timeline())
        with pytest.raises(CommitConflict, match="restore"):
            write._locked(request, writer.world.table())
        assert is_pessimistic(writer.world.table().config)
        assert writer.locked == locked


def test_rows_that_were_read_from_the_table_are_not_written_a_second_time() -> None:
    """Only the shim can evaluate them again."""
    writer = Writer()
    begin_restore(writer.world)
    request, slept = writer.request({RETRIES: "2"}), writer.world.clock.slept
    with pytest.raises(CommitConflict, match="restore"):
        write._locked(replace(request, since=writer.world.table().timeline()), writer.world.table())
    assert slept == []
    with pytest.raises(CommitConflict, match="restore"):
        write._locked(request, writer.world.table())
    assert len(slept) == 2


def test_each_attempt_opens_the_table_as_it_is_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    begin_restore(writer.world)
    monkeypatch.setattr(writer.world.clock, "sleep", lambda seconds: writer.take_away())
    with pytest.raises(TableNotFound):
        write._locked(writer.request({RETRIES: "1"}), writer.world.table())


# -- rows that were read from the table


@pytest.mark.parametrize("changes", [True, False], ids=["a statement", "a DataFrame"])
@pytest.mark.parametrize("evaluated", [None, 2], ids=["not once more", "often enough"])
def test_rows_that_are_not_evaluated_again_are_given_up(
    evaluated: int | None, changes: bool
) -> None:
    writer = Writer()
    request = writer.request({RETRIES: "2"}, changes)
    with pytest.raises(CommitConflict) as told:
        write._written_or_again(request, writer.world.table(), OwnReads(None, evaluated), False)
    assert "again_in_ms" not in told.value.facts
    assert ("read the table again" in str(told.value)) != changes


@pytest.mark.parametrize(("evaluated", "least_ms"), [(0, 25), (3, 200)])
def test_rows_that_lost_a_race_are_evaluated_again_each_time_after_a_longer_pause(
    evaluated: int, least_ms: int
) -> None:
    writer = Writer()
    request = writer.request({RETRIES: "4"})
    with pytest.raises(CommitConflict) as told:
        write._written_or_again(request, writer.world.table(), OwnReads(None, evaluated), False)
    assert least_ms <= cast(int, told.value.facts["again_in_ms"]) < 3 * least_ms
    assert writer.world.clock.slept == [], "the wait is the shim's"
