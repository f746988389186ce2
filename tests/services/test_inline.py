"""Clean and archive after a commit: on by default, they cost little and get in nobody's way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.application.after_commit import after_commit
from pyhudi.config import WriteOptions, resolve_write
from pyhudi.errors import ConfigError, LockTimeout
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import CleanerPlan, render_cleaner_plan
from pyhudi.locks.base import LockOwner
from pyhudi.services import clean as clean_module
from pyhudi.services import inline
from pyhudi.services.archiver import archived
from pyhudi.services.budget import Budget
from pyhudi.services.clean import cleaned
from pyhudi.services.inline import LOCK_WAIT_S, OWNED_MS, run_inline
from pyhudi.storage.faults import FaultyStorage
from pyhudi.timeline.archived import archived_instants
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.instants import put_instant
from tests.application.test_after_commit import runtime
from tests.transactions.world import VERSIONS, World, other_lock

NOTHING = CleanerPlan(None, "", "KEEP_LATEST_COMMITS", {})
OPTIONS = WriteOptions(commits_retained=2, keep_min_commits=4, keep_max_commits=6)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def serve(world: World, options: WriteOptions = OPTIONS) -> None:
    run_inline(world.writer(), options)


def written(world: World, key: str, options: WriteOptions | None = OPTIONS) -> InstantTime:
    done = world.upsert({key: key})
    if options is not None:
        after_commit(runtime(world), world.table(), options, Action.COMMIT, done)
    return done.instant


def cleans(world: World) -> list[Instant]:
    return [i for i in world.table().timeline().instants if i.action is Action.CLEAN]


def commits(world: World) -> list[InstantTime]:
    return [i.time for i in world.table().timeline().commits]


def data_files(world: World) -> int:
    return sum(not path.startswith(".hoodie") for path in world.data_files())


def in_archive(world: World) -> list[InstantTime]:
    found = archived_instants(world.memory, world.table().config)
    return [e.instant.time for e in found if e.instant.action is Action.COMMIT]


def test_both_are_on_unless_options_say_no(world: World) -> None:
    options = resolve_write({}, world.table().config.raw, {})
    assert (options.clean_inline, options.archive_inline) == (True, True)
    assert (options.commits_retained, options.keep_min_commits, options.keep_max_commits) == (
        10, 20, 30
    )  # fmt: skip


def test_a_table_that_is_written_for_long_stays_small(world: World) -> None:
    times = [written(world, "k") for _ in range(20)]
    assert data_files(world) <= 4
    assert len(commits(world)) <= 7
    assert [*in_archive(world), *commits(world)] == times
    assert world.rows() == {"k": "k"}


def test_while_rows_are_only_added_no_file_is_listed_and_nothing_is_put(world: World) -> None:
    for number in range(5):
        written(world, f"k{number}")
    VIEWS.forget(world.memory)
    counting = FaultyStorage(world.memory)
    run_inline(world.writer(counting), OPTIONS)
    assert {call.method for call in counting.calls} <= {"list", "read", "walk"}
    assert [c.path for c in counting.calls if c.method == "walk" and ".hoodie" not in c.path] == []
    assert cleans(world) == []


def test_the_archive_goes_on_though_no_clean_has_anything_to_delete(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_module, "EMPTY_AFTER", 3)
    times = [written(world, "k") for _ in range(4)]
    times += [written(world, f"k{number}") for number in range(20)]
    assert len(commits(world)) <= 10
    assert [*in_archive(world), *commits(world)] == times
    assert all(clean.state is State.COMPLETED for clean in cleans(world))


def test_a_clean_that_somebody_may_be_carrying_out_is_left_alone_for_a_while(world: World) -> None:
    for _ in range(5):
        written(world, "k", None)
    time = world.writer().next_time(world.table().timeline())
    theirs = Instant(time, Action.CLEAN, State.REQUESTED)
    put_instant(world.table(), None, theirs, render_cleaner_plan(NOTHING))
    serve(world)
    assert cleans(world) == [theirs]
    world.clock.advance(OWNED_MS / 1000 + 1)
    serve(world)
    assert {clean.state for clean in cleans(world)} == {State.COMPLETED}
    assert len(cleans(world)) == 2


def test_it_does_not_wait_long_for_a_lock(world: World) -> None:
    for _ in range(5):
        written(world, "k", None)
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))
    began = world.clock.monotonic()
    with pytest.raises(LockTimeout):
        serve(world)
    assert world.clock.monotonic() - began <= LOCK_WAIT_S + 1


def test_a_table_that_was_never_serviced_is_served_in_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "AT_ONCE", Budget(3))
    monkeypatch.setattr(inline, "MOST_INSTANTS", 2)
    times = [written(world, "k", None) for _ in range(14)]
    files, left = [], []
    for _ in range(8):
        times.append(written(world, "j"))
        files.append(data_files(world))
        left.append(len(commits(world)))
    assert files == [12, 10, 8, 6, 4, 4, 4, 4]
    assert left[0] == 13
    assert left[-1] <= 8
    assert [*in_archive(world), *commits(world)] == times


def test_a_bound_of_files_or_instants_is_kept_and_told(world: World) -> None:
    for _ in range(8):
        written(world, "k", None)
    options = replace(OPTIONS, keep_min_commits=3, keep_max_commits=4)
    asked = cleaned(world.writer(), options, dry_run=True, budget=Budget(2))
    assert [e.fate.value for e in asked].count("would be deleted") == 2
    assert asked[2].why == "for the next clean: this one deletes 2 of 5 files"
    assert data_files(world) == 8
    cleaned(world.writer(), options, dry_run=False, budget=Budget(2))
    assert data_files(world) == 6
    cleaned(world.writer(), options, dry_run=False)
    assert data_files(world) == 3
    moved = archived(world.writer(), options, dry_run=False, max_instants=2)
    gone = [e for e in moved if e.fate.value == "archived"]
    assert len(gone) == 2
    (why,) = {e.why for e in moved if "next archive" in e.why}
    assert why == "for the next archive: this one moves 2 of 5 instants"


@pytest.mark.parametrize("most", [0, -1])
def test_a_bound_below_one_is_refused(world: World, most: int) -> None:
    with pytest.raises(ConfigError, match="'max_files' is"):
        cleaned(world.writer(), OPTIONS, dry_run=False, budget=Budget(most))
    with pytest.raises(ConfigError, match="'max_instants' is"):
        archived(world.writer(), OPTIONS, dry_run=False, max_instants=most)
