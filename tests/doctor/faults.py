"""What breaks a table behind its properties: timeline, partitions, services and leftovers."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

import pyhudi
from pyhudi.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, render_commit
from pyhudi.format.filenames import FileId, parse_base_file_name
from pyhudi.format.instants import Action, Instant, InstantTime, State, instant_file_name
from pyhudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    ClusteringStrategy,
    RequestedReplace,
    parse_cleaner_plan,
    render_cleaner_plan,
    render_requested_replace,
)
from pyhudi.format.properties import render_properties
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.active import COMMITS, Timeline
from pyhudi.timeline.table import PROPERTIES, open_table

Break = Callable[[Path], object]
FUTURE, GONE = InstantTime("20990101000000000"), InstantTime("20200101000000000")
#: after all commits of the tables
LATER, REPLACED = InstantTime("20261122000000000"), InstantTime("20261122000000001")


def put(path: Path, data: bytes) -> None:
    """Write a file as a program does that knows nothing of checksums of Hadoop's client."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def drop(path: Path) -> None:
    path.unlink()
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def timeline(root: Path) -> Timeline:
    return open_table(LocalStorage(str(root))).timeline()


def commit_file(root: Path, number: int) -> Path:
    found = timeline(root)
    return root / found.file_of(found.commits[number])


def instant_path(root: Path, instant: Instant) -> Path:
    found = timeline(root)
    return root / found.folder / instant_file_name(instant, found.layout)


def old(path: Path) -> None:
    """As if the file had been written long ago."""
    os.utime(path, (1_700_000_000, 1_700_000_000))


def latest(root: Path, number: int = 0) -> str:
    """The path of a base file that counts."""
    return pyhudi.Table(str(root)).files()[number].path


# -- beside the data


