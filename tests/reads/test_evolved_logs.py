"""Slices whose base file and logs have several schemas: rows, ranges, changes and file schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyhudi.errors import CommitConflict, HistoryExpired
from pyhudi.format.commit_metadata import CommitMetadata, WriteStat, render_commit
from pyhudi.format.instants import Action, Instant, InstantTime, State
from pyhudi.rows.log_spec import CompactTask, MergeSpec
from pyhudi.rows.spec import WriteSpec
from pyhudi.services.compaction import CompactionFate, CompactionStep, SlicesHere
from tests.reads.evolved_table import EvolvedTable
from tests.reads.filed_table import BEGIN, as_changes, asked, at, changes_at
from tests.reads.merged_table import opened, rows
from tests.services.logged_table import LoggedTable

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
PLACES = pytest.mark.parametrize("places", [False, True], ids=["by key", "by position"])

S1 = {"id": "string", "n": "integer", "x": "float"}
WIDE = {"id": "string", "n": "long", "x": "double"}
TOLL = {**WIDE, "toll": "string"}
NAMES = tuple(TOLL)
BIG = 1 << 40


def found(root: Path, **options: str) -> list[tuple[Any, ...]]:
    query = opened(root, **options)
    return sorted((tuple(r.get(n) for n in NAMES) for r in rows(query)), key=str)


def story(root: Path, version: int, places: bool) -> EvolvedTable:
    """A base file of the oldest schema, and logs of three; the third began before the second."""
    table = EvolvedTable(root, version)
    table.insert(1, S1, [{"id": k, "n": 1, "x": 0.5} for k in "abcdef"])
    places = places and version > 6
    table.append(2, S1, [{"id": "b", "n": 2, "x": 1.5}], places=places)
    table.append(3, WIDE, [{"id": "c", "n": BIG, "x": 0.1}], gone=["d"], places=places)
    table.append(4, S1, [{"id": "e", "n": 4, "x": 2.5}], declared=WIDE, places=places)
    table.append(5, TOLL, [{"id": "a", "n": 5, "x": 0.1, "toll": "t"}], places=places)
    # RFC-82's case 6: it does not know the column that came meanwhile.
    table.append(6, WIDE, [{"id": "b", "n": 6, "x": 0.2}], declared=TOLL, places=places)
    return table


NOW = [
    ("a", 5, 0.1, "t"),
    ("b", 6, 0.2, None),
    ("c", BIG, 0.1, None),
    ("e", 4, 2.5, None),
    ("f", 1, 0.5, None),
]


@VERSIONS
@PLACES
def test_blocks_of_several_schemas_over_an_older_base_file_give_rows_of_the_newest(
    version: int, places: bool, tmp_path: Path
) -> None:
    story(tmp_path, version, places)
    assert found(tmp_path) == NOW


@VERSIONS
def test_a_commit_that_declares_no_schema_says_nothing_of_columns_with_ids(
    version: int, tmp_path: Path
) -> None:
    table = EvolvedTable(tmp_path, version)
    table.ids = True
    table.insert(1, S1, [{"id": "a", "n": 1, "x": 0.5}, {"id": "b", "n": 1, "x": 0.5}])
    table.append(2, S1, [{"id": "a", "n": 2, "x": 1.5}])
    removed = CommitMetadata("DELETE_PARTITION", replaced={"gone": ()})
    done = Instant(at(3), Action.REPLACECOMMIT, State.COMPLETED, at(3) if version > 6 else None)
    table._put(done, render_commit(removed, table.layout))
    assert found(tmp_path) == [("a", 2, 1.5, None), ("b", 1, 0.5, None)]


@VERSIONS
def test_a_state_of_before_a_change_has_the_schema_and_the_rows_of_then(
    version: int, tmp_path: Path
) -> None:
    story(tmp_path, version, places=True)
    query = opened(tmp_path, as_of=at(4))
    assert [(c.name, c.type) for c in query.schema().columns] == list(WIDE.items())
    then = sorted((r["id"], r["n"], r["x"]) for r in rows(query))
    assert then == [("a", 1, 0.5), ("b", 2, 1.5), ("c", BIG, 0.1), ("e", 4, 2.5), ("f", 1, 0.5)]


@VERSIONS
def test_a_range_gives_the_rows_of_its_commits_in_the_newest_schema(
    version: int, tmp_path: Path
) -> None:
    story(tmp_path, version, places=True)
    options = {"hoodie.datasource.query.type": "incremental", BEGIN: at(3)}
    query = opened(tmp_path, **options)
    told = [r for r in rows(query) if r["_hoodie_commit_time"] > at(3)]
    assert sorted((r["id"], r["n"], r["toll"]) for r in told) == [
        ("a", 5, "t"),
        ("b", 6, None),
        ("e", 4, None),
    ]


@VERSIONS
@PLACES
def test_changes_have_both_images_in_the_newest_schema(
    version: int, places: bool, tmp_path: Path
) -> None:
    story(tmp_path, version, places)

    def image(*values: Any) -> dict[str, Any]:
        return dict(zip(NAMES, values, strict=True))

    wanted = [
        ("d", at(3), image("d", 1, 0.5, None), None),
        ("u", at(3), image("c", 1, 0.5, None), image("c", BIG, 0.1, None)),
        ("u", at(4), image("e", 1, 0.5, None), image("e", 4, 2.5, None)),
        ("u", at(5), image("a", 1, 0.5, None), image("a", 5, 0.1, "t")),
        ("u", at(6), image("b", 2, 1.5, None), image("b", 6, 0.2, None)),
    ]
    assert as_changes(changes_at(str(tmp_path), asked(at(2)))) == sorted(wanted, key=str)


# ---- compactions


@VERSIONS
@PLACES
def test_a_compaction_of_several_schemas_leaves_the_rows_in_the_newest(
    version: int, places: bool, tmp_path: Path
) -> None:
    story(tmp_path, version, places)
    before = found(tmp_path)
    compacted = LoggedTable(None, tmp_path).compact()
    assert [each.fate for each in compacted] == [CompactionFate.COMPACTED]
    assert found(tmp_path) == before == NOW
    assert types_in_files(tmp_path) == [TOLL]


MERGES = {"hoodie_log_compaction_blocks_threshold": "2"}


@pytest.mark.parametrize("version", [8, 9])
@PLACES
def test_logs_of_columns_with_ids_are_merged_alone_if_all_are_of_the_newest_columns(
    version: int, places: bool, tmp_path: Path
) -> None:
    """The columns of a log go by its instant, so a copy of older blocks would get other ones."""
    table = EvolvedTable(tmp_path, version, ids=True)
    table.insert(1, WIDE, [{"id": k, "n": 1, "x": 0.5} for k in "abc"])
    table.append(2, WIDE, [{"id": "a", "n": 2, "x": 0.5}], places=places)
    table.append(3, WIDE, [{"id": "b", "n": 3, "x": 0.5}], gone=["c"], places=places)
    compacting, expected = LoggedTable(None, tmp_path), [("a", 2, 0.5, None), ("b", 3, 0.5, None)]
    (merged,) = compacting.compact(CompactionStep.SCHEDULE_AND_RUN_LOGS, **MERGES)
    assert (merged.fate, found(tmp_path)) == (CompactionFate.COMPACTED, expected)
    after = int(str(merged.compaction)[-5:])
    toll = [{"id": "a", "n": 5, "x": 0.1, "toll": "t"}]
    table.append(after + 1, TOLL, toll, places=places)
    (left,) = compacting.compact(CompactionStep.SCHEDULE_AND_RUN_LOGS, **MERGES)
    assert left.fate is CompactionFate.LEFT
    assert left.why == (
        f"the columns changed after its log of {merged.compaction}: a compaction merges it"
    )
    expected[0] = ("a", 5, 0.1, "t")
    assert found(tmp_path) == expected
    assert {each.fate for each in compacting.compact()} == {CompactionFate.COMPACTED}
    assert found(tmp_path) == expected


@pytest.mark.parametrize("version", [8, 9])
def test_a_plan_that_names_logs_of_older_columns_leaves_them(version: int, tmp_path: Path) -> None:
    """Apache Hudi makes such plans."""
    table = EvolvedTable(tmp_path, version, ids=True)
    table.insert(1, WIDE, [{"id": k, "n": 1, "x": 0.5} for k in "ab"])
    table.append(2, WIDE, [{"id": "a", "n": 2, "x": 0.5}])
    table.append(3, TOLL, [{"id": "a", "n": 3, "x": 0.5, "toll": "t"}])
    compacting = LoggedTable(None, tmp_path)
    (planned,) = compacting.compact(CompactionStep.SCHEDULE)
    (plan,) = (tmp_path / ".hoodie/timeline").glob("*.compaction.requested")
    plan.rename(plan.with_name(f"{planned.compaction}.logcompaction.requested"))
    (left,) = compacting.compact(CompactionStep.RUN_LOGS)
    assert left.fate is CompactionFate.LEFT
    assert f"the columns changed after its log of {at(2)}" in left.why
    assert found(tmp_path) == [("a", 3, 0.5, "t"), ("b", 1, 0.5, None)]


class Beside(SlicesHere):
    """Has something done after a compaction has written its files."""

    def __init__(self, work: Callable[[InstantTime], None]) -> None:
        super().__init__()
        self.work = work

    def compact(
        self, spec: WriteSpec, order: MergeSpec, tasks: Mapping[int, CompactTask]
    ) -> list[WriteStat]:
        stats = super().compact(spec, order, tasks)
        self.work(InstantTime(spec.instant))
        return stats


@pytest.mark.parametrize("version", [8, 9])
def test_types_that_widen_while_a_compaction_runs_are_the_tables_but_not_of_its_files(
    version: int, tmp_path: Path
) -> None:
    table = EvolvedTable(tmp_path, version)
    table.insert(1, S1, [{"id": k, "n": 1, "x": 0.5} for k in "ab"])
    table.append(2, S1, [{"id": "b", "n": 2, "x": 1.5}])

    def late(time: InstantTime) -> None:
        table.append(int(time[-5:]) + 1, WIDE, [{"id": "a", "n": BIG, "x": 0.1}])

    LoggedTable(None, tmp_path).compact(tasks=Beside(late))
    assert types_in_files(tmp_path) == [S1]
    assert found(tmp_path) == [("a", BIG, 0.1, None), ("b", 2, 1.5, None)]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("ids", [False, True], ids=["by name", "by id"])
def test_a_column_of_an_older_instant_that_came_while_a_compaction_ran_stays(
    version: int, ids: bool, tmp_path: Path
) -> None:
    """The commit of the compaction has the greatest instant, so readers take its schema."""
    table = EvolvedTable(tmp_path, version, ids=ids)
    table.insert(1, WIDE, [{"id": k, "n": 1, "x": 0.5} for k in "ab"])
    table.append(2, WIDE, [{"id": "b", "n": 2, "x": 1.5}])
    table.begin(3)

    def late(time: InstantTime) -> None:
        row = {"id": "a", "n": 7, "x": 0.5, "toll": "t"}
        table.append(3, TOLL, [row], done=int(time[-5:]) + 1)

    compacting = LoggedTable(None, tmp_path)
    if ids:
        with pytest.raises(CommitConflict, match="columns of the table changed"):
            compacting.compact(tasks=Beside(late))
        compacting.compact(CompactionStep.RUN)
    else:
        compacting.compact(tasks=Beside(late))
    assert found(tmp_path) == [("a", 7, 0.5, "t"), ("b", 2, 1.5, None)]


# ---- the schema of a base file is not always the one that its commit declares


def types_in_files(root: Path) -> list[dict[str, Any]]:
    query = opened(root)
    files = [each.base for each in query.slices(()) if each.base is not None]
    schemas = query.file_schemas()
    numbers = schemas.numbers(files, query.schema())
    return [schemas.found[number].types for number in numbers]


@VERSIONS
def test_a_base_file_of_a_writer_beside_which_types_widened_has_its_own_types(
    version: int, tmp_path: Path
) -> None:
    """RFC-82's case 6: the commit declares what the other one made of the table."""
    table = EvolvedTable(tmp_path, version)
    table.insert(1, S1, [{"id": "a", "n": 1, "x": 0.5}])
    table.append(2, WIDE, [{"id": "a", "n": BIG, "x": 0.1}], done=4)
    table.insert(3, S1, [{"id": "a", "n": 3, "x": 0.5}], done=5, declared=WIDE)
    assert types_in_files(tmp_path) == [S1]


