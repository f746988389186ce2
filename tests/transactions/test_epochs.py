"""Epochs of streams: the judgement, where the marks are found, and the fence under the lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pyhudi.errors import CommitConflict, HudiError, StreamConflict
from pyhudi.format.commit_metadata import CommitMetadata, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import InstantInfo, RestoreMetadata, render_restore_metadata
from pyhudi.format.stream_marks import HUDI_KEY, STREAMS_KEY, Epoch, Mark, own_marks
from pyhudi.timeline.active import COMMITS, LISTINGS, Timeline
from pyhudi.transactions.epoch_conflicts import REPLACES
from pyhudi.transactions.epochs import (
    EpochDone,
    check_epoch,
    check_marks,
    forget_marks,
    judge_epoch,
    known_marks,
    remember_empty,
)
from pyhudi.transactions.transaction import Committed, Transaction
from tests.archiver import archive
from tests.transactions.world import LAZY, VERSIONS, World, finish, footprint, put_instant, work

T1 = InstantTime("20260101000000001")
OURS, THEIRS = Mark("q", 5, 2, T1), Mark("other", 5, 2, T1)
HUDIS, HUDIS_FIRST = Mark(None, 5, 1, T1), Mark(None, 0, 1, T1)
WRITE = None


def epoch(batch: int, ordinal: int = 0, replaces: str | None = None, query: str = "q") -> Epoch:
    return Epoch("s", query, batch, ordinal, replaces)


@pytest.mark.parametrize(
    ("mark", "asked", "verdict"),
    [
        (None, epoch(0), WRITE),
        (None, epoch(9), WRITE),
        (OURS, epoch(6), WRITE),
        (OURS, epoch(9), WRITE),
        (OURS, epoch(5, 0), EpochDone),
        (OURS, epoch(5, 1), EpochDone),
        (OURS, epoch(5, 2), WRITE),
        (OURS, epoch(4), StreamConflict),
        (OURS, epoch(4, replaces="*"), StreamConflict),
        (THEIRS, epoch(0), StreamConflict),
        (THEIRS, epoch(5), StreamConflict),
        (THEIRS, epoch(6), StreamConflict),
        (THEIRS, epoch(0, replaces="other"), WRITE),
        (THEIRS, epoch(6, replaces="*"), WRITE),
        (THEIRS, epoch(0, replaces="a third"), StreamConflict),
        (HUDIS, epoch(6), WRITE),
        (HUDIS, epoch(5), EpochDone),
        (HUDIS, epoch(5, 1), EpochDone),
        (HUDIS, epoch(4), StreamConflict),
        (HUDIS, epoch(0), StreamConflict),
        (HUDIS, epoch(0, replaces="*"), WRITE),
        (HUDIS, epoch(0, replaces="other"), StreamConflict),
        (HUDIS_FIRST, epoch(0), StreamConflict),
        (HUDIS_FIRST, epoch(1), WRITE),
    ],
)
def test_an_epoch_is_written_skipped_or_refused(
    mark: Mark | None, asked: Epoch, verdict: type[Exception] | None
) -> None:
    marks = {"another stream": replace(THEIRS, batch=99)} | ({"s": mark} if mark else {})
    if verdict is None:
        judge_epoch(asked, marks)
        return
    with pytest.raises(verdict) as told:
        judge_epoch(asked, marks)
    if isinstance(told.value, HudiError):
        assert REPLACES in str(told.value), "the error names its remedy"
    if isinstance(told.value, EpochDone):
        assert told.value.instant == T1


class Streams:
    """A table, and streams that write to it, each write in a process of its own."""

    def __init__(self, version: int = 9) -> None:
        self.world = World(version)
        self.rows = 0
        forget_marks()

    def begin(self, asked: Epoch | None) -> Transaction:
        transaction = self.world.begin(policy=LAZY)
        transaction.epoch = asked
        return transaction

    def commit(self, transaction: Transaction) -> Committed:
        self.rows += 1
        with transaction:
            return finish(transaction, work(transaction, {f"k{self.rows}": "v"}, f"p{self.rows}"))

    def write(self, asked: Epoch | None) -> Committed:
        done = self.commit(self.begin(asked))
        forget_marks()
        return done

    def write_by(self, extra: dict[str, str]) -> Committed:
        """A commit with this extra metadata, by a writer that carries no marks, as Hudi's are."""
        transaction = self.world.begin()
        self.rows += 1
        with transaction:
            written = work(transaction, {f"k{self.rows}": "v"}, f"p{self.rows}")
            transaction.seal(lambda timeout_s: True, [s.path for s in written.stats])
            metadata = CommitMetadata("UPSERT", written.stats, extra)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    "pyhudi.transactions.transaction.with_marks",
                    lambda table, now, metadata, epoch, instant: metadata,
                )
                return transaction.commit(metadata, footprint(transaction, written))

    def known(self, archived: bool = True) -> dict[str, Mark]:
        forget_marks()
        COMMITS.forget_all()
        table = self.world.table()
        return dict(known_marks(table, table.timeline(), archived))

    def verdict(self, asked: Epoch) -> None:
        table = self.world.table()
        check_epoch(table, table.timeline(), asked)

    def timeline(self) -> Timeline:
        return self.world.table().timeline()

    def close(self) -> None:
        self.world.close()


