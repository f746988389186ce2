"""Cleaning: which old versions go, what keeps them, and who carries a plan out."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from pyhudi.application.after_commit import after_commit
from pyhudi.choices import CleanPolicy
from pyhudi.config import resolve_write
from pyhudi.errors import ConfigError, HistoryExpired, LockTimeout, WriterFenced
from pyhudi.format.filenames import LogFileName
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.plans import (
    CleanerPlan,
    CleanFile,
    CleanMetadata,
    SavepointMetadata,
    SavepointPartition,
    parse_clean_metadata,
    parse_cleaner_plan,
    render_cleaner_plan,
    render_savepoint,
)
from pyhudi.locks.base import LockOwner
from pyhudi.services import clean as clean_module
from pyhudi.services.clean import (
    SAVEPOINTS,
    WHOLE,
    CleanedFile,
    clean_table,
    cleaned,
    finish_clean,
    planned,
    retention_of,
)
from pyhudi.services.clean_plan import CleanFacts, Retention, plan_clean
from pyhudi.services.savepoints import make_savepoint
from pyhudi.storage.faults import Call, Effect, Fault, FaultyStorage, SimulatedCrash
from pyhudi.timeline.table import open_table
from pyhudi.timeline.versions import versions_of
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.instants import put_instant
from tests.application.test_after_commit import OPTIONS, runtime
from tests.transactions.world import (
    NEVER,
    VERSIONS,
    World,
    begin_beside,
    die,
    finish,
    other_lock,
    work,
)

KEEP_1 = Retention(commits=1)
KEEP_2 = Retention(commits=2)
#: of the lock of these tables
LEASE_S = 60.0


@pytest.fixture(params=VERSIONS, ids=lambda version: f"v{version}")
def world(new_world: Callable[..., World], request: pytest.FixtureRequest) -> World:
    return new_world(request.param)


@pytest.fixture(autouse=True)
def _old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may go as soon as it is old: no query has just begun."""
    monkeypatch.setattr(clean_module, "SPARED_MS", 0)


def versions(world: World, count: int, key: str = "k") -> list[InstantTime]:
    """``count`` commits that write one group again and again."""
    return [world.upsert({key: str(i)}).instant for i in range(count)]


def run(world: World, retention: Retention = KEEP_2, **more: Any) -> list[CleanedFile]:
    return clean_table(world.writer(), retention, **more)


def fates(found: list[CleanedFile]) -> list[tuple[InstantTime, str]]:
    return [(InstantTime(f.file.split("_")[-1].split(".")[0]), f.fate.value) for f in found]


def instants_on_disk(world: World) -> list[str]:
    return sorted(path.split("_")[-1].split(".")[0] for path in world.data_files())


def last_clean(world: World) -> CleanMetadata:
    timeline = world.table().timeline()
    (*_, done) = (i for i in timeline.completed if i.action is Action.CLEAN)
    path = timeline.file_of(done)
    return parse_clean_metadata(world.memory.read(path), path)


def save(world: World, instant: InstantTime) -> None:
    """A savepoint of a commit, as Apache Hudi leaves it."""
    files = {f.partition_path: (f.name,) for f in world.view().latest(as_of=instant)}
    parts = {p: SavepointPartition(p, names) for p, names in files.items()}
    done = Instant(
        instant,
        Action.SAVEPOINT,
        State.COMPLETED,
        world.writer().next_time(world.table().timeline()),
    )
    path = world.table().timeline().file_of(done)
    world.memory.put_if_absent(path, render_savepoint(SavepointMetadata("me", 1, "", parts)))


def test_versions_go_that_no_retained_commit_reads(world: World) -> None:
    one, two, three, four = versions(world, 4)

    found = run(world)

    assert fates(found) == [(one, "deleted"), (two, "kept"), (three, "kept")]
    assert found[0].why == f"{two} rewrote it before {three}, the earliest commit kept"
    assert found[1].why == f"the newest version before {three}, which the snapshots after it read"
    assert instants_on_disk(world) == [two, three, four]
    assert world.rows() == {"k": "3"}
    metadata = last_clean(world)
    assert metadata.earliest_commit_to_retain == three
    assert metadata.last_completed_commit_timestamp == four
    assert metadata.total_files_deleted == 1
    assert world.leftovers() == []


