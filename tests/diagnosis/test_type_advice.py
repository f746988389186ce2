"""Which type of table is advised, by what its commits changed and what such changes cost."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

import pyhudi
from pyhudi.choices import ConcurrencyMode
from pyhudi.config import WriteOptions
from pyhudi.diagnosis import table_types
from pyhudi.diagnosis.advice import MB, advice_on
from pyhudi.diagnosis.shape_facts import Advice, Aspect, ShapeFacts
from pyhudi.diagnosis.table_types import MEASURED, Costs, costs_of
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat
from pyhudi.format.table_config import TableType
from tests import golden_tables
from tests.diagnosis.ledger import t
from tests.diagnosis.test_advise import group, live, update

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
FILES, ROWS = 10, 10_000


def facts(kind: TableType, share: float, commits: int = 6, size: int = 20 * MB) -> ShapeFacts:
    """A table of ten files, of which each commit changes ``share`` of the rows of each."""
    made = CommitMetadata("BULK_INSERT", tuple(
        WriteStat(group(n), f"p0/{n}.parquet", "p0", num_writes=ROWS, file_size_bytes=size)
        for n in range(FILES)
    ))  # fmt: skip
    rows = round(share * ROWS)
    change = update(range(FILES), size, rows) if kind is COW else appended(rows)
    written = [made, *[change] * commits]
    timed = tuple((t(n), each) for n, each in enumerate(written, 1))
    return ShapeFacts(timed, live(FILES, size), WriteOptions(), table_type=kind)


def appended(rows: int) -> CommitMetadata:
    """An upsert that adds a log to each group."""
    stats = (
        WriteStat(
            group(n), f"p0/.{group(n)}_1.log.1_0-1-1", "p0", prev_commit=t(1), num_writes=rows,
            num_updates=rows, total_write_bytes=MB, file_size_bytes=MB, log_version=1,
        )
        for n in range(FILES)
    )  # fmt: skip
    return CommitMetadata("UPSERT", tuple(stats))


def on_type(known: ShapeFacts) -> list[Advice]:
    return [each for each in advice_on(known) if each.aspect is Aspect.TABLE_TYPE]


def test_few_rows_in_all_files_call_for_logs_with_the_reads_up_to_which_they_pay() -> None:
    (found,) = on_type(facts(COW, 0.01))
    costs = costs_of(0.01, 1.0)
    assert f"fewer than {costs.break_even:.1f} times for each write" in found.advice
    assert "6 upserts and deletes changed 1% of the rows" in found.evidence
    assert "file groups with 100% of the bytes" in found.evidence
    assert "for 6,000 rows" in found.evidence
    assert found.follow.endswith("hoodie.datasource.write.table.type=MERGE_ON_READ.")
    assert not on_type(facts(MOR, 0.01))


def test_many_rows_call_for_copies() -> None:
    (found,) = on_type(facts(MOR, 0.2))
    assert "changed 20% of the rows" in found.evidence
    assert found.follow.endswith("hoodie.datasource.write.table.type=COPY_ON_WRITE.")
    assert not on_type(facts(COW, 0.2))


def test_where_both_types_rewrite_the_files_neither_is_advised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What such a measurement seems to save, or to lose, is chance."""
    for write, read in ((1.1, 0.6), (0.4, 0.5)):
        alike = Costs(0.2, 1.0, 1.0, write, 0, 0.5, read)
        monkeypatch.setattr(table_types, "MEASURED", (alike,))
        assert not on_type(facts(MOR, 0.2))
        assert not on_type(facts(COW, 0.2))
    monkeypatch.setattr(table_types, "MEASURED", (replace(alike, log_write=1.1, compaction=0.1),))
    assert on_type(facts(MOR, 0.2))


def test_no_advice_without_a_habit_or_for_a_small_table() -> None:
    for kind, share in ((COW, 0.01), (MOR, 0.2)):
        assert not on_type(facts(kind, share, commits=4))
        assert not on_type(facts(kind, share, size=MB))
        known = facts(kind, share)
        assert not on_type(replace(known, commits=known.commits[1:], files=()))


def test_writers_without_coordination_keep_their_logs() -> None:
    options = replace(WriteOptions(), concurrency_mode=ConcurrencyMode.NON_BLOCKING)
    assert not on_type(replace(facts(MOR, 0.2), options=options))


def test_a_table_with_change_logs_is_not_to_become_merge_on_read() -> None:
    known = facts(COW, 0.01)
    assert on_type(known)
    assert not on_type(replace(known, cdc=True))


def test_a_merge_on_read_table_is_advised_on_its_type_by_its_habits(tmp_path: Path) -> None:
    name = next(each for each in golden_tables.BY_NAME if "v9-mor" in each)
    root = golden_tables.BY_NAME[name].unzip(tmp_path)
    assert list(pyhudi.advise(str(root))) == []
    assert [each.aspect for each in advice_on(facts(MOR, 0.2))] == [Aspect.TABLE_TYPE]


def test_the_nearest_measurement_is_taken() -> None:
    for each in MEASURED:
        assert costs_of(each.share, each.rewritten) is each
        assert costs_of(each.share * 1.1, min(1.0, each.rewritten * 1.1)) is each


@pytest.mark.parametrize(
    ("log_write", "compaction", "log_read", "reads"),
    [(1.0, 1.0, 3.0, 1.0), (1.0, 0.5, 2.0, inf), (3.0, 2.0, 9.0, 0.0)],
    ids=["dearer reads", "reads of the same cost", "dearer writes"],
)
def test_a_break_even_is_what_a_write_saves_by_what_a_read_costs_more(
    log_write: float, compaction: float, log_read: float, reads: float
) -> None:
    assert Costs(0.1, 1.0, 3.0, log_write, compaction, 2.0, log_read).break_even == reads