@pytest.fixture(params=VERSIONS)
def streams(request: pytest.FixtureRequest) -> Iterator[Streams]:
    found = Streams(request.param)
    yield found
    found.close()


def test_a_table_without_streams_gets_no_marks(streams: Streams) -> None:
    done = streams.write(None)
    assert not done.metadata.extra.keys() & {STREAMS_KEY, HUDI_KEY}
    assert streams.known() == {}


def test_every_commit_carries_the_marks_of_all_streams(streams: Streams) -> None:
    first = streams.write(Epoch("a", "qa", 3))
    second = streams.write(Epoch("b", "qb", 0))
    last = streams.write(None)
    marks = {"a": Mark("qa", 3, 1, first.instant), "b": Mark("qb", 0, 1, second.instant)}
    assert own_marks(last.metadata.extra) == marks == streams.known()


def test_an_epoch_that_the_table_has_is_found_by_a_new_driver(streams: Streams) -> None:
    done = streams.write(epoch(3))
    streams.write(None)
    with pytest.raises(EpochDone) as told:
        streams.verdict(epoch(3))
    assert told.value.instant == done.instant
    streams.verdict(epoch(3, 1))


def test_where_apache_hudis_sink_went_on_its_number_counts(streams: Streams) -> None:
    streams.write(epoch(3))
    hudis = streams.write_by({HUDI_KEY: '{"s":"5","other":"2"}'})
    assert streams.known() == {
        "s": Mark(None, 5, 1, hudis.instant),
        "other": Mark(None, 2, 1, hudis.instant),
    }
    streams.verdict(epoch(6))
    with pytest.raises(EpochDone):
        streams.verdict(epoch(5))
    with pytest.raises(StreamConflict, match="Apache Hudi's sink"):
        streams.verdict(epoch(4))


def test_after_batch_0_of_apache_hudi_the_error_says_how_to_hand_the_stream_over(
    streams: Streams,
) -> None:
    streams.write_by({HUDI_KEY: '{"s":"0"}'})
    once_more = "Spark had not noted batch 0 there, run Hudi's sink once more"
    with pytest.raises(StreamConflict, match=once_more):
        streams.verdict(epoch(0))
    streams.write_by({HUDI_KEY: '{"s":"1"}'})
    with pytest.raises(StreamConflict) as told:
        streams.verdict(epoch(0))
    assert once_more not in str(told.value)


def test_apache_hudis_number_counts_only_above_ours(streams: Streams) -> None:
    ours = streams.write(epoch(3))
    streams.write_by({HUDI_KEY: '{"s":"3"}'})
    assert streams.known() == {"s": Mark("q", 3, 1, ours.instant)}


def test_a_stream_that_comes_back_from_apache_hudi_is_ours_again(streams: Streams) -> None:
    streams.write_by({HUDI_KEY: '{"s":"5"}'})
    back = streams.write(epoch(6))
    assert streams.known() == {"s": Mark("q", 6, 1, back.instant)}
    assert json.loads(back.metadata.extra[HUDI_KEY]) == {"s": "6"}


