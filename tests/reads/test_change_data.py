from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from pyhudi.errors import HistoryExpired
from pyhudi.format.spark_schema import Column, SparkSchema
from pyhudi.reads.change_data import ChangePlan, change_schema, plan_changes
from pyhudi.reads.conditions import (
    AllOf,
    Compare,
    Comparison,
    Filter,
    IsNotNull,
    IsNull,
    Not,
    Text,
    Unknown,
    Whole,
)
from pyhudi.reads.pins import pin_of
from pyhudi.rows.change_spec import ChangePiece, ChangeSpec
from pyhudi.rows.slice_file import SliceFile
from pyhudi.rows.spec import META_COLUMNS, FileSystemSpec
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table
from tests.archiver import archive
from tests.golden_tables import ALL, BY_NAME, GoldenTable
from tests.reads import merged_table
from tests.reads.changing_table import END_SCHEMA
from tests.reads.filed_table import (
    FORM,
    FiledTable,
    Row,
    as_changes,
    asked,
    at,
    changes_at,
    query_at,
)
from tests.reads.test_log_slices import DISPUTED

REQUESTED = {"hoodie.datasource.read.incr.order": "requested"}


def eventful(root: Path) -> FiledTable:
    """Inserts, updates, deletes, overwrites and moved rows, one after another."""
    table = FiledTable.at(root)
    table.merge(1, "g1", dict.fromkeys("abcdefgh", 1), "BULK_INSERT")
    table.merge(2, "g2", {"x": 2, "y": 2}, "INSERT")
    table.merge(3, "g1", {"b": 3, "h": 3})
    table.merge(4, "g1", {"c": None, "zz": None}, "DELETE")
    table.merge(5, "g1", {"a": 5, "d": None, "i": 5})
    table.merge(6, "g1", {"j": 6}, "INSERT")
    table.cluster(7, ["g1", "g2"], "g3")
    table.merge(8, "g3", {"x": 8, "k": 8})
    table.replace(9, ["g3"], "g4", {"a": 9, "l": 9})
    table.merge(10, "g4", {"a": None, "l": None}, "DELETE")
    table.merge(11, "g5", {"m": 11})
    table.replace(12, ["g4", "g5"], None, {})
    return table


def test_each_range_gives_what_each_of_its_commits_did(tmp_path: Path) -> None:
    table = eventful(tmp_path)
    for begin in range(13):
        for end in range(begin, 13):
            wanted = [c for c in table.noted if at(begin) < c[1] <= at(end)]
            found = changes_at(str(tmp_path), asked(at(begin), at(end)))
            assert as_changes(found) == sorted(wanted, key=str), (begin, end)
    assert len(changes_at(str(tmp_path), asked())) == len(table.noted)


def test_any_sequence_of_commits_is_told_as_it_happened(tmp_path: Path) -> None:
    for seed in range(12):
        draw, root = Random(seed), tmp_path / str(seed)
        root.mkdir()
        table = FiledTable.at(root)
        table.merge(1, "g1", {f"k{n}": 1 for n in range(draw.randint(1, 20))})
        for number in range(2, 12):
            group = draw.choice(sorted(table.groups))
            # In this order a bulk of keys is shuffled: updates, deletes and inserts, mixed.
            keys = draw.sample([f"k{n}" for n in range(30)], draw.randint(1, 12))
            others = {k for g, (rows, _) in table.groups.items() if g != group for k in rows}
            rows = {k: draw.choice([number, None]) for k in keys if k not in others}
            if draw.random() < 0.2:
                made = {k: number for k, v in rows.items() if v is not None}
                table.replace(number, [group], f"g{number}", made)
            else:
                table.merge(number, group, rows)
        assert as_changes(changes_at(str(root), asked())) == sorted(table.noted, key=str), seed


def test_a_row_that_was_only_copied_or_moved_is_no_change(tmp_path: Path) -> None:
    eventful(tmp_path)
    assert changes_at(str(tmp_path), asked(at(6), at(7))) == []
    assert [r["after"] for r in changes_at(str(tmp_path), asked(at(2), at(3)))] == [
        {"id": "b", "v": 3},
        {"id": "h", "v": 3},
    ]


