"""Files of compactions that their commits do not name: found before the commits are archived."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, State
from pyhudi.format.plans import (
    CompactionOperation,
    CompactionPlan,
    InstantInfo,
    RollbackMetadata,
    render_compaction_plan,
    render_rollback_metadata,
)
from pyhudi.services.archive_plan import ArchivePolicy
from pyhudi.services.archiver import ArchiveRules, archive_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.disowned_files import disowned_files
from pyhudi.timeline.view import VIEWS
from tests.services.logged_world import GROUP, Logged
from tests.timeline.bare import t
from tests.transactions.world import VERSIONS, World, put_instant

KEEP_1 = ArchiveRules(ArchivePolicy(1, 1), Retention(commits=1), 1)


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def table(new_world: Callable[..., World], request: pytest.FixtureRequest) -> Logged:
    return Logged(new_world(request.param, {"hoodie.table.type": "MERGE_ON_READ"}))


def compaction(table: Logged, time: int, groups: tuple[str, ...], *stats: WriteStat) -> None:
    """A compaction of a plan with these groups, which has written ``stats``."""
    operations = tuple(CompactionOperation(t(10), (), None, FileId(g), "p") for g in groups)
    plan = render_compaction_plan(CompactionPlan(operations))
    put_instant(table.world, Instant(t(time), Action.COMPACTION, State.REQUESTED), plan)
    put_instant(table.world, Instant(t(time), Action.COMPACTION, State.INFLIGHT))
    done = Instant(
        t(time), Action.COMMIT, State.COMPLETED, t(time + 1) if table.layout == 2 else None
    )
    metadata = CommitMetadata("COMPACT", stats, compacted=True)
    put_instant(table.world, done, render_commit(metadata, table.layout))


def taken_back(table: Logged, time: int, at: int) -> None:
    """A rollback of a run of the compaction ``time``."""
    target = InstantInfo(t(time), "compaction")
    said = render_rollback_metadata(
        RollbackMetadata(t(at), 1, 0, (t(time),), {}, instants_rollback=(target,))
    )
    done = t(at + 1) if table.layout == 2 else None
    put_instant(table.world, Instant(t(at), Action.ROLLBACK, State.COMPLETED, done), said)


def found(table: Logged) -> list[str]:
    timeline = table.world.table().timeline()
    each = disowned_files(table.world.table(), timeline, timeline.commits)
    return [file.file.path for file in each]


def test_a_late_file_of_a_group_that_was_left_out_goes_before_its_compaction_is_archived(
    table: Logged,
) -> None:
    """Below the timeline it would hide the base file for which the group was left out."""
    table.base(10)
    table.base(20, group="left")
    compaction(table, 30, (GROUP, "left"), table.file(GROUP, 30))
    late = table.file("left", 30).path
    kept = {file for file in table.on_disk() if file != late}
    table.world.clock.advance(1.0)
    compaction(table, 40, (GROUP,), table.file(GROUP, 40))
    table.base(50, group="more")
    assert found(table) == [late]

    assert late not in {file.path for file in table.world.view().latest()}
    archive_table(table.world.writer(), KEEP_1)
    assert t(30) not in {i.time for i in table.world.table().timeline().commits}
    VIEWS.forget_all()
    assert ("left", t(20)) in {(f.file_id, f.instant) for f in table.world.view().latest()}
    assert kept <= table.on_disk()
    assert late not in table.on_disk()


def test_a_second_file_of_a_run_that_was_taken_back_is_one_too(table: Logged) -> None:
    table.base(10)
    compaction(table, 30, (GROUP,), table.file(GROUP, 30))
    late = table.file(GROUP, 30, token="9-9-9").path
    assert found(table) == [], "the folder is not listed"

    taken_back(table, 30, 35)
    assert found(table) == [late]


def test_a_log_that_another_writes_in_layout_1_is_none(table: Logged) -> None:
    table.base(10)
    compaction(table, 30, (GROUP,), table.file(GROUP, 30))
    taken_back(table, 30, 35)
    table.delta(40, 30)

    assert found(table) == []


def test_without_its_plan_a_compaction_has_been_looked_at(table: Logged) -> None:
    """An archiver deletes the plan first, and died before it came to the commit."""
    compaction(table, 30, ("left",))
    table.file("left", 30)
    assert len(found(table)) == 1
    timeline = table.world.table().timeline()
    plan = timeline.file_of(Instant(t(30), Action.COMPACTION, State.REQUESTED))
    table.storage.delete([plan])

    assert found(table) == []


def test_a_file_that_comes_after_the_archive_does_not_count_though_the_commit_names_none(
    table: Logged,
) -> None:
    table.base(20, group="left")
    compaction(table, 30, ("left",))
    compaction(table, 40, (GROUP,), table.file(GROUP, 40))
    table.base(50, group="more")
    archive_table(table.world.writer(), KEEP_1)
    assert t(30) not in {i.time for i in table.world.table().timeline().commits}

    table.world.clock.advance(1.0)
    table.file("left", 30)
    VIEWS.forget_all()
    assert ("left", t(20)) in {(f.file_id, f.instant) for f in table.world.view().latest()}