def test_a_query_that_replaces_another_goes_on_from_its_own_numbers(streams: Streams) -> None:
    streams.write(epoch(7, query="old"))
    streams.write(epoch(0, replaces="old"))
    streams.verdict(epoch(1, replaces="old"))
    with pytest.raises(EpochDone):
        streams.verdict(epoch(0, replaces="old"))
    with pytest.raises(StreamConflict, match="a second stream"):
        streams.verdict(epoch(8, query="old"))


@pytest.mark.parametrize(
    ("mark", "asked", "theirs"),
    [
        (OURS, epoch(4), "batch 5 of query q"),
        (THEIRS, epoch(6), "batch 5 of query other"),
        (HUDIS, epoch(4), "batch 5 of Apache Hudi's sink"),
    ],
)
def test_a_refused_epoch_and_what_stands_against_it_are_named_alike(
    mark: Mark, asked: Epoch, theirs: str
) -> None:
    with pytest.raises(StreamConflict, match="Nothing was written, and nothing was ski") as told:
        judge_epoch(asked, {"s": mark})
    assert (told.value.ours, told.value.theirs) == (asked.who, theirs)


RELOADED = Mark("q", 5, 2, T1, ("delete", "insert"))


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (("delete",), EpochDone),
        (("delete", "insert"), EpochDone),
        (("delete", "insert", "merge"), WRITE),
        (("insert",), StreamConflict),
        (("delete", "delete"), StreamConflict),
        (("insert", "insert", "merge"), StreamConflict),
        (("", "insert"), EpochDone),
        (("", "", "merge"), WRITE),
    ],
)
@pytest.mark.parametrize("mark", [RELOADED, replace(RELOADED, made=())], ids=["told", "untold"])
def test_the_writes_of_a_repeated_batch_are_those_of_its_mark(
    mark: Mark, made: tuple[str, ...], verdict: type[Exception] | None
) -> None:
    asked = replace(epoch(5, len(made) - 1), made=made)
    if verdict is StreamConflict and not mark.made:
        verdict = WRITE if len(made) > mark.writes else EpochDone
    if verdict is None:
        judge_epoch(asked, {"s": mark})
        judge_epoch(replace(asked, batch=6), {"s": mark})
        return
    with pytest.raises(verdict):
        judge_epoch(asked, {"s": mark})


def test_a_function_that_makes_other_writes_than_before_is_told_both() -> None:
    asked = replace(epoch(5), made=("insert",))
    with pytest.raises(StreamConflict, match="made other writes than before: write 1 of") as told:
        judge_epoch(asked, {"s": RELOADED})
    assert "was 'delete', and is 'insert' now" in str(told.value)
    assert (told.value.ours, told.value.theirs) == (
        "batch 5 of query q: insert",
        "batch 5 of query q: delete",
    )
    assert f"{REPLACES} to q for one run" in str(told.value)
    with pytest.raises(StreamConflict, match="other writes than before"):
        judge_epoch(replace(asked, replaces="*"), {"s": RELOADED})
    with pytest.raises(StreamConflict, match="other writes than before"):
        judge_epoch(replace(asked, stream="new", replaces="q"), {"s": RELOADED})


def test_other_writes_of_a_query_that_replaces_itself_are_written_once(streams: Streams) -> None:
    streams.write(replace(epoch(5), made=("delete",)))
    asked = replace(epoch(5, replaces="q"), made=("insert",))
    streams.verdict(asked)
    done = streams.write(asked)
    assert streams.known() == {"s": Mark("q", 5, 1, done.instant, ("insert",))}
    with pytest.raises(EpochDone):
        streams.verdict(asked)
    streams.verdict(replace(asked, ordinal=1, made=("insert", "insert")))


