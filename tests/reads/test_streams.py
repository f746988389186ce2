"""A stream's batches against what its table was: nothing is lost and nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.choices import Order
from pyhudi.errors import ConfigError, HistoryExpired, SchemaConflict
from pyhudi.format.properties import render_properties
from pyhudi.format.schemas import canonical_json, spark_to_avro
from pyhudi.format.spark_schema import SparkSchema
from pyhudi.reads import stream_look, streams
from pyhudi.reads.stream_offsets import StreamOffset, parse_offset
from pyhudi.storage.base import Storage
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.table import PROPERTIES, Table, open_table
from tests.archiver import archive
from tests.reads.changing_table import Began, Changing, changing, schema_of, time
from tests.reads.followed_table import LIMIT_FILES, LIMIT_ROWS, START, Follower

SCHEMA = canonical_json(spark_to_avro(schema_of(("id", "p")), "t"))
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


def final(table: Changing) -> dict[str, tuple[int, int]]:
    rows: dict[str, tuple[int, int]] = {}
    for group in table.groups.values():
        rows.update(group)
    return rows


def check(table: Changing, follower: Follower) -> None:
    """Each row of the table came in its newest version, and no version came twice."""
    versions = [row for batch in follower.batches for row in batch]
    assert len(set(versions)) == len(versions), "a version of a row came twice"
    for batch in follower.batches:
        assert len({key for key, *_ in batch}) == len(batch), "a key comes twice in a batch"
    newest: dict[str, tuple[int, int]] = {}
    for batch in follower.batches:
        newest.update({key: (value, commit) for key, value, commit in batch})
    lost = {key: version for key, version in final(table).items() if newest.get(key) != version}
    assert not lost


@VERSIONS
def test_the_rows_of_now_come_first_and_then_what_each_commit_changed(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1, "b": 1}))
    follower = Follower(table)
    assert follower.all() == [[("a", 1, 1), ("b", 1, 1)]]
    assert follower.all() == []
    table.complete(table.write(2, "g1", {"b": 2}))
    assert follower.all() == [[("b", 2, 2)]]
    table.complete(table.write(3, "g1", {"a": None}))
    assert follower.all() == [[]]


def test_a_stream_of_an_empty_table_waits_for_its_first_commit() -> None:
    table = changing()
    declared = render_properties({"hoodie.table.create.schema": SCHEMA})
    table.world.storage.replace(PROPERTIES, table.world.storage.read(PROPERTIES) + declared)
    first, latest = Follower(table), Follower(table, {START: "latest"})
    assert first.all() == []
    assert latest.all() == [[]]
    table.complete(table.write(1, "g1", {"a": 1}))
    assert first.all() == latest.all() == [[("a", 1, 1)]]


@VERSIONS
def test_a_stream_may_begin_now_or_after_a_time(version: int) -> None:
    table = changing(version)
    for number in range(1, 5):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    assert Follower(table, {START: time(2)}).all() == [[("k3", 3, 3), ("k4", 4, 4)]]
    for zeros in ("0", "000"):
        assert Follower(table, {START: zeros}).all() == Follower(table).all()
    latest = Follower(table, {START: "LATEST"})
    assert latest.all() == [[]]
    table.complete(table.write(5, "g5", {"k5": 5}))
    assert latest.all() == [[("k5", 5, 5)]]


def test_limits_cut_the_first_state_and_a_huge_commit_into_files() -> None:
    table = changing()
    for number in range(1, 4):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1}))
    follower = Follower(table, {LIMIT_FILES: "2"})
    assert [len(b) for b in follower.all()] == [2, 1]
    huge = Began(4, {f"h{n}": {f"h{n}": (4, 4)} for n in range(5)}, (), lambda rows: rows, False)
    table.complete(huge)
    table.complete(table.write(5, "g1", {"k1": 5}))
    table.complete(table.write(6, "g2", {"k2": 6}))
    follower.restart()
    assert [len(b) for b in follower.all()] == [2, 2, 1, 2]
    check(table, follower)


def test_a_commit_that_ends_late_is_read_after_those_that_ended_before_it() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    slow = table.write(2, "g2", {"b": 2})
    table.complete(table.write(3, "g1", {"a": 3}))
    assert follower.all() == [[("a", 3, 3)]]
    table.complete(slow, done=4)
    assert follower.all() == [[("b", 2, 2)]]


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("missed", [[[2]], [[2, 3], [2]]], ids=["first", "second"])
def test_a_commit_that_ends_while_the_timeline_is_listed_is_not_passed_over(
    missed: list[list[int]], remembers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a look's two listings shows a commit, but not the one that ended just before it."""
    table, left = changing(), [list(map(time, numbers)) for numbers in missed]
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.write(2, "g2", {"b": 2}))
    table.complete(table.write(3, "g1", {"a": 3}))
    whole = Table.timeline

    def listed(of: Table) -> Timeline:
        gone = left.pop(0) if left else []
        return whole(of).only(i for i in whole(of).instants if i.time not in gone)

    def opened(storage: Storage) -> tuple[Table, Timeline]:
        found = open_table(storage)
        return found, listed(found)

    monkeypatch.setattr(stream_look, "open_with_timeline", opened)
    monkeypatch.setattr(Table, "timeline", listed)
    if not remembers:
        stream_look._LISTED.forget()
    follower.batch()
    assert remembers or not left
    follower.all()
    assert not left
    check(table, follower)


