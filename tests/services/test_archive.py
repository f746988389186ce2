"""Archiving: which instants go, what stops it, and who goes on after a crash."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from pyhudi.application.after_commit import after_commit
from pyhudi.choices import CleanPolicy
from pyhudi.config import resolve_write
from pyhudi.errors import CommitConflict, ConfigError, HudiError, LockTimeout
from pyhudi.format.archive import archive_log_number, read_archive_log, read_history_file
from pyhudi.format.commit_metadata import parse_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import parse_cleaner_plan
from pyhudi.locks.base import LockOwner
from pyhudi.services.archive_plan import ArchiveFacts, ArchivePolicy, plan_archive
from pyhudi.services.archiver import ArchiveRules, MovedInstant, archive_table, archived, rules_of
from pyhudi.services.clean import clean_table
from pyhudi.services.clean_plan import Retention
from pyhudi.services.savepoints import make_savepoint
from pyhudi.storage.faults import WRITES, Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.archived import archived_instants, history_version
from pyhudi.timeline.read_states import ReadState
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.leases import lease
from tests.application.test_after_commit import OPTIONS, runtime
from tests.transactions.world import World, begin_beside, die, finish, other_lock, put_instant, work

RETENTION = Retention(commits=1)
KEEP_2 = ArchiveRules(ArchivePolicy(2, 3), RETENTION)


@pytest.fixture(params=[6, 8, 9], ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


def versions(world: World, count: int, key: str = "k") -> list[InstantTime]:
    return [world.upsert({key: str(i)}).instant for i in range(count)]


def run(world: World, rules: ArchiveRules = KEEP_2) -> list[MovedInstant]:
    return archive_table(world.writer(), rules)


def gone(found: list[MovedInstant]) -> list[InstantTime]:
    return [each.instant for each in found if each.fate.value == "archived"]


def in_archive(world: World) -> list[InstantTime]:
    return [e.instant.time for e in archived_instants(world.memory, world.table().config)]


def active(world: World) -> list[InstantTime]:
    return [i.time for i in world.table().timeline().commits]


def test_old_commits_go_from_the_timeline_into_the_archive(world: World) -> None:
    one, two, three, four = versions(world, 4)
    contents = {
        i.time: world.memory.read(world.table().timeline().file_of(i))
        for i in world.table().timeline().commits
    }

    found = run(world)

    assert [(e.instant, e.action, e.fate.value) for e in found] == [
        (one, "commit", "archived"),
        (two, "commit", "archived"),
        (three, "commit", "kept"),
        (four, "commit", "kept"),
    ]
    assert found[0].why == "older than the newest 2 commits"
    assert found[2].why == "it is one of the newest 2 commits"
    kept = archived_instants(world.memory, world.table().config)
    assert {e.instant.time: e.commit() for e in kept} == {
        t: parse_commit(contents[t], "") for t in (one, two)
    }
    left = {f.name[:17] for f in world.memory.list(world.table().config.timeline_folder)}
    assert {three, four} <= left
    assert left.isdisjoint({one, two})
    assert world.rows() == {"k": "3"}
    assert world.leftovers() == sorted(p for p in world.data_files() if one in p or two in p)


def test_a_dry_run_tells_the_same_and_changes_nothing(world: World) -> None:
    one, two, *_ = versions(world, 4)
    before = {f.path: f.modified_ms for f in world.memory.walk("")}
    keep = {
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.commits.retained": "1",
    }
    options = resolve_write(keep, world.table().config.raw, {})

    found = archived(world.writer(), options, dry_run=True)

    assert [e.instant for e in found if e.fate.value == "would be archived"] == [one, two]
    assert {f.path: f.modified_ms for f in world.memory.walk("")} == before


def test_with_few_commits_nothing_happens_and_no_lock_is_taken(world: World) -> None:
    versions(world, 3)
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))
    found = run(world)
    assert gone(found) == []
    assert {e.why for e in found} == {"the timeline has 3 commits, and 3 may stay"}


def test_cleans_and_rollbacks_go_with_the_commits_around_them(world: World) -> None:
    one, two, three = versions(world, 3)
    clean_table(world.writer(), RETENTION)
    (clean,) = (i.time for i in world.table().timeline().completed if i.action is Action.CLEAN)
    four, five, six = versions(world, 3)
    clean_table(world.writer(), RETENTION)
    versions(world, 1)
    found = run(world)
    assert gone(found) == [one, two, three, clean, four, five]
    (entry,) = (
        e
        for e in archived_instants(world.memory, world.table().config)
        if e.instant.action is Action.CLEAN
    )
    if world.table().config.layout == 2:
        assert entry.plan is not None
        plan = parse_cleaner_plan(entry.plan, "plan")
        assert plan.last_completed_commit_timestamp == three
    assert active(world)[0] == six
    assert world.rows() == {"k": "0"}


def test_what_cleans_keep_readable_stays(world: World) -> None:
    times = versions(world, 7)
    keep_4 = Retention(commits=4)
    found = run(world, replace(KEEP_2, retention=keep_4))
    assert gone(found) == times[:2]
    assert found[-1].why == (
        f"it is one of the newest 5 commits, and cleans keep those from {times[3]} on readable"
    )
    clean_table(world.writer(), keep_4)
    found = run(world)
    assert gone(found) == [times[2]]
    assert f"the last clean keeps the commits from {times[3]} on readable" in {e.why for e in found}


def test_it_stops_at_a_savepoint_until_that_is_deleted(world: World) -> None:
    one, two, _ = versions(world, 3)
    make_savepoint(world.writer(), two, "")
    versions(world, 3)
    found = run(world)
    assert gone(found) == [one]
    assert f"savepoint {two} keeps the instants from it on" in {e.why for e in found}
    assert world.rows() == {"k": "2"}


def test_it_stops_before_a_pending_write_and_the_write_still_meets_its_conflicts(
    world: World,
) -> None:
    one, two = versions(world, 2)
    slow = begin_beside(world)
    written = work(slow, {"k": "slow"})
    for i in range(4):
        done = begin_beside(world)
        finish(done, work(done, {"k": f"fast {i}"}))
    found = run(world, replace(KEEP_2, retention=Retention(policy=CleanPolicy.VERSIONS)))
    assert gone(found) == [one]
    assert f"commit {slow.instant} is pending" in {e.why for e in found}
    assert two in active(world)
    with pytest.raises(CommitConflict), slow:
        finish(slow, written)
    assert world.rows() == {"k": "fast 3"}


def test_a_writer_whose_instant_was_archived_away_fails(world: World) -> None:
    versions(world, 2)
    stalled = begin_beside(world)
    written = work(stalled, {"j": "stalled"})
    die(stalled)
    world.clock.sleep(100_000)
    versions(world, 5)  # the next writer rolls the dead one back
    found = run(world)
    assert any(e.action == "rollback" for e in found if e.fate.value == "archived")
    with pytest.raises(HudiError):
        finish(stalled, written)
    assert world.rows() == {"k": "4"}


def test_it_stops_while_a_rollback_is_pending(world: World) -> None:
    versions(world, 5)
    time = world.writer().next_time(world.table().timeline())
    put_instant(world, Instant(time, Action.ROLLBACK, State.REQUESTED))
    found = run(world)
    assert gone(found) == []
    assert f"rollback {time} is pending" in {e.why for e in found}


def test_a_replace_commit_stays_until_what_it_replaced_is_cleaned(world: World) -> None:
    (one,) = versions(world, 1)
    with world.begin(action=Action.REPLACECOMMIT) as transaction:
        two = finish(transaction, work(transaction, {"k": "new"}, overwrite=True)).instant
    versions(world, 4)
    found = run(world)
    assert gone(found) == [one]
    assert f"files that {two} replaced are not cleaned yet" in {e.why for e in found}
    assert world.rows() == {"k": "3"}
    clean_table(world.writer(), RETENTION)
    assert two in gone(run(world))
    VIEWS.forget(world.memory)
    assert world.rows() == {"k": "3"}


def timeline(*times: tuple[int, int]) -> Timeline:
    """Commits of these requested and completion times."""
    made = tuple(
        Instant(InstantTime(f"{a:014}"), Action.COMMIT, State.COMPLETED, InstantTime(f"{b:014}"))
        for a, b in times
    )
    return Timeline(2, ".hoodie/timeline", made, {})


def test_a_commit_that_completed_late_stays_with_all_after_it() -> None:
    late = timeline((1, 2), (3, 99), (4, 5), (6, 7), (8, 9), (10, 11))
    plan = plan_archive(ArchiveFacts(late), ArchivePolicy(2, 3))
    assert [int(i.time) for i in plan.doomed] == [1]
    assert plan.old[1].why.endswith("is one of the last 2 that completed")


def rows_of(world: World) -> list[InstantTime]:
    """Every completed instant of the archive's files, with doubles."""
    folder = world.table().config.history_folder
    if world.table().config.layout == 1:
        logs = [f.path for f in world.memory.list(folder) if archive_log_number(f.name)]
        entries = [e for path in logs for e in read_archive_log(world.memory.read(path), path)]
    else:
        files = [f"{folder}/{name}" for name in history_version(world.memory, folder)[1]]
        entries = [e for path in files for e in read_history_file(world.memory.read(path), path)]
    return [e.instant.time for e in entries if e.instant.state is State.COMPLETED]