def test_a_dry_run_tells_the_same_and_changes_nothing(world: World) -> None:
    one, two, three, _ = versions(world, 4)
    before = {f.path: f.modified_ms for f in world.memory.walk("")}
    options = resolve_write({"hoodie.clean.commits.retained": "2"}, world.table().config.raw, {})

    found = cleaned(world.writer(), options, dry_run=True)

    assert fates(found) == [(one, "would be deleted"), (two, "kept"), (three, "kept")]
    assert {f.path: f.modified_ms for f in world.memory.walk("")} == before


def test_with_few_commits_nothing_happens_and_no_lock_is_taken(world: World) -> None:
    versions(world, 2)
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))
    assert run(world) == []
    assert [i.action for i in world.table().timeline().instants] == [Action.COMMIT] * 2


def test_a_replaced_group_goes_whole_once_no_retained_commit_reads_it(world: World) -> None:
    (one,) = versions(world, 1)
    with world.begin(action=Action.REPLACECOMMIT) as transaction:
        two = finish(transaction, work(transaction, {"k": "new"}, overwrite=True)).instant
    (three,) = versions(world, 1, "j")
    assert fates(run(world)) == [(one, "kept")]
    versions(world, 1, "i")

    found = run(world)

    assert fates(found) == [(one, "deleted")]
    assert found[0].why == f"its file group was replaced by {two}"
    assert instants_on_disk(world)[:2] == [two, three]


@pytest.mark.parametrize("policy", CleanPolicy)
def test_a_pending_write_keeps_what_it_may_read(world: World, policy: CleanPolicy) -> None:
    one, two, three = versions(world, 3)
    slow = begin_beside(world)
    work(slow, {"j": "1"})
    for i in range(4):
        with world.begin(policy=NEVER) as transaction:
            finish(transaction, work(transaction, {"k": f"later {i}"}))
    table = world.table()
    view = table.view(table.timeline())
    facts = CleanFacts(view.timeline, versions_of(view), view.replaced, {})
    since = view.timeline.commits[-1].time

    plan = plan_clean(facts, Retention(policy=policy, commits=1, hours=1, versions=1), since)

    goes = [f.name.split("_")[-1].split(".")[0] for f in plan.old if f.goes]
    assert goes == ([one, two] if policy is CleanPolicy.VERSIONS else [one])
    assert three in instants_on_disk(world)
    die(slow)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_change_log_goes_with_the_file_that_it_is_beside(world: World, fresh: bool) -> None:
    logs = []
    for number in range(4):
        with world.begin() as transaction:
            written = work(transaction, {"k": str(number)})
            (stat,) = written.stats
            name = LogFileName(stat.file_id, transaction.instant, 1, "0-0-0", cdc=True).render()
            path = f"{stat.partition_path}/{name}" if stat.partition_path else name
            world.memory.put_if_absent(path, b"log")
            logged = replace(stat, cdc_stats={path: 3})
            finish(transaction, replace(written, stats=(logged,)))
        logs.append(path)
        table = world.table()
        table.view(table.timeline())  # later views come from this one, and from metadata
    if fresh:
        VIEWS.forget_all()

    found = run(world, KEEP_2)

    gone = [path for path in logs if not world.memory.exists(path)]
    deleted = {f.file for f in found if f.fate.value == "deleted"}
    assert gone == logs[:1]
    assert any(file.endswith(gone[0].rpartition("/")[2]) for file in deleted)


def test_by_hours_the_commits_of_these_hours_stay_readable(world: World) -> None:
    one, two = versions(world, 2)
    world.clock.sleep(3700)
    three, _ = versions(world, 2)

    found = run(world, Retention(policy=CleanPolicy.HOURS, hours=1))

    assert fates(found) == [(one, "deleted"), (two, "kept"), (three, "kept")]
    assert last_clean(world).earliest_commit_to_retain == three
    world.clock.sleep(7200)
    assert run(world, Retention(policy=CleanPolicy.HOURS, hours=1)) == []


