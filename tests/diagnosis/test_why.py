"""``pyhudi.why``: what the timeline and the files that are left tell of one key."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.diagnosis.why import Touch, What
from pyhudi.errors import UnsupportedTable
from pyhudi.format.commit_metadata import OUTDATED_KEY
from pyhudi.format.instants import Action, Instant, State
from tests import golden_tables
from tests.diagnosis.ledger import Ledger, t

A, B, C = ("a", "11111111-0"), ("b", "22222222-0"), ("a", "33333333-0")


@pytest.fixture(params=[6, 9], ids=["version 6", "version 9"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path, request.param)


def told(table: Ledger, key: str = "k", **asked: str | bool) -> list[tuple[str, str, str]]:
    """Instant, event and partition of each entry."""
    found = pyhudi.why(str(table.root), key, **asked)  # type: ignore[arg-type]
    return [(each.instant, each.what.value, each.partition) for each in found]


def now(table: Ledger, key: str = "k") -> Touch:
    return pyhudi.why(str(table.root), key)[-1]


def golden(name: str, folder: Path, key: str) -> list[tuple[str, str]]:
    root = str(golden_tables.BY_NAME[name].unzip(folder))
    return [(each.operation, each.what.value) for each in pyhudi.why(root, key)]


def test_a_key_is_inserted_updated_and_deleted(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1, "m": 1}})
    table.commit(2, "upsert", {A: {"k": 2, "m": 1}})
    table.commit(3, "delete", {A: {"m": 1}})
    assert told(table) == [
        (t(1), "inserted", "a"), (t(2), "updated", "a"), (t(3), "deleted", "a"), (t(3), "now", ""),
    ]  # fmt: skip
    assert "The table does not have it" in now(table).reason


def test_a_slice_that_only_copies_the_row_is_no_touch(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1, "m": 1}})
    (path,) = table.commit(2, "upsert", {A: {"k": 1, "m": 2}})
    assert told(table) == [(t(1), "inserted", "a"), (t(2), "now", "a")]
    assert (t(2), "carried", "a") in told(table, carried=True)
    assert now(table).file == path
    assert f"with the value of {t(1)}" in now(table).reason


def test_a_key_moves_to_another_partition(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.commit(2, "upsert", {A: {}, B: {"k": 2}})
    assert told(table) == [(t(1), "inserted", "a"), (t(2), "moved", "b"), (t(2), "now", "b")]
    assert "partition 'a'" in pyhudi.why(str(table.root), "k")[1].reason


def test_an_overwrite_takes_the_key_with_its_group_and_may_write_it_again(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1, "m": 1}})
    table.commit(2, "insert_overwrite", {C: {"k": 2}}, {"a": (A[1],)})
    assert told(table) == [
        (t(1), "inserted", "a"), (t(2), "replaced", "a"), (t(2), "inserted", "a"),
        (t(2), "now", "a"),
    ]  # fmt: skip
    assert told(table, "m")[1:] == [(t(2), "replaced", "a"), (t(2), "now", "")]


def test_clustering_moves_a_row_with_its_value(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.commit(2, "cluster", {C: {"k": 1}}, {"a": (A[1],)})
    table.commit(3, "upsert", {C: {"k": 3}})
    assert told(table) == [
        (t(1), "inserted", "a"), (t(2), "clustered", "a"), (t(3), "updated", "a"),
        (t(3), "now", "a"),
    ]  # fmt: skip


def test_a_later_slice_tells_of_a_cleaned_one(table: Ledger) -> None:
    paths = table.commit(1, "insert", {A: {"k": 1, "m": 1}}, num_inserts=2)
    paths += table.commit(2, "upsert", {A: {"k": 2, "m": 1}}, num_updates=1, prev_commit=t(1))
    paths += table.commit(3, "upsert", {A: {"k": 2, "m": 3}}, num_updates=1, prev_commit=t(2))
    table.storage.delete(paths[:2])
    assert told(table) == [(t(1), "unknown", "a"), (t(2), "updated", "a"), (t(3), "now", "a")]
    assert told(table, "m") == [
        (t(1), "unknown", "a"), (t(2), "unknown", "a"), (t(3), "updated", "a"), (t(3), "now", "a"),
    ]  # fmt: skip
    first, second, *_ = pyhudi.why(str(table.root), "k")
    assert "Slice cleaned" in first.reason
    assert "Its own slice is cleaned" in second.reason


def test_a_deletion_that_may_be_older_than_the_slice_that_shows_it_says_so(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1, "m": 1}})
    cleaned = table.commit(2, "upsert", {A: {"m": 2}}, num_deletes=1)
    table.commit(3, "upsert", {A: {"m": 3}})
    table.storage.delete(cleaned)
    assert told(table)[1:3] == [(t(2), "unknown", "a"), (t(3), "deleted", "a")]
    assert "may have deleted it first" in pyhudi.why(str(table.root), "k")[2].reason


def test_files_of_pending_and_failed_writes_are_named_as_such(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}})
    table.put(Instant(t(5), Action.COMMIT, State.INFLIGHT))
    table.file(A, 5, {"k": 5})
    table.file(A, 6, {"k": 6})
    assert told(table) == [
        (t(1), "inserted", "a"), (t(5), "pending", "a"), (t(6), "failed", "a"), (t(1), "now", "a"),
    ]  # fmt: skip


def test_a_file_that_its_commit_does_not_name_is_of_a_failed_attempt(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"m": 1}})
    table.file(C, 1, {"k": 1})
    assert told(table) == [(t(1), "failed", "a"), (t(1), "now", "")]


def test_a_key_that_is_nowhere_gets_an_answer_that_says_where_it_was_looked_for(
    table: Ledger,
) -> None:
    paths = table.commit(1, "insert", {A: {"k": 1, "m": 1}, B: {"x": 1}})
    table.commit(2, "upsert", {B: {"x": 2}})
    table.storage.delete(paths[1:])
    (only,) = pyhudi.why(str(table.root), "l")
    assert only.what is What.NOW
    assert "The table does not have it. Looked in all partitions at 2 base files" in only.reason
    assert "1 were ruled out" in only.reason
    assert "1 other files that commits name are cleaned" in only.reason


def test_a_partition_leaves_the_others_out(table: Ledger) -> None:
    table.commit(1, "insert", {A: {"k": 1}, B: {"k": 1}})
    assert told(table) == [
        (t(1), "inserted", "a"), (t(1), "inserted", "b"), (t(1), "now", "a"), (t(1), "now", "b"),
    ]  # fmt: skip
    assert told(table, partition="b") == [(t(1), "inserted", "b"), (t(1), "now", "b")]


def test_a_key_of_several_columns_is_spelled_as_hudi_spells_it(tmp_path: Path) -> None:
    table = Ledger(tmp_path, keys=["id", "ts"])
    table.commit(1, "insert", {A: {"id:1,ts:2": 1}})
    assert told(table, "id:1,ts:2") == [(t(1), "inserted", "a"), (t(1), "now", "a")]
    assert "'id:...,ts:...'" in now(table, "1").reason


def test_a_file_that_cannot_be_read_is_counted_and_not_passed_over(table: Ledger) -> None:
    (path,) = table.commit(1, "insert", {A: {"k": 1}})
    (table.root / path).write_bytes(b"broken")
    assert "1 could not be read" in now(table).reason


def test_a_table_without_meta_fields_is_refused(tmp_path: Path) -> None:
    table = Ledger(tmp_path)
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.populate.meta.fields=false\n")
    with pytest.raises(UnsupportedTable, match="_hoodie_record_key"):
        told(table)


def test_tables_of_apache_hudi_tell_the_same(tmp_path: Path) -> None:
    assert golden("h120_v9-cow_part", tmp_path, "2") == [
        ("bulk_insert", "inserted"), ("upsert", "updated"), ("insert_overwrite", "replaced"),
        ("", "now"),
    ]  # fmt: skip
    assert golden("h120_v9-cow_cluster", tmp_path, "1") == [
        ("insert", "inserted"), ("cluster", "clustered"), ("", "now"),
    ]  # fmt: skip
    assert golden("h0150_v6-cow_sp_rb", tmp_path, "1") == [
        ("insert", "inserted"), ("upsert", "updated"), ("rollback", "rolled back"), ("", "now"),
    ]  # fmt: skip


def test_a_commit_that_left_late_rows_out_may_have_had_one_of_the_key(table: Ledger) -> None:
    late = {OUTDATED_KEY: "7"}
    table.commit(1, "upsert", {A: {"m": 1}}, extra=late)
    table.commit(2, "upsert", {A: {"k": 2, "m": 1}})
    table.commit(3, "upsert", {B: {"n": 3}}, extra=late)
    table.commit(4, "upsert", {A: {"k": 4, "m": 1}}, extra=late)
    assert told(table) == [
        (t(2), "inserted", "a"), (t(3), "unknown", ""), (t(4), "updated", "a"), (t(4), "now", "a"),
    ]  # fmt: skip
    found = pyhudi.why(str(table.root), "k")[1]
    assert (found.operation, found.file) == ("upsert", "")
    assert "7 in all, and were left out" in found.reason
    assert [event for _, event, _ in told(table, "x")] == ["now"]


@pytest.mark.parametrize("name", ["h120_v9-cow_clean_archive", "h0150_v6-cow_clean_archive"])
def test_archived_commits_have_their_operation(name: str, tmp_path: Path) -> None:
    assert golden(name, tmp_path, "1") == [("insert", "inserted"), ("", "now")]


def test_a_value_that_a_log_file_brought_names_that_file(tmp_path: Path) -> None:
    root = str(golden_tables.BY_NAME["h120_v9-mor_log"].unzip(tmp_path))
    found = pyhudi.why(root, "1")
    assert [each.what.value for each in found] == ["inserted", "written", "now"]
    assert ".log.1_" in found[1].file


@pytest.mark.parametrize(
    "golden_table",
    [each for each in golden_tables.COPY_ON_WRITE if each.expected()],
    ids=lambda each: each.name,
)
def test_each_row_of_each_table_is_found_where_it_is(
    golden_table: golden_tables.GoldenTable, tmp_path: Path
) -> None:
    root = str(golden_table.unzip(tmp_path))
    for row in (golden_table.expected() or ())[:3]:
        last = pyhudi.why(root, row["_hoodie_record_key"])[-1]
        assert last.what is What.NOW
        assert last.file.rsplit("/", 1)[-1] == row["_hoodie_file_name"].rsplit("/", 1)[-1]
        assert row["_hoodie_commit_time"] in last.reason
