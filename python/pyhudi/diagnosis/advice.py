"""Which shape would suit a table better, and by what evidence: a function of values.

Invariant: no advice without evidence in the table's own commits and files. The limits are chosen so
that following an advice at least halves the cost that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from pyhudi.choices import IndexType
from pyhudi.diagnosis.files_health import by_partition, mergeable
from pyhudi.diagnosis.measure import Level, Measure
from pyhudi.diagnosis.shape_facts import (
    FEW_COMMITS,
    Advice,
    Aspect,
    ShapeFacts,
    changed_rows,
)
from pyhudi.diagnosis.type_advice import copy_on_write, merge_on_read
from pyhudi.format.table_config import TableType
from pyhudi.index.kinds import kind_of
from pyhudi.text_table import size_text

MB: Final = 1 << 20
#: with fewer files, buckets or partitions no shape is worth a change
FEW_FILES, FEW_GROUPS, FEW_BUCKETS, FEW_PARTITIONS = 10, 20, 8, 20
#: changed rows of a rewritten file up to which smaller files save half of the bytes
FEW_ROWS: Final = 2
#: a quarter of a file may be so small
LEAST_BYTES: Final = 16 * MB
MOST_FILES: Final = 20_000
#: shares of the file groups that a write changes, of those that may have its keys
MANY_CHANGED, FEW_CHANGED = 0.5, 0.1
#: shares of a partition's files that may have a key by their ranges
APART, MIXED = 0.25, 0.5
#: share of the bytes from which files written since a clustering count
UNSORTED: Final = 0.3


def advice_on(facts: ShapeFacts) -> list[Advice]:
    """All advice, by aspect; empty for a table whose shape fits what its commits did."""
    on_type = copy_on_write if facts.table_type is TableType.MERGE_ON_READ else merge_on_read
    return [
        *_smaller_files(facts),
        *_larger_files(facts),
        *_index(facts),
        *_buckets(facts),
        *_sorted_again(facts),
        *_partitions(facts),
        *on_type(facts),
    ]


def as_measures(found: list[Advice]) -> Iterator[Measure]:
    """The same as lines of a table's health."""
    for each in found:
        detail = f"{each.evidence} {each.advice}"
        name = f"shape: {each.aspect.value}"
        yield Measure(name, None, "", Level.WARN, detail, each.follow)


def _smaller_files(facts: ShapeFacts) -> Iterator[Advice]:
    """If a file is rewritten for a row or two, a file of a quarter of the size halves the bytes."""
    rewriting = [held for each in facts.updates if (held := [s for s in each if not s.is_log])]
    files = [stat for commit in rewriting for stat in commit if changed_rows(stat)]
    if facts.bucketed or len(rewriting) < FEW_COMMITS or not files:
        return
    rows, size = median(map(changed_rows, files)), int(median(s.total_write_bytes for s in files))
    target = size // 4 // MB * MB
    if rows > FEW_ROWS or target < LEAST_BYTES or target >= facts.options.max_file_bytes:
        return
    if sum(file.size_bytes for file in facts.files) // target > MOST_FILES:
        return
    written, changed = sum(s.total_write_bytes for s in files), sum(map(changed_rows, files))
    yield Advice(
        Aspect.FILE_SIZE,
        f"Files of {size_text(target)} would be rewritten for the same rows at half of the cost.",
        f"{len(rewriting)} upserts and deletes wrote {size_text(written)} for {changed:,} "
        f"changed rows; the median rewritten file has {size_text(size)} and {rows:g} changed rows.",
        f"hoodie.parquet.max.file.size={target}, and half of it as hoodie.parquet.small.file.limit,"
        " in all writers; new files then have this size.",
    )


def _larger_files(facts: ShapeFacts) -> Iterator[Advice]:
    """If commit after commit adds small files, they are put together as they come."""
    options = facts.options
    new = [
        sizes
        for time, metadata in facts.commits
        if time not in facts.services
        and (
            sizes := [
                s.file_size_bytes for s in metadata.stats if not s.prev_commit and not s.is_log
            ]
        )
    ]
    if facts.bucketed or len(new) < FEW_COMMITS or _is_scattered(facts):
        return
    middle = median(size for sizes in new for size in sizes)
    spared = mergeable(facts.files, options)
    if middle >= options.small_file_bytes / 2 or spared < FEW_FILES:
        return
    if 2 * spared < len(facts.files):
        return
    yield Advice(
        Aspect.FILE_SIZE,
        "Put small files together after every few commits, or write more rows in one commit.",
        f"{len(new)} commits added {sum(map(len, new))} files, the median one of "
        f"{size_text(int(middle))}; merged to full size the table would have {spared} files fewer "
        f"than {len(facts.files)}.",
        "hoodie.clustering.inline=true in the writers, or pyhudi cluster PATH now and then.",
    )


