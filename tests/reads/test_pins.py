from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pyhudi.application.runtime import Runtime
from pyhudi.errors import HistoryExpired, TableCorrupt
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import BaseFileName, FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.new_table import new_table_properties
from pyhudi.format.plans import CleanMetadata, render_clean_metadata
from pyhudi.format.properties import render_properties
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.table_config import KeyGenerator, MergeMode
from pyhudi.reads.pins import HELD, PINS, TRUSTED_S, Pinned, PinnedQueries, pin_of
from pyhudi.reads.scan import Query, count_rows, open_listed, open_query, plan_scan
from pyhudi.storage.memory import MemoryStorage
from pyhudi.timeline.table import LOOKS, PROPERTIES
from pyhudi.timeline.view import VIEWS
from tests.fakes import FakeClock

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("p", "string"))
    ],
}
TIMELINE = ".hoodie/timeline"
HIDDEN = "__HIVE_DEFAULT_PARTITION__"


class Counting(MemoryStorage):
    """Counts the listings of the timeline."""

    listings = 0

    def list(self, folder: str, *known: Any) -> Any:
        self.listings += folder == TIMELINE
        return super().list(folder, *known)


class World:
    """A table in memory, to which commits are added by hand; each file holds three rows."""

    numbers = iter(range(1_000_000))

    def __init__(self, version: int = 9) -> None:
        self.root = f"memory:/pins{next(self.numbers)}"
        self.clock = FakeClock()
        self.storage = Counting(self.root, self.clock)
        self.layout, self.folder = (1, ".hoodie") if version == 6 else (2, TIMELINE)
        properties = new_table_properties(
            name="t", version=version, record_key_fields=["id"], partition_fields=["p"],
            ordering_fields=[], merge_mode=MergeMode.COMMIT_TIME_ORDERING,
            key_generator=KeyGenerator.SIMPLE,
        )  # fmt: skip
        self.storage.put_if_absent(PROPERTIES, render_properties(properties))
        self.runtime = Runtime(
            self.clock, lambda root: self.storage, None, None, None  # type: ignore[arg-type]
        )  # fmt: skip
        self.pins = PinnedQueries(self.runtime)

    def commit(
        self,
        time: int,
        *partitions: str,
        done: int | None = None,
        replaced: tuple[str, str] | None = None,
    ) -> None:
        """``replaced`` is a file group, and the partition where this commit has its successor."""
        if replaced is not None:
            partitions = (replaced[1],)
            gone = [f.path for f in Counting.walk(self.storage, "") if f"{replaced[0]}_" in f.path]
            self.storage.delete(gone)
        instant = InstantTime(f"202401010000{time:05d}")
        stats = []
        for number, partition in enumerate(partitions):
            file_id = FileId(f"{time}-{number}")
            path = f"{partition}/{BaseFileName(file_id, '0-0-0', instant, '.parquet').render()}"
            self.storage.put_if_absent(path, b"x" * 10)
            stats.append(WriteStat(file_id, path, partition, None, 3, 3, file_size_bytes=10))
        extra = {SCHEMA_KEY: canonical_json(spark_to_avro(SCHEMA, "t"))}
        completion = InstantTime(f"202401020000{done or time:05d}")
        done_at = completion if self.layout == 2 else None
        action = Action.REPLACECOMMIT if replaced else Action.COMMIT
        groups = {replaced[1]: (FileId(replaced[0]),)} if replaced else None
        commit = Instant(instant, action, State.COMPLETED, done_at)
        metadata = CommitMetadata("UPSERT", tuple(stats), extra, replaced=groups)
        data = render_commit(metadata, self.layout)
        self.clock.advance(0.001)
        self.storage.put_if_absent(f"{self.folder}/{instant_file_name(commit, self.layout)}", data)

    def archive(self, time: int) -> None:
        for file in self.storage.list(self.folder):
            if file.name.startswith(f"202401010000{time:05d}"):
                self.storage.delete([file.path])

    def open(self, as_of: str | None = None) -> Query:
        return open_query(self.runtime, self.root, {}, {}, as_of)

    def describe(self) -> Pinned:
        query = self.open()
        return Pinned(self.pins.pin(query), self.root, {}, {}, query.instant)

    def rows(self, asked: Pinned, *filters: dict[str, Any]) -> int | None:
        return self.pins.ask(asked, lambda query: count_rows(query, filters))


