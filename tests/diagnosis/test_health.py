"""``pyhudi.health``: each measure, when it warns, and the command that mends it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import pyhudi
from pyhudi.clock import SystemClock
from pyhudi.diagnosis import leftovers
from pyhudi.diagnosis.commits_health import MANY_INSTANTS, timeline_length
from pyhudi.diagnosis.files_health import MOST_FOOTERS, sampled
from pyhudi.diagnosis.measure import Level, Measure
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, State
from pyhudi.locks.base import LockOwner
from pyhudi.locks.filesystem import LOCK_PATH
from pyhudi.locks.lock_file import LockFile, render_lock_file
from pyhudi.locks.register import Entry
from pyhudi.locks.storage_lock import StorageRegister
from pyhudi.slices.files import BaseFile
from pyhudi.timeline.active import Timeline
from pyhudi.timeline.view import VIEWS
from pyhudi.transactions.heartbeat import FOLDER as HEARTBEATS
from pyhudi.transactions.heartbeat import HeartbeatPolicy
from pyhudi.transactions.processes import LINUX
from tests import golden_tables
from tests.diagnosis.ledger import Ledger, t
from tests.transactions.world import World, put_instant

A, B = ("a", "11111111-0"), ("b", "22222222-0")
HOUR_S = 3_600
ONE_BYTE = {"hoodie.parquet.max.file.size": "1"}


@pytest.fixture(params=[6, 9], ids=["version 6", "version 9"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path, request.param)


def measured(table: Ledger, measure: str, options: dict[str, str] | None = None) -> Measure:
    found = pyhudi.health(str(table.root), options=options)
    return next(each for each in found if each.measure == measure)


def groups(count: int, partition: str = "a") -> list[tuple[str, str]]:
    return [(partition, f"x{n:07d}-0") for n in range(count)]


def put_old(table: Ledger, path: str, data: bytes = b"", age_s: int = 2 * HOUR_S) -> None:
    """A file that was written ``age_s`` ago."""
    table.storage.put_if_absent(path, data)
    now = SystemClock().now_ms() / 1_000
    os.utime(table.root / path, (now - age_s, now - age_s))


def test_a_healthy_table_warns_of_nothing_and_is_not_changed(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}, B: {"m": 1}}, num_writes=1, num_inserts=1)
    table.commit(2, "upsert", {A: {"k": 2}}, num_writes=1, num_updates=1)
    before = sorted(table.root.rglob("*"))
    found = pyhudi.health(str(table.root))
    assert {each.level for each in found} == {Level.OK}
    assert not any(each.mend for each in found)
    assert len({each.measure for each in found}) == len(found)
    assert sorted(table.root.rglob("*")) == before


def test_small_files_warn_if_merging_would_spare_many(table: Ledger) -> None:
    table.commit(1, "insert", {group: {"k": 1} for group in groups(12)})
    found = measured(table, "small files")
    assert (found.value, found.level) == (12, Level.WARN)
    assert found.mend == "pyhudi cluster PATH"
    assert measured(table, "share of small files").value == 100
    limited = {"hoodie.parquet.small.file.limit": "10"}
    assert measured(table, "small files", limited).value == 0
    assert measured(table, "small files", ONE_BYTE).level is Level.OK, "these files are full"


def test_small_files_of_many_partitions_cannot_be_merged(table: Ledger) -> None:
    table.commit(1, "insert", {(f"p{n}", "x-0"): {"k": 1} for n in range(12)})
    assert measured(table, "small files").level is Level.OK


def test_small_buckets_are_mended_by_fewer_buckets(table: Ledger) -> None:
    table.commit(1, "insert", {("a", f"{n:08d}-0"): {"k": 1} for n in range(12)})
    assert "fewer buckets" in measured(table, "small files").mend
    assert "overlap of key ranges" not in [e.measure for e in pyhudi.health(str(table.root))]


def test_versions_that_nobody_cleans_are_counted_with_their_bytes(table: Ledger) -> None:
    paths = [path for n in range(1, 13) for path in table.commit(n, "upsert", {A: {"k": n}})]
    table.commit(20, "insert_overwrite", {("a", "33333333-0"): {"k": 20}}, {"a": (A[1],)})
    found = measured(table, "dead bytes")
    assert found.value == sum((table.root / path).stat().st_size for path in paths)
    assert found.level is Level.OK, "time travel may want them"
    assert measured(table, "slices of a file group, most").value == 12
    assert measured(table, "slices of a file group, mean").value == 6.5


def test_bytes_that_the_retention_does_not_keep_name_the_clean(table: Ledger) -> None:
    paths = [path for n in range(1, 15) for path in table.commit(n, "upsert", {A: {"k": n}})]
    found = measured(table, "bytes that a clean frees")
    assert found.value == sum((table.root / path).stat().st_size for path in paths[:3])
    assert found.level is Level.OK
    assert "10 older ones are kept" in found.detail
    found = measured(table, "bytes that a clean frees", {"hoodie.clean.commits.retained": "1"})
    assert (found.level, found.mend) == (Level.WARN, "pyhudi clean PATH")
    (table.root / paths[-1]).unlink()
    VIEWS.forget_all()  # it was listed before
    found = measured(table, "bytes that a clean frees")
    assert (found.value, found.level, found.mend) == (None, Level.WARN, "pyhudi check PATH")


def test_ranges_that_overlap_warn(table: Ledger) -> None:
    table.commit(1, "insert", {group: {"a": 1, "z": 1} for group in groups(8)})
    found = measured(table, "overlap of key ranges")
    assert (found.value, found.level) == (8, Level.WARN)
    assert "plan.strategy.class=OVERLAP" in found.mend


def test_ranges_that_are_apart_do_not(table: Ledger) -> None:
    slices = {group: {f"k{n}0": 1, f"k{n}9": 1} for n, group in enumerate(groups(8))}
    table.commit(1, "insert", slices)
    found = measured(table, "overlap of key ranges")
    assert (found.value, found.level) == (1, Level.OK)


def test_footers_of_a_bounded_number_of_files_are_read() -> None:
    files = [
        BaseFile(f"p{n % 3 % 2}", f"f{n}", FileId(f"f{n}"), t(1), 1) for n in range(MOST_FOOTERS)
    ]
    chosen = sampled([*files, *files])
    assert len(chosen) == MOST_FOOTERS
    assert {file.partition_path for file in chosen} == {"p0"}


def test_the_largest_partition_is_measured_by_the_median_one(table: Ledger) -> None:
    rows = {f"{n:09d}": 1 for n in range(9_000)}
    slices = {("large", "x-0"): rows, **{(f"p{n}", "x-0"): {"k": 1} for n in range(4)}}
    table.commit(1, "insert", slices)
    found = measured(table, "partition skew", ONE_BYTE)
    assert found.value is not None
    assert found.value > 10
    assert found.level is Level.WARN
    assert "'large'" in found.detail
    assert measured(table, "partition skew").level is Level.OK, "a small table may be skewed"


def test_buckets_are_measured_over_all_partitions(table: Ledger) -> None:
    rows = {f"{n:09d}": 1 for n in range(9_000)}
    slices = {("a", f"{n:08d}-0"): {"k": 1} for n in range(5)}
    table.commit(1, "insert", {**slices, ("b", "00000003-0"): rows})
    found = measured(table, "bucket skew", ONE_BYTE)
    assert found.level is Level.WARN
    assert "'3'" in found.detail


def test_amplification_is_bytes_written_for_bytes_of_changed_rows(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}}, num_writes=1_000, num_inserts=1_000)
    for n in range(2, 12):
        table.commit(n, "upsert", {A: {"k": n}}, num_writes=1_000, num_updates=4, num_deletes=1)
    assert measured(table, "write amplification of insert").value == 1
    found = measured(table, "write amplification of upsert", ONE_BYTE)
    assert (found.value, found.level) == (200, Level.WARN)
    assert "10,000 rows written, 50 changed" in found.detail


def test_a_long_timeline_warns() -> None:
    instants = tuple(Instant(t(n), Action.COMMIT, State.COMPLETED) for n in range(MANY_INSTANTS))
    timeline = Timeline(1, ".hoodie", instants, {})
    assert timeline_length(timeline).level is Level.OK
    more = (*instants, Instant(t(MANY_INSTANTS), Action.COMMIT, State.REQUESTED))
    assert timeline_length(replace(timeline, instants=more)).level is Level.WARN


def test_commits_since_the_last_clean_and_archive(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.put(Instant(t(2), Action.CLEAN, State.COMPLETED))
    for n in range(3, 5):
        table.commit(n, "upsert", {A: {"k": n}})
    assert measured(table, "commits since the last clean").value == 2
    assert measured(table, "time since the last archive").value is None
    assert measured(table, "commits since the last archive").value == 4 - 1
    for n in range(5, 60):
        table.commit(n, "upsert", {A: {"k": n}})
    assert measured(table, "commits since the last clean").mend == "pyhudi clean PATH"
    archives = "pyhudi archive PATH"
    assert archives in measured(table, "commits since the last archive").mend
    folder = ".hoodie/archived" if table.layout == 1 else ".hoodie/timeline/history"
    now = SystemClock().now_ms() / 1_000
    table.storage.put_if_absent(f"{folder}/x", b"")
    os.utime(table.root / folder / "x", (now + 9, now + 9))
    assert measured(table, "commits since the last archive").value == 0


def test_a_pending_write_is_judged_by_its_heartbeat(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.put(Instant(t(2), Action.COMMIT, State.INFLIGHT))
    assert measured(table, "pending commit").level is Level.OK, "it has just begun"
    for file in (table.root / table.folder).glob(f"{t(2)}*"):
        os.utime(file, (1, 1))
    put_old(table, f"{HEARTBEATS}/{t(2)}")
    found = measured(table, "pending commit")
    assert found.value is not None
    assert found.value >= 2 * HOUR_S
    assert (found.level, found.mend) == (Level.WARN, "pyhudi clean --failed-writes PATH")
    assert "without a name, as Apache Hudi leaves it" in found.detail
    assert measured(table, "pending instants").value == 1


def test_the_owner_of_a_pending_write_is_named_and_whether_it_has_ended(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.put(Instant(t(2), Action.COMMIT, State.INFLIGHT))
    this = LINUX.this()
    assert this is not None
    table.storage.put_if_absent(f"{HEARTBEATS}/{t(2)}", this.render())
    found = measured(table, "pending commit")
    assert found.level is Level.OK
    assert f"process {os.getpid()} on" in found.detail
    ended = replace(this, started=this.started - 1)
    table.storage.replace(f"{HEARTBEATS}/{t(2)}", ended.render())
    found = measured(table, "pending commit")
    assert found.level is Level.WARN
    assert "which has ended" in found.detail


def test_a_plan_that_nobody_carries_out_names_who_can(tmp_path: Path) -> None:
    table = Ledger(tmp_path)
    table.commit(1, "insert", {A: {"k": 1}})
    for n, action in ((2, Action.CLUSTERING), (3, Action.CLEAN), (4, Action.COMPACTION)):
        table.put(Instant(t(n), action, State.REQUESTED))
    assert measured(table, "pending clustering").level is Level.OK, "it is young"
    for file in (tmp_path / table.folder).glob("*.requested"):
        os.utime(file, (1, 1))
    assert "op => 'execute'" in measured(table, "pending clustering").mend
    assert measured(table, "pending clean").mend == "pyhudi clean PATH"
    assert measured(table, "pending compaction").mend == "pyhudi compact --op run PATH"


def test_markers_and_heartbeats_of_ended_instants_are_left_behind(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.put(Instant(t(2), Action.COMMIT, State.INFLIGHT))
    for n in (1, 2):
        table.storage.put_if_absent(f".hoodie/.temp/{t(n)}/a/x.marker.CREATE", b"")
        put_old(table, f"{HEARTBEATS}/{t(n)}")
    for what in ("marker folders left behind", "heartbeats left behind"):
        found = measured(table, what)
        assert (found.value, found.level) == (1, Level.WARN)
        assert t(1) in found.detail
        assert "--failed-writes" in found.mend


def lock_file(since_ms: int) -> bytes:
    owner = LockOwner("7", "host1", 42)
    return render_lock_file(LockFile("token", owner, since_ms, 30.0))


def test_the_lock_names_its_holder_and_warns_if_it_is_held_for_long(table: Ledger) -> None:
    assert "No lock file is held" in measured(table, "lock").detail
    now_ms = SystemClock().now_ms()
    table.storage.put_if_absent(LOCK_PATH, lock_file(now_ms - 5_000))
    found = measured(table, "lock")
    assert found.level is Level.OK
    assert "the writer of instant 7 on host1, process 42" in found.detail
    table.storage.replace(LOCK_PATH, lock_file(now_ms - HOUR_S * 1_000))
    assert measured(table, "lock").level is Level.WARN


def test_a_lock_of_another_program_is_as_old_as_its_file(table: Ledger) -> None:
    put_old(table, LOCK_PATH)
    found = measured(table, "lock")
    assert found.value is not None
    assert found.value >= 2 * HOUR_S
    assert found.level is Level.WARN
    assert "another program" in found.detail


def test_a_lock_by_conditional_puts_is_seen_where_the_store_has_them() -> None:
    world = World()
    register = StorageRegister(world.memory, world.clock)
    owner = LockOwner("7", "host1", 42)
    assert register.write(Entry("token", owner, world.clock.now_ms(), 30.0), None)
    (found,) = leftovers.lock(world.table(), world.clock)
    assert "table_lock.json is held by the writer of instant 7" in found.detail
    held = register.read()
    assert held is not None
    register.clear(held)
    (found,) = leftovers.lock(world.table(), world.clock)
    assert "No lock file is held" in found.detail


def test_only_the_oldest_pending_instants_get_lines() -> None:
    world = World()
    instants = [Instant(t(n), Action.COMMIT, State.INFLIGHT) for n in range(25)]
    timeline = replace(world.table().timeline(), instants=tuple(instants))
    first, *lines = leftovers.pending(world.table(), timeline, world.clock, HeartbeatPolicy())
    assert (first.value, len(lines)) == (25, leftovers.MOST_LISTED)
    assert t(0) in lines[0].detail


def test_a_restore_that_waits_is_mended_by_a_restore() -> None:
    world = World()
    put_instant(world, Instant(t(0), Action.RESTORE, State.INFLIGHT))
    world.clock.advance(leftovers.LATE_PLAN_S + 1)
    table = world.table()
    _, found = leftovers.pending(table, table.timeline(), world.clock, HeartbeatPolicy())
    assert (found.level, found.mend.split(",")[0]) == (Level.WARN, "pyhudi restore PATH INSTANT")


@pytest.mark.parametrize("name", ["h120_v8-cow_meta", "h120_v6-cow_meta"])
def test_a_metadata_table_that_lags_behind_warns(name: str, tmp_path: Path) -> None:
    root = golden_tables.BY_NAME[name].unzip(tmp_path)

    def found() -> Measure:
        listed = pyhudi.health(str(root))
        return next(each for each in listed if each.measure == "metadata table")

    assert (found().value, found().level) == (0, Level.OK)
    last = pyhudi.Table(str(root)).commits()[-1].instant
    folder = root / ".hoodie" / "metadata" / ".hoodie"
    for file in folder.rglob(f"{last}*"):
        file.unlink()
    assert (found().value, found().level) == (1, Level.WARN)
    assert "miss the rows of later commits" in found().detail


def test_folders_of_failed_writes_of_merge_on_read_tables_are_told(tmp_path: Path) -> None:
    root = golden_tables.BY_NAME["h120_v9-mor_sched_compact"].unzip(tmp_path)
    (root / ".hoodie" / ".temp" / t(1)).mkdir(parents=True)
    found = {each.measure: each for each in pyhudi.health(str(root))}
    assert found["marker folders left behind"].level is Level.WARN
    assert found["marker folders left behind"].mend.startswith("pyhudi clean --failed-writes")


@pytest.mark.parametrize("golden_table", golden_tables.ALL, ids=lambda each: each.name)
def test_every_table_of_apache_hudi_has_an_answer(
    golden_table: golden_tables.GoldenTable, tmp_path: Path
) -> None:
    found = pyhudi.health(str(golden_table.unzip(tmp_path)))
    assert len(found) >= 15
    assert found.to_arrow().schema.field("value").type == "double"