def _index(facts: ShapeFacts) -> Iterator[Advice]:
    """The index by how many of the file groups that may have its keys a write changes."""
    kind, index = kind_of(facts.options), facts.options.index_type
    if facts.bucketed or kind.hashed or len(facts.updates) < FEW_COMMITS:
        return
    held = {path: len(files) for path, files in by_partition(facts.files).items()}
    asked, shares = [], []
    for commit in facts.updates:
        partitions = {stat.partition_path for stat in commit}
        count = len(facts.files) if kind.everywhere else sum(held.get(p, 0) for p in partitions)
        if count:
            asked.append(count)
            changed = {(stat.partition_path, stat.file_id) for stat in commit}
            shares.append(min(1.0, len(changed) / count))
    if not asked:
        return
    share, groups = median(shares), int(median(asked))
    evidence = (
        f"The median of {len(shares)} upserts and deletes changed {share:.0%} of the {groups} file "
        f"groups that could have its keys; the index is taken to be {index.value}, as "
        "hoodie.index.type says."
    )
    where = "GLOBAL_" if kind.everywhere else ""
    if kind.filtered and share >= MANY_CHANGED and groups >= FEW_BUCKETS:
        simple = IndexType.GLOBAL_SIMPLE if kind.everywhere else IndexType.SIMPLE
        yield Advice(
            Aspect.INDEX,
            "Key filters rule out few files here: without them files are smaller, and a lookup "
            "reads each key once.",
            evidence,
            f"hoodie.index.type={simple.value} in all writers.",
        )
    if facts.overlap is None or share > FEW_CHANGED or groups < FEW_GROUPS:
        return
    ranges = f" A key is in the range of {facts.overlap:.0%} of the files of its partition."
    if not kind.filtered and facts.overlap <= APART:
        yield Advice(
            Aspect.INDEX,
            "Key ranges and filters would rule out most of the files that a lookup reads now.",
            evidence + ranges,
            f"hoodie.index.type={where}BLOOM in all writers.",
        )
    if facts.overlap >= MIXED and not kind.everywhere:
        yield Advice(
            Aspect.INDEX,
            "Keys are in no order, so a lookup asks every file; a hash finds the file without one.",
            evidence + ranges,
            "Write the rows to a new table with hoodie.index.type=BUCKET and "
            f"hoodie.bucket.index.num.buckets={_buckets_of(facts)}.",
        )


def _partition_bytes(facts: ShapeFacts) -> list[int]:
    held = by_partition(facts.files).values()
    return [sum(file.size_bytes for file in files) for files in held]


def _buckets_of(facts: ShapeFacts) -> int:
    """So many buckets that the files of the median partition have full size."""
    return max(1, -(-int(median(_partition_bytes(facts))) // facts.options.max_file_bytes))


def _buckets(facts: ShapeFacts) -> Iterator[Advice]:
    """The number of buckets by the size of their files."""
    if not facts.bucketed:
        return
    options, wanted = facts.options, _buckets_of(facts)
    held = by_partition(facts.files).values()
    middle, now = int(median(f.size_bytes for f in facts.files)), int(median(map(len, held)))
    small = middle < options.small_file_bytes / 8 and now >= FEW_BUCKETS and 2 * wanted <= now
    if not small and not (middle > 2 * options.max_file_bytes and wanted >= 2 * now):
        return
    yield Advice(
        Aspect.BUCKETS,
        f"{'Fewer' if small else 'More'} buckets would make files of about the target size.",
        f"The median partition has {now} buckets with files, and the median file has "
        f"{size_text(middle)}; the target is {size_text(options.max_file_bytes)} "
        "(hoodie.parquet.max.file.size).",
        f"Write the rows to a new table with hoodie.bucket.index.num.buckets={wanted}.",
    )


def _sorted_again(facts: ShapeFacts) -> Iterator[Advice]:
    """If much was written since the rows were sorted, they are sorted again."""
    order = facts.sorted_by
    if order is None:
        return
    later = (f for f in facts.files if f.instant > order.instant)
    since = [f for f in later if f.instant not in facts.services]
    size, all_of_it = sum(f.size_bytes for f in since), sum(f.size_bytes for f in facts.files)
    if len(since) < FEW_FILES or size < UNSORTED * all_of_it:
        return
    columns = ",".join(order.columns)
    yield Advice(
        Aspect.CLUSTERING,
        f"Sort the rows by {', '.join(order.columns)} again.",
        f"Clustering {order.instant} sorted them; {len(since)} of {len(facts.files)} files, with "
        f"{size_text(size)} of {size_text(all_of_it)}, were written since.",
        "pyhudi cluster PATH --conf hoodie.clustering.plan.strategy.class=OVERLAP "
        f"--conf hoodie.clustering.plan.strategy.sort.columns={columns}",
    )


def _is_scattered(facts: ShapeFacts) -> bool:
    """Whether there are many partitions, and most are smaller than a small file."""
    sizes = _partition_bytes(facts)
    return len(sizes) >= FEW_PARTITIONS and median(sizes) < facts.options.small_file_bytes / 4


def _partitions(facts: ShapeFacts) -> Iterator[Advice]:
    """If most partitions are smaller than a small file, fewer of them would hold full files."""
    touched = [
        len({stat.partition_path for stat in metadata.stats})
        for time, metadata in facts.commits
        if metadata.stats and time not in facts.services
    ]
    if not _is_scattered(facts) or len(touched) < FEW_COMMITS:
        return
    sizes = _partition_bytes(facts)
    yield Advice(
        Aspect.PARTITIONS,
        "Partition by fewer values, such as months instead of days, or not at all.",
        f"The median of {len(sizes)} partitions has {size_text(int(median(sizes)))}, and the "
        f"median of {len(touched)} commits wrote to {median(touched):g} of them; files below "
        f"{size_text(facts.options.small_file_bytes)} count as small.",
        "Write the rows to a new table with another hoodie.datasource.write.partitionpath.field.",
    )
