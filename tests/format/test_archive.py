from __future__ import annotations

import pytest

from pyhudi.errors import TableCorrupt
from pyhudi.format.archive import (
    ArchivedInstant,
    archive_log_number,
    history_file_range,
    parse_history_version,
    parse_manifest,
    read_archive_log,
    read_history_file,
)
from pyhudi.format.instants import Action, State, parse_instant
from pyhudi.format.plans import parse_cleaner_plan
from tests import golden_tables

ARCHIVED = [table for table in golden_tables.ALL if table.table.endswith("clean_archive")]


def archived(name: str) -> list[ArchivedInstant]:
    table = golden_tables.BY_NAME[name]
    files = table.files()
    if table.version == 6:
        logs = {
            number: path
            for path in files
            if (number := archive_log_number(path.rpartition("/")[2])) is not None
        }
        return [e for n in sorted(logs) for e in read_archive_log(files[logs[n]], logs[n])]
    history = ".hoodie/timeline/history"
    manifest = parse_history_version(files[f"{history}/_version_"], "_version_")
    names = parse_manifest(files[f"{history}/{manifest}"], manifest)
    return [e for name in names for e in read_history_file(files[f"{history}/{name}"], name)]


@pytest.mark.parametrize("name", [table.name for table in ARCHIVED])
def test_archived_and_active_timeline_are_one_history(name: str) -> None:
    table = golden_tables.BY_NAME[name]
    folder, layout = (".hoodie", 1) if table.version == 6 else (".hoodie/timeline", 2)
    active = {
        instant.time
        for path in table.files()
        if path.rpartition("/")[0] == folder
        and (instant := parse_instant(path.rpartition("/")[2], layout))
        and instant.state is State.COMPLETED
        and instant.action is not Action.CLEAN
    }
    completed = [e for e in archived(name) if e.instant.state is State.COMPLETED]
    commits = [e for e in completed if e.instant.action is not Action.CLEAN]

    times = [e.instant.time for e in commits]
    assert times == sorted(set(times))
    assert max(times) < min(active)
    assert all(e.commit().stats and "schema" in e.commit().extra for e in commits)
    assert all((e.instant.completion_time is not None) == (layout == 2) for e in commits)
    # Each row that the archive's first commit wrote new is counted.
    assert sum(stat.num_inserts for stat in commits[0].commit().stats) == 4


def test_layout_1_keeps_three_states_and_layout_2_the_plan() -> None:
    first = archived("h0150_v6-cow_clean_archive")[:3]
    assert [e.instant.state for e in first] == list(State)
    assert [bool(e.contents) for e in first] == [False, False, True]

    clean = next(
        e for e in archived("h120_v9-cow_clean_archive") if e.instant.action is Action.CLEAN
    )
    assert clean.plan is not None
    assert parse_cleaner_plan(clean.plan, clean.path).policy == "KEEP_LATEST_COMMITS"
    assert clean.commit().stats == ()


def test_file_names_tell_order_and_range() -> None:
    assert archive_log_number(".commits_.archive.12_1-0-1") == 12
    assert archive_log_number(".commits_.archive.12_1-0-1.crc") is None
    assert history_file_range("2026_2027_0.parquet") == ("2026", "2027")
    assert history_file_range("manifest_1") is None


def test_corrupt_archives_name_their_file() -> None:
    for read in (
        lambda: parse_history_version(b"one", "f"),
        lambda: parse_manifest(b"{}", "f"),
        lambda: parse_manifest(b'{"files": [{"fileName": "../x.parquet"}]}', "f"),
        lambda: read_history_file(b"PAR1", "f"),
    ):
        with pytest.raises(TableCorrupt) as error:
            read()
        assert error.value.facts["path"] == "f"


def test_an_archive_log_that_is_no_archive_names_its_file() -> None:
    data = next(
        data
        for path, data in golden_tables.BY_NAME["h0150_v6-mor_log"].files().items()
        if ".log." in path
    )
    with pytest.raises(TableCorrupt, match="HoodieArchivedMetaEntry"):
        read_archive_log(data, "f")
    assert read_archive_log(b"", "f") == []
