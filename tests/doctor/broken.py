"""Tables that are broken in one way each, made from tables of Apache Hudi.

``BROKEN`` is repaired by the doctor; of ``UNEXPLAINED`` it says what is wrong and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyhudi.format.instants import Action
from pyhudi.format.properties import parse_properties, render_properties
from pyhudi.timeline.table import BACKUP, PROPERTIES
from tests.doctor import faults
from tests.doctor.faults import drop, put
from tests.golden_tables import BY_NAME

V9, V6 = "h120_v9-cow_part", "h120_v6-cow_part"
OLD = "h0150_v6-cow_np"
CLEANED = "h120_v9-cow_clean_archive"
CLUSTERED = "h120_v9-cow_cluster"
SAVED, WITH_METADATA = "h120_v9-cow_restore", "h120_v9-cow_rli"
NOW: tuple[tuple[str, object], ...] = (("older_than_hours", 0),)
READ: tuple[tuple[str, object], ...] = (("read_files", True),)
TWO_BUCKETS: tuple[tuple[str, object], ...] = (
    ("options", {"hoodie.bucket.index.num.buckets": "2"}),
)
ONE_BUCKET: tuple[tuple[str, object], ...] = (
    ("options", {"hoodie.bucket.index.num.buckets": "1"}),
)
EVOLVED = "h120_v9-cow_evolve"
BUCKETS = "h0150_v6-cow_bucket"
FORGET: tuple[tuple[str, object], ...] = (("forget_lost", True),)


@dataclass(frozen=True)
class Broken:
    """A way to break a table: the ``kind`` of fault, and what to do to its folder.

    ``whole``: the repaired table has the rows that it had before. ``reads``: whether pyhudi reads
    the broken table, and then all of its rows. ``more`` are arguments of the doctor.
    """

    name: str
    kind: str
    base: str
    do: Callable[[Path], object]
    whole: bool = True
    more: tuple[tuple[str, object], ...] = ()

    def make(self, folder: Path) -> Path:
        """The broken table, freshly made below ``folder``."""
        root = BY_NAME[self.base].unzip(folder)
        self.do(root)
        return root


def properties(root: Path) -> dict[str, str]:
    return parse_properties((root / PROPERTIES).read_bytes(), PROPERTIES)


def put_properties(root: Path, raw: dict[str, str], path: str = PROPERTIES) -> None:
    put(root / path, render_properties(raw))


def with_property(**more: str) -> Callable[[Path], object]:
    named = {"hoodie." + key.replace("_", "."): value for key, value in more.items()}
    return lambda root: put_properties(root, {**properties(root), **named})


def lost_properties(root: Path) -> None:
    put_properties(root, properties(root), BACKUP)
    drop(root / PROPERTIES)


def cut_properties(root: Path) -> None:
    data = (root / PROPERTIES).read_bytes()
    put(root / BACKUP, data)
    put(root / PROPERTIES, data[: len(data) // 3])


def cut_without_backup(root: Path) -> None:
    cut_properties(root)
    (root / BACKUP).unlink()


def without_checksum(root: Path) -> None:
    raw = properties(root)
    del raw["hoodie.table.checksum"]
    put_properties(root, raw)


def copied_to_layout_1(root: Path) -> None:
    """As after a copy of a table's old folder over its new one."""
    for path in (root / ".hoodie" / "timeline").iterdir():
        if path.name.endswith(".commit"):
            time, _, ending = path.name.partition("_")
            put(root / ".hoodie" / f"{time}.{ending.partition('.')[2]}", path.read_bytes())


def strange_in_layout_1(root: Path) -> None:
    put(root / ".hoodie" / "20200101000000000.commit", b"{}")