def test_a_merge_that_keeps_the_order_is_compared_by_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = FiledTable.at(tmp_path)
    table.merge(1, "g1", {f"k{n:03d}": 1 for n in range(300)})
    table.merge(2, "g1", {"k007": 2, "new": 2})
    read: list[int] = []
    texts = SliceFile._texts
    monkeypatch.setattr(
        SliceFile,
        "_texts",
        lambda self, group, name: read.append(group) or texts(self, group, name),
    )
    assert len(changes_at(str(tmp_path), asked(at(1)))) == 2
    # Row group 2 of either file has k007, the last one the new row: no other key is read.
    assert set(read) <= {2, 100}
    assert len(read) <= 5


def test_rows_in_another_order_are_found_by_their_keys(tmp_path: Path) -> None:
    table = FiledTable.at(tmp_path)
    table.merge(1, "g1", {"a": 1, "b": 1, "c": 1})
    table.merge(2, "g1", {"a": 2, "c": 2})
    path = table.file_of("g1")
    rows = pq.read_table(path)
    pq.write_table(rows.take([2, 1, 0]), path)
    assert as_changes(changes_at(str(tmp_path), asked(at(1)))) == table.noted[3:]


def test_only_files_of_the_range_are_read_and_no_folder_is_listed(tmp_path: Path) -> None:
    table = eventful(tmp_path)
    query = query_at(str(tmp_path), asked(at(2), at(6)))
    plan = plan_changes(query, change_schema(query), ())
    held = [each for piece in plan.pieces for each in (piece.before, piece.after) if each]
    assert {each.path.split("_")[0] for each in held} == {"g1"}
    assert query.listed_files == 0
    assert table.noted


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (Compare(Comparison.EQUAL, "ts_ms", Text(at(3))), "uu"),
        (Compare(Comparison.GREATER, "ts_ms", Text(at(5))), "i"),
        (Compare(Comparison.EQUAL, "op", Text("d")), "dd"),
        (IsNull("before"), "ddiiiiuuu"),
        (IsNotNull("after.v"), "iiiiuuu"),
        (AllOf((Compare(Comparison.GREATER, "before.v", Whole(0)), Unknown())), "dduuu"),
        (Not(IsNull("after")), "iiiiuuu"),
    ],
)
def test_filters_leave_out_commits_and_operations(
    condition: Filter, kept: str, tmp_path: Path
) -> None:
    eventful(tmp_path)
    found = changes_at(str(tmp_path), asked(at(1), at(6)), [condition])
    assert "".join(sorted(r["op"] for r in found)) == kept


def test_small_pieces_share_a_task() -> None:
    spec = ChangeSpec("", FileSystemSpec(), None, None)
    pieces = tuple(ChangePiece(at(n)) for n in range(10))

    def tasks(size: int) -> int:
        return ChangePlan(spec, pieces, (size,) * 10).task_count(2)

    assert [tasks(0), tasks(1 << 20), tasks(64 << 20)] == [1, 2, 6]
    assert ChangePlan(spec, (), ()).task_count(2) == 1


def test_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    table = eventful(tmp_path)
    image = {"type": "struct", "fields": [{"name": "v", "type": "long", "nullable": True}]}
    wanted = SparkSchema((Column("op", "string"), Column("after", image)))
    found = changes_at(str(tmp_path), asked(at(2), at(3)), wanted=wanted)
    assert found == [{"op": "u", "ts_ms": at(3), "after": {"v": 3}}] * 2
    assert table.noted


@pytest.mark.parametrize("form", ["cdc", "cdc_columns"])
def test_the_images_have_the_columns_of_now_or_on_request_of_the_ranges_end(
    form: str, tmp_path: Path
) -> None:
    table = FiledTable.at(tmp_path)
    table.merge(1, "g1", {"a": 1})
    table.merge(2, "g1", {"a": 2})
    table.declare(3, "id")
    then = {FORM: form, END_SCHEMA: "true"}

    def images(options: dict[str, str]) -> list[Row]:
        rows = changes_at(str(tmp_path), options)
        texts = (row["after"] for row in rows)
        return [json.loads(each) if isinstance(each, str) else each for each in texts]

    assert images(asked(at(1), at(2), **{FORM: form})) == [{"id": "a"}]
    assert images(asked(at(1), at(2), **then)) == [{"id": "a", "v": 2}]
    assert images(asked(at(1), at(3), **then)) == [{"id": "a"}]
    queries = (query_at(str(tmp_path), asked(at(1), at(2), **o)) for o in (then, {FORM: form}))
    assert len({pin_of(each) for each in queries}) == 2


