"""The state of a failed write that comes after the archive has passed it is no first write.

The writer stood still until its instant was rolled back and later commits were archived. Until it
undoes itself, its requested or inflight file is the oldest on the timeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.archive import ArchivedInstant
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.schema_history import SCHEMA_FOLDER
from pyhudi.timeline.active import Timeline, timeline_of
from pyhudi.timeline.archived_states import is_whole, whole_states
from pyhudi.timeline.schema import table_schema
from pyhudi.timeline.schema_history import SchemaHistory
from pyhudi.timeline.strays import Archive, first_write
from pyhudi.timeline.time_travel import check_history, check_readable
from pyhudi.timeline.view import VIEWS, list_view
from tests.archiver import archive
from tests.timeline.bare import t
from tests.transactions.world import VERSIONS, World, put_instant


class Late:
    """Two archived commits and an active one; ``come`` puts a late state between the first two."""

    def __init__(self, version: int) -> None:
        self.world = World(version)
        self.old = self.world.upsert({"k": "1"}).instant
        self.world.clock.advance(1)
        self.newer = self.world.upsert({"k": "2"}).instant
        self.last = self.world.upsert({"k": "3"}).instant
        self.table = self.world.table()
        self.late = InstantTime(str((int(self.old) + int(self.newer)) // 2))

    def archive(self) -> None:
        archive(self.table, self.old, self.newer)

    def come(self) -> Timeline:
        put_instant(self.world, Instant(self.late, Action.COMMIT, State.REQUESTED))
        timeline = self.table.timeline()
        assert timeline.first_time == self.late
        return timeline


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def late(request: pytest.FixtureRequest) -> Iterator[Late]:
    found = Late(request.param)
    yield found
    found.world.close()


def test_a_state_that_the_archive_has_passed_is_not_the_first_write(late: Late) -> None:
    late.archive()
    timeline = late.come()
    known = Archive(late.table.storage, late.table.config)
    assert first_write(timeline, known) == late.last
    assert first_write(timeline, known, late.newer) == late.last


@dataclass(frozen=True, slots=True)
class Unasked(Archive):
    def commits(self) -> Mapping[InstantTime, ArchivedInstant]:
        raise AssertionError("the archive is read")


def test_the_archive_is_asked_only_where_a_late_state_would_matter(late: Late) -> None:
    unasked = Unasked(late.table.storage, late.table.config)
    assert first_write(late.table.timeline(), unasked) == late.old, "it is completed"
    late.archive()
    timeline = late.come()
    for time in (late.old, late.last):
        found = first_write(timeline, unasked, time)
        assert found is not None
        assert (time < found) == (time < late.last)
    with pytest.raises(AssertionError, match="the archive is read"):
        first_write(timeline, unasked, late.newer)


def test_a_pending_write_that_no_archived_commit_follows_is_the_first() -> None:
    def instant(n: int, state: State = State.COMPLETED) -> Instant:
        return Instant(t(n), Action.COMMIT, state, t(n) if state is State.COMPLETED else None)

    pending = (instant(10, State.INFLIGHT), instant(20, State.REQUESTED))
    timeline = Timeline(2, "f", (*pending, instant(30)), {})
    assert timeline.first_above(t(5)) == t(10)
    assert timeline.first_above(t(15)) == t(20)
    assert timeline.first_above(t(25)) == t(30)
    assert timeline.first_above(t(40)) == t(30), "the archiver has only begun to take it"


def test_a_state_between_archived_commits_is_still_refused_unless_it_is_whole(late: Late) -> None:
    (path,) = (f.path for f in late.world.view().latest() if f.instant == late.last)
    (gone,) = (f.path for f in late.world.view().latest(late.newer))
    assert path != gone
    late.archive()
    timeline = late.come()
    with pytest.raises(HistoryExpired) as refused:
        check_history(late.table, timeline, late.newer)
    assert refused.value.earliest == late.last
    check_readable(late.table, timeline, late.newer)
    assert is_whole(late.table, timeline, late.newer)
    assert list(whole_states(late.table, timeline, late.old)) == [late.newer]

    late.world.memory.delete([gone])
    VIEWS.forget(late.world.memory)
    with pytest.raises(HistoryExpired):
        check_readable(late.table, late.table.timeline(), late.newer)


def test_the_schema_of_an_archived_commit_is_still_found(late: Late) -> None:
    late.archive()
    found = table_schema(late.table, late.come(), late.newer)
    assert found is not None
    assert found.names == ("key", "value")


def test_the_history_of_an_archived_change_of_columns_still_counts(late: Late) -> None:
    late.archive()
    text = json.dumps({"schemas": [{"version_id": 0, "max_column_id": 5, "fields": []}]})
    path = f"{SCHEMA_FOLDER}/{late.newer}.schemacommit"
    late.world.memory.put_if_absent(path, text.encode())
    assert SchemaHistory(late.table, late.come()).saved().text == text


def test_a_torn_listing_is_noticed_though_a_late_state_came_after_it(late: Late) -> None:
    """An archiver deletes instants during the listing, which has an older one without a newer."""
    folder = late.table.config.timeline_folder
    whole = late.world.memory.list(folder)
    late.archive()
    torn = [f for f in whole if not f.name.startswith(late.newer)]
    listed = timeline_of(torn, late.table.config.layout, folder)
    late.come()
    known = Archive(late.table.storage, late.table.config)
    with pytest.raises(HistoryExpired, match=f"commit {late.newer} was archived"):
        list_view(late.world.memory, listed, known)


def test_files_of_failed_writes_are_no_sign_of_a_torn_listing_beside_a_late_state(
    late: Late,
) -> None:
    late.archive()
    timeline = late.come()
    known = Archive(late.table.storage, late.table.config)
    before = list_view(late.world.memory, timeline, known).latest()
    name = before[0].name.replace(late.last, str(int(late.late) + 1))
    late.world.memory.put_if_absent(f"a/{name}", b"{}")
    assert list_view(late.world.memory, timeline, known).latest() == before