@pytest.mark.parametrize("torn", ['{"s": {"query": "q", "ba', "[]", '{"s": {"batch": 4}}'])
def test_marks_that_cannot_be_read_are_those_of_the_commit_before(
    streams: Streams, torn: str
) -> None:
    done = streams.write(epoch(3))
    streams.write_by({STREAMS_KEY: torn})
    assert streams.known() == {"s": Mark("q", 3, 1, done.instant)}


def test_a_batch_that_is_in_under_another_name_does_not_come_twice(streams: Streams) -> None:
    done = streams.write(epoch(5))
    named = Epoch("orders", "q", 5)
    with pytest.raises(StreamConflict, match="name 's', and now its batch 5 comes") as told:
        streams.verdict(named)
    assert f"{REPLACES} to q:" in str(told.value)
    for older in (replace(named, batch=4), replace(named, batch=4, replaces="q")):
        with pytest.raises(StreamConflict, match="name 's', and now its batch 4 comes") as told:
            streams.verdict(older)
        assert REPLACES not in str(told.value)
    with pytest.raises(EpochDone) as known:
        streams.verdict(replace(named, replaces="q"))
    assert known.value.instant == done.instant
    streams.verdict(replace(named, batch=6))
    streams.write(replace(named, batch=6))
    streams.verdict(replace(named, batch=7))


def test_one_batch_may_write_under_two_names(streams: Streams) -> None:
    for batch in (0, 1):
        streams.write(Epoch("a", "q", batch, 0))
        streams.write(Epoch("b", "q", batch, 1))
    for asked in (Epoch("a", "q", 1, 0), Epoch("b", "q", 1, 1)):
        with pytest.raises(EpochDone):
            streams.verdict(asked)
    streams.verdict(Epoch("a", "q", 2, 0))
    streams.write(Epoch("b", "q", 2, 1))
    streams.verdict(Epoch("a", "q", 2, 0))
    streams.verdict(Epoch("a", "q", 2, 0, replaces="*"))


def test_a_stream_whose_batches_a_restore_has_undone_is_told(streams: Streams) -> None:
    before = streams.write(epoch(3))
    restore = Instant(InstantTime(str(int(before.instant) + 1)), Action.RESTORE, State.COMPLETED)
    if streams.timeline().layout == 2:
        restore = replace(restore, completion_time=restore.time)
    put_instant(streams.world, restore)
    streams.verdict(epoch(4))
    with pytest.raises(StreamConflict, match=f"restore {restore.time} came after it") as told:
        streams.verdict(epoch(6))
    assert told.value.theirs == f"restore {restore.time}"
    streams.verdict(epoch(6, replaces="q"))
    streams.verdict(Epoch("t", "new", 0))
    streams.verdict(Epoch("t", "new", 2))
    streams.verdict(Epoch("s", "new", 2, replaces="q"))
    streams.write(epoch(4))
    streams.verdict(epoch(9))


def undo(
    streams: Streams, times: list[InstantTime], action: str = "commit", new_driver: bool = True
) -> InstantTime:
    """The table after a restore that undid these instants, and a new driver."""
    storage, folder = streams.world.memory, streams.world.table().config.timeline_folder
    gone = [f.path for f in storage.list(folder) if f.name.startswith(tuple(times))]
    storage.delete(gone)
    time = InstantTime(str(int(max(times)) + 1))
    layout_2 = streams.timeline().layout == 2
    restore = Instant(time, Action.RESTORE, State.COMPLETED, time if layout_2 else None)
    infos = tuple(InstantInfo(each, action) for each in times)
    told = RestoreMetadata(time, 1, tuple(times), {}, infos)
    put_instant(streams.world, restore, render_restore_metadata(told))
    LISTINGS.forget_all()
    if new_driver:
        forget_marks()
    return time


def test_a_stream_of_which_a_restore_left_no_batch_is_told(streams: Streams) -> None:
    streams.write(None)
    restore = undo(streams, [streams.write(epoch(number)).instant for number in range(3)])
    with pytest.raises(StreamConflict, match=f"is no batch, restore {restore} undid") as told:
        streams.verdict(epoch(3))
    assert told.value.theirs == f"restore {restore}"
    streams.verdict(epoch(3, replaces="q"))
    forget_marks()
    streams.verdict(epoch(0))


