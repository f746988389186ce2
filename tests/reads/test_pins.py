from __future__ import annotations

from typing import Any

import pytest

from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import CleanMetadata, render_clean_metadata
from pyhudi.reads.conditions import AnyOf, IsNotNull
from pyhudi.reads.pins import TRUSTED_S, Pinned, PinnedQueries, pin_of
from pyhudi.reads.scan import count_rows, open_listed, open_query
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.timeline.table import LOOKS
from pyhudi.timeline.view import VIEWS
from tests.reads.conditions import compare
from tests.reads.pinned_table import HIDDEN, TIMELINE, World, commits_of, equal, evicted


@pytest.fixture
def world() -> World:
    return World()


def test_all_questions_of_a_query_are_answered_from_one_listing(world: World) -> None:
    world.commit(1, "a", "b")
    world.storage.listings = 0
    asked = world.describe()

    assert world.rows(asked) == 6
    assert world.rows(asked, equal("a")) == 3
    plan = world.pins.ask(asked, lambda query: plan_scan(query, [], [equal("b")]))
    assert [row[0].split("/")[-2] for row in plan.files] == ["b"]
    assert world.storage.listings == 1


def test_a_pinned_query_sees_no_later_commit_and_a_new_one_does(world: World) -> None:
    world.commit(3, "a")
    asked = world.describe()
    world.commit(4, "a")
    assert world.rows(asked) == 3
    assert world.rows(world.describe()) == 6


def test_a_commit_that_began_earlier_and_completes_later_makes_another_state(world: World) -> None:
    """Both states have the same instant, and Spark must not take one for the other."""
    world.commit(1, "a")
    world.commit(3, "a")
    before = world.describe()
    world.commit(2, "a", done=9)
    after = world.describe()

    assert before.instant == after.instant
    assert before.pin != after.pin
    assert (world.rows(before), world.rows(after)) == (6, 9)


def test_a_state_has_one_pin_however_often_it_is_described(world: World) -> None:
    world.commit(1, "a")
    first = world.describe()
    assert world.describe() == first

    past = pin_of(world.open(first.instant))
    assert past == first.pin
    world.commit(2, "a")
    assert pin_of(world.open(first.instant)) == past, "later commits do not change the past"
    assert world.describe().pin != past


def test_the_pin_tells_tables_properties_and_kinds_of_query_apart(world: World) -> None:
    world.commit(1, "a")
    other = World()
    other.commit(1, "a")
    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    assert len({
        pin_of(world.open()),
        pin_of(other.open()),
        pin_of(open_query(world.runtime, world.root, optimized, {})),
    }) == 3  # fmt: skip


def test_a_pin_that_was_dropped_leads_to_the_table_as_of_its_instant(world: World) -> None:
    world.pins = PinnedQueries(world.runtime, limit=2)
    world.commit(1, "a")
    asked = world.describe()
    for time in (2, 3):
        world.commit(time, "a")
        world.describe()
    world.storage.listings = 0

    assert world.rows(asked) == 3
    assert world.rows(asked, equal("a")) == 3
    assert world.storage.listings == 1, "what was opened again is kept"


