from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path

import pytest

import pyhudi
from pyhudi.errors import ConfigError, TableCorrupt, TableNotFound
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.timeline.history import HistoryEntry, history
from tests.golden_tables import ALL, BY_NAME, GoldenTable


def test_a_commit_is_told_by_its_statistics(tmp_path: Path) -> None:
    first, second = history(str(BY_NAME["h120_v9-cow_restore"].unzip(tmp_path)))[:2]
    assert (first.operation, first.rows_inserted, first.rows_updated) == ("insert", 4, 0)
    assert (second.operation, second.rows_inserted, second.rows_updated) == ("upsert", 1, 1)
    assert second.rows_written == 5
    assert second.files == 1
    assert second.bytes_written > 0
    assert second.completed_at is not None
    assert second.completed_at > second.instant


def test_times_are_moments_too(tmp_path: Path) -> None:
    for entry in history(str(BY_NAME["h120_v9-cow_restore"].unzip(tmp_path))):
        assert entry.time.tzinfo is not None
        assert entry.time.strftime("%Y%m%d%H%M%S") == entry.instant[:14]
        assert entry.completion_time is not None
        assert entry.completion_time > entry.time
    pending = HistoryEntry(entry.instant, Action.COMMIT, State.INFLIGHT)
    assert pending.completion_time is None
    assert pending.time == datetime.strptime(f"{entry.instant}+0000", "%Y%m%d%H%M%S%f%z")


def test_moments_are_no_columns_and_both_histories_are_one_kind_of_listing(tmp_path: Path) -> None:
    root = str(BY_NAME["h120_v9-cow_restore"].unzip(tmp_path))
    found, same = pyhudi.history(root), pyhudi.Table(root).history()
    assert type(found) is type(same)
    assert found == same
    assert found.columns == same.columns
    assert not {"utc", "time", "completion_time"} & set(found.columns)


def test_the_last_of_the_commits_is_a_commit_even_after_a_failed_write(tmp_path: Path) -> None:
    table = pyhudi.Table(str(BY_NAME["h120_v9-cow_failed.midfail"].unzip(tmp_path)))
    assert table.history()[-1].state is not State.COMPLETED
    last = table.commits()[-1]
    assert table.commit(last.instant).entry == last == table.commit().entry


def test_other_actions_are_told_without_numbers(tmp_path: Path) -> None:
    entries = history(str(BY_NAME["h120_v9-cow_restore"].unzip(tmp_path)))
    others = [entry for entry in entries if not entry.is_commit]
    assert {entry.action for entry in others} == {Action.SAVEPOINT, Action.RESTORE}
    assert {(entry.operation, entry.files) for entry in others} == {("", 0)}


def test_a_replace_commit_tells_how_many_groups_it_took_away(tmp_path: Path) -> None:
    entries = history(str(BY_NAME["h120_v9-cow_cluster"].unzip(tmp_path)))
    (clustering,) = [entry for entry in entries if entry.action is Action.REPLACECOMMIT]
    assert clustering.operation == "cluster"
    assert clustering.replaced_groups == 5


def test_a_pending_instant_is_told_and_has_no_end(tmp_path: Path) -> None:
    entries = history(str(BY_NAME["h120_v9-cow_failed.midfail"].unzip(tmp_path)))
    pending = [entry for entry in entries if entry.state is not State.COMPLETED]
    assert pending
    assert all(entry.completed_at is None for entry in pending)


def test_layout_1_ends_when_the_file_was_written(tmp_path: Path) -> None:
    for entry in history(str(BY_NAME["h0150_v6-cow_np"].unzip(tmp_path))):
        assert entry.completed_at is not None
        assert len(entry.completed_at) == 17


@pytest.mark.parametrize(
    "name", ["h0150_v6-cow_clean_archive", "h120_v6-cow_clean_archive", "h120_v9-cow_clean_archive"]
)
def test_the_archive_adds_what_the_active_timeline_lost(name: str, tmp_path: Path) -> None:
    root = str(BY_NAME[name].unzip(tmp_path))
    active, whole = history(root), history(root, archived=True)
    assert [entry for entry in whole if not entry.archived] == active
    assert whole[0].archived
    assert (whole[0].operation, whole[0].rows_inserted) == ("insert", 4)
    assert whole == sorted(whole, key=lambda entry: entry.instant)
    assert len({(entry.instant, entry.action) for entry in whole}) == len(whole)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_golden_table_tells_its_history(table: GoldenTable, tmp_path: Path) -> None:
    entries = history(str(table.unzip(tmp_path)), archived=True)
    assert sum(entry.rows_written for entry in entries) > 0


def test_an_archive_whose_file_is_gone_is_corrupt(tmp_path: Path) -> None:
    root = BY_NAME["h120_v9-cow_clean_archive"].unzip(tmp_path)
    lost = sorted((root / ".hoodie/timeline/history").glob("*.parquet"))[0]
    lost.unlink()
    with pytest.raises(TableCorrupt, match=lost.name):
        history(str(root), archived=True)


def test_a_path_without_a_table_or_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        history(str(tmp_path))
    with pytest.raises(ConfigError, match="not absolute"):
        history("trips")


def test_entries_are_values_that_read_well() -> None:
    entry = HistoryEntry(
        InstantTime("20250131120000123"), Action.COMMIT, State.COMPLETED, operation="upsert"
    )
    assert repr(entry) == (
        "HistoryEntry('20250131120000123', commit completed, upsert, "
        "0 files, +0 ~0 -0 rows, 0 bytes)"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        entry.files = 1  # type: ignore[misc]


def test_history_is_part_of_the_public_surface() -> None:
    assert pyhudi.history is history