def test_by_versions_each_group_keeps_its_newest(world: World) -> None:
    one, two, three, four = versions(world, 4)

    found = run(world, Retention(policy=CleanPolicy.VERSIONS, versions=2))

    assert fates(found) == [(one, "deleted"), (two, "deleted"), (three, "kept")]
    assert found[1].why == "2 newer versions"
    assert found[2].why == "one of the last 2 versions of its file group"
    assert last_clean(world).earliest_commit_to_retain == ""
    assert instants_on_disk(world) == [three, four]


@pytest.mark.parametrize("policy", CleanPolicy)
def test_a_savepoint_keeps_its_files(world: World, policy: CleanPolicy) -> None:
    one, two, *_ = versions(world, 5)
    save(world, two)
    world.clock.sleep(7200)
    versions(world, 1)

    found = run(world, Retention(policy=policy, commits=1, hours=1, versions=1))

    assert (one, "deleted") in fates(found)
    assert (two, "kept") in fates(found)
    assert f"savepoint {two} keeps it" in {f.why for f in found}
    assert two in instants_on_disk(world)
    assert last_clean(world).extra_metadata[SAVEPOINTS] == two


def test_only_chosen_partitions_are_cleaned(world: World) -> None:
    for i in range(4):
        for partition in ("a", "b/c"):
            with world.begin() as transaction:
                finish(transaction, work(transaction, {partition: str(i)}, partition))

    def partitions(**chosen: str) -> set[str]:
        keys = {f"hoodie.clean.partition.filter.{k}": v for k, v in chosen.items()}
        options = resolve_write(keys, world.table().config.raw, {})
        plan = planned(
            world.writer(), replace(retention_of(options), commits=1), world.table().timeline()
        )
        return set(plan.doomed)

    assert partitions() == {"a", "b/c"}
    assert partitions(selected="a") == {"a"}
    assert partitions(regex="b/.*") == {"b/c"}
    assert partitions(regex="b") == set()
    assert partitions(regex="b/.*", selected="a,x") == {"a"}
    with pytest.raises(ConfigError, match="no regular expression"):
        partitions(regex="(")


def crashes() -> list[Fault]:
    """A death before and after each of the first eight writes of a clean."""
    effects = (Effect.CRASH_BEFORE, Effect.CRASH_AFTER)
    return [Fault(effect, at) for at in range(1, 9) for effect in effects]


@pytest.mark.parametrize("few", [0, clean_module.FEW])
@pytest.mark.parametrize("fault", crashes(), ids=lambda f: f"{f.effect.name.lower()}-{f.at}")
def test_a_clean_that_died_is_finished_by_the_next(
    world: World, fault: Fault, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_module, "FEW", few)
    one, two, *_ = versions(world, 4)
    broken = FaultyStorage(world.memory, fault)
    with suppress(SimulatedCrash):
        clean_table(world.writer(broken), KEEP_2)
    VIEWS.forget(world.memory)
    assert world.rows() == {"k": "3"}
    world.upsert({"j": "1"})

    run(world, Retention(commits=3))

    assert one not in instants_on_disk(world)
    assert two in instants_on_disk(world)
    assert world.rows() == {"k": "3", "j": "1"}
    cleans = [i for i in world.table().timeline().instants if i.action is Action.CLEAN]
    assert [i.state for i in cleans] == [State.COMPLETED]
    assert last_clean(world).partition_metadata["a"].success_delete_files
    assert world.leftovers() == []


def pending_clean(world: World, *paths: str, partition: str = "a") -> Instant:
    """A clean that another program planned: these absolute paths, in one partition."""
    files = {partition: tuple(CleanFile(path) for path in paths)}
    plan = CleanerPlan(None, "", "KEEP_LATEST_FILE_VERSIONS", files)
    time = world.writer().next_time(world.table().timeline())
    instant = Instant(time, Action.CLEAN, State.REQUESTED)
    put_instant(world.table(), None, instant, render_cleaner_plan(plan))
    return instant


def test_a_plan_that_was_found_never_deletes_what_counts_now(world: World) -> None:
    one, two, three = versions(world, 3)
    names = {
        i: p.rpartition("/")[2] for p in world.data_files() for i in (one, two, three) if i in p
    }
    save(world, one)
    found = pending_clean(world, *(f"file:/elsewhere/a/{names[i]}" for i in (one, two, three)))

    cleaned_files = run(world, Retention(commits=30))

    assert fates(cleaned_files) == [(one, "kept"), (two, "deleted"), (three, "kept")]
    assert cleaned_files[2].why == "the newest snapshot reads it"
    assert instants_on_disk(world) == [one, three]
    assert last_clean(world).start_clean_time == found.time