def test_version_6_stops_before_the_first_pending_write() -> None:
    table = changing(6)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    slow = table.write(2, "g2", {"b": 2})
    table.pending(2)
    table.complete(table.write(3, "g1", {"a": 3}))
    assert follower.all() == []
    table.world.clock.skew(400 * 24 * 3600)
    behind = follower.ahead().backlog
    assert (behind.commits, behind.metrics()["waitsFor"]) == (1, time(2))
    assert behind.age_ms > 0
    table.complete(slow)
    assert follower.all() == [[("a", 3, 3), ("b", 2, 2)]]
    assert "waitsFor" not in follower.ahead().backlog.metrics()


def test_rows_that_a_clustering_moved_do_not_come_again_and_its_files_are_not_read() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    table.complete(table.write(2, "g2", {"b": 2}))
    follower = Follower(table)
    follower.all()
    table.complete(table.cluster(3, ["g1", "g2"], "g3"))
    assert follower.all() == [[]]
    start, end = follower.offsets[-2:]
    assert start != end
    table.complete(table.write(4, "g3", {"b": 4}))
    table.complete(table.cluster(5, ["g3"], "g4"))
    assert follower.all() == [[("b", 4, 4)]]
    check(table, follower)


def test_an_overwrite_gives_its_rows() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1, "b": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.overwrite(2, ["g1"], "g2", {"a": 2, "c": 2}))
    assert follower.all() == [[("a", 2, 2), ("c", 2, 2)]]


def test_until_a_place_a_stream_reads_no_later_commit() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    until = follower.stream.begin()[1]
    table.complete(table.write(2, "g2", {"b": 2}))
    assert isinstance(until, StreamOffset)
    while follower.batch(until):
        pass
    assert follower.batches == [[("a", 1, 1)]]
    assert follower.all() == [[("b", 2, 2)]]


def test_the_backlog_says_what_is_left_and_how_old_it_is() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table, {LIMIT_FILES: "1"})
    follower.all()
    for number in range(2, 6):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1, f"l{number}": 1}))
    table.world.clock.skew(400 * 24 * 3600)
    found = follower.ahead().backlog
    assert (found.commits, found.rows, found.size_bytes) == (3, 6, 30)
    assert found.age_ms > 0
    assert set(found.metrics()) == {
        "backlogCommits", "backlogRows", "backlogBytes", "backlogAgeMs"
    }  # fmt: skip
    follower.all()
    assert follower.ahead().backlog.metrics()["backlogCommits"] == "0"


# ---- columns


