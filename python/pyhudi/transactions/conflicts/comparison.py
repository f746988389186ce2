"""Conflict judgement: a pure comparison of what two writers changed.

``judge(ours, theirs)`` reads nothing and decides by the rules of RFC-22: the unit of conflict is
the file group; rows added to new groups never conflict, unless the other side replaced the whole
partition meanwhile, or both created the same bucket of a bucket-indexed table. Coarser units are
other strategies, all of them lines of ``STRATEGIES``. Of writers without coordination two logs of
one group are no conflict (``let_logs_pass``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from pyhudi.choices import ConflictRule
from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.format.filenames import (
    FileId,
    bucket_number,
    parse_base_file_name,
    path_in,
)
from pyhudi.format.instants import Instant

Group = tuple[str, FileId]


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one write changes; groups and buckets are (partition path, id).

    Of the ``updated`` groups, ``rebased`` are those for which it wrote a base file, not a log. To
    the ``logged`` groups, updated or created ones, it only added logs. A compaction changes no row:
    its groups are ``compacted``, and are in no other part.
    """

    who: str
    updated: frozenset[Group] = frozenset()
    created: frozenset[Group] = frozenset()
    replaced_partitions: frozenset[str] = frozenset()
    buckets: frozenset[tuple[str, int]] = field(default_factory=frozenset)
    rebased: frozenset[Group] = frozenset()
    compacted: frozenset[Group] = frozenset()
    logged: frozenset[Group] = frozenset()

    @property
    def partitions(self) -> frozenset[str]:
        """Partitions in which any group was changed."""
        return frozenset(p for p, _ in self.updated | self.created)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a judgement; ``overlap`` names what both changed, for the message."""

    ours: Footprint
    theirs: Footprint
    rule: str
    overlap: tuple[str, ...]

    @property
    def conflict(self) -> bool:
        return bool(self.overlap)

    def explain(self) -> str:
        """Both sides and the overlap in one sentence."""
        shown = ", ".join(self.overlap[:5])
        more = f" and {len(self.overlap) - 5} more" if len(self.overlap) > 5 else ""
        return f"{self.ours.who} and {self.theirs.who} {self.rule}: {shown}{more}"


def judge(ours: Footprint, theirs: Footprint) -> Verdict:
    """Compare by file group; the first rule that finds an overlap decides."""
    both = ours.updated & theirs.updated
    if both:
        return Verdict(ours, theirs, "both changed the same file groups", group_names(both))
    return _by_bucket(ours, theirs)


def let_logs_pass(ours: Footprint, theirs: Footprint) -> Footprint:
    """``ours`` without the groups to which both only added logs: readers resolve their rows."""
    both = ours.logged & theirs.logged
    both = frozenset(group for group in both if group[0] not in theirs.replaced_partitions)
    updated, created = ours.updated - both, ours.created - both
    passed = buckets_of(both) - buckets_of(updated | created)
    return replace(ours, updated=updated, created=created, buckets=ours.buckets - passed)


def _by_bucket(ours: Footprint, theirs: Footprint) -> Verdict:
    """Compare by partition and bucket number: a bucket may be created under two ids at once."""
    twice = ours.buckets & theirs.buckets
    names = tuple(f"{_name(p)} bucket {b}" for p, b in sorted(twice))
    return _unless_swept(ours, theirs, "both wrote the same buckets", names)


def _by_partition(ours: Footprint, theirs: Footprint) -> Verdict:
    """Compare by partition: one writer each."""
    both = _paths(ours.partitions & theirs.partitions)
    return _unless_swept(ours, theirs, "both wrote to the same partitions", both)


def _unless_swept(
    ours: Footprint, theirs: Footprint, rule: str, overlap: tuple[str, ...]
) -> Verdict:
    """The verdict by ``rule``; in any case a conflict if one replaced a partition of the other, or
    if the one is a compaction and the other wrote a base file of the same group: of the two, the
    file with the smaller instant would be hidden. A log beside a compaction is none: it belongs to
    the slice that its completion time says (spec/file_slices.md F1)."""
    both = (ours.rebased & theirs.compacted) | (ours.compacted & theirs.rebased)
    if both:
        rule = "both wrote base files of the same file groups"
        return Verdict(ours, theirs, rule, group_names(both))
    swept = (ours.partitions & theirs.replaced_partitions) | (
        theirs.partitions & ours.replaced_partitions
    )
    if swept:
        rule = "wrote to a partition that the other replaced as a whole"
        return Verdict(ours, theirs, rule, _paths(swept))
    return Verdict(ours, theirs, rule if overlap else "do not overlap", overlap)


@dataclass(frozen=True, slots=True)
class Strategy:
    """The rule of conflicts, and whether a write gives way to a service that is still pending.

    If it does not, the service must give way at its own commit. With ``logs_pass`` the write is one
    without coordination: a log of it may stand beside logs that others added to the same group.
    """

    judge: Callable[[Footprint, Footprint], Verdict]
    gives_way: bool = True
    logs_pass: bool = False

    def compare(self, ours: Footprint, theirs: Footprint) -> Verdict:
        """The verdict on a commit ``theirs`` that came between."""
        return self.judge(let_logs_pass(ours, theirs) if self.logs_pass else ours, theirs)


STRATEGIES: Final[dict[ConflictRule, Strategy]] = {
    ConflictRule.SIMPLE: Strategy(judge),
    ConflictRule.PARTITION: Strategy(_by_partition),
    ConflictRule.BUCKET: Strategy(_by_bucket),
    ConflictRule.PREFER_WRITER: Strategy(judge, gives_way=False),
}


def with_logs_for(of: Footprint, groups: frozenset[Group], bucketed: bool) -> Footprint:
    """``of`` a write that adds no logs to ``groups``, as all its rows for them lost.

    Beside what another write does to these groups, the rows might not have lost.
    """
    buckets = of.buckets | (buckets_of(groups) if bucketed else frozenset())
    updated, logged = of.updated | groups, of.logged | groups
    return replace(of, updated=updated, logged=logged, buckets=buckets)


def footprint_of(instant: Instant, metadata: CommitMetadata, bucketed: bool = False) -> Footprint:
    """The footprint of a completed commit, from its metadata."""
    swept = frozenset(metadata.replaced or ()) if _sweeps(metadata) else frozenset()
    return footprint(f"{metadata.operation.lower()} {instant.time}", metadata, swept, bucketed)


def footprint(
    who: str, metadata: CommitMetadata, swept: frozenset[str], bucketed: bool
) -> Footprint:
    """What ``metadata`` touches, with ``swept`` as the partitions replaced as a whole."""
    updated: set[Group] = set()
    created: set[Group] = set()
    rebased: set[Group] = set()
    groups = [
        (stat, (stat.partition_path, stat.file_id)) for stat in metadata.stats if stat.file_id
    ]
    if metadata.compacted or metadata.log_compacted:
        return Footprint(who, compacted=frozenset(group for _, group in groups))
    logged: set[Group] = set()
    others: set[Group] = set()
    for stat, group in groups:
        is_update = _is_update(stat.prev_commit)
        (updated if is_update else created).add(group)
        (logged if stat.is_log else others).add(group)
        if is_update and parse_base_file_name(stat.path.rpartition("/")[2]) is not None:
            rebased.add(group)
    for partition, file_ids in (metadata.replaced or {}).items():
        gone = {(partition, file_id) for file_id in file_ids}
        updated |= gone
        others |= gone
    return Footprint(
        who=who,
        updated=frozenset(updated),
        created=frozenset(created),
        replaced_partitions=swept,
        buckets=buckets_of(updated | created) if bucketed else frozenset(),
        rebased=frozenset(rebased),
        logged=frozenset(logged - others),
    )


def buckets_of(groups: Iterable[Group]) -> frozenset[tuple[str, int]]:
    """(partition, bucket number) of groups whose ids carry one."""
    found = ((partition, bucket_number(file_id)) for partition, file_id in groups)
    return frozenset((p, b) for p, b in found if b is not None)


def _is_update(prev_commit: str | None) -> bool:
    return prev_commit not in (None, "", "null")


def _sweeps(metadata: CommitMetadata) -> bool:
    return metadata.operation.upper() in {
        "INSERT_OVERWRITE",
        "INSERT_OVERWRITE_TABLE",
        "DELETE_PARTITION",
    }


def _name(partition: str) -> str:
    return partition or "(unpartitioned)"


def _paths(partitions: frozenset[str]) -> tuple[str, ...]:
    return tuple(map(_name, sorted(partitions)))


def group_names(groups: frozenset[Group]) -> tuple[str, ...]:
    """How messages call file groups, in order."""
    return tuple(path_in(p, g) for p, g in sorted(groups))