def crashes() -> list[Fault]:
    """A death before and after each of the first eight writes of an archive."""
    effects = (Effect.CRASH_BEFORE, Effect.CRASH_AFTER)
    return [Fault(effect, at) for at in range(1, 9) for effect in effects]


@pytest.mark.parametrize("fault", crashes(), ids=lambda f: f"{f.effect.name.lower()}-{f.at}")
def test_what_an_archiver_left_the_next_one_finishes(world: World, fault: Fault) -> None:
    times = versions(world, 5)
    with suppress(SimulatedCrash):
        archive_table(world.writer(FaultyStorage(world.memory, fault)), KEEP_2)
    VIEWS.forget(world.memory)
    assert world.rows() == {"k": "4"}
    left = active(world)
    assert left == times[len(times) - len(left) :], "a beginning is gone, without a hole"
    assert set(in_archive(world)) | set(left) == set(times)
    world.upsert({"j": "1"})

    run(world)

    assert sorted(rows_of(world)) == sorted(set(rows_of(world))), "nothing is archived twice"
    assert set(in_archive(world)).isdisjoint(active(world))
    assert world.rows() == {"k": "4", "j": "1"}
    assert set(times) <= {*in_archive(world), *active(world)}


@pytest.mark.parametrize("at", range(1, 12))
def test_an_archiver_that_stood_still_takes_nothing_out_of_the_archive(
    world: World, at: int
) -> None:
    """It stops within any of its calls until its lock is another's, which archives on."""
    times = versions(world, 5)
    puts = itertools.count(1)

    def stands_still(call: Call) -> None:
        if call.method in WRITES and next(puts) == at:
            world.clock.advance(3_600)
            times.extend(versions(world, 2))
            run(world)
            times.extend(versions(world, 2))
            run(world)

    with suppress(HudiError):
        archive_table(world.writer(FaultyStorage(world.memory, before=stands_still)), KEEP_2)
    times += versions(world, 3)
    run(world)
    VIEWS.forget(world.memory)
    assert {*in_archive(world), *active(world)} == set(times)
    assert active(world) == times[-2:]
    assert world.rows() == {"k": "2"}


