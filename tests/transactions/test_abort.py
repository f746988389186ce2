"""Undoing a write that failed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.format.instants import State
from pyhudi.format.markers import marker_folder
from pyhudi.storage.faults import Effect, Fault, FaultyStorage
from pyhudi.transactions.phases import Phase
from pyhudi.transactions.recovery.rollback import roll_back
from tests.transactions.world import (
    World,
    finish,
    put_file,
    work,
)

NewWorld = Callable[..., World]


@pytest.mark.parametrize("again", [False, True])
def test_an_abort_takes_everything_back(world: World, again: bool) -> None:
    world.upsert({"k": "1"})
    transaction = world.begin()
    work(transaction, {"k": "2", "j": "2"})

    transaction.abort()
    if again:
        transaction.abort()

    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []


def test_an_abort_hides_no_cause_and_the_next_writer_cleans_up_at_once(world: World) -> None:
    world.upsert({"k": "1"})
    faulty = FaultyStorage(world.memory, Fault(Effect.FAIL_BEFORE, path="*.rollback.*", times=99))
    transaction = world.begin(faulty)
    work(transaction, {"k": "2"})

    transaction.abort()
    assert len(world.data_files()) == 2

    before = world.clock.monotonic()
    world.upsert({"j": "3"})
    assert world.clock.monotonic() - before < 1, "nothing of the write can come any more"
    assert world.rows() == {"k": "1", "j": "3"}
    assert world.leftovers() == []


def test_a_commit_is_never_undone_by_abort(world: World) -> None:
    transaction = world.begin()
    finish(transaction, work(transaction, {"k": "1"}))

    transaction.abort()

    assert world.rows() == {"k": "1"}


def test_an_abort_deletes_nothing_of_a_commit_that_has_landed_unnoticed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    move = transaction._move

    def interrupted(to: Phase, puts: State | None = None) -> None:
        if to is Phase.COMMITTED:
            raise KeyboardInterrupt
        move(to, puts)

    monkeypatch.setattr(transaction, "_move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finish(transaction, written)

    transaction.abort()

    assert world.rows() == {"k": "1"}


def test_a_writer_taken_for_dead_deletes_what_it_went_on_writing(world: World) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})
    file = min(world.data_files())
    roll_back(world.writer(), transaction.instant)
    # An upload ends whose marker is gone, and another file gets a marker of its own.
    world.memory.put_if_absent(file, b"late")
    put_file(transaction, "a", "late-0", {"k": "late"})  # type: ignore[arg-type]

    transaction.abort()

    assert world.leftovers() == []


def test_an_abort_that_finds_no_trace_of_its_instant_deletes_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """It may have been committed and archived: its files may be data, as its markers tell."""
    ours = world.begin()
    work(ours, {"k": "1"})
    folder = world.table().config.timeline_folder
    world.memory.delete([f.path for f in world.memory.list(folder) if ours.instant in f.name])
    files, markers = world.data_files(), world.memory.walk(marker_folder(ours.instant))
    assert files
    assert markers

    ours.abort()

    assert world.data_files() == files
    assert world.memory.walk(marker_folder(ours.instant)) == markers
    assert "is not undone" in caplog.text
