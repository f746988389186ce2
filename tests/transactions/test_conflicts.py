from __future__ import annotations

import itertools

import pytest

from pyhudi.choices import ConflictRule
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.filenames import FileId
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.transactions.conflicts.comparison import (
    STRATEGIES,
    Footprint,
    buckets_of,
    footprint_of,
    judge,
    with_logs_for,
)

G1, G2 = ("p", FileId("g1")), ("q", FileId("g2"))
NEW = ("p", FileId("new"))
OTHER_NEW = ("p", FileId("other"))
BUCKET_A = ("p", FileId("00000003-aaaa-0"))
BUCKET_B = ("p", FileId("00000003-bbbb-0"))
BUCKET_C = ("q", FileId("00000003-cccc-0"))


def fp(
    updated: tuple[tuple[str, FileId], ...] = (),
    created: tuple[tuple[str, FileId], ...] = (),
    swept: tuple[str, ...] = (),
    bucketed: bool = False,
) -> Footprint:
    groups = set(updated) | set(created)
    buckets = buckets_of(groups) if bucketed else frozenset()
    return Footprint("w", frozenset(updated), frozenset(created), frozenset(swept), buckets)


SAME, SWEPT, BUCKETS, NOTHING = (
    "both changed the same file groups",
    "wrote to a partition that the other replaced as a whole",
    "both wrote the same buckets",
    "do not overlap",
)


@pytest.mark.parametrize(
    ("ours", "theirs", "rule", "overlap"),
    [
        (fp((G1,)), fp((G1,)), SAME, ("p/g1",)),
        (fp((G1,)), fp((G2,)), NOTHING, ()),
        (fp((G1, G2)), fp((G2, NEW)), SAME, ("q/g2",)),
        (fp(created=(NEW,)), fp(created=(OTHER_NEW,)), NOTHING, ()),
        (fp((G1,)), fp(created=(NEW,)), NOTHING, ()),
        (fp(created=(NEW,)), fp(swept=("p",)), SWEPT, ("p",)),
        (fp((G1,)), fp(swept=("p",)), SWEPT, ("p",)),
        (fp((G2,)), fp(swept=("p",)), NOTHING, ()),
        (fp(swept=("p",)), fp(swept=("p",)), NOTHING, ()),
        (fp(swept=("p",), created=(NEW,)), fp(swept=("p",), created=(OTHER_NEW,)), SWEPT, ("p",)),
        (fp((("", FileId("g")),)), fp(swept=("",)), SWEPT, ("(unpartitioned)",)),
        (
            fp(created=(BUCKET_A,), bucketed=True),
            fp(created=(BUCKET_B,), bucketed=True),
            BUCKETS,
            ("p bucket 3",),
        ),
        (
            fp(created=(BUCKET_A,), bucketed=True),
            fp(created=(BUCKET_C,), bucketed=True),
            NOTHING,
            (),
        ),
        (fp(created=(BUCKET_A,)), fp(created=(BUCKET_B,)), NOTHING, ()),
        (fp(), fp((G1,), (NEW,), ("p",)), NOTHING, ()),
    ],
)
def test_the_truth_table(
    ours: Footprint, theirs: Footprint, rule: str, overlap: tuple[str, ...]
) -> None:
    for one, other in ((ours, theirs), (theirs, ours)):
        verdict = judge(one, other)
        assert (verdict.rule, verdict.overlap) == (rule, overlap)
        assert verdict.conflict == bool(overlap)


def test_a_verdict_explains_itself_with_both_names_and_few_examples() -> None:
    groups = tuple(("p", FileId(f"g{n}")) for n in range(8))
    ours = Footprint("upsert 1", frozenset(groups))
    text = judge(ours, Footprint("delete 2", frozenset(groups))).explain()

    assert text == (
        "upsert 1 and delete 2 both changed the same file groups: "
        "p/g0, p/g1, p/g2, p/g3, p/g4 and 3 more"
    )


INSTANT = Instant(InstantTime("20240101000000000"), Action.COMMIT, State.COMPLETED)


def stat(group: tuple[str, FileId], prev: str | None) -> WriteStat:
    return WriteStat(group[1], f"{group[0]}/f", group[0], prev_commit=prev)