@pytest.mark.parametrize("few", [0, clean_module.FEW])
def test_a_cleaner_that_stood_still_before_its_plan_deletes_nothing_that_was_saved_meanwhile(
    world: World, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_module, "FEW", few)
    one, two, three = versions(world, 3)

    def stand_still(call: Call) -> None:
        if call.method == "put_if_absent" and call.paths[0].endswith(".clean.requested"):
            world.clock.advance(LEASE_S)
            make_savepoint(world.writer(), one, "")

    with pytest.raises(WriterFenced):
        clean_table(world.writer(FaultyStorage(world.memory, before=stand_still)), KEEP_1)
    found = run(world, Retention(commits=30))

    assert fates(found) == [(one, "kept")]
    assert found[0].why == f"savepoint {one} keeps it"
    assert instants_on_disk(world) == [one, two, three]
    assert world.table().timeline().pending == ()


def test_nobody_saves_a_commit_while_a_plan_that_was_found_is_looked_at(world: World) -> None:
    """A savepoint that was begun before the plan came has ended by then, or ends without effect."""
    one, two, three = versions(world, 3)
    (path,) = [p for p in world.data_files() if one in p]
    pending_clean(world, f"x/{path}")
    looks: list[str] = []

    def save_beside(call: Call) -> None:
        if call.method == "read" and call.paths[0].endswith(".clean.requested"):
            looks.append(call.paths[0])
            with pytest.raises(LockTimeout):
                make_savepoint(world.writer(policy=replace(NEVER, lock_timeout_s=1.0)), one, "")

    clean_table(world.writer(FaultyStorage(world.memory, before=save_beside)), KEEP_2)

    assert looks
    assert instants_on_disk(world) == [two, three]


def test_a_clean_that_another_has_ended_is_not_carried_out_once_more(world: World) -> None:
    one, _ = versions(world, 2)
    (path,) = [p for p in world.data_files() if one in p]
    found = pending_clean(world, f"x/{path}")
    run(world)

    assert finish_clean(world.writer(), found) == []


def test_paths_in_a_plan_do_not_lead_out_of_the_table(world: World) -> None:
    (one,) = versions(world, 1)
    (path,) = world.data_files()
    name = path.rpartition("/")[2]
    pending_clean(world, f"x/{name}", partition="../a")
    pending_clean(world, "a/.hoodie_partition_metadata", "hoodie.properties", partition=".hoodie")

    assert run(world) == []

    assert instants_on_disk(world) == [one]
    assert world.memory.exists(".hoodie/hoodie.properties")
    assert world.table().timeline().pending == ()


def test_a_clean_whose_end_another_program_put_ends_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clean_module, "FEW", 0)
    versions(world, 5)
    overtaken: list[Call] = []

    def another(call: Call) -> None:
        if call.method == "delete" and not overtaken:
            overtaken.append(call)
            run(world)

    clean_table(world.writer(FaultyStorage(world.memory, before=another)), KEEP_2)

    assert overtaken
    cleans = [i for i in world.table().timeline().instants if i.action is Action.CLEAN]
    assert [i.state for i in cleans] == [State.COMPLETED]


def test_a_plan_that_cannot_be_read_stops_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    one, *_ = versions(world, 4)
    torn = Instant(
        world.writer().next_time(world.table().timeline()), Action.CLEAN, State.REQUESTED
    )
    put_instant(world.table(), None, torn, b"Obj")
    assert (one, "deleted") in fates(run(world))
    assert "its plan cannot be read: it is left alone" in caplog.text
    assert world.table().timeline().pending == (torn,)


def test_a_later_clean_looks_only_at_groups_that_changed(world: World) -> None:
    versions(world, 4)
    run(world)
    assert last_clean(world).extra_metadata[WHOLE] == "true"
    versions(world, 1, "j")
    five, *_ = versions(world, 3)
    everything = planned(world.writer(), KEEP_2, world.table().timeline())
    touched = planned(world.writer(), KEEP_2, world.table().timeline(), incremental=True)
    assert touched.doomed == everything.doomed
    assert [f.name for f in touched.old if f.goes]
    versions(world, 1, "i")
    run(world, incremental=True)
    assert instants_on_disk(world).count(five) == 0


