"""What the data files tell of a table's health: sizes, versions, skew and key ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from pyhudi.clock import Clock
from pyhudi.config import WriteOptions
from pyhudi.diagnosis.measure import CLEAN, CLUSTERING, SORTING, Measure, judged
from pyhudi.errors import HudiError
from pyhudi.format.filenames import bucket_number
from pyhudi.rows.meta_columns import java_order
from pyhudi.services.clean import planned_on, retention_of
from pyhudi.slices.files import BaseFile, FileSlice, base_files
from pyhudi.text_table import size_text
from pyhudi.timeline.table import Table
from pyhudi.timeline.versions import versions_of
from pyhudi.timeline.view import FileSystemView

#: below these counts no layout is worth a warning
FEW_FILES, FEW_PARTITIONS, FEW_IN_PARTITION = 10, 4, 8
#: share of all files that could be merged away, from which small files warn
SMALL_SHARE = 0.3
#: greatest bytes of a partition or bucket, as a multiple of the median
SKEWED = 10
#: footers that are read for one answer
MOST_FOOTERS = 256
#: file ids whose first eight characters are numbers below this are those of buckets
MOST_BUCKETS = 10_000


def is_bucketed(files: Iterable[BaseFile]) -> bool:
    """Whether all files are named as those of the bucket index, which tables do not record."""
    numbers = [bucket_number(file.file_id) for file in files]
    return bool(numbers) and all(n is not None and n < MOST_BUCKETS for n in numbers)


def by_partition(files: Iterable[BaseFile]) -> dict[str, list[BaseFile]]:
    """The files of each partition path."""
    found: dict[str, list[BaseFile]] = {}
    for file in files:
        found.setdefault(file.partition_path, []).append(file)
    return found


def mergeable(files: Iterable[BaseFile], options: WriteOptions) -> int:
    """How many files fewer there would be if small ones were merged to full size."""
    spared = 0
    small = [file for file in files if file.size_bytes < options.small_file_bytes]
    for together in by_partition(small).values():
        merged = -(-sum(file.size_bytes for file in together) // options.max_file_bytes)
        spared += len(together) - max(1, merged)
    return spared


def small_files(files: Sequence[BaseFile], options: WriteOptions) -> Iterator[Measure]:
    """How many base files are small, and how many of these could be merged away."""
    small = [file for file in files if file.size_bytes < options.small_file_bytes]
    spared = mergeable(files, options)
    warn = spared >= FEW_FILES and spared >= SMALL_SHARE * len(files)
    limit = size_text(options.small_file_bytes)
    detail = (
        f"{len(small)} of {len(files)} base files are smaller than {limit} "
        f"(hoodie.parquet.small.file.limit); merged to full size there would be {spared} fewer."
    )
    mend = CLUSTERING
    if is_bucketed(files):
        mend = "Write the rows to a new table with fewer buckets (hoodie.bucket.index.num.buckets)."
    yield judged("small files", len(small), "files", warn, detail, mend)
    share = 100 * len(small) / len(files) if files else 0
    yield judged("share of small files", share, "%", warn, detail, mend)


def versions(view: FileSystemView, live: Sequence[FileSlice]) -> Iterator[Measure]:
    """Slices per file group, and the bytes that only time travel and old readers need."""
    found = [slices for by_id in versions_of(view).values() for slices in by_id.values()]
    counts = [len(slices) for slices in found]
    held = sum(each.size_bytes for slices in found for each in slices)
    alive = sum(each.size_bytes for each in live)
    dead = max(0, held - alive)
    most, groups = max(counts, default=0), len(counts)
    detail = f"{sum(counts)} slices in {groups} file groups, dead groups included."
    yield judged("slices of a file group, most", most, "slices", False, detail, "")
    mean = sum(counts) / groups if groups else 0
    yield judged("slices of a file group, mean", mean, "slices", False, detail, "")
    detail = (
        f"{size_text(dead)} in older slices and dead file groups, beside {size_text(alive)} that "
        "the newest snapshot reads."
    )
    yield judged("dead bytes", dead, "bytes", False, detail, "")


def freed(
    table: Table,
    view: FileSystemView,
    live: Sequence[BaseFile],
    clock: Clock,
    options: WriteOptions,
) -> Measure:
    """The bytes that a clean by the writers' retention would delete now."""
    measure = "bytes that a clean frees"
    try:
        # What has just become old is free in a minute: that is no matter of health.
        retention = replace(retention_of(options), spared_ms=0)
        plan = planned_on(table, clock, retention, view.timeline)
    except HudiError as e:
        return judged(
            measure, None, "bytes", True, f"It cannot be planned: {e}", "pyhudi check PATH"
        )
    old = [file for file in plan.old if file.goes]
    size, alive = sum(f.size_bytes for f in old), sum(file.size_bytes for file in live)
    kept = len(plan.old) - len(old)
    detail = f"{len(old)} files that {plan.policy.value} does not keep; {kept} older ones are kept."
    warn = len(old) >= FEW_FILES and size > alive
    return judged(measure, size, "bytes", warn, detail, CLEAN)