@pytest.mark.parametrize("version", [8, 9])
def test_a_base_file_of_a_compaction_beside_which_types_widened_has_its_own_types(
    version: int, tmp_path: Path
) -> None:
    table = EvolvedTable(tmp_path, version)
    table.insert(1, S1, [{"id": "a", "n": 1, "x": 0.5}])
    table.append(2, S1, [{"id": "a", "n": 2, "x": 0.5}])
    table.append(4, WIDE, [{"id": "a", "n": BIG, "x": 0.1}], done=5)
    row = {"id": "a", "n": 2, "x": 0.5, "_at": at(2)}
    table.insert(3, S1, [row], done=6, declared=WIDE, compacts=True)
    assert types_in_files(tmp_path) == [S1]
    assert found(tmp_path) == [("a", BIG, 0.1, None)]


@pytest.mark.parametrize("version", [8, 9])
def test_two_that_make_the_table_at_once_declare_the_wider_types_of_both(
    version: int, tmp_path: Path
) -> None:
    """Case 3, reconciled."""
    table = EvolvedTable(tmp_path, version)
    table.declare(1, WIDE, done=3)
    table.insert(2, S1, [{"id": "a", "n": 1, "x": 0.5}], done=4, declared=WIDE)
    assert types_in_files(tmp_path) == [S1]


@VERSIONS
def test_no_footer_is_read_where_the_declared_types_are_those_of_the_files(
    version: int, tmp_path: Path
) -> None:
    table = EvolvedTable(tmp_path, version)
    table.insert(1, WIDE, [{"id": "a", "n": 1, "x": 0.5}])
    table.append(2, WIDE, [{"id": "a", "n": 2, "x": 0.5}], done=4)
    table.insert(3, TOLL, [{"id": "a", "n": 3, "x": 0.5}], done=5)
    query = opened(tmp_path)
    schemas = query.file_schemas()
    held = [schemas.of_file(at(n), "no such file", query.schema()).types for n in (1, 3)]
    assert held == [WIDE, TOLL]
    with pytest.raises(HistoryExpired):
        schemas.of_file(at(9), "no such file", query.schema())