def test_a_pin_that_was_dropped_is_refused_by_a_table_that_was_made_anew(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.archive(1)
    evicted(world)

    with pytest.raises(HistoryExpired, match="no commit 20240101000000001 .*made anew"):
        world.rows(asked)


def test_listings_are_bounded_by_the_files_they_hold(world: World) -> None:
    world.pins = PinnedQueries(world.runtime, files=3)
    world.commit(1, "a", "b")
    first = world.describe()
    world.rows(first)
    world.commit(2, "a", "b")
    second = world.describe()
    world.rows(second)
    world.commit(3, "a")
    world.describe()
    world.storage.listings = 0

    assert world.rows(first) == 6
    assert world.storage.listings == 1


def test_a_table_without_commits_stays_empty_for_the_query_that_found_it_so(world: World) -> None:
    asked = world.describe()
    world.commit(1, "a")
    assert world.rows(asked) == 0
    world.pins = PinnedQueries(world.runtime)
    assert world.rows(asked) == 0
    assert world.rows(world.describe()) == 3


def test_a_pinned_query_outlives_the_archiving_of_commits_that_it_names(world: World) -> None:
    for time, partition in ((1, "a"), (2, "a"), (3, "b")):
        world.commit(time, partition)
    asked = world.describe()
    world.archive(1)
    assert world.rows(asked, equal("a")) is None, "its counts are archived too"
    assert world.rows(asked, equal("b")) == 3


def test_a_query_kept_for_long_learns_that_its_files_may_be_gone(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    assert world.rows(asked) == 3
    world.commit(2, "a")
    world.archive(1)
    assert world.rows(asked) == 3

    world.clock.advance(TRUSTED_S + 1)
    with pytest.raises(HistoryExpired, match="earliest instant"):
        world.rows(asked)


def test_a_long_kept_query_lists_again_only_now_and_then(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.clock.advance(TRUSTED_S + 1)
    world.storage.listings = 0
    assert [world.rows(asked) for _ in range(3)] == [3, 3, 3]
    assert world.storage.listings == 1


def test_filters_are_decided_if_they_hold_for_every_row_that_all_of_them_leave(
    world: World,
) -> None:
    world.commit(1, "a", "b", HIDDEN)
    query = world.open()
    by_id = compare("id", ">", 1)
    present = IsNotNull("p")
    assert query.decided([present]) == [False], "null and the empty text share a folder"
    assert query.decided([present, equal("a"), by_id]) == [True, True, False]
    assert query.decided([AnyOf((equal("a"), by_id))]) == [False]


def test_a_scan_whose_filters_were_decided_in_a_state_that_is_gone_is_refused(
    world: World,
) -> None:
    """Spark does not evaluate them any more: rows that they exclude would be returned."""
    world.commit(3, "a")
    asked = world.describe()
    present = IsNotNull("p")
    assert world.pins.ask(asked, lambda query: query.decided([present])) == [True]
    world.commit(2, HIDDEN, done=9)
    evicted(world)
    plan = world.pins.ask(asked, lambda query: plan_scan(query, [], [present]))
    assert len(plan.files) == 1, "a commit that completed later is left out"
    world.commit(1, HIDDEN, done=2)  # its writer's clock was behind
    evicted(world)

    with pytest.raises(HistoryExpired, match="Open the table again"):
        world.pins.ask(asked, lambda query: plan_scan(query, [], [present]))


def test_a_limit_cuts_the_plan_only_where_no_filter_is_left(world: World) -> None:
    world.commit(1, "a", "b")
    query = world.open()
    by_id = compare("id", ">", 1)
    assert len(plan_scan(query, [], [], limit=2).files) == 1
    assert len(plan_scan(query, [], [equal("b")], limit=2).files) == 1
    assert len(plan_scan(query, [by_id], [], limit=2).files) == 2


def test_a_count_behind_a_clean_is_refused_instead_of_given_in_part(world: World) -> None:
    world.commit(1, "a", "b")
    asked = world.describe()
    assert world.rows(asked) == 6
    world.commit(2, "a")
    cleaned = next(f.path for f in world.storage.walk("a") if "00001.parquet" in f.name)
    world.storage.delete([cleaned])
    replaced = instant_file_name(
        Instant(
            InstantTime("20240101000000003"),
            Action.REPLACECOMMIT,
            State.COMPLETED,
            InstantTime("20240102000000003"),
        ),
        2,
    )
    data = render_commit(CommitMetadata("INSERT_OVERWRITE", replaced={"a": (FileId("1-0"),)}), 2)
    world.storage.put_if_absent(f"{TIMELINE}/{replaced}", data)
    VIEWS.forget(world.storage)

    assert count_rows(world.open(), []) == 6
    with pytest.raises(HistoryExpired, match="cleaned"):
        count_rows(world.open(asked.instant), [])


def overtaken(world: World, times: int = 1) -> None:
    """A commit and a clean come, so often, between a listing of the timeline and of the files."""
    world.commit(1, "a", "b")
    walk, left = world.storage.walk, iter(range(2, 2 + times))

    def moves(folder: str) -> Any:
        time = next(left, None) if folder == "a" else None
        if time is not None:
            world.commit(time, replaced=(f"{time - 1}-0", "a"))
        return walk(folder)

    world.storage.walk = moves  # type: ignore[method-assign]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_new_query_that_a_clean_overtakes_while_it_lists_looks_again(version: int) -> None:
    world = World(version)
    overtaken(world)
    query = open_listed(world.runtime, world.root, {}, {})
    assert commits_of(query) == [1, 2]
    assert count_rows(query, []) == 6, "it lists no files again"


def test_a_new_query_that_is_overtaken_each_time_leaves_the_word_to_its_questions(
    world: World,
) -> None:
    overtaken(world, times=100)
    query = open_listed(world.runtime, world.root, {}, {})
    assert commits_of(query) == list(range(1, LOOKS + 1))
    with pytest.raises(HistoryExpired, match="meanwhile"):
        count_rows(query, [])


def test_a_new_query_asks_nothing_of_files_that_it_may_not_need(world: World) -> None:
    world.commit(1, "a", "b")
    world.commit(2, "b")
    [lost] = world.storage.walk("a")
    world.storage.delete([lost.path])

    query = open_listed(world.runtime, world.root, {}, {})
    assert count_rows(query, [equal("b")]) == 6
    with pytest.raises(TableCorrupt, match="is not there"):
        count_rows(query, [])


def test_a_past_state_that_is_asked_for_again_behind_a_clean_is_listed_again(
    world: World,
) -> None:
    """The listing from before has files that are gone, and a new DataFrame would fail at each."""
    world.commit(1, "a", "b")

    def count() -> int | None:
        query = world.open("20240101000000001")
        return world.rows(Pinned(world.pins.pin(query), world.root, {}, {}, query.instant))

    assert count() == 6
    world.commit(2, replaced=("1-0", "a"))
    clean = CleanMetadata("20240101000000003", 0, 1, "", "", {})  # by file versions
    name = f"{TIMELINE}/20240101000000003_20240102000000003.clean"
    world.storage.put_if_absent(name, render_clean_metadata(clean))

    with pytest.raises(HistoryExpired, match="cleaned"):
        count()


def test_a_query_that_missed_a_file_looks_again_for_it(world: World) -> None:
    world.commit(1, "a", "b")
    query = world.open()
    [lost] = world.storage.walk("a")
    data = world.storage.read(lost.path)
    world.storage.delete([lost.path])
    with pytest.raises(TableCorrupt, match="is not there"):
        count_rows(query, [])
    world.storage.put_if_absent(lost.path, data)
    assert count_rows(query, []) == 6
