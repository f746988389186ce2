from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest

from pyhudi.application import after_commit as after_commits
from pyhudi.application.after_commit import after_commit
from pyhudi.application.commit_notice import CommitNotice
from pyhudi.application.runtime import Runtime
from pyhudi.config import LockOptions, WriteOptions
from pyhudi.errors import LockTimeout
from pyhudi.format.instants import Action
from pyhudi.locks.base import LockOwner, TableLock
from pyhudi.timeline.table import Table
from tests.services.test_scheduling import CleanAll
from tests.transactions.conftest import new_world
from tests.transactions.world import World, other_lock

__all__ = ["new_world"]

OPTIONS = WriteOptions(lock=LockOptions(lock_wait_ms=0))


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world(9)


def runtime(world: World, taken: list[str] | None = None) -> Runtime:
    """The surroundings of a writer; ``taken`` counts the locks that were opened."""

    def lock(table: Table, options: WriteOptions) -> TableLock:
        if taken is not None:
            taken.append(table.config.name)
        return other_lock(world)

    return Runtime(world.clock, lambda root: world.memory, None, lock, None)  # type: ignore[arg-type]


def test_a_callback_is_told_of_the_commit_once_it_is_visible(world: World) -> None:
    used, told = runtime(world), list[CommitNotice]()

    def called(notice: CommitNotice) -> None:
        assert world.table().timeline().commits[-1].time == notice.commit.instant
        told.append(notice)

    used.callbacks.add(called)
    done = world.upsert({"k": "1"})
    after_commit(used, world.table(), OPTIONS, Action.COMMIT, done)

    (notice,) = told
    assert (notice.path, notice.table) == (world.memory.root, "t")
    assert notice.commit.instant == done.instant
    assert notice.commit.completed_at == done.completion_time
    assert (notice.commit.action, notice.commit.files) == (Action.COMMIT, 1)


@pytest.mark.parametrize("fails", [False, True])
def test_a_thread_gives_back_the_memory_of_its_write(
    world: World, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    released: list[int] = []

    class Pool:
        def release_unused(self) -> None:
            released.append(threading.get_ident())

    def serve(*_: object) -> None:
        if fails:
            raise MemoryError

    monkeypatch.setattr(after_commits.pa, "default_memory_pool", Pool)
    monkeypatch.setattr(after_commits, "_serve", serve)
    done = world.upsert({"k": "1"})
    with pytest.raises(MemoryError) if fails else nullcontext():
        after_commit(runtime(world), world.table(), OPTIONS, Action.COMMIT, done)
    assert released == [threading.get_ident()]


def test_services_are_scheduled_after_every_commit(world: World) -> None:
    used = runtime(world)
    used.services.register(CleanAll())
    after_commit(used, world.table(), OPTIONS, Action.COMMIT, world.upsert({"k": "1"}))
    assert [i.action for i in world.table().timeline().pending] == [Action.CLEAN]


@pytest.mark.parametrize("planner", [None, CleanAll()])
def test_where_there_is_nothing_to_schedule_no_lock_is_even_opened(
    world: World, planner: CleanAll | None
) -> None:
    taken: list[str] = []
    used = runtime(world, taken)
    options = replace(OPTIONS, clean_inline=False, archive_inline=False)
    if planner is not None:
        used.services.register(planner)
        options = replace(OPTIONS, table_services=False)
    after_commit(used, world.table(), options, Action.COMMIT, world.upsert({"k": "1"}))
    assert taken == []
    assert world.table().timeline().pending == ()


def test_a_commit_stands_where_nothing_can_be_scheduled(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    used = runtime(world)
    used.services.register(CleanAll())
    done = world.upsert({"k": "1"})
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))

    after_commit(used, world.table(), OPTIONS, Action.COMMIT, done)

    assert f"{done.instant} is committed, but not all table services ran" in caplog.text
    assert LockTimeout.code() in caplog.text
    assert world.rows() == {"k": "1"}


def test_a_callback_that_fails_leaves_the_rest_as_it_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    used = runtime(world)
    used.callbacks.add(lambda notice: 1 / 0)
    used.services.register(CleanAll())
    with caplog.at_level(logging.WARNING):
        after_commit(used, world.table(), OPTIONS, Action.COMMIT, world.upsert({"k": "1"}))
    assert "ZeroDivisionError" in caplog.text
    assert len(world.table().timeline().pending) == 1


def test_a_message_goes_to_the_url_only_while_it_is_turned_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    away = replace(OPTIONS, callback_url="http://127.0.0.1:9/", callback_timeout_s=20)
    done = world.upsert({"k": "1"})
    after_commit(runtime(world), world.table(), away, Action.COMMIT, done)
    assert caplog.text == ""
    on = replace(away, callback_on=True)
    after_commit(runtime(world), world.table(), on, Action.COMMIT, done)
    assert "the callback to 127.0.0.1 failed" in caplog.text