def with_columns(table: Changing, number: int, *columns: str) -> None:
    table.complete(table.write(number, f"g{number}", {f"k{number}": number}), columns=columns)


def test_a_new_column_ends_the_stream_after_all_before_it_and_a_restart_goes_on() -> None:
    table = changing()
    with_columns(table, 1, "id", "p")
    follower = Follower(table)
    follower.all()
    with_columns(table, 2, "id", "p")
    with_columns(table, 3, "id", "p", "fare", "tip")
    assert follower.batch()
    assert follower.batches[-1] == [("k2", 2, 2)]
    with pytest.raises(SchemaConflict, match="adds the columns fare, tip.*same checkpoint") as told:
        follower.batch()
    assert told.value.column == "fare"
    follower.restart()
    assert follower.all() == [[("k3", 3, 3)]]
    assert follower.stream.table_schema().names == ("id", "p", "fare", "tip")


def test_columns_that_many_commits_declare_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table, parsed = changing(), list[object]()
    known = SparkSchema.of_avro

    def counted(avro: object) -> SparkSchema:
        parsed.append(avro)
        return known(avro)

    monkeypatch.setattr(SparkSchema, "of_avro", counted)
    for number in range(1, 6):
        with_columns(table, number, "id", "p", "only_here")
    follower = Follower(table)
    follower.all()
    for number in range(6, 20):
        with_columns(table, number, "id", "p", "only_here")
    follower.all()
    assert len(parsed) == 1


def test_only_the_columns_of_the_next_batch_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    table, asked = changing(), list[object]()
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table, {LIMIT_FILES: "2"})
    follower.all()
    for number in range(2, 40):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    known = streams.schema_of

    def counted(*of: Any) -> SparkSchema | None:
        asked.append(of[-1])
        return known(*of)

    monkeypatch.setattr(streams, "schema_of", counted)
    follower.ahead()
    assert len(asked) == 3


def test_rows_that_moved_in_the_columns_of_an_older_plan_end_no_stream() -> None:
    """A compaction declares the columns that the table had when it was planned."""
    table = changing()
    with_columns(table, 1, "id", "p", "v")
    follower = Follower(table)
    follower.all()
    table.complete(table.cluster(2, ["g1"], "g2"))
    with_columns(table, 3, "id", "p", "v")
    follower.all()
    check(table, follower)


def test_a_column_that_is_gone_is_named() -> None:
    table = changing()
    with_columns(table, 1, "id", "p", "fare")
    follower = Follower(table)
    follower.all()
    with_columns(table, 2, "id", "p", "price")
    with pytest.raises(SchemaConflict, match="no longer has the column fare and has the new column"
                       " price") as told:  # fmt: skip
        follower.batch()
    assert told.value.column == "fare"


# ---- what is gone


def test_of_each_change_archived_commits_are_refused_with_the_earliest_place() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table, {"hoodie.datasource.streaming.appendsOnly": "true"})
    follower.all()
    for number in range(2, 6):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1}))
    archive(open_table(table.world.storage), *(time(n) for n in range(1, 4)))
    follower.restart()
    with pytest.raises(HistoryExpired, match=f"{START}={time(3)}") as told:
        follower.batch()
    assert told.value.earliest == time(3)


@VERSIONS
def test_rows_of_archived_commits_that_a_clustering_moved_are_in_the_joined_batch(
    version: int,
) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1, "b": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.write(2, "g1", {"a": 2}))
    table.complete(table.cluster(3, ["g1"], "g2"))
    table.complete(table.write(4, "g3", {"c": 4}))
    archive(open_table(table.world.storage), time(1), time(2))
    follower.restart()
    follower.all()
    check(table, follower)


def test_a_first_state_of_which_files_were_cleaned_is_refused_half_way() -> None:
    table = changing()
    for number in range(1, 4):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1}))
    follower = Follower(table, {LIMIT_FILES: "1"})
    assert follower.batch()
    table.complete(table.write(4, "g3", {"k3": 4}))
    table.forget_files("g3", 3)
    follower.restart()
    with pytest.raises(HistoryExpired):
        follower.batch()