def skew(files: Sequence[BaseFile], options: WriteOptions) -> Iterator[Measure]:
    """The largest partition, and the largest bucket, beside the median one."""
    sizes = {
        path: sum(file.size_bytes for file in held) for path, held in by_partition(files).items()
    }
    mend = "Partition by another column, or by fewer values: hoodie.datasource.write.partitionpath."
    yield _skew("partition", sizes, options, f"{mend}field of a new table.")
    if is_bucketed(files):
        buckets: dict[str, int] = {}
        for file in files:
            name = str(bucket_number(file.file_id))
            buckets[name] = buckets.get(name, 0) + file.size_bytes
        mend = "Hash other columns (hoodie.bucket.index.hash.field) in a new table."
        yield _skew("bucket", buckets, options, mend)


def _skew(what: str, sizes: Mapping[str, int], options: WriteOptions, mend: str) -> Measure:
    middle = median(sizes.values()) if sizes else 0
    largest = max(sizes, key=lambda name: sizes[name], default="")
    times = sizes[largest] / middle if middle else 1.0
    warn = times > SKEWED and len(sizes) >= FEW_PARTITIONS
    warn = warn and sizes[largest] > options.max_file_bytes
    detail = f"One {what} at most; nothing can be skewed."
    if len(sizes) > 1:
        detail = (
            f"Of {len(sizes)} {what}s the largest is '{largest}' with {size_text(sizes[largest])}; "
            f"the median is {size_text(int(middle))}."
        )
    return judged(f"{what} skew", times, "x median", warn, detail, mend)


def sampled(files: Iterable[BaseFile]) -> list[BaseFile]:
    """The files whose footers are read: of the partitions with the most files."""
    found: list[BaseFile] = []
    for held in sorted(by_partition(files).values(), key=len, reverse=True):
        found += held[: MOST_FOOTERS - len(found)]
    return found


#: least and greatest key of a file
KeyRange = tuple[str, str]


def overlapping_share(files: Sequence[BaseFile], ranges: Sequence[KeyRange | None]) -> float | None:
    """The share of a partition's known files that may hold one key, in the mean; None if unknown.

    Partitions with a few files tell nothing.
    """
    by_path: dict[str, list[KeyRange]] = {}
    for file, found in zip(files, ranges, strict=True):
        if found is not None:
            by_path.setdefault(file.partition_path, []).append(found)
    counts = [
        count / len(held)
        for held in by_path.values()
        if len(held) >= FEW_IN_PARTITION
        for count in _covering(held)
    ]
    return sum(counts) / len(counts) if counts else None


def overlap(files: Sequence[BaseFile], ranges: Sequence[KeyRange | None]) -> Measure:
    """How many files of a partition may hold one key, by the ranges in the footers of ``files``."""
    known = [(file, found) for file, found in zip(files, ranges, strict=True) if found is not None]
    counts: list[int] = []
    warn = False
    by_path: dict[str, list[KeyRange]] = {}
    for file, found in known:
        by_path.setdefault(file.partition_path, []).append(found)
    for held in by_path.values():
        covering = _covering(held)
        counts += covering
        mean = sum(covering) / len(covering)
        warn = warn or (len(held) >= FEW_IN_PARTITION and mean > len(held) / 2)
    mean = sum(counts) / len(counts) if counts else 0
    detail = (
        f"Files that may hold a key by their ranges, in the mean over {len(counts)} footers of "
        f"{len(by_path)} partitions; at most {MOST_FOOTERS} footers are read. A lookup reads as "
        "many."
    )
    mend = f"{SORTING}. If keys are random, a bucket index finds their files without a lookup."
    return judged("overlap of key ranges", mean, "files", warn, detail, mend)


def _covering(ranges: Sequence[KeyRange]) -> list[int]:
    """For both ends of each range the number of ranges that have that key."""
    starts = sorted(java_order(low) for low, _ in ranges)
    ends = sorted(java_order(high) for _, high in ranges)
    keys = [java_order(key) for each in ranges for key in each]
    return [bisect_right(starts, key) - bisect_left(ends, key) for key in keys]


def live_files(view: FileSystemView) -> list[BaseFile]:
    """The base files that the newest snapshot reads; those that are lost too."""
    return base_files(view.live())