def of_function(batch: int, ordinal: int, replaces: str | None = None) -> Epoch:
    kinds = ("append", "merge", "delete")[: ordinal + 1]
    return replace(epoch(batch, ordinal, replaces), made=kinds)


def test_a_function_of_whose_batch_a_restore_has_undone_the_last_write_is_told(
    streams: Streams,
) -> None:
    streams.write(of_function(3, 0))
    restore = undo(streams, [streams.write(of_function(3, 1)).instant])
    with pytest.raises(StreamConflict, match=f"restore {restore} came after it") as told:
        streams.verdict(of_function(4, 0))
    assert "Of batch 3 the table has these writes: append." in str(told.value)
    assert f"set {REPLACES} to q for one run" in str(told.value)
    assert "put the checkpoint back to before the end of batch 3" in str(told.value)
    streams.verdict(of_function(4, 0, replaces="q"))
    forget_marks()
    with pytest.raises(EpochDone):
        streams.verdict(of_function(3, 0))
    streams.verdict(of_function(3, 1))
    streams.commit(streams.begin(of_function(3, 1)))
    streams.verdict(of_function(4, 0))


def test_a_driver_knows_which_writes_of_its_last_batch_a_restore_has_left(
    streams: Streams,
) -> None:
    streams.verdict(of_function(3, 0))
    last = streams.commit(streams.begin(of_function(3, 0))).instant
    streams.verdict(of_function(3, 1))
    undo(streams, [streams.commit(streams.begin(None)).instant], new_driver=False)
    streams.verdict(of_function(4, 0))
    undo(streams, [last], new_driver=False)
    with pytest.raises(StreamConflict, match="is no batch"):
        streams.verdict(of_function(4, 0))
    streams.verdict(of_function(3, 0))


def test_a_write_whose_batch_lost_its_first_one_by_a_restore_meanwhile_is_told(
    streams: Streams,
) -> None:
    streams.write(epoch(2))
    streams.verdict(of_function(3, 0))
    first = streams.commit(streams.begin(of_function(3, 0))).instant
    restore = undo(streams, [first], new_driver=False)
    with pytest.raises(StreamConflict, match=f"restore {restore} came after it"):
        streams.verdict(of_function(3, 1))
    streams.verdict(of_function(3, 0))
    streams.verdict(of_function(3, 1))  # the first one had no rows this time


def test_a_driver_that_was_there_since_a_restore_goes_on_after_empty_batches(
    streams: Streams,
) -> None:
    undo(streams, [streams.write(epoch(0, query="other")).instant])
    streams.verdict(epoch(0))
    streams.verdict(epoch(2))
    forget_marks()
    with pytest.raises(StreamConflict, match=f"set {REPLACES} to q for one run"):
        streams.verdict(epoch(2))


def test_a_driver_that_found_batches_empty_after_a_restore_does_not_ask_for_them(
    streams: Streams,
) -> None:
    streams.commit(streams.begin(epoch(3)))
    undo(streams, [streams.write(None).instant], new_driver=False)
    for number in (4, 5):
        streams.verdict(epoch(number))
        remember_empty(streams.world.table(), epoch(number))
    streams.verdict(epoch(6))
    restore = undo(streams, [streams.write(None).instant], new_driver=False)
    with pytest.raises(StreamConflict, match=f"restore {restore} came after it"):
        streams.verdict(epoch(6))


def test_an_answer_about_a_restore_holds_for_a_run_without_rows(streams: Streams) -> None:
    streams.write(epoch(3))
    undo(streams, [streams.write(epoch(4)).instant])
    with pytest.raises(StreamConflict, match="came after it"):
        streams.verdict(epoch(5))
    remember_empty(streams.world.table(), epoch(5))
    with pytest.raises(StreamConflict, match="came after it"):
        streams.verdict(epoch(6))
    streams.verdict(epoch(5, replaces="q"))
    remember_empty(streams.world.table(), epoch(5))
    streams.verdict(epoch(6))
    with pytest.raises(StreamConflict, match="came after it"):
        streams.verdict(epoch(9))


