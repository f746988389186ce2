from __future__ import annotations

from collections.abc import Mapping

import pytest

from pyhudi.errors import ConfigError, HistoryExpired, UnsupportedTable
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import CleanMetadata, render_clean_metadata
from pyhudi.reads.footers import AggregateFunction, Wanted, aggregate
from pyhudi.reads.pins import Pinned, PinnedQueries, pin_of
from pyhudi.reads.scan import count_rows, describe, open_listed
from pyhudi.reads.scan_plan import plan_scan
from pyhudi.storage.base import Files
from pyhudi.timeline.table import open_table
from pyhudi.timeline.view import VIEWS
from tests.archiver import archive
from tests.reads.changing_table import (
    BEGIN,
    END,
    END_SCHEMA,
    INCREMENTAL,
    REST,
    Changing,
    asked,
    by_completion,
    by_request,
    changing,
    time,
)
from tests.reads.pinned_table import evicted


def eventful(version: int) -> Changing:
    """Inserts, updates, deletes, overwrites, moved rows and an emptied table, one after another."""
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1, "b": 1, "c": 1}))
    table.complete(table.write(2, "g2", {"d": 2, "e": 2}))
    table.complete(table.write(3, "g1", {"b": 3}))
    table.complete(table.write(4, "g2", {"d": None}))
    table.complete(table.cluster(5, ["g1", "g2"], "g3"))
    table.complete(table.write(6, "g3", {"a": 6, "f": 6}))
    table.complete(table.overwrite(7, ["g3"], "g4", {"a": 7, "g": 7}))
    table.complete(table.write(8, "g5", {"h": 8}))
    table.complete(table.cluster(9, ["g4", "g5"], "g6"))
    table.complete(table.overwrite(10, ["g6"], None, {}))
    table.complete(table.write(11, "g7", {"a": 11}))
    return table


@pytest.mark.parametrize("version", [6, 8, 9])
def test_each_range_gives_what_its_commits_changed_and_each_row_once(version: int) -> None:
    table = eventful(version)
    for begin in range(12):
        for end in (*range(begin, 12), None):
            wanted = table.wanted(begin, end, by_request)
            assert table.read(asked(begin, end)) == wanted, (begin, end)
    assert table.read(asked("earliest")) == {"a": 11}
    assert table.read(asked("000", 8)) == {"a": 7, "g": 7, "h": 8}


def test_a_row_that_was_only_copied_is_no_change() -> None:
    table = eventful(9)
    assert table.read(asked(2, 3)) == {"b": 3}


def test_a_row_that_was_deleted_later_in_the_range_gives_nothing() -> None:
    table = eventful(9)
    assert table.read(asked(1, 2)) == {"d": 2, "e": 2}
    assert table.read(asked(1, 4)) == {"e": 2, "b": 3}


@pytest.mark.parametrize("version", [6, 9])
def test_only_files_of_the_range_are_planned_and_no_folder_is_listed(version: int) -> None:
    table = eventful(version)
    VIEWS.forget_all()
    listed: list[str] = []
    walk = table.world.storage.walk

    def told(folder: str) -> Files:
        listed.append(folder)
        return walk(folder)

    table.world.storage.walk = told  # type: ignore[method-assign]
    assert [name.split("_")[0] for name in table.files(asked(2, 4))] == ["g1", "g2"]
    assert table.files(asked(4, 5))[0].startswith("g3_")
    assert all(folder.startswith(".hoodie") for folder in listed), listed


def crossing() -> Changing:
    """2 began before 3 and ends after it; 5 is still running."""
    table = changing(9)
    table.complete(table.write(1, "g1", {"a": 1}), done=10)
    slow = table.write(2, "g2", {"b": 2})
    table.complete(table.write(3, "g3", {"c": 3}), done=11)
    table.complete(slow, done=12)
    table.complete(table.write(4, "g1", {"a": 4}), done=13)
    return table


def test_layout_2_ranges_over_times_of_completion_by_default() -> None:
    table = crossing()
    for begin in range(9, 15):
        for end in (*range(begin, 15), None):
            wanted = table.wanted(begin, end, by_completion)
            assert table.read(asked(begin, end)) == wanted, (begin, end)
            assert table.read(asked(begin, end, "completed")) == wanted
    assert table.read(asked(11)) == {"b": 2, "a": 4}, "2 is not missed"
    assert table.read(asked("earliest", 11)) == {"a": 1, "c": 3}