@pytest.mark.parametrize("fault", crashes(), ids=lambda f: f"{f.effect.name.lower()}-{f.at}")
def test_an_archiver_that_dies_leaves_no_commit_that_looks_pending(
    world: World, fault: Fault
) -> None:
    """The next writer would roll it back, with its files."""
    versions(world, 5)
    with suppress(SimulatedCrash):
        archive_table(world.writer(FaultyStorage(world.memory, fault)), KEEP_2)
    assert world.table().timeline().pending == ()


def test_a_view_in_memory_goes_on_after_an_archive(world: World) -> None:
    versions(world, 4)
    table = world.table()
    old = table.timeline()
    table.view(old)
    run(world)
    assert json.loads(world.memory.read(table.view(old).latest()[0].path)) == {"k": "3"}
    again = world.table()
    view = again.view(again.timeline())
    VIEWS.forget(world.memory)
    fresh = world.table()
    assert view.groups == fresh.view(fresh.timeline()).groups
    versions(world, 1, "j")
    assert again.view(again.timeline()).latest() == world.view().latest()


def test_after_a_commit_an_archive_runs_when_it_is_due(world: World) -> None:
    options = replace(
        OPTIONS, archive_inline=True, keep_min_commits=2, keep_max_commits=4, commits_retained=1
    )
    used, counts = runtime(world), []
    for i in range(7):
        done = world.upsert({"k": str(i)})
        after_commit(used, world.table(), options, Action.COMMIT, done)
        counts.append(len(active(world)))
    assert counts == [1, 2, 3, 4, 2, 3, 4]


def test_an_archive_waits_for_the_lock(world: World) -> None:
    versions(world, 4)
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))
    writer = world.writer()
    with pytest.raises(LockTimeout):
        archive_table(replace(writer, policy=replace(writer.policy, lock_timeout_s=0.0)), KEEP_2)
    assert len(active(world)) == 4


def test_more_commits_at_least_than_at_most_are_refused() -> None:
    with pytest.raises(ConfigError, match="'hoodie.keep.min.commits' is 5, more than"):
        rules_of(replace(OPTIONS, keep_min_commits=5, keep_max_commits=4))


def test_what_a_running_query_is_pinned_to_stays_until_its_lease_ends(world: World) -> None:
    one, two = versions(world, 2)
    timeline = world.table().timeline()
    last = timeline.commits[-1].completion_time or ""
    reads = lease(world.memory, world.clock, ReadState(two, 2, last), HeartbeatPolicy())
    reads.beat()
    versions(world, 4)
    found = run(world)
    assert gone(found) == [one]
    assert f"a running query reads the table with {two} on the timeline" in {e.why for e in found}
    reads.stop()
    assert two in gone(run(world))