def stale_checksum(root: Path) -> None:
    name = root / PROPERTIES
    data = name.read_bytes()
    sums = struct.pack(">4sII", b"crc\x00", 512, 7) * (-(-len(data) // 512) > 0)
    sums += b"\x00\x00\x00\x01" * (-(-len(data) // 512) - 1)
    (name.parent / f".{name.name}.crc").write_bytes(sums)


def short_checksum(root: Path) -> None:
    name = commit_file(root, 0)
    (name.parent / f".{name.name}.crc").write_bytes(b"crc")


def lost_partition_metadata(root: Path) -> None:
    drop(root / "2024-01-02" / ".hoodie_partition_metadata")


def torn_partition_metadata(root: Path) -> None:
    put(root / "2024-01-02" / ".hoodie_partition_metadata", b"")


def deep_partition_metadata(root: Path) -> None:
    path = root / "2024-01-02" / ".hoodie_partition_metadata"
    put(path, path.read_bytes().replace(b"partitionDepth=1", b"partitionDepth=2"))


# -- commits


def emptied(number: int) -> Break:
    return lambda root: put(commit_file(root, number), b"")


def torn(number: int) -> Break:
    def tear(root: Path) -> None:
        path = commit_file(root, number)
        put(path, path.read_bytes()[: path.stat().st_size // 2])

    return tear


def lost_file(root: Path) -> None:
    drop(root / latest(root))


def cut_file(root: Path) -> None:
    path = root / latest(root)
    put(path, path.read_bytes()[:1_000])


def histories(root: Path) -> list[Path]:
    return sorted((root / ".hoodie" / ".schema").glob("*[0-9].schemacommit"))


def lost_history(root: Path) -> None:
    for path in histories(root):
        drop(path)


def torn_history(root: Path) -> None:
    path = histories(root)[-1]
    put(path, path.read_bytes()[:200])


def history_without_a_beginning(root: Path) -> None:
    """The commit before the first change is gone, too."""
    lost_history(root)
    found = timeline(root)
    for path in (root / found.folder).glob(f"{found.commits[0].time}*"):
        drop(path)


# -- services


def unreadable_plan(root: Path) -> None:
    put(instant_path(root, Instant(LATER, Action.CLEAN, State.REQUESTED)), b"")
    put(instant_path(root, Instant(LATER, Action.CLEAN, State.INFLIGHT)), b"")


def moved_plan(root: Path) -> None:
    """A clean that was planned before the table was moved; it names an old slice."""
    found = timeline(root)
    done = [i for i in found.completed if i.action is Action.CLEAN]
    plan = found.file_of(Instant(done[-1].time, Action.CLEAN, State.REQUESTED))
    said = parse_cleaner_plan((root / plan).read_bytes(), plan)
    old_slice = next(
        f for f in sorted((root / "2024-01-01").glob("*.parquet")) if str(f) != latest(root)
    )
    file = said.file_paths_to_be_deleted_per_partition
    one = next(iter(file.values()))[0]
    moved = replace(one, file_path=f"file:/data/before/2024-01-01/{old_slice.name}")
    rendered = render_cleaner_plan(
        replace(said, file_paths_to_be_deleted_per_partition={"2024-01-01": (moved,)})
    )
    put(instant_path(root, Instant(LATER, Action.CLEAN, State.REQUESTED)), rendered)


def strangely_moved_plan(root: Path) -> None:
    moved_plan(root)
    path = instant_path(root, Instant(LATER, Action.CLEAN, State.REQUESTED))
    said = parse_cleaner_plan(path.read_bytes(), path.name)
    strange = {
        partition: tuple(replace(f, file_path="file:/etc/passwd") for f in files)
        for partition, files in said.file_paths_to_be_deleted_per_partition.items()
    }
    put(path, render_cleaner_plan(replace(said, file_paths_to_be_deleted_per_partition=strange)))


def idle_clustering(root: Path) -> None:
    path = latest(root)
    name = parse_base_file_name(path.rsplit("/", 1)[-1])
    assert name is not None
    piece = ClusteringSlice(f"file:{root}/{path}", (), name.file_id, path.rpartition("/")[0])
    group = ClusteringGroup((piece,))
    run = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
    strategy = ClusteringStrategy(run)
    plan = RequestedReplace("CLUSTER", ClusteringPlan((group,), strategy))
    instant = Instant(LATER, Action.CLUSTERING, State.REQUESTED)
    put(instant_path(root, instant), render_requested_replace(plan))


def torn_record(action: Action) -> Break:
    def tear(root: Path) -> None:
        found = timeline(root)
        done = [i for i in found.completed if i.action is action]
        put(root / found.file_of(done[-1]), b"Obj\x01torn")

    return tear


def saved(root: Path) -> Path:
    """A savepoint of the second commit; its file."""
    second = timeline(root).commits[1].time
    pyhudi.savepoint(str(root), second)
    found = timeline(root)
    (done,) = (i for i in found.completed if i.action is Action.SAVEPOINT)
    return root / found.file_of(done)


def lost_savepoint(root: Path) -> None:
    saved(root)
    now = {each.path for each in pyhudi.Table(str(root)).files()}
    then = {e.path for e in pyhudi.Table(str(root)).files(timeline(root).commits[1].time)}
    drop(root / sorted(then - now)[0])


def torn_savepoint(root: Path) -> None:
    path = saved(root)
    put(path, path.read_bytes()[:50])


def begun_savepoint(root: Path) -> None:
    second = timeline(root).commits[1].time
    put(instant_path(root, Instant(second, Action.SAVEPOINT, State.INFLIGHT)), b"")


def future_commit(root: Path) -> None:
    found = timeline(root)
    schema = COMMITS.get(LocalStorage(str(root)), found, found.commits[-1]).extra[SCHEMA_KEY]
    done = State.COMPLETED
    completion = InstantTime("20990101000001000") if found.layout == 2 else None
    data = render_commit(CommitMetadata("UPSERT", (), {SCHEMA_KEY: schema}), found.layout)
    for state, content in ((State.REQUESTED, b""), (State.INFLIGHT, b"")):
        put(instant_path(root, Instant(FUTURE, Action.COMMIT, state)), content)
    put(instant_path(root, Instant(FUTURE, Action.COMMIT, done, completion)), data)


def future_rows(root: Path) -> None:
    """The last commit's files with a time of the future, as by a writer with a wrong clock."""
    future_commit(root)
    path = root / latest(root)
    name = parse_base_file_name(path.name)
    assert name is not None
    shutil.copy(path, path.with_name(replace(name, instant=FUTURE).render()))


# -- leftovers


def heartbeat(root: Path) -> None:
    path = root / ".hoodie" / ".heartbeat" / timeline(root).commits[0].time
    put(path, b"")
    old(path)


def markers(root: Path) -> None:
    time = timeline(root).commits[0].time
    folder = root / ".hoodie" / ".temp" / time
    put(folder / "2024-01-01" / f"x-0_0-1-1_{time}.parquet.marker.CREATE", b"")


def unknown_markers(root: Path) -> None:
    folder = root / ".hoodie" / ".temp" / GONE
    put(folder / "2024-01-01" / f"x-0_0-1-1_{GONE}.parquet.marker.CREATE", b"")


def lock(root: Path) -> None:
    path = root / ".hoodie" / "lock"
    said = {"lockCreateTime": "2023-01-01", "lockThreadName": "main", "lockStacksInfo": []}
    put(path, json.dumps(said).encode())
    old(path)


def _copied(root: Path, instant: InstantTime) -> None:
    path = root / latest(root)
    name = parse_base_file_name(path.name)
    assert name is not None
    shutil.copy(
        path, path.with_name(replace(name, file_id=FileId("0rphan-0"), instant=instant).render())
    )


def orphan(root: Path) -> None:
    first = timeline(root).commits[0].time
    _copied(root, InstantTime(str(int(first) + 1)))


def seen_orphan(root: Path) -> None:
    """A file between two archived commits, so that readers take it for data."""
    _copied(root, InstantTime("20261121052133000"))


def doubled(root: Path) -> None:
    path = root / latest(root)
    name = parse_base_file_name(path.name)
    assert name is not None
    shutil.copy(path, path.with_name(replace(name, write_token="9-9-9").render()))


def doubled_and_neither_named(root: Path) -> None:
    doubled(root)
    path = root / latest(root)
    name = parse_base_file_name(path.name)
    assert name is not None
    path.rename(path.with_name(replace(name, write_token="8-8-8").render()))
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


# -- rows


def committed_twice(bucket: str = "") -> Break:
    """A second file group with the rows of another, as of a writer that did not find them."""

    def write(root: Path) -> None:
        path = root / latest(root)
        found = timeline(root)
        name = parse_base_file_name(path.name)
        assert name is not None
        file_id = FileId(f"{bucket or 'deadbeef'}{name.file_id[8:]}")
        copy = path.with_name(replace(name, file_id=file_id, instant=LATER).render())
        shutil.copy(path, copy)
        partition = path.parent.relative_to(root).as_posix()
        metadata = COMMITS.get(LocalStorage(str(root)), found, found.commits[-1])
        stat = WriteStat(
            file_id,
            copy.relative_to(root).as_posix(),
            partition,
            num_writes=pq.read_metadata(copy).num_rows,
            file_size_bytes=copy.stat().st_size,
        )
        ends = InstantTime(f"{LATER[:-3]}999") if found.layout == 2 else None
        told = CommitMetadata("INSERT", (stat,), {SCHEMA_KEY: metadata.extra[SCHEMA_KEY]})
        for state, data in (
            (State.REQUESTED, b""),
            (State.INFLIGHT, b""),
            (State.COMPLETED, render_commit(told, found.layout)),
        ):
            completion = ends if state is State.COMPLETED else None
            put(instant_path(root, Instant(LATER, Action.COMMIT, state, completion)), data)

    return write


# -- the metadata table


def lagging_metadata(root: Path) -> None:
    """As after a commit of a writer that knows nothing of the metadata table."""
    config = open_table(LocalStorage(str(root))).config
    folder = root / ".hoodie/metadata/.hoodie" / ("timeline" if config.layout == 2 else "")
    newest = timeline(root).commits[-1].time
    for path in folder.iterdir():
        if path.name.startswith(newest):
            drop(path)


def lost_metadata(root: Path) -> None:
    raw = dict(open_table(LocalStorage(str(root))).config.raw)
    raw["hoodie.table.metadata.partitions"] = "files"
    put(root / PROPERTIES, render_properties(raw))