def test_changes_of_a_cleaned_slice_are_refused_with_what_to_do(tmp_path: Path) -> None:
    table = FiledTable.at(tmp_path)
    table.merge(1, "g1", {"a": 1, "b": 1})
    first = table.file_of("g1")
    table.merge(2, "g1", {"a": 2})
    table.merge(3, "g1", {"a": 3})
    first.unlink()
    with pytest.raises(
        HistoryExpired, match=f"The changes of the commit {at(2)} need g1.* is gone"
    ):
        changes_at(str(tmp_path), asked(at(1)))
    assert len(changes_at(str(tmp_path), asked(at(2)))) == 1


def test_an_older_version_that_a_savepoint_kept_is_not_taken_for_the_newest(tmp_path: Path) -> None:
    table = FiledTable.at(tmp_path)
    table.merge(1, "g1", {"a": 1, "b": 1})
    table.merge(2, "g1", {"a": 2})
    newest = table.file_of("g1")
    table.replace(3, ["g1"], "g2", {"a": 3})
    newest.unlink()
    with pytest.raises(HistoryExpired, match=f"The changes of the commit {at(3)} need an older"):
        changes_at(str(tmp_path), asked(at(2)))


def test_archived_commits_of_the_range_are_refused(tmp_path: Path) -> None:
    eventful(tmp_path)
    archive(open_table(LocalStorage(str(tmp_path))), at(1), at(2))
    for begin in ("earliest", at(1)):
        with pytest.raises(HistoryExpired, match=f"commits up to {at(2)} are archived"):
            changes_at(str(tmp_path), asked(begin))
    assert len(changes_at(str(tmp_path), asked(at(2), at(3)))) == 2


def test_a_read_of_changes_has_a_pin_of_its_own(tmp_path: Path) -> None:
    eventful(tmp_path)
    forms = ("latest_state", "cdc", "cdc_columns")
    pins = {pin_of(query_at(str(tmp_path), {**asked(at(3)), FORM: form})) for form in forms}
    assert len(pins) == 3
    assert pin_of(query_at(str(tmp_path), asked(at(4)))) not in pins


# ---- tables that Apache Hudi wrote


def test_hudis_change_log_gives_the_rows_that_changed(tmp_path: Path) -> None:
    table = BY_NAME["h120_v9-cow_cdc"]
    found = changes_at(str(table.unzip(tmp_path)), asked())
    state: dict[int, object] = {}
    for row in found:
        before, after = row["before"], row["after"]
        key = (after or before)["id"]
        assert state.pop(key, None) == before
        if after is not None:
            state[key] = after
    expected = table.expected() or []
    columns = ("id", "name", "price", "ts", "dt")
    assert state == {row["id"]: {c: row[c] for c in columns} for row in expected}
    assert {row["op"] for row in found} == {"i", "u", "d"}


def test_what_is_inferred_is_what_hudis_log_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(BY_NAME["h120_v9-cow_cdc"].unzip(tmp_path))
    logged = changes_at(root, asked())
    monkeypatch.setattr("pyhudi.reads.change_data.in_order", lambda logs: ())
    assert as_changes(changes_at(root, asked())) == as_changes(logged)


LOGGED = [t for t in ALL if t.merge_on_read and t.moment is None and t.name != DISPUTED]


@pytest.mark.parametrize("golden", LOGGED, ids=lambda t: t.name)
def test_changes_of_a_golden_merge_on_read_table_leave_its_rows(
    golden: GoldenTable, tmp_path: Path
) -> None:
    root = golden.unzip(tmp_path)
    commits = merged_table.opened(root).timeline.commits
    if "archive" in golden.name:
        with pytest.raises(HistoryExpired, match="are archived"):
            changes_at(str(root), asked())
        return
    state: dict[str, Row] = {}
    for commit in commits:
        found = changes_at(str(root), asked(f"{int(commit.time) - 1}", commit.time, **REQUESTED))
        for row in found:
            assert row["ts_ms"] == commit.time
            held = row["before"] or row["after"]
            key = str(held["id"])
            assert state.get(key) == row["before"], (commit.time, row)
            if row["after"] is None:
                del state[key]
            else:
                state[key] = row["after"]
    rows = merged_table.rows(merged_table.opened(root))
    wanted = [{k: v for k, v in row.items() if k not in META_COLUMNS} for row in rows]
    assert sorted(state.values(), key=str) == sorted(wanted, key=str)