BROKEN = [
    Broken("lost_properties", "properties lost", V9, lost_properties),
    Broken("lost_properties_v6", "properties lost", V6, lost_properties),
    Broken("cut_properties", "properties cut short", V9, cut_properties),
    Broken("wrong_checksum", "wrong checksum", V9, with_property(table_checksum="1")),
    Broken("no_checksum", "no checksum", V9, without_checksum),
    Broken(
        "layout_1_in_version_9",
        "layout that the version contradicts",
        V9,
        with_property(timeline_layout_version="1"),
    ),
    Broken(
        "layout_2_in_version_6",
        "layout that the version contradicts",
        V6,
        with_property(timeline_layout_version="2"),
    ),
    Broken("both_layouts", "instants of both layouts", V9, copied_to_layout_1),
    Broken(
        "backup_left",
        "backup of the properties left behind",
        V9,
        lambda root: put_properties(root, properties(root), BACKUP),
    ),
    Broken("stale_checksum", "stale checksum of Hadoop's client", V9, faults.stale_checksum, True),
    Broken("short_checksum", "stale checksum of Hadoop's client", V6, faults.short_checksum, True),
    Broken(
        "lost_partition_metadata",
        "partition metadata lost",
        V9,
        faults.lost_partition_metadata,
        True,
    ),
    Broken(
        "torn_partition_metadata",
        "partition metadata torn",
        V9,
        faults.torn_partition_metadata,
        True,
    ),
    Broken(
        "deep_partition_metadata",
        "partition metadata torn",
        V6,
        faults.deep_partition_metadata,
        True,
    ),
    Broken("empty_commit", "empty commit", V9, faults.emptied(1), True),
    Broken("empty_commit_v6", "empty commit", V6, faults.emptied(2), True),
    Broken("torn_commit", "torn commit", V9, faults.torn(2), True),
    Broken("torn_commit_v6", "torn commit", V6, faults.torn(0), True),
    Broken("torn_first_commit", "torn commit", "h120_v9-cow_failed", faults.torn(1), True),
    Broken("lost_file", "commit that names lost files", V9, faults.lost_file, False, FORGET),
    Broken("cut_file", "commit that names lost files", V6, faults.cut_file, False, FORGET),
    Broken("unreadable_plan", "plan that cannot be read", V9, faults.unreadable_plan, True, NOW),
    Broken(
        "idle_clustering", "clustering plan without an owner", V9, faults.idle_clustering, True, NOW
    ),
    Broken(
        "torn_clean",
        "record of a service that cannot be read",
        CLEANED,
        faults.torn_record(Action.CLEAN),
        True,
    ),
    Broken(
        "torn_rollback",
        "record of a service that cannot be read",
        "h120_v9-cow_failed",
        faults.torn_record(Action.ROLLBACK),
        True,
    ),
    Broken("moved_plan", "plan of another place", CLEANED, faults.moved_plan, True),
    Broken("lost_savepoint", "savepoint whose files are gone", V9, faults.lost_savepoint, True),
    Broken("torn_savepoint", "torn savepoint", V6, faults.torn_savepoint, True),
    Broken(
        "begun_savepoint", "savepoint that was only begun", V9, faults.begun_savepoint, True, NOW
    ),
    Broken("future_commit", "instant in the future", V9, faults.future_commit, True),
    Broken("future_commit_v6", "instant in the future", V6, faults.future_commit, True),
    Broken("heartbeat", "heartbeat left behind", V9, faults.heartbeat, True),
    Broken("markers", "markers left behind", V9, faults.markers, True),
    Broken("lock", "lock that nobody owns", V9, faults.lock, True),
    Broken("orphan", "orphan", V9, faults.orphan, True, NOW),
    Broken("seen_orphan", "orphan below the timeline", CLEANED, faults.seen_orphan, True, NOW),
    Broken("doubled", "two files of one group and instant", V9, faults.doubled, True),
    Broken("doubled_v6", "two files of one group and instant", V6, faults.doubled, True),
    Broken(
        "lagging_metadata",
        "metadata table that lags behind",
        WITH_METADATA,
        faults.lagging_metadata,
        True,
    ),
    Broken("lost_metadata", "metadata table that is gone", V9, faults.lost_metadata, True),
    Broken("doubled_keys", "keys in two file groups", V9, faults.committed_twice(), True, READ),
    Broken("doubled_keys_v6", "keys in two file groups", V6, faults.committed_twice(), True, READ),
    Broken(
        "bucket_beyond",
        "bucket beyond the count",
        BUCKETS,
        faults.committed_twice("00000005"),
        True,
        TWO_BUCKETS,
    ),
    Broken("lost_history", "schema history that lost its head", EVOLVED, faults.lost_history),
    Broken("torn_history", "schema history that lost its head", EVOLVED, faults.torn_history),
]

UNEXPLAINED = [
    Broken(
        "lost_without_backup", "properties lost", V9, lambda root: drop(root / PROPERTIES), False
    ),
    Broken("cut_without_backup", "properties cut short", V9, cut_without_backup, False),
    Broken("strange_instants", "instants of both layouts", V9, strange_in_layout_1, False),
    Broken(
        "version_6_of_a_table_of_9",
        "layout that the version contradicts",
        V9,
        with_property(table_version="6"),
        False,
    ),
    Broken("torn_replace", "torn commit", V9, faults.torn(-1), False),
    Broken(
        "lost_file_without_consent", "commit that names lost files", V9, faults.lost_file, False
    ),
    Broken("young_plan", "plan that cannot be read", V9, faults.unreadable_plan, False),
    Broken(
        "strangely_moved_plan", "plan of another place", CLEANED, faults.strangely_moved_plan, False
    ),
    Broken("future_rows", "instant in the future", V9, faults.future_rows, False),
    Broken("unknown_markers", "markers left behind", V9, faults.unknown_markers, False),
    Broken(
        "neither_is_named",
        "two files of one group and instant",
        V9,
        faults.doubled_and_neither_named,
        False,
    ),
    Broken(
        "fewer_buckets",
        "bucket beyond the count",
        BUCKETS,
        lambda root: None,
        False,
        ONE_BUCKET,
    ),
    Broken(
        "history_without_a_beginning",
        "schema history that lost its head",
        EVOLVED,
        faults.history_without_a_beginning,
        False,
    ),
]