# ---- another table, or one that was set back


def undo(table: Changing, *numbers: int) -> None:
    """A restore takes commits off the timeline."""
    storage, names = table.world.storage, tuple(map(time, numbers))
    storage.delete([f.path for f in storage.list(table.world.folder) if f.name.startswith(names)])


UNKNOWN = "is neither on its timeline nor in its archive.*another checkpoint location"


@VERSIONS
def test_a_commit_that_was_read_and_undone_ends_the_stream(version: int) -> None:
    table = changing(version)
    for number in range(1, 4):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1}))
    follower = Follower(table)
    follower.all()
    undo(table, 3)
    with pytest.raises(HistoryExpired, match=f"up to commit {time(3)}, which {UNKNOWN}") as told:
        follower.batch()
    assert (told.value.asked, told.value.earliest) == (time(3), time(2))
    table.complete(table.write(4, "g1", {"k1": 4}))
    follower.restart()
    with pytest.raises(HistoryExpired, match=UNKNOWN):
        follower.batch()
    with pytest.raises(HistoryExpired, match=UNKNOWN):
        follower.rows(*map(parse_offset, follower.offsets[-2:]))


@VERSIONS
def test_a_table_that_was_created_again_ends_the_stream(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    undo(table, 1)
    with pytest.raises(HistoryExpired, match=UNKNOWN):
        follower.batch()
    for number in range(2, 6):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1}))
    follower.restart()
    with pytest.raises(HistoryExpired, match="the table was dropped and created again"):
        follower.batch()
    archive(open_table(table.world.storage), *(time(n) for n in range(2, 4)))
    with pytest.raises(HistoryExpired, match=UNKNOWN):
        follower.batch()


@VERSIONS
def test_a_commit_that_was_undone_before_it_was_read_is_none(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.write(2, "g2", {"b": 2}))
    undo(table, 2)
    table.complete(table.write(3, "g3", {"c": 3}))
    assert follower.all() == [[("c", 3, 3)]]


