"""Streams whose table lost a commit that they had read, while the last one that they read stayed.

Commits may end in another order than they began. Apache Hudi's ``rollback_to_instant`` undoes one
commit alone where failed writes are cleaned lazily, and a restore of layout 2 goes by times of
completion, which a stream of the fenced order does not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.instants import InstantTime
from pyhudi.reads import stream_look
from pyhudi.reads.stream_offsets import RECENT, StreamOffset, parse_offset
from pyhudi.timeline.table import open_table
from tests.archiver import archive
from tests.reads.changing_table import ORDER, Changing, changing, time
from tests.reads.followed_table import LIMIT_FILES, START, Follower
from tests.reads.logged_table import LoggedTable
from tests.reads.test_log_streams import follower as follower_of_logs
from tests.undoing import Undoing

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
TOLD = "and before it commit {}, which is neither on its timeline.*another checkpoint location"


def undoing(table: Changing, number: int = 90) -> Undoing:
    return Undoing(open_table(table.world.storage), time(number))


def undo(table: Changing, number: int, by: int = 90) -> None:
    """``rollback_to_instant``."""
    for step in undoing(table, by).rollback(time(number)):
        step()


def told(follower: Follower, number: int) -> None:
    """The stream ends, also if it is started again, or plans the batch again that it began."""
    for _ in range(2):
        with pytest.raises(HistoryExpired, match=TOLD.format(time(number))) as error:
            follower.batch()
        assert error.value.asked == time(number)
        follower.restart()
    place = follower.place
    assert isinstance(place, StreamOffset)
    if len(follower.offsets) > 1:
        with pytest.raises(HistoryExpired, match=TOLD.format(time(number))):
            follower.rows(parse_offset(follower.offsets[-2]), place)


def five(version: int) -> tuple[Changing, int]:
    """Five commits; in layout 2 the second one completes last, and is the place of a stream."""
    table = changing(version)
    slow = table.write(2, "g2", {"k2": 2})
    if version == 6:
        table.complete(slow)
    for number in (1, 3, 4, 5):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    if version != 6:
        table.complete(slow, done=6)
    return table, 5 if version == 6 else 2


@VERSIONS
@pytest.mark.parametrize("undone", [1, 3, 4])
def test_a_commit_before_the_place_that_a_rollback_undoes_ends_the_stream(
    version: int, undone: int
) -> None:
    table, last = five(version)
    follower = Follower(table)
    follower.all()
    assert isinstance(follower.place, StreamOffset)
    assert follower.place.commit == time(last)
    for step in undoing(table).rollback(time(undone)):
        step()
        timeline = open_table(table.world.storage).timeline()
        if any(commit.time == time(undone) for commit in timeline.commits):
            continue
        # The oldest commit may be archived, until the rollback has completed and tells.
        if undone > 1 or any(i.time == time(90) for i in timeline.completed):
            told(follower, undone)
    table.complete(table.write(91, "g9", {"k9": 9}))
    told(follower, undone)


@VERSIONS
def test_a_commit_that_one_of_many_batches_gave_ends_the_stream(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    for number in range(2, 8):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
        follower.all()
        follower.restart()
    undo(table, 3)
    told(follower, 3)


@pytest.mark.parametrize("version", [8, 9])
def test_a_restore_by_completion_undoes_what_a_fenced_stream_has_passed(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    slow = table.write(2, "g2", {"b": 2})
    table.complete(table.write(3, "g3", {"c": 3}))
    table.complete(slow, done=4)
    follower = Follower(table, {ORDER: "fenced"})
    follower.all()
    for step in undoing(table).restore(time(3), [time(2)]):
        step()
    told(follower, 2)


@VERSIONS
def test_a_part_of_the_first_state_of_which_a_commit_is_undone_ends_the_stream(
    version: int,
) -> None:
    table, _ = five(version)
    follower = Follower(table, {LIMIT_FILES: "1"})
    assert follower.batch()
    undo(table, 3)
    told(follower, 3)


@VERSIONS
def test_a_commit_that_was_read_in_part_ends_the_stream_by_one_before_it(version: int) -> None:
    table, _ = five(version)
    follower = Follower(table, {LIMIT_FILES: "1"})
    follower.all()
    both = table.write(7, "h1", {"h1": 7})
    both.files["h2"] = {"h2": (7, 7)}
    table.complete(both)
    assert follower.batch()
    undo(table, 4)
    told(follower, 4)


@VERSIONS
def test_a_commit_that_is_undone_while_its_batch_is_begun_again_is_told(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    for number in (2, 3):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    end = follower.ahead().end
    assert isinstance(end, StreamOffset)
    undo(table, 2)
    with pytest.raises(HistoryExpired, match=TOLD.format(time(2))):
        follower.rows(follower.place, end)


@VERSIONS
def test_a_rollback_that_was_archived_as_well_is_found_by_what_is_missing(version: int) -> None:
    table, _ = five(version)
    follower = Follower(table)
    follower.all()
    undo(table, 3)
    for number in (91, 92):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    archive(open_table(table.world.storage), *(time(n) for n in (1, 2, 4, 5, 90)))
    follower.restart()
    told(follower, 3)


# ---- what ends none


@VERSIONS
def test_failed_writes_that_are_rolled_back_end_no_stream(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    table.pending(2)
    table.complete(table.write(3, "g3", {"c": 3}))
    follower = Follower(table)
    follower.all()
    undo(table, 2)
    table.complete(table.write(4, "g4", {"d": 4}))
    follower.all()
    follower.restart()
    follower.all()
    assert [row for batch in follower.batches for row in batch] == [
        ("a", 1, 1), ("c", 3, 3), ("d", 4, 4)
    ]  # fmt: skip


@VERSIONS
def test_a_commit_that_the_stream_has_not_read_may_be_undone(version: int) -> None:
    table, _ = five(version)
    after = Follower(table, {START: time(3)})
    after.batch()
    undo(table, 1)
    table.complete(table.write(91, "g9", {"k9": 9}))
    after.restart()
    assert after.all() == [[("k9", 9, 91)]]


@VERSIONS
def test_commits_that_were_archived_end_no_stream_and_are_not_asked_for(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = changing(version)
    for number in range(1, 7):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    follower = Follower(table)
    follower.all()
    archive(open_table(table.world.storage), *(time(n) for n in range(1, 4)))
    asked: list[InstantTime] = []
    known = stream_look.holds_commit

    def counted(storage: object, config: object, at: InstantTime) -> bool:
        asked.append(at)
        return known(storage, config, at)  # type: ignore[arg-type]

    monkeypatch.setattr(stream_look, "holds_commit", counted)
    follower.restart()
    assert follower.all() == []
    assert asked == []
    table.complete(table.write(7, "g7", {"k7": 7}))
    follower.all()
    assert isinstance(follower.place, StreamOffset)
    assert follower.place.recent == tuple(time(n) for n in (4, 5, 6))
    archive(open_table(table.world.storage), *(time(n) for n in range(4, 7)))
    table.complete(table.write(8, "g8", {"k8": 8}))
    archive(open_table(table.world.storage), time(7))
    follower.restart()
    assert follower.all() == [[("k8", 8, 8)]]
    assert asked, "after a pause that took the place's own commit all are asked for"


@VERSIONS
def test_a_clustering_that_is_undone_took_no_row_away(version: int) -> None:
    table = changing(version)
    table.complete(table.write(1, "g1", {"a": 1}))
    follower = Follower(table)
    follower.all()
    table.complete(table.cluster(2, ["g1"], "g2"))
    table.complete(table.write(3, "g3", {"c": 3}))
    follower.all()
    assert isinstance(follower.place, StreamOffset)
    assert follower.place.recent == (time(1),)


@VERSIONS
def test_a_compaction_that_is_undone_took_no_row_away(version: int, tmp_path: Path) -> None:
    table = LoggedTable.of(tmp_path, version)
    table.merge(1, "g1", {"a": 1}, "BULK_INSERT")
    table.merge(2, "g1", {"a": 2})
    table.compact(3, "g1")
    table.merge(4, "g1", {"a": 4})
    stream = follower_of_logs(table)
    stream.all()
    assert isinstance(stream.place, StreamOffset)
    assert stream.place.recent == (time(1), time(2))


def test_a_place_names_so_many_commits_and_no_more() -> None:
    table = changing()
    for number in range(1, RECENT + 5):
        table.complete(table.write(number, f"g{number}", {f"k{number}": number}))
    follower = Follower(table)
    follower.all()
    assert isinstance(follower.place, StreamOffset)
    assert follower.place.recent == tuple(time(n) for n in range(4, RECENT + 4))
    assert len(follower.place.render()) < 1_300