@pytest.fixture
def world() -> World:
    return World()


def equal(value: str) -> dict[str, Any]:
    return {"op": "=", "column": "p", "value": value, "type": "string"}


def test_all_questions_of_a_query_are_answered_from_one_listing(world: World) -> None:
    world.commit(1, "a", "b")
    world.storage.listings = 0
    asked = world.describe()

    assert world.rows(asked) == 6
    assert world.rows(asked, equal("a")) == 3
    plan = world.pins.ask(asked, lambda query: plan_scan(query, [], [equal("b")]))
    assert [row[0].split("/")[-2] for row in plan["files"]] == ["b"]
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
    by_id = {"op": ">", "column": "id", "value": 1, "type": "long"}
    present = {"op": "isnotnull", "column": "p"}
    assert query.decided([present]) == [False], "null and the empty text share a folder"
    assert query.decided([present, equal("a"), by_id]) == [True, True, False]
    assert query.decided([{"op": "or", "left": equal("a"), "right": by_id}]) == [False]


def test_a_scan_whose_filters_were_decided_in_a_state_that_is_gone_is_refused(
    world: World,
) -> None:
    """Spark does not evaluate them any more: rows that they exclude would be returned."""
    world.commit(3, "a")
    asked = world.describe()
    present = {"op": "isnotnull", "column": "p"}
    assert world.pins.ask(asked, lambda query: query.decided([present])) == [True]
    world.commit(2, HIDDEN, done=9)
    evicted(world)
    plan = world.pins.ask(asked, lambda query: plan_scan(query, [], [present]))
    assert len(plan["files"]) == 1, "a commit that completed later is left out"
    world.commit(1, HIDDEN, done=2)  # its writer's clock was behind
    evicted(world)

    with pytest.raises(HistoryExpired, match="Open the table again"):
        world.pins.ask(asked, lambda query: plan_scan(query, [], [present]))


def test_a_limit_cuts_the_plan_only_where_no_filter_is_left(world: World) -> None:
    world.commit(1, "a", "b")
    query = world.open()
    by_id = {"op": ">", "column": "id", "value": 1, "type": "long"}
    assert len(plan_scan(query, [], [], limit=2)["files"]) == 1
    assert len(plan_scan(query, [], [equal("b")], limit=2)["files"]) == 1
    assert len(plan_scan(query, [by_id], [], limit=2)["files"]) == 2


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


def evicted(world: World) -> None:
    """Another planner process, or so many queries later that the pins are gone."""
    world.pins = PinnedQueries(world.runtime)


def commits_of(query: Query | None) -> list[int] | None:
    """The numbers of the commits in the state that a statement is judged from."""
    if query is None:
        return None
    return [int(commit.time[-5:]) for commit in query.timeline.commits]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_statement_whose_pin_is_gone_is_judged_from_the_state_that_it_read(version: int) -> None:
    world = World(version)
    for time in (1, 3):
        world.commit(time, "a")
    asked = world.describe()
    evicted(world)
    world.commit(4, "a")
    world.commit(2, "a", done=9)

    assert commits_of(world.pins.state(asked)) == [1, 3]
    assert world.rows(asked) == 6, "and its scan reads that state"
    assert commits_of(world.pins.state(asked)) == [1, 3], "which the scan has not made newer"


