"""Savepoints: what they keep, what they refuse, and their ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyhudi.errors import ConfigError, HistoryExpired, HudiError
from pyhudi.format.instants import Action, InstantTime
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.savepoints import drop_savepoint, make_savepoint, savepoints_of
from pyhudi.storage.faults import Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.view import VIEWS
from tests.services.test_clean import instants_on_disk, pending_clean, versions
from tests.transactions.world import VERSIONS, World

KEEP_1 = Retention(commits=1)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def saved(world: World) -> list[InstantTime]:
    return [s.instant for s in savepoints_of(world.table(), world.table().timeline())]


def test_a_savepoint_keeps_a_commit_until_it_is_deleted(world: World) -> None:
    one, two, *_ = versions(world, 4)

    made = make_savepoint(world.writer(), one, "before the backfill")

    assert (made.instant, made.files, made.comment) == (one, 1, "before the backfill")
    assert made.made_by
    assert savepoints_of(world.table(), world.table().timeline()) == [made]
    clean_table(world.writer(), KEEP_1)
    assert one in instants_on_disk(world)
    assert two not in instants_on_disk(world)
    assert [f.instant for f in world.view().latest(as_of=one)] == [one]

    assert drop_savepoint(world.writer(), one) == []

    versions(world, 1, "j")
    clean_table(world.writer(), KEEP_1)
    assert one not in instants_on_disk(world)
    assert [i for i in world.table().timeline().instants if i.action is Action.SAVEPOINT] == []


def test_the_newest_commit_is_the_default_and_twice_is_once(world: World) -> None:
    *_, newest = versions(world, 2)
    first = make_savepoint(world.writer(), None, "a")
    assert make_savepoint(world.writer(), newest, "b") == first
    assert saved(world) == [newest]
    later = versions(world, 1)
    make_savepoint(world.writer(), None, "c")
    assert drop_savepoint(world.writer(), newest)[0].instant == later[0]


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ("2020-01-01", ConfigError, "is no completed commit"),
        ("20300101000000000", ConfigError, "The newest commit at that time is"),
        ("soon", HudiError, "soon"),
    ],
)
def test_what_is_no_commit_is_refused(
    world: World, asked: str, error: type[Exception], words: str
) -> None:
    versions(world, 1)
    before = {f.path for f in world.memory.walk("")}
    with pytest.raises(error, match=words):
        make_savepoint(world.writer(), asked, "")
    with pytest.raises(ConfigError, match="has no savepoint"):
        drop_savepoint(world.writer(), asked)
    assert {f.path for f in world.memory.walk("")} == before


def test_an_empty_table_has_nothing_to_keep(world: World) -> None:
    with pytest.raises(ConfigError, match="no commit yet"):
        make_savepoint(world.writer(), None, "")


def test_a_cleaned_commit_cannot_be_kept(world: World) -> None:
    one, *_ = versions(world, 4)
    clean_table(world.writer(), KEEP_1)
    with pytest.raises(HistoryExpired, match="cleaned"):
        make_savepoint(world.writer(), one, "")
    assert saved(world) == []


def test_a_commit_that_a_pending_clean_takes_apart_cannot_be_kept(world: World) -> None:
    one, two = versions(world, 2)
    (path,) = (p for p in world.data_files() if one in p)
    clean = pending_clean(world, f"{world.memory.root}/{path}")
    with pytest.raises(ConfigError, match=f"pending clean {clean.time} deletes some of its files"):
        make_savepoint(world.writer(), one, "")
    assert make_savepoint(world.writer(), two, "").instant == two


@pytest.mark.parametrize("effect", [Effect.CRASH_BEFORE, Effect.CRASH_AFTER])
@pytest.mark.parametrize("at", [1, 2])
def test_a_program_that_dies_leaves_a_savepoint_or_none(
    world: World, effect: Effect, at: int
) -> None:
    one, *_ = versions(world, 2)
    broken = FaultyStorage(world.memory, Fault(effect, at, path="*savepoint*"))
    with suppress(SimulatedCrash):
        make_savepoint(world.writer(broken), one, "")
    VIEWS.forget(world.memory)
    assert world.rows() == {"k": "1"}
    versions(world, 1)
    assert make_savepoint(world.writer(), one, "").files == 1

    broken = FaultyStorage(world.memory, Fault(effect, at, path="*savepoint*"))
    with suppress(SimulatedCrash):
        drop_savepoint(world.writer(broken), one)

    with suppress(ConfigError):
        drop_savepoint(world.writer(), one)
    versions(world, 1)
    assert [i for i in world.table().timeline().instants if i.action is Action.SAVEPOINT] == []
