"""Which groups of a merge-on-read table get a log, and under which name."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.filenames import FileId, LogFileName
from pyhudi.format.instants import InstantTime
from pyhudi.rows.spec import BY_POSITION, REFUSE, REWRITE, GroupPlan
from pyhudi.slices.files import BaseFile, FileSlice, LogFile
from pyhudi.writes.named_slices import naming_slices
from pyhudi.writes.placement.assign import Sizing, assign
from pyhudi.writes.placement.log_groups import LogGroups

T1, T2 = InstantTime("20240101000000000"), InstantTime("20240102000000000")
PENDING = InstantTime("20240103000000000")
SIZING = Sizing(1_000, 500, 10, fill_small_files=True)


def file(name: str, size: int = 100) -> BaseFile:
    return BaseFile("p", f"{name}_0-0-0_{T1}.parquet", FileId(name), T1, size, 10)


GROUP = ("p", FileId("a"))
PLAN = GroupPlan(0, "a", "p", f"p/a_0-0-0_{T1}.parquet", T1)


@pytest.mark.parametrize(
    ("layout", "planned", "named"),
    [
        (2, {}, (T1, 1)),
        (2, {("p", "a"): T2}, (T1, 1)),
        (1, {}, (T1, 4)),
        (1, {("p", "a"): T2}, (T2, 4)),
        (1, {("p", "a"): None}, (T1, 4)),
    ],
    ids=["layout 2", "layout 2, planned", "layout 1", "layout 1, planned", "log compaction"],
)
def test_a_log_of_layout_1_has_the_instant_of_its_slice_and_the_next_version(
    layout: int, planned: dict[tuple[str, FileId], InstantTime | None], named: tuple[str, int]
) -> None:
    groups = LogGroups(layout, {("p", FileId("a")): 3}, planned)
    found = groups.logged(PLAN)
    assert (found.base_instant, found.log_version) == named
    assert replace(found, log_version=None, base_instant=T1, copies=PLAN.copies) == PLAN


HELD, COMPACTS, LOGS_MERGE = {GROUP: 3}, {GROUP: T2}, {GROUP: None}


@pytest.mark.parametrize(
    ("groups", "copies"),
    [
        (LogGroups(1, {}, {}), REWRITE),
        (LogGroups(2, {}, {}), REWRITE),
        (LogGroups(1, HELD, {}), REFUSE),
        (LogGroups(2, HELD, {}), BY_POSITION),
        (LogGroups(2, HELD, LOGS_MERGE), BY_POSITION),
        (LogGroups(2, HELD, COMPACTS), REFUSE),
        (LogGroups(2, {}, COMPACTS), REFUSE),
        (LogGroups(2, {}, {}, placed=False), REWRITE),
        (LogGroups(2, HELD, {}, placed=False), REFUSE),
        (LogGroups(2, {}, {}, placed=False, alone=True), REFUSE),
    ],
)
def test_copies_of_a_key_are_logged_only_where_positions_tell_them_apart(
    groups: LogGroups, copies: str
) -> None:
    assert groups.logged(PLAN).copies == copies


def test_known_keys_go_to_logs_and_new_ones_to_small_groups_without_logs() -> None:
    files = [file("a"), file("b"), file("c"), file("d", 900)]
    logs = LogGroups(2, {("p", FileId("a")): 1}, {("p", FileId("c")): T2})
    found = assign(files, {0: 5, 2: 5, 3: 5}, {"p": 20}, SIZING, lambda _: "new", logs)
    versions = {plan.file_id: plan.log_version for plan in found.groups.values()}
    assert versions == {"a": 1, "b": None, "c": 1, "d": 1}
    assert found.updated() == {("p", FileId(name)) for name in "abcd"}
    assert set(found.slots["p"]) == {1}, "a has logs, c is to be compacted, d is not small"


def test_with_many_writers_only_a_small_group_that_changes_takes_new_keys() -> None:
    sizing = replace(SIZING, fill_small_files=False)
    files = [file("a"), file("b"), file("c", 900)]
    found = assign(files, {0: 5, 2: 5}, {"p": 20}, sizing, lambda _: "new", LogGroups(2, {}, {}))
    versions = {plan.file_id: plan.log_version for plan in found.groups.values()}
    assert versions == {"a": None, "c": 1}


def test_a_large_base_file_of_which_many_rows_change_is_rewritten_if_it_has_no_logs() -> None:
    sizing = Sizing(1 << 30, 100 << 20, 100, fill_small_files=True, most_logged=0.2)
    rows, large = (10 << 20) // 100, [file("a", 10 << 20)]

    def logged(changed: int, files: list[BaseFile] = large, logs: LogGroups | None = None) -> bool:
        given = logs or LogGroups(2, {}, {})
        found = assign(files, {0: changed}, {}, sizing, lambda _: "new", given)
        return found.groups[0].log_version is not None

    assert logged(rows // 5)
    assert not logged(rows // 4)
    assert logged(8_000, [file("a", 1 << 20)]), "a log is as cheap beside a small file"
    assert logged(rows // 4, logs=LogGroups(2, {("p", FileId("a")): 1}, {}))
    assert logged(rows // 4, logs=LogGroups(2, {}, {("p", FileId("a")): T2}))
    never = replace(sizing, most_logged=1.0)
    found = assign(large, {0: 2 * rows}, {}, never, lambda _: "new", LogGroups(2, {}, {}))
    assert found.groups[0].log_version == 1


def test_a_group_of_logs_alone_gets_another_log() -> None:
    lone = BaseFile("p", "", FileId("a"), T1, 0, 0)
    found = assign([lone], {0: 5}, {}, SIZING, lambda _: "new", LogGroups(1, {("p", "a"): 2}, {}))
    assert found.groups == {0: GroupPlan(0, "a", "p", None, T1, log_version=3)}
    assert found.updated() == {("p", FileId("a"))}
    assert found.created() == frozenset()


def test_a_base_file_that_is_large_beside_the_new_rows_is_not_rewritten() -> None:
    large = Sizing(1 << 30, 100 << 20, 100, fill_small_files=True)
    files, logs = [file("a", 20 << 20), file("b", 1_000)], LogGroups(2, {}, {})
    few = assign(files, {0: 5}, {"p": 100}, large, lambda _: "new", logs)
    assert set(few.slots["p"]) == {1}
    assert few.groups[0].log_version == 1
    many = assign(files[:1], {0: 5}, {"p": 60_000}, large, lambda _: "new", logs)
    assert many.groups[0].log_version is None, "a fourth of its size comes"
    none = assign(files[:1], {0: 5}, {"p": 1_000}, large, lambda _: "new", logs)
    assert [plan.file_id for plan in none.groups.values()] == ["a", "new"]


@pytest.mark.parametrize(
    ("size", "rows", "filled"),
    [(1, 1, True), (5, 2_000, False), (5, 4_000, True), (9, 4_000, False), (9, 30_000, True)],
)
def test_a_small_base_file_is_filled_if_enough_comes(size: int, rows: int, filled: bool) -> None:
    sizing = Sizing(1 << 30, 100 << 20, 100, fill_small_files=True)
    files = [file("a", (size << 20) - 1)]
    found = assign(files, {0: 5}, {"p": rows}, sizing, lambda _: "new", LogGroups(2, {}, {}))
    assert (found.groups[0].log_version is None) == filled


@pytest.mark.parametrize(
    ("layout", "cdc", "named"), [(2, True, True), (2, False, False), (1, True, False)]
)
def test_a_log_names_its_whole_slice_in_a_table_with_change_logs(
    layout: int, cdc: bool, named: bool
) -> None:
    """Apache Hudi merges these files for the row before a change (spec/log_files.md L7)."""
    base = file("a")
    logs = tuple(
        LogFile("p", LogFileName(FileId("a"), time, at, f"{at}-0-0", of_changes), 10)
        for at, (time, of_changes) in enumerate(((T1, True), (T2, False), (PENDING, False)), 1)
    )
    view = SimpleNamespace(
        committed=lambda: {T1, T2}.__contains__,
        slices=lambda partitions: [FileSlice(base, logs)] if "p" in partitions else [],
    )
    config = SimpleNamespace(cdc_enabled=cdc, layout=layout)
    own = WriteStat(FileId("a"), "p/own", "p", log_version=1, base_file="", log_files=("own",))
    new = WriteStat(FileId("b"), "p/b.parquet", "p")
    alone = replace(own, file_id=FileId("c"))
    write: Any = SimpleNamespace(config=config, view=view)
    found = naming_slices(write, (own, new, alone))
    assert found[1:] == (new, alone)
    wanted = replace(
        own, base_file=f"a_0-0-0_{T1}.parquet", log_files=(logs[1].named.render(), "own"),
        prev_commit=T1,
    )  # fmt: skip
    assert found[0] == (wanted if named else own)