def test_a_restore_of_services_and_rollbacks_do_not_stop_a_stream(streams: Streams) -> None:
    last = undo(streams, [streams.write(None).instant], "compaction")
    layout_2 = streams.timeline().layout == 2
    time = InstantTime(str(int(last) + 1))
    rollback = Instant(time, Action.ROLLBACK, State.COMPLETED, time if layout_2 else None)
    put_instant(streams.world, rollback)
    streams.verdict(epoch(3))


def test_a_stream_whose_table_was_made_again_is_told(streams: Streams) -> None:
    streams.verdict(epoch(3))
    streams.commit(streams.begin(epoch(3)))
    streams.verdict(epoch(4))
    streams.commit(streams.begin(epoch(4)))
    folder = streams.world.table().config.timeline_folder
    storage = streams.world.table().storage
    names = (".commit", ".inflight", ".requested")
    storage.delete([f.path for f in storage.list(folder) if f.name.endswith(names)])
    with pytest.raises(StreamConflict, match="of query q is no batch, this driver"):
        streams.verdict(epoch(5))
    streams.verdict(epoch(0))


def test_a_stream_whose_mark_left_for_those_of_others_is_not_taken_for_set_back(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("transactions.epochs", "format.stream_marks"):
        monkeypatch.setattr(f"pyhudi.{module}.MOST_STREAMS", 2)
    streams.commit(streams.begin(epoch(3)))
    streams.verdict(epoch(4))
    for name in ("t", "u"):
        streams.commit(streams.begin(Epoch(name, name, 0)))
    streams.verdict(epoch(9))


def test_marks_are_found_in_the_archive_if_no_active_commit_has_any(streams: Streams) -> None:
    first, second = streams.write(epoch(3)), streams.write(Epoch("t", "q2", 1))
    streams.write_by({})
    archive(streams.world.table(), first.instant, second.instant)
    assert streams.known(archived=False) == {}
    assert streams.known() == {
        "s": Mark("q", 3, 1, first.instant),
        "t": Mark("q2", 1, 1, second.instant),
    }
    with pytest.raises(EpochDone):
        streams.verdict(epoch(3))
    carried = streams.write(epoch(4))
    assert own_marks(carried.metadata.extra) == streams.known()


def test_apache_hudis_number_counts_above_marks_in_the_archive(streams: Streams) -> None:
    first = streams.write(epoch(3))
    hudis = streams.write_by({HUDI_KEY: '{"s":"5"}'})
    archive(streams.world.table(), first.instant)
    assert streams.known() == {"s": Mark(None, 5, 1, hudis.instant)}


def test_a_batch_writer_does_not_hide_marks_in_the_archive(streams: Streams) -> None:
    first = streams.write(epoch(3))
    hudis = streams.write_by({HUDI_KEY: '{"t":"5"}'})
    archive(streams.world.table(), first.instant)
    batch = streams.write(None)
    assert not batch.metadata.extra.keys() & {STREAMS_KEY, HUDI_KEY}
    kept = {"s": Mark("q", 3, 1, first.instant), "t": Mark(None, 5, 1, hudis.instant)}
    assert streams.known() == kept
    with pytest.raises(EpochDone):
        streams.verdict(epoch(3))
    with pytest.raises(StreamConflict, match="a second stream"):
        streams.verdict(epoch(0, query="fresh"))
    batch = streams.commit(streams.begin(None))
    assert own_marks(batch.metadata.extra) == kept, "the archive has been asked meanwhile"


def test_marks_stay_those_of_the_newest_commit_when_a_table_is_copied(streams: Streams) -> None:
    """A copy does not keep the times of files; this one ends with the oldest commit."""
    for number in range(4):
        streams.write(epoch(number))
    streams.write_by({HUDI_KEY: '{"t":"5"}'})
    before = streams.known()
    storage, timeline = streams.world.memory, streams.timeline()
    for commit in reversed(timeline.commits):
        path = timeline.file_of(commit)
        data = storage.read(path)
        storage.delete([path])
        streams.world.clock.advance(2)
        storage.put_if_absent(path, data)
    LISTINGS.forget_all()
    assert streams.known() == before
    with pytest.raises(EpochDone):
        streams.verdict(epoch(3))
    with pytest.raises(StreamConflict, match="the checkpoint is older than the table"):
        streams.verdict(epoch(1))


@pytest.mark.parametrize("again", [False, True], ids=["a new driver", "the same driver"])
def test_a_batch_of_apache_hudi_that_ended_after_a_newer_instant_counts(
    streams: Streams, again: bool
) -> None:
    """In version 6 Hudi's writers may end in another order than they began."""
    streams.write(epoch(3))
    slow = streams.world.begin(policy=LAZY)
    beside = streams.write(None)
    if again:
        table = streams.world.table()
        known_marks(table, table.timeline())
    done = Instant(slow.instant, Action.COMMIT, State.COMPLETED)
    layout = streams.timeline().layout
    if layout == 2:
        last = streams.timeline().commits[-1].completion_time
        assert last is not None
        done = replace(done, completion_time=InstantTime(str(int(last) + 1)))
    streams.world.clock.advance(1)
    extra = {HUDI_KEY: '{"s":"4"}'}
    put_instant(streams.world, done, render_commit(CommitMetadata("UPSERT", (), extra), layout))
    assert done.time < beside.instant
    table = streams.world.table()
    assert known_marks(table, table.timeline())["s"] == Mark(None, 4, 1, done.time)
    with pytest.raises(EpochDone):
        streams.verdict(epoch(4))


def test_what_is_known_of_a_table_is_not_asked_again(streams: Streams) -> None:
    streams.write(epoch(3))
    table, timeline = streams.world.table(), streams.timeline()
    known = known_marks(table, timeline)
    COMMITS.forget_all()
    assert known_marks(table, timeline) == known


@pytest.fixture
def ordered() -> Iterator[Streams]:
    """In version 6 an older instant never completes after a newer one: it is a conflict before."""
    found = Streams(9)
    yield found
    found.close()


def test_apache_hudis_key_has_no_number_that_would_hide_an_epoch_with_a_smaller_instant(
    ordered: Streams,
) -> None:
    """Apache Hudi takes the number of the greatest instant that has one."""
    streams = ordered
    streams.write(epoch(3))
    slow = streams.begin(epoch(4))
    batch = streams.write(None)
    beside = streams.write(replace(epoch(7, query="q2"), stream="other"))
    assert all(own_marks(each.metadata.extra)["s"].batch == 3 for each in (batch, beside))  # type: ignore[index]
    assert HUDI_KEY not in batch.metadata.extra
    assert json.loads(beside.metadata.extra[HUDI_KEY]) == {"other": "7"}
    late = streams.commit(slow)
    assert late.instant < min(batch.instant, beside.instant)
    for each in (late, streams.write(None)):
        assert json.loads(each.metadata.extra[HUDI_KEY]) == {"s": "4", "other": "7"}


def test_a_driver_whose_epoch_another_has_committed_skips_it_under_the_lock(
    ordered: Streams,
) -> None:
    streams = ordered
    stale = streams.begin(epoch(3))
    streams.write(epoch(3))
    with pytest.raises(EpochDone):
        streams.commit(stale)
    assert streams.world.leftovers() == []
    assert set(streams.world.rows().values()) == {"v"}
    assert len(streams.world.rows()) == 1


def test_a_driver_that_another_has_overtaken_ends_under_the_lock(ordered: Streams) -> None:
    streams = ordered
    stale = streams.begin(epoch(3))
    streams.write(epoch(3))
    streams.write(epoch(4))
    with pytest.raises(StreamConflict, match="Another driver of this stream"):
        streams.commit(stale)
    assert streams.world.leftovers() == []


def test_a_stream_that_moved_since_the_judgement_is_a_conflict(streams: Streams) -> None:
    streams.write(epoch(3))
    table, judged = streams.world.table(), streams.timeline()
    streams.write(None)
    check_marks(table, judged, streams.timeline(), T1)
    streams.write(epoch(4))
    with pytest.raises(CommitConflict, match="A stream has committed a batch"):
        check_marks(table, judged, streams.timeline(), T1)