def test_by_commits_what_has_just_become_old_stays_a_moment(world: World) -> None:
    one, *_ = versions(world, 2)
    world.clock.advance(100)
    versions(world, 4)
    spares = replace(KEEP_2, spared_ms=60_000)
    found = run(world, spares, incremental=True)
    assert [e.fate.value for e in found] == ["deleted", "kept", "kept", "kept", "kept"]
    assert {e.why for e in found[1:3]} == {
        "a query may have begun to read it before it became old, a moment ago"
    }
    assert found[0].file == next(e.file for e in found if one in e.file)
    assert last_clean(world).extra_metadata[WHOLE] == "true"
    world.clock.advance(100)
    versions(world, 1)
    gone = [e for e in run(world, spares, incremental=True) if e.fate.value == "deleted"]
    assert len(gone) == 3


def test_a_deleted_savepoint_sets_its_files_free(world: World) -> None:
    one, *_ = versions(world, 4)
    save(world, one)
    run(world, Retention(commits=1), incremental=True)
    assert one in instants_on_disk(world)
    timeline = world.table().timeline()
    (saved,) = (i for i in timeline.completed if i.action is Action.SAVEPOINT)
    world.memory.delete([timeline.file_of(saved)])
    versions(world, 1, "j")

    run(world, Retention(commits=1), incremental=True)

    assert one not in instants_on_disk(world)


def test_a_view_in_memory_follows_a_clean_without_a_listing(world: World) -> None:
    versions(world, 5)
    table = world.table()
    table.view(table.timeline())
    run(world)
    counting = FaultyStorage(world.memory)
    again = open_table(counting)

    view = again.view(again.timeline())

    assert [call for call in counting.calls if call.method == "walk"] == []
    VIEWS.forget(world.memory)
    fresh = world.table()
    assert view.groups == fresh.view(fresh.timeline()).groups
    assert json.loads(world.memory.read(view.latest()[0].path)) == {"k": "4"}


def test_after_a_commit_a_clean_runs_when_it_is_due(world: World) -> None:
    options = replace(OPTIONS, clean_inline=True, commits_retained=2, clean_trigger=2)
    used = runtime(world)
    cleans = []
    for i in range(6):
        done = world.upsert({"k": str(i)})
        after_commit(used, world.table(), options, Action.COMMIT, done)
        timeline = world.table().timeline()
        cleans.append(sum(i.action is Action.CLEAN for i in timeline.completed))
    assert cleans == [0, 0, 0, 1, 1, 2]
    assert len(instants_on_disk(world)) == 3


def test_a_clean_does_not_stop_where_a_lock_is_held(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    options = replace(OPTIONS, clean_inline=True, commits_retained=1)
    versions(world, 3)
    done = world.upsert({"k": "x"})
    other_lock(world).acquire(0.0, LockOwner.this_process("other"))
    after_commit(runtime(world), world.table(), options, Action.COMMIT, done)
    assert f"{done.instant} is committed, but not all table services ran" in caplog.text
    assert LockTimeout.code() in caplog.text


def test_the_plan_names_absolute_paths_below_the_table(world: World) -> None:
    one, *_ = versions(world, 4)
    run(world)
    timeline = world.table().timeline()
    (done,) = (i for i in timeline.completed if i.action is Action.CLEAN)
    path = timeline.file_of(replace(done, state=State.REQUESTED, completion_time=None))
    plan = parse_cleaner_plan(world.memory.read(path), path)
    ((partition, files),) = plan.file_paths_to_be_deleted_per_partition.items()
    assert partition == "a"
    assert all(f.file_path.startswith(f"{world.memory.root}/a/") for f in files)
    assert one in files[0].file_path


def test_after_a_clean_by_versions_a_snapshot_that_is_not_whole_is_refused(world: World) -> None:
    one, *_ = versions(world, 3)
    table = world.table()
    table.view(table.timeline())
    run(world, Retention(policy=CleanPolicy.VERSIONS, versions=1))
    table = world.table()
    with pytest.raises(HistoryExpired):
        table.view(table.timeline()).latest(as_of=one)
