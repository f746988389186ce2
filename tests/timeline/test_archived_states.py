"""Time travel into the archive: what is there is read as it was, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.choices import CleanPolicy
from pyhudi.errors import HistoryExpired
from pyhudi.format.instants import Action, InstantTime, format_time, parse_time
from pyhudi.reads.pins import pin_of
from pyhudi.reads.scan import open_query
from pyhudi.services.archive_plan import ArchivePolicy
from pyhudi.services.archiver import ArchiveRules, archive_table
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.savepoints import make_savepoint
from pyhudi.timeline.read_states import ReadState
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.time_travel import check_history, check_readable
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.leases import lease
from tests.application.test_after_commit import runtime
from tests.transactions.conftest import new_world
from tests.transactions.world import VERSIONS, World, finish, schema, work

__all__ = ["new_world"]

KEEP_2 = ArchiveRules(ArchivePolicy(2, 2), Retention(commits=1))
NEWEST_ONLY = Retention(CleanPolicy.VERSIONS, versions=1)
Rows = dict[str, str]


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def reader(world: World) -> Runtime:
    return replace(runtime(world), storage=lambda root: world.memory)


def rows(world: World, as_of: InstantTime) -> Rows:
    """What a query of that time reads, each key once."""
    VIEWS.forget_all()
    query = open_query(reader(world), world.memory.root, {}, {}, as_of)
    found: Rows = {}
    for each in query.slices([]):
        assert each.base is not None
        own = json.loads(world.memory.read(each.base.path))
        assert not found.keys() & own.keys()
        found |= own
    return found


def written(world: World, *commits: Rows) -> dict[InstantTime, Rows]:
    """The rows after each of these upserts, by instant."""
    told: dict[InstantTime, Rows] = {}
    for changes in commits:
        instant = world.upsert(changes).instant
        told[instant] = world.rows()
        world.clock.advance(1)
    return told


def archived(world: World) -> list[InstantTime]:
    found = archive_table(world.writer(), KEEP_2)
    return [each.instant for each in found if each.fate.value == "archived"]


def refusal(world: World, as_of: InstantTime) -> HistoryExpired:
    VIEWS.forget_all()
    with pytest.raises(HistoryExpired) as refused:
        check_readable(world.table(), world.table().timeline(), as_of)
    return refused.value


def test_every_archived_state_whose_files_are_there_is_read_as_it_was(world: World) -> None:
    told = written(world, {"k": "1"}, {"j": "1"}, {"k": "2", "l": "1"}, {"j": "2"}, {"m": "1"})
    gone = archived(world)
    assert len(gone) == 3

    for instant, then in told.items():
        assert rows(world, instant) == then
    for instant in gone:
        later = format_time(parse_time(instant, True) + 1, True)
        assert rows(world, later) == told[instant]
        with pytest.raises(HistoryExpired):
            check_history(world.table(), world.table().timeline(), instant)


def test_a_group_that_was_replaced_since_counts_until_then(world: World) -> None:
    told = written(world, {"k": "1"}, {"k": "2"})
    whole = world.begin(action=Action.REPLACECOMMIT)
    finish(whole, work(whole, {"k": "3"}, overwrite=True))
    told[whole.instant] = world.rows()
    told |= written(world, {"k": "4"})
    assert archived(world) == list(told)[:2]

    for instant, then in told.items():
        assert rows(world, instant) == then


def test_a_state_of_which_a_clean_took_a_file_is_refused_and_the_earliest_is_named(
    world: World,
) -> None:
    told = written(world, {"k": "1"}, {"j": "1"}, {"k": "2"}, {"l": "1"}, {"m": "1"}, {"n": "1"})
    clean_table(world.writer(), NEWEST_ONLY)
    one, two, three, four, *_ = told
    assert archived(world) == [one, two, three, four]

    for instant in (one, two):
        error = refusal(world, instant)
        assert error.facts["earliest"] == three
        assert f"commit {instant}, the newest at that time, is archived" in str(error)
    for instant in (three, four):
        assert rows(world, instant) == told[instant]


def test_a_replacement_that_is_archived_ends_what_was_before_it(world: World) -> None:
    told = written(world, {"k": "1"}, {"k": "2"})
    whole = world.begin(action=Action.REPLACECOMMIT)
    finish(whole, work(whole, {"k": "3"}, overwrite=True))
    told[whole.instant] = world.rows()
    told |= written(world, {"j": "1"}, {"l": "1"})
    clean_table(world.writer(), NEWEST_ONLY)
    one, two, replaced, *_ = told
    assert archived(world) == [one, two, replaced]

    assert refusal(world, one).facts["earliest"] == replaced
    assert refusal(world, two).facts["earliest"] == replaced
    assert rows(world, replaced) == {"k": "3"}


def test_before_the_first_commit_there_is_nothing_to_read(world: World) -> None:
    first, *_ = written(world, {"k": "1"}, {"k": "2"}, {"k": "3"}, {"k": "4"})
    archived(world)
    error = refusal(world, format_time(parse_time(first, True) - 1, True))
    assert f"its first commit is {first}" in str(error)
    assert error.facts["earliest"] == first


@pytest.mark.parametrize("cut", [False, True], ids=["gone", "cut off"])
def test_a_file_that_is_gone_or_cut_off_refuses_the_state(world: World, cut: bool) -> None:
    one, *_ = written(world, {"k": "1"}, {"k": "2"}, {"k": "3"}, {"k": "4"})
    archived(world)
    (path,) = [p for p in world.data_files() if p.endswith(f"_{one}.parquet")]
    world.memory.delete([path])
    if cut:
        world.memory.put_if_absent(path, b"{")
    refusal(world, one)


@pytest.mark.parametrize("late", [False, True])
def test_a_file_that_no_commit_names_refuses_the_state_unless_it_is_a_stray(
    world: World, late: bool
) -> None:
    (one,) = written(world, {"k": "1"})
    (path,) = world.data_files()
    other = path.replace("-0_", "-1_")
    if not late:
        world.memory.put_if_absent(other, b"{}")
    written(world, {"k": "2"}, {"k": "3"}, {"k": "4"})
    archived(world)
    if late:  # it came after the first active commit: the archive shows that nobody named it
        world.memory.put_if_absent(other, b"{}")
        assert rows(world, one) == {"k": "1"}
    else:
        refusal(world, one)


def test_without_the_archive_no_older_state_is_read(world: World) -> None:
    one, *_ = written(world, {"k": "1"}, {"k": "2"}, {"k": "3"}, {"k": "4"})
    archived(world)
    world.memory.delete_folder(world.table().config.history_folder)
    refusal(world, one)


def test_the_columns_are_those_of_the_archived_commit(world: World) -> None:
    first = world.begin()
    finish(first, work(first, {"k": "1"}), schema("key"))
    written(world, {"k": "2"}, {"k": "3"}, {"k": "4"})
    assert first.instant in archived(world)
    table = world.table()

    then = table_schema(table, table.timeline(), first.instant)
    now = table_schema(table, table.timeline(), None)
    assert then is not None
    assert now is not None
    assert (then.names, now.names) == (("key",), ("key", "value"))


def test_no_savepoint_is_made_of_an_archived_state(world: World) -> None:
    one, *_ = written(world, {"k": "1"}, {"k": "2"}, {"k": "3"}, {"k": "4"})
    archived(world)
    assert rows(world, one) == {"k": "1"}
    with pytest.raises(Exception, match=str(one)):
        make_savepoint(world.writer(), str(one), "")


def test_a_query_of_an_archived_state_keeps_its_files(world: World) -> None:
    one, *_ = written(world, {"k": "1"}, {"k": "2"}, {"k": "3"}, {"k": "4"})
    archived(world)
    pin = pin_of(open_query(reader(world), world.memory.root, {}, {}, one))
    state = ReadState(one, world.table().config.layout, pin.rpartition("-")[2])
    running = lease(world.memory, world.clock, state, HeartbeatPolicy())
    running.beat()

    clean_table(world.writer(), NEWEST_ONLY)
    assert rows(world, one) == {"k": "1"}

    running.stop()
    clean_table(world.writer(), NEWEST_ONLY)
    refusal(world, one)