def test_a_statement_that_was_scanned_after_its_pin_was_gone_is_judged_alike(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.commit(2, "a")
    evicted(world)

    assert world.rows(asked) == 3
    assert commits_of(world.pins.state(asked)) == [1]


def test_a_state_without_commits_stays_one_whatever_was_committed_since(world: World) -> None:
    asked = world.describe()
    evicted(world)
    world.commit(1, "a")
    assert commits_of(world.pins.state(asked)) == []


@pytest.mark.parametrize("change", ["archived", "rolled back", "properties"])
def test_a_state_that_cannot_be_told_for_certain_is_none_to_be_judged_from(
    world: World, change: str
) -> None:
    for time in (1, 2, 3):
        world.commit(time, "a")
    asked = world.describe()
    evicted(world)
    if change == "properties":
        data = world.storage.read(PROPERTIES)
        world.storage.replace(PROPERTIES, data + b"hoodie.some.property=1\n")
    else:
        world.archive({"archived": 1, "rolled back": 2}[change])

    assert world.pins.state(asked) is None
    assert world.rows(asked, equal("a")) is not None or change == "archived", "reads go on"
    assert world.pins.state(asked) is None, "though the read has opened it again"


def test_a_state_that_became_uncertain_stays_so_until_it_is_described_again(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    evicted(world)
    before = world.storage.read(PROPERTIES)
    world.storage.replace(PROPERTIES, before + b"hoodie.some.property=1\n")
    assert world.rows(asked) == 3
    world.pins.hold(asked)
    assert world.pins.state(asked) is None, "what is held is certain"
    world.clock.advance(TRUSTED_S + 1)
    assert world.rows(asked) == 3
    assert world.pins.state(asked) is None

    world.storage.replace(PROPERTIES, before)
    assert world.describe() == asked
    assert commits_of(world.pins.state(asked)) == [1]


def test_a_state_that_is_described_again_is_not_what_was_guessed_of_it_before(world: World) -> None:
    for time in (1, 2, 3):
        world.commit(time, "a")
    asked = world.describe()
    evicted(world)
    second = [f.path for f in world.storage.list(TIMELINE) if "00002_" in f.path]
    data = world.storage.read(second[0])
    world.storage.delete(second)
    assert world.rows(asked) == 6
    world.storage.put_if_absent(second[0], data)

    assert world.describe() == asked
    assert commits_of(world.pins.state(asked)) == [1, 2, 3]


def test_a_pin_from_before_an_upgrade_of_the_timeline_leads_to_its_instant(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.commit(2, "a")
    evicted(world)
    older = replace(asked, pin=f"{'0' * 32}-1-{1_700_000_000_000:015d}")
    assert world.rows(older) == 3
    assert world.pins.state(older) is None


def test_a_held_state_outlives_the_queries_after_it(world: World) -> None:
    for time in (1, 2, 3):
        world.commit(time, "a")
    asked = world.describe()
    world.pins.hold(asked)
    world.archive(1)
    for time in range(4, 5 + PINS):
        world.commit(time, "b")
        world.describe()
    world.storage.listings = 0

    assert commits_of(world.pins.state(asked)) == [1, 2, 3]
    assert world.storage.listings == 0
    assert world.rows(asked, equal("a")) is None, "its first commit is archived, its files are not"
    assert commits_of(world.pins.state(asked)) == [1, 2, 3], "though the scan saw less of it"
    world.pins.release(asked.pin)
    world.describe()
    assert world.pins.state(asked) is None, "nobody else keeps it"


def test_the_scans_of_a_held_state_list_no_timeline(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.pins.hold(asked)
    for time in range(2, 3 + PINS):
        world.commit(time, "b")
        world.describe()
    world.storage.listings = 0

    assert world.rows(asked) == 3
    assert world.storage.listings == 0


def test_a_held_state_stays_until_the_last_statement_that_holds_it_has_ended(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    for _ in range(2):
        world.pins.hold(asked)
    world.pins.release(asked.pin)
    assert asked.pin in world.pins._held
    world.pins.release(asked.pin)
    world.pins.release(asked.pin)
    assert not world.pins._held
    assert not world.pins._holds


def test_held_states_are_bounded_so_that_statements_that_never_end_cost_little(
    world: World,
) -> None:
    asked = []
    for time in range(1, HELD + 2):
        world.commit(time, "a")
        asked.append(world.describe())
        world.pins.hold(asked[-1])
    assert len(world.pins._held) == HELD
    assert asked[0].pin not in world.pins._held


def test_no_state_is_judged_from_whose_files_were_cleaned_meanwhile(world: World) -> None:
    world.commit(1, "a")
    asked = world.describe()
    world.commit(2, "a")
    world.archive(1)
    assert world.pins.state(asked) is not None

    world.clock.advance(TRUSTED_S + 1)
    assert world.pins.state(asked) is None


def test_the_scans_of_one_query_read_one_state_before_and_after_their_pin_is_gone(
    world: World,
) -> None:
    """A commit that began earlier and completes between them is in none of them."""
    world.commit(3, "a")
    asked = world.describe()
    assert world.rows(asked) == 3
    world.commit(2, "a", done=9)
    evicted(world)
    assert world.rows(asked) == 3