def test_by_request_a_commit_that_ended_late_is_behind_the_readers_place() -> None:
    table = crossing()
    for begin in range(5):
        assert table.read(asked(begin, order="requested")) == table.wanted(begin, None, by_request)
    assert table.read(asked(3, order="requested")) == {"a": 4}


@pytest.mark.parametrize("version", [6, 9])
def test_a_fenced_range_ends_before_the_first_pending_write(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    table.pending(2)
    table.complete(table.write(3, "g3", {"c": 3}))
    assert table.read(asked(0, order="fenced")) == {"a": 1}
    assert table.read(asked(0, order="requested")) == {"a": 1, "c": 3}
    assert table.read(asked(0)) == ({"a": 1} if version == 6 else {"a": 1, "c": 3})
    assert table.read(asked("earliest", order="fenced")) == {"a": 1}


def test_table_version_6_has_no_order_of_completion() -> None:
    table = eventful(6)
    with pytest.raises(UnsupportedTable, match="'fenced' or 'requested'"):
        table.read(asked(0, order="completed"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({BEGIN: "yesterday"}, "'yesterday' is not a point in time. Give " + BEGIN),
        ({BEGIN: "1", END: "2"}, "'1' is not a point in time"),
        ({BEGIN: time(1), END: "never"}, "Give " + END),
        ({BEGIN: time(3), END: time(2)}, "exchange them"),
        ({END: time(1)}, "needs " + BEGIN),
        ({BEGIN: " ", END: time(1)}, "needs " + BEGIN),
        ({BEGIN: time(1), "as.of.instant": time(2)}, "exclude each other"),
        ({BEGIN: time(1), "hoodie.datasource.query.incremental.format": "all"}, "latest_state"),
    ],
)
def test_a_range_that_is_not_one_is_refused(options: Mapping[str, str], said: str) -> None:
    table = eventful(9)
    with pytest.raises(ConfigError) as refused:
        table.open({**INCREMENTAL, **options}).rows  # noqa: B018
    assert said in str(refused.value)


def test_a_range_is_refused_if_rows_do_not_tell_their_commit() -> None:
    """Else no row of it would pass: the file has no commit time to compare."""
    world = eventful(9).world
    path = ".hoodie/hoodie.properties"
    held = world.storage.read(path)
    world.storage.replace(path, held + b"\nhoodie.populate.meta.fields=false\n")
    with pytest.raises(UnsupportedTable, match="no meta fields") as refused:
        open_listed(world.runtime, world.root, asked(1), {}).rows  # noqa: B018
    assert BEGIN in str(refused.value)
    assert open_listed(world.runtime, world.root, asked("earliest"), {}).rows is None


def test_a_range_of_a_point_in_time_is_refused() -> None:
    world = eventful(9).world
    with pytest.raises(ConfigError, match="exclude each other"):
        open_listed(world.runtime, world.root, asked(1), {}, time(2))


def test_times_may_be_given_in_the_forms_of_time_travel() -> None:
    table = eventful(9)
    assert table.read({**INCREMENTAL, BEGIN: "2023-12-31", END: "2024-01-01 00:00:00.002"}) == (
        table.wanted(0, 2, by_request)
    )
    assert table.read({**INCREMENTAL, BEGIN: "2030-01-01"}) == {}


def test_an_empty_range_has_the_tables_schema_and_no_files() -> None:
    table = eventful(9)
    query = table.open(asked(3, 3))
    assert describe(query).schema.names == ("id", "p")
    assert plan_scan(query, ()).files == ()


def test_the_columns_are_those_of_now_or_on_request_of_the_ranges_end() -> None:
    table = changing(9)
    table.complete(table.write(1, "g1", {"a": 1}))
    table.complete(table.write(2, "g2", {"b": 2}), columns=("id", "p", "q"))
    assert table.open(asked(0, 1)).schema().names == ("id", "p", "q")
    assert table.open({**asked(0, 1), END_SCHEMA: "true"}).schema().names == ("id", "p")
    assert table.open({**asked(0), END_SCHEMA: "true"}).schema().names == ("id", "p", "q")


def test_a_table_without_commits_gives_nothing() -> None:
    table = changing(9)
    assert table.read(asked(0)) == {}
    assert table.read(asked("earliest")) == {}


def test_no_count_no_bound_and_no_limit_is_taken_from_whole_files() -> None:
    table = eventful(9)
    query = table.open(asked(2, 4))
    assert count_rows(query, ()) is None
    assert aggregate(query, (), [Wanted(AggregateFunction.MAX, "id")]) is None
    plan = plan_scan(query, (), limit=1)
    assert plan.files is not None
    assert [row[2] for row in plan.files] == [-1, -1]


def test_from_the_earliest_commit_on_every_row_of_the_files_counts() -> None:
    table = eventful(9)
    query = table.open(asked("earliest"))
    assert describe(query).rows is None
    assert count_rows(query, ()) == 1


# ---- pins


def pinned(table: Changing, options: Mapping[str, str]) -> Pinned:
    query = table.open(options)
    return Pinned(table.world.pins.pin(query), table.world.root, options, {}, query.instant)


def test_ranges_have_pins_of_their_own() -> None:
    table = crossing()
    ranges = [asked(10), asked(11), asked(10, 12), asked(10, order="requested"), asked("earliest")]
    assert len({pin_of(table.open(each)) for each in ranges}) == len(ranges)


@pytest.mark.parametrize("order", ["completed", "requested", "fenced"])
def test_a_range_up_to_now_stays_where_it_was_however_it_is_found_again(order: str) -> None:
    table = crossing()
    table.pending(5)
    options = asked(0, order=order)
    before, at = table.read(options), pinned(table, options)
    table.complete(table.write(5, "g5", {"e": 5}), done=20)
    table.complete(table.write(6, "g1", {"a": 6}), done=21)
    assert table.read(options) != before
    assert table.world.pins.ask(at, table.rows_of) == before
    evicted(table.world)
    assert table.world.pins.ask(at, table.rows_of) == before
    state = table.world.pins.state(at)
    assert state is not None
    assert [c.time for c in state.timeline.commits] == [time(n) for n in (1, 2, 3, 4)]


def test_a_range_that_cannot_be_found_again_is_an_error_and_no_other_range() -> None:
    table = changing(9)
    table.complete(table.write(1, "g1", {"a": 1}))
    table.pending(2)
    table.complete(table.write(3, "g3", {"c": 3}))
    at = pinned(table, asked(0, order="fenced"))
    table.world.storage.delete([f"{table.world.folder}/{time(2)}.commit.requested"])
    table.world.pins = PinnedQueries(table.world.runtime)
    with pytest.raises(HistoryExpired, match="Open the table again"):
        table.world.pins.ask(at, table.rows_of)


# ---- cleaned and archived


def clean(table: Changing, number: int, kept: int) -> None:
    """A completed clean that kept the states from commit ``kept`` on."""
    layout = table.world.layout
    done = time(number) if layout == 2 else None
    instant = Instant(time(number), Action.CLEAN, State.COMPLETED, done)
    metadata = CleanMetadata(time(number), 0, 1, time(kept), time(kept), {})
    table.world.storage.put_if_absent(
        f"{table.world.folder}/{instant_file_name(instant, layout)}",
        render_clean_metadata(metadata),
    )


@pytest.mark.parametrize("version", [6, 9])
def test_a_range_whose_files_were_cleaned_names_the_earliest_end(version: int) -> None:
    table = eventful(version)
    clean(table, 12, 4)
    table.forget_files("g1", 1)
    with pytest.raises(HistoryExpired, match=f"earliest end .* is {time(4)}") as expired:
        table.read(asked(0, 2))
    assert expired.value.earliest == time(4)
    assert table.read(asked(1, 3)) == table.wanted(1, 3, by_request), "its files are all there"
    assert table.read(asked(0, 4)) == table.wanted(0, 4, by_request)


def test_on_request_a_cleaned_range_gives_the_rows_that_nobody_has_changed_since() -> None:
    table = changing(9)
    table.complete(table.write(1, "g1", {"a": 1, "b": 1}))
    table.complete(table.write(2, "g1", {"a": 2}))
    clean(table, 3, 2)
    table.forget_files("g1", 1)
    for begin in (0, "earliest"):
        with pytest.raises(HistoryExpired):
            table.read(asked(begin, 1))
        assert table.read({**asked(begin, 1), REST: "true"}) == {"b": 1}


def test_names_of_times_are_of_the_order_that_was_asked_for() -> None:
    table = crossing()
    clean(table, 14, 3)
    table.forget_files("g1", 1)
    with pytest.raises(HistoryExpired) as expired:
        table.read(asked(9, 10))
    assert expired.value.earliest == time(11)
    assert InstantTime(expired.value.asked or "") == time(10)


@pytest.mark.parametrize("version", [6, 9])
def test_a_range_that_begins_in_the_archive_is_read_from_the_state_at_its_end(
    version: int,
) -> None:
    table = eventful(version)
    archive(open_table(table.world.storage), *(time(n) for n in range(1, 5)))
    VIEWS.forget_all()
    for begin in range(5):
        for end in (*range(4, 12), None):
            wanted = table.wanted(begin, end, by_request)
            assert table.read(asked(begin, end)) == wanted, (begin, end)
    with pytest.raises(HistoryExpired, match=f"archived already.* is {time(4)}") as expired:
        table.read(asked(0, 3))
    assert expired.value.earliest == time(4)
    for begin in (0, "earliest"):
        assert table.read({**asked(begin, 3), REST: "true"}) == {}, "all of it was replaced since"


def test_a_commit_that_ended_in_the_range_and_is_archived_is_not_missed() -> None:
    table = crossing()
    archive(open_table(table.world.storage), time(1), time(2))
    VIEWS.forget_all()
    assert table.read(asked(11)) == {"b": 2, "a": 4}
    assert table.read(asked(12)) == {"a": 4}


def test_a_size_that_a_commit_leaves_out_comes_from_the_listing() -> None:
    table = changing(9)
    table.complete(table.write(1, "g1", {"a": 1}), sized=False)
    table.complete(table.write(2, "g2", {"b": 2}))
    query = table.open(asked(0))
    assert table.rows_of(query) == {"a": 1, "b": 2}
    assert {file[1] for file in plan_scan(query, ()).files or ()} == {10}


@pytest.mark.parametrize("version", [6, 9])
def test_a_range_that_ends_in_the_archive_is_refused_if_files_of_its_state_were_cleaned(
    version: int,
) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1, "b": 1}))
    table.complete(table.write(2, "g1", {"b": 2, "c": 2}))
    table.complete(table.write(3, "g1", {"c": 3}))
    archive(open_table(table.world.storage), time(1), time(2))
    clean(table, 4, 3)
    VIEWS.forget_all()
    assert table.read(asked(0, 2)) == {"a": 1, "b": 2, "c": 2}, "its files are there"
    table.forget_files("g1", 2)
    VIEWS.forget_all()
    for begin in (0, 1):
        with pytest.raises(HistoryExpired) as expired:
            table.read(asked(begin, 2))
        assert expired.value.earliest == time(3)
    assert table.read({**asked(1, 2), REST: "true"}) == {"b": 2}, "what 3 has not changed again"


@pytest.mark.parametrize("version", [6, 9])
def test_a_range_that_ends_in_the_archive_is_read_beside_an_older_savepoint(version: int) -> None:
    table = changing(version)
    for number in range(1, 5):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    savepoint(table, 1)
    archive(open_table(table.world.storage), time(2), time(3))
    VIEWS.forget_all()
    for begin in range(4):
        for end in (3, 4, None):
            assert table.read(asked(begin, end)) == table.wanted(begin, end, by_request)


def savepoint(table: Changing, number: int) -> None:
    """Commit ``number`` is kept by cleaners and archivers."""
    layout = table.world.layout
    done = time(number) if layout == 2 else None
    instant = Instant(time(number), Action.SAVEPOINT, State.COMPLETED, done)
    name = instant_file_name(instant, layout)
    table.world.storage.put_if_absent(f"{table.world.folder}/{name}", b"")
