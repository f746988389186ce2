"""Log files of writes that fail: they go as base files do, named as Apache Hudi names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from pyhudi.errors import CommitConflict
from pyhudi.format.filenames import BaseFileName, FileId, LogFileName, parse_log_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.format.markers import Marker, MarkerKind, marker_folder, marker_path, render_marker_list
from pyhudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    CompactionOperation,
    CompactionPlan,
    RequestedReplace,
    parse_rollback_metadata,
    render_compaction_plan,
    render_requested_replace,
)
from pyhudi.rows.log_parts import parts_of
from pyhudi.rows.log_spec import CountedInstants, MergeSpec
from pyhudi.rows.spec import FileSystemSpec
from pyhudi.storage.memory import MemoryStorage
from pyhudi.transactions.instants import put_instant
from pyhudi.transactions.markers.markers import belongs_to, files_of, marked_files
from pyhudi.transactions.recovery.rollback import read_plan
from pyhudi.transactions.transaction import Transaction
from tests.golden_tables import BY_NAME
from tests.rows.logs import avro_block
from tests.transactions.world import (
    LAPSE_S,
    NEVER,
    World,
    dead_writer,
    die,
    finish,
    settle,
    work,
)

T = InstantTime("20240101000000000")
#: layout 2, layout 1, and change data of a copy-on-write table
GOLDEN = ("h120_v9-mor_bucket", "h0150_v6-mor_log", "h120_v9-cow_cdc")


def golden_logs() -> list[LogFileName]:
    """The names of log files that Apache Hudi wrote."""
    names = (path.rsplit("/", 1)[-1] for table in GOLDEN for path in BY_NAME[table].files())
    found = [log for name in names if (log := parse_log_file_name(name)) is not None]
    assert {log.version for log in found} > {1}
    assert {log.cdc for log in found} == {False, True}
    return found


def logs_of(time: InstantTime) -> list[str]:
    """The paths of the golden logs, as if the instant ``time`` had written them."""
    return sorted({f"a/{replace(log, instant=time).render()}" for log in golden_logs()})


def put_logs(transaction: Transaction, marked: bool) -> list[str]:
    storage, paths = transaction.table.storage, logs_of(transaction.instant)
    for path in paths:
        if marked:
            marker = marker_path(transaction.instant, path, MarkerKind.APPEND)
            storage.put_if_absent(marker, b"")
        storage.put_if_absent(path, b"#HUDI#")
    return paths


def logs_in(storage: MemoryStorage) -> list[str]:
    return [file.path for file in storage.walk("") if parse_log_file_name(file.name)]


def group_of(path: str) -> str:
    log = parse_log_file_name(path.rsplit("/", 1)[-1])
    assert log is not None
    return log.file_id


def test_markers_of_log_files_lead_to_them() -> None:
    storage, (one, *more) = MemoryStorage(), logs_of(T)
    storage.put_if_absent(marker_path(T, one, MarkerKind.APPEND), b"")
    lines = [Marker(path, MarkerKind.APPEND) for path in more]
    storage.put_if_absent(f"{marker_folder(T)}/MARKERS0", render_marker_list(lines))

    assert marked_files(storage, T) == sorted([one, *more])


def test_without_markers_log_files_are_listed() -> None:
    storage, paths = MemoryStorage(), logs_of(T)
    others = logs_of(InstantTime("20240101000000001"))
    for path in (*paths, *others, *(f".hoodie/metadata/{path}" for path in paths)):
        storage.put_if_absent(path, b"")

    assert files_of(storage, T) == paths


def test_a_log_file_of_another_instant_is_not_of_this_one() -> None:
    log = LogFileName(FileId("g"), InstantTime("20240101000000001"), 1, "0-1-2")
    assert not belongs_to(f"a/{log.render()}", T)


@pytest.mark.parametrize("marked", [True, False], ids=["with markers", "without markers"])
def test_a_rollback_deletes_and_names_the_log_files_of_a_write_that_failed(
    world: World, marked: bool
) -> None:
    kept = world.upsert({"k": "1"})
    theirs = logs_of(kept.instant)
    for path in theirs:
        world.memory.put_if_absent(path, b"#HUDI#")
    dead = dead_writer(world)
    paths = put_logs(dead, marked)
    if not marked:
        world.memory.delete_folder(marker_folder(dead.instant))
    world.clock.advance(LAPSE_S)

    settle(world)

    assert logs_in(world.memory) == theirs
    assert world.rows() == {"k": "1"}
    assert world.leftovers() == []
    timeline = world.table().timeline()
    rollback = timeline.completed[-1]
    told = parse_rollback_metadata(world.memory.read(timeline.file_of(rollback)), "")
    deleted = told.partition_metadata["a"].success_delete_files
    assert {f"{world.memory.root}/{path}" for path in paths} < set(deleted)
    plan = read_plan(world.table(), timeline, rollback)
    assert plan is not None
    planned = {uri: each.file_id for each in plan.requests for uri in each.files_to_be_deleted}
    assert all(planned[f"{world.memory.root}/{path}"] == group_of(path) for path in paths)


def test_log_files_of_other_attempts_are_deleted_before_the_commit(world: World) -> None:
    transaction = world.begin()
    written = work(transaction, {"k": "1"})
    put_logs(transaction, marked=True)

    finish(transaction, written)

    assert logs_in(world.memory) == []
    assert world.rows() == {"k": "1"}


def test_a_write_that_gives_up_takes_its_log_files_along(world: World) -> None:
    transaction = world.begin()
    work(transaction, {"k": "1"})
    put_logs(transaction, marked=True)

    transaction.abort()

    assert logs_in(world.memory) == []
    assert world.leftovers() == []


def test_a_running_write_that_appends_to_the_same_group_is_found(world: World) -> None:
    world.upsert({"k": "0"})
    (file,) = world.view().latest()
    running = world.begin(policy=NEVER)
    mine = world.begin(policy=replace(NEVER, early=True))
    running.inflight(None)
    log = LogFileName(file.file_id, running.instant, 1, "0-1-2")
    marker = marker_path(running.instant, f"a/{log.render()}", MarkerKind.APPEND)
    world.memory.put_if_absent(marker, b"")

    with pytest.raises(CommitConflict, match=f"running write {running.instant}"):
        mine.check_updates([(file.partition_path, file.file_id)])


# -- layout 1, whose logs bear the instant of their slice


SLICE = InstantTime("20230101000000000")
OTHER = InstantTime("20230201000000000")


def merge_on_read(new_world: Callable[..., World]) -> World:
    return new_world(6, {"hoodie.table.type": "MERGE_ON_READ"})


def dead_log_writer(
    world: World, others: Sequence[str], name: str = "g1"
) -> tuple[str, InstantTime]:
    """A dead delta commit of layout 1, its log, and blocks of ``others`` in the same file."""
    transaction = world.begin(action=Action.DELTACOMMIT)
    transaction.inflight(None)
    log = LogFileName(FileId(name), SLICE, 3, "0-1-2")
    path = f"a/{log.render()}"
    world.memory.put_if_absent(marker_path(transaction.instant, path, MarkerKind.APPEND), b"")
    blocks = [avro_block(instant, [{"key": "k"}]) for instant in (*others, transaction.instant)]
    world.memory.put_if_absent(path, b"".join(blocks))
    die(transaction)
    world.clock.advance(LAPSE_S)
    return path, transaction.instant


@pytest.mark.parametrize("marked", [True, False], ids=["with markers", "without markers"])
def test_a_log_of_a_failed_write_alone_goes_though_its_name_is_that_of_its_slice(
    new_world: Callable[..., World], marked: bool
) -> None:
    world = merge_on_read(new_world)
    _, dead = dead_log_writer(world, [])
    theirs = LogFileName(FileId("g1"), SLICE, 2, "0-0-0").render()
    world.memory.put_if_absent(f"a/{theirs}", avro_block(OTHER, [{"key": "k"}]))
    if not marked:
        world.memory.delete_folder(marker_folder(dead))

    settle(world)

    assert logs_in(world.memory) == [f"a/{theirs}"]
    assert not world.table().timeline().at(dead)


def test_blocks_of_a_failed_write_in_a_log_of_others_are_taken_back_by_a_command(
    new_world: Callable[..., World],
) -> None:
    world = merge_on_read(new_world)
    path, dead = dead_log_writer(world, [OTHER])

    settle(world)

    first, command = logs_in(world.memory)
    assert first == path
    assert command == f"a/{LogFileName(FileId('g1'), SLICE, 4, '1-0-1').render()}"
    merged = MergeSpec("", FileSystemSpec(), CountedInstants(frozenset({OTHER, dead}), ""),
                       pa.struct([]), pa.struct([]))  # fmt: skip
    parts = parts_of(merged, [(at, world.memory.read(at)) for at in (first, command)], {})
    assert [part.keys().to_pylist() for part in parts] == [["k"]], "one block is left, the other's"
    timeline = world.table().timeline()
    rollback = timeline.completed[-1]
    told = parse_rollback_metadata(world.memory.read(timeline.file_of(rollback)), "")
    assert told.partition_metadata["a"].success_delete_files == ()
    size = len(world.memory.read(command))
    assert told.partition_metadata["a"].rollback_log_files == {
        f"{world.memory.root}/{command}": size
    }
    plan = read_plan(world.table(), timeline, rollback)
    assert plan is not None
    (request,) = plan.requests
    assert request.files_to_be_deleted == ()
    assert list(request.log_blocks_to_be_deleted) == [f"{world.memory.root}/{path}"]


def compaction_of(root: str, path: str) -> bytes:
    operation = CompactionOperation(SLICE, (path.rpartition("/")[2],), None, FileId("g1"), "a")
    return render_compaction_plan(CompactionPlan((operation,)))


def clustering_of(root: str, path: str) -> bytes:
    found = ClusteringSlice("", (f"{root}/{path}",), FileId("g1"), "a")
    plan = ClusteringPlan((ClusteringGroup((found,)),))
    return render_requested_replace(RequestedReplace("CLUSTER", plan))


@pytest.mark.parametrize(
    ("action", "plan_of"),
    [
        (Action.COMPACTION, compaction_of),
        (Action.LOGCOMPACTION, compaction_of),
        (Action.REPLACECOMMIT, clustering_of),
    ],
)
def test_a_log_of_a_failed_write_stays_as_long_as_a_pending_plan_has_it(
    new_world: Callable[..., World], action: Action, plan_of: Callable[[str, str], bytes]
) -> None:
    """Apache Hudi plans services of version 6 beside running writes, with all their logs."""
    world = merge_on_read(new_world)
    path, dead = dead_log_writer(world, [])
    requested = Instant(InstantTime("20300101000000000"), action, State.REQUESTED)
    put_instant(world.table(), None, requested, plan_of(world.memory.root, path))
    other, _ = dead_log_writer(world, [], "g2")

    settle(world)

    left = logs_in(world.memory)
    command = f"a/{LogFileName(FileId('g1'), SLICE, 4, '1-0-1').render()}"
    assert left == [path, command]
    assert other not in left
    assert not world.table().timeline().at(dead)


def test_a_late_marker_of_a_rolled_back_write_does_not_take_a_log_of_others_along(
    new_world: Callable[..., World],
) -> None:
    world = merge_on_read(new_world)
    path, dead = dead_log_writer(world, [OTHER])
    settle(world)
    world.memory.put_if_absent(marker_path(dead, path, MarkerKind.APPEND), b"")

    settle(world)

    assert path in logs_in(world.memory)
    assert world.memory.walk(marker_folder(dead)) == []


def test_an_old_marker_that_names_the_base_file_of_the_slice_does_not_lead_to_it() -> None:
    storage = MemoryStorage()
    base = BaseFileName(FileId("g1"), "0-1-2", SLICE).render()
    storage.put_if_absent(marker_path(T, f"a/{base}", MarkerKind.APPEND), b"")
    assert marked_files(storage, T) == []