def test_a_commit_with_a_predecessor_is_an_update_and_one_without_creates() -> None:
    metadata = CommitMetadata(
        "UPSERT", (stat(G1, "20230101000000000"), stat(NEW, None), stat(G2, "null"))
    )
    found = footprint_of(INSTANT, metadata)

    assert found.who == "upsert 20240101000000000"
    assert found.updated == {G1}
    assert found.created == {NEW, G2}
    assert found.partitions == {"p", "q"}
    assert found.replaced_partitions == frozenset()
    assert found.buckets == frozenset()


@pytest.mark.parametrize(
    ("operation", "sweeps"),
    [
        ("INSERT_OVERWRITE", True),
        ("insert_overwrite_table", True),
        ("DELETE_PARTITION", True),
        ("CLUSTER", False),
        ("UNKNOWN", False),
    ],
)
def test_only_overwrites_sweep_whole_partitions(operation: str, sweeps: bool) -> None:
    metadata = CommitMetadata(operation, (stat(NEW, None),), replaced={"p": (FileId("g1"),)})
    found = footprint_of(INSTANT, metadata)

    assert found.updated == {G1}
    assert found.replaced_partitions == ({"p"} if sweeps else set())


def test_buckets_are_read_from_file_ids_where_the_index_has_them() -> None:
    metadata = CommitMetadata("UPSERT", (stat(BUCKET_A, None), stat(BUCKET_C, "1"), stat(G1, "1")))
    assert footprint_of(INSTANT, metadata, bucketed=True).buckets == {("p", 3), ("q", 3)}
    assert footprint_of(INSTANT, metadata).buckets == frozenset()


def test_nobody_conflicts_with_a_write_that_touched_nothing() -> None:
    footprints = [fp((G1,)), fp(created=(NEW,)), fp(swept=("p",)), fp()]
    assert not any(judge(fp(), other).conflict for other in footprints)
    assert not any(
        judge(a, b).conflict
        for a, b in itertools.combinations([fp((G1,)), fp((G2,)), fp(created=(NEW,))], 2)
    )


def in_bucket(group: tuple[str, FileId]) -> Footprint:
    return fp(updated=(group,), bucketed=True)


PARTITIONS = "both wrote to the same partitions"


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "rule"),
    [
        (ConflictRule.PARTITION, fp((G1,)), fp(created=(NEW,)), PARTITIONS),
        (ConflictRule.PARTITION, fp((G1,)), fp((G2,)), NOTHING),
        (ConflictRule.PARTITION, fp((G1,)), fp(swept=("p",)), SWEPT),
        (ConflictRule.SIMPLE, fp((G1,)), fp(created=(NEW,)), NOTHING),
        (ConflictRule.PREFER_WRITER, fp((G1,)), fp((G1,)), SAME),
        (ConflictRule.BUCKET, in_bucket(BUCKET_A), in_bucket(BUCKET_A), BUCKETS),
        (ConflictRule.BUCKET, in_bucket(BUCKET_A), in_bucket(BUCKET_C), NOTHING),
    ],
)
def test_each_strategy_has_its_own_unit(
    name: ConflictRule, ours: Footprint, theirs: Footprint, rule: str
) -> None:
    assert STRATEGIES[name].judge(ours, theirs).rule == rule


@pytest.mark.parametrize("rule", ConflictRule)
def test_a_group_of_which_each_row_lost_counts_like_one_that_got_a_log(rule: ConflictRule) -> None:
    """Under the rule of buckets by its bucket, though no file names one."""
    lost = with_logs_for(fp(), frozenset({BUCKET_A}), bucketed=True)
    assert STRATEGIES[rule].compare(lost, in_bucket(BUCKET_A)).conflict
    assert not STRATEGIES[rule].compare(lost, in_bucket(BUCKET_C)).conflict
    assert with_logs_for(fp(), frozenset({BUCKET_A}), bucketed=False).buckets == frozenset()


def test_only_a_preferred_writer_does_not_give_way_to_services() -> None:
    assert [name for name, each in STRATEGIES.items() if not each.gives_way] == [
        ConflictRule.PREFER_WRITER
    ]