@VERSIONS
def test_a_commit_that_was_read_and_archived_is_known_by_the_archive(version: int) -> None:
    table = changing(version)
    for number in range(1, 4):
        table.complete(table.write(number, f"g{number}", {f"k{number}": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.write(4, "g4", {"k4": 1}))
    table.complete(table.write(5, "g5", {"k5": 1}))
    archive(open_table(table.world.storage), *(time(n) for n in range(1, 4)))
    follower.restart()
    assert follower.all() == [[("k4", 1, 4), ("k5", 1, 5)]]


def test_a_time_that_a_user_gave_and_an_old_place_name_no_commit() -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    table.complete(table.write(5, "g5", {"b": 5}))
    assert Follower(table, {START: time(3)}).all() == [[("b", 5, 5)]]
    old = StreamOffset(Order.COMPLETED, time(3))
    assert Follower(table, offsets=[old.render()]).all() == [[("b", 5, 5)]]


# ---- options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({START: "yesterday"}, START),
        ({"as.of.instant": time(1)}, "an option of one read"),
        ({"hoodie.datasource.query.type": "read_optimized"}, "Leave it out"),
        ({"hoodie.datasource.read.incr.order": "requested"}, "'fenced' or 'completed'"),
        ({"hoodie.datasource.query.incremental.format": "cdc"}, "to 'incremental' as well"),
        ({"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}, "of one read"),
        ({"hoodie.datasource.read.schema.use.end.instanttime": "true"}, "of one read"),
        ({"hoodie.datasource.read.savepoint.enable": "true"}, "keeps one state"),
        ({"maxFilesPerTrigger": "0"}, "at least 1"),
        ({"maxFilePerTrigger": "1"}, "Did you mean 'maxFilesPerTrigger'"),
        ({START: "earliest", "hoodie.datasource.query.type": "incremental",
          "hoodie.datasource.query.incremental.format": "cdc",
          "hoodie.datasource.streaming.appendsOnly": "true"}, "Choose one"),
    ],
)  # fmt: skip
def test_an_option_that_no_stream_can_have_is_refused(options: dict[str, str], said: str) -> None:
    table = changing()
    table.complete(table.write(1, "g1", {"a": 1}))
    with pytest.raises(ConfigError) as told:
        Follower(table, options)
    assert said in str(told.value)


# ---- any history

KEYS = [f"k{n}" for n in range(6)]


class History:
    """Draws what happens to a table, one thing after another."""

    def __init__(self, table: Changing, draw: st.DataObject) -> None:
        self.table, self.draw = table, draw
        self.number, self.groups = 0, 0
        self.slow: list[Began] = []

    def fresh(self) -> int:
        self.number += 1
        return self.number

    def group(self) -> str:
        self.groups += 1
        return f"g{self.groups}"

    def free(self) -> list[str]:
        busy = {g for began in self.slow for g in (*began.files, *began.replaced)}
        return [g for g in self.table.groups if g not in busy]

    def done(self, began: Began) -> None:
        self.table.complete(began, done=self.fresh())

    def unused(self) -> list[str]:
        slow = {key for began in self.slow for rows in began.files.values() for key in rows}
        used = {key for rows in self.table.groups.values() for key in rows}
        return [key for key in KEYS if key not in slow | used]

    def insert(self, slow: bool = False) -> None:
        keys = self.unused()
        if not keys:
            return
        some = self.draw.draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
        number = self.fresh()
        began = self.table.write(number, self.group(), dict.fromkeys(some, number))
        if slow:
            self.table.pending(number)
            self.slow.append(began)
        else:
            self.done(began)

    def late(self) -> None:
        self.insert(slow=True)

    def end(self) -> None:
        if self.slow:
            self.done(self.slow.pop(self.draw.draw(st.integers(0, len(self.slow) - 1))))

    def change(self) -> None:
        groups = [g for g in self.free() if self.table.groups[g]]
        if not groups:
            return
        group = self.draw.draw(st.sampled_from(groups))
        rows = sorted(self.table.groups[group])
        some = self.draw.draw(st.lists(st.sampled_from(rows), min_size=1, unique=True))
        number = self.fresh()
        gone = self.draw.draw(st.booleans())
        values = {key: None if gone and key == some[0] else number for key in some}
        self.done(self.table.write(number, group, values))

    def cluster(self) -> None:
        groups = self.free()
        if groups:
            some = self.draw.draw(st.lists(st.sampled_from(groups), min_size=1, unique=True))
            self.done(self.table.cluster(self.fresh(), some, self.group()))

    def overwrite(self) -> None:
        groups = self.free()
        if groups:
            some = self.draw.draw(st.lists(st.sampled_from(groups), min_size=1, unique=True))
            keys = sorted({k for g in some for k in self.table.groups[g]})
            number = self.fresh()
            rows = dict.fromkeys(keys[: len(keys) // 2], number)
            made = self.group() if rows else None
            self.done(self.table.overwrite(number, some, made, rows))


@VERSIONS
@settings(max_examples=40)
@given(data=st.data())
def test_any_history_is_read_whole_and_once_under_any_limits(
    version: int, data: st.DataObject
) -> None:
    table = changing(version)
    history = History(table, data)
    history.insert()
    things: list[Callable[[], None]] = [
        history.insert, history.change, history.change, history.cluster, history.overwrite,
        history.late, history.end,
    ]  # fmt: skip
    limits = st.fixed_dictionaries(
        {}, optional={LIMIT_FILES: st.sampled_from("12"), LIMIT_ROWS: st.sampled_from("13")}
    )
    follower = Follower(table, data.draw(limits))
    for _ in range(data.draw(st.integers(1, 12))):
        data.draw(st.sampled_from(things))()
        match data.draw(st.sampled_from(["read", "wait", "restart"])):
            case "read":
                follower.batch()
            case "restart":
                follower.restart(data.draw(limits))
    while history.slow:
        history.end()
    follower.all()
    check(table, follower)
