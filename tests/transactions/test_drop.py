"""DROP of a managed table beside other writers, each order of steps played by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyhudi.errors import (
    TableNotFound,
    WriteFailed,
)
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.timeline.table import BACKUP, PROPERTIES, Table
from pyhudi.transactions.presence import (
    remove,
)
from tests.transactions.creators import just_made, make, on
from tests.transactions.world import (
    LAPSE_S,
    VERSIONS,
    World,
    begin_beside,
    die,
    finish,
    put_instant,
    work,
)


@pytest.fixture(params=VERSIONS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    yield from just_made(request.param)


def test_a_drop_deletes_the_table_with_its_rows(world: World) -> None:
    world.upsert({"k": "1"})
    world.memory.put_if_absent(BACKUP, b"old")
    remove(world.writer())
    assert world.memory.walk("") == []


def test_a_drop_waits_for_the_lock_and_leaves_a_table_with_a_running_write(world: World) -> None:
    table = world.table()
    theirs = begin_beside(world)
    with pytest.raises(WriteFailed, match="so the table was not dropped"):
        remove(world.writer(table=table))
    finish(theirs, work(theirs, {"k": "1"}))
    assert world.rows() == {"k": "1"}


def test_a_drop_passes_over_a_writer_that_died(world: World) -> None:
    theirs = begin_beside(world)
    work(theirs, {"k": "1"})
    die(theirs)
    world.clock.advance(LAPSE_S + 1)
    remove(world.writer())
    assert world.memory.walk("") == []


def test_a_write_that_begins_while_the_table_is_dropped_fails_and_tidies_up(world: World) -> None:
    world.upsert({"k": "1"})
    table, begun = world.table(), []

    def begin() -> None:
        theirs = begin_beside(world)
        begun.append((theirs, work(theirs, {"new": "2"})))

    storage = on(world.memory, "delete", PROPERTIES, begin)
    remove(world.writer(table=Table(storage, table.config)))
    [(theirs, written)] = begun
    with pytest.raises(TableNotFound):
        finish(theirs, written)
    theirs.abort()
    assert world.data_files() == set()
    make(world, table)
    assert world.rows() == {}


def test_a_log_file_of_a_write_that_begins_while_the_table_is_dropped_is_left_to_it(
    world: World,
) -> None:
    table, logs = world.table(), []

    def begin() -> None:
        theirs = begin_beside(world)
        logs.append(f"b/{LogFileName(FileId('g'), theirs.instant, 1, '0-1-2').render()}")
        world.memory.put_if_absent(logs[0], b"#HUDI#")

    remove(world.writer(table=Table(on(world.memory, "walk", "", begin), table.config)))
    assert world.memory.exists(logs[0])


def test_a_pending_service_does_not_keep_a_table_from_being_dropped(world: World) -> None:
    put_instant(world, Instant(InstantTime("20240101000000000"), Action.CLEAN, State.REQUESTED))
    remove(world.writer())
    assert world.memory.walk("") == []
