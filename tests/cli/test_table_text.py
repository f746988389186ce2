from __future__ import annotations

from dataclasses import replace

from pyhudi.cli.table_text import history_text
from pyhudi.format.instants import Action, InstantTime, State
from pyhudi.text_table import size_text, table_text, time_text
from pyhudi.timeline.history import HistoryEntry

COMMIT = HistoryEntry(
    instant=InstantTime("20250131120000123"),
    action=Action.COMMIT,
    state=State.COMPLETED,
    completed_at=InstantTime("20250131120001456"),
    operation="upsert",
    files=2,
    rows_written=12_000,
    rows_updated=5,
    bytes_written=1_234_567,
)


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() -> None:
    text = table_text(("zone", "trips"), [("Old Harbour", 7), ("Mill", 12_345)])
    assert text.splitlines() == [
        "zone          trips",
        "-----------  ------",
        "Old Harbour       7",
        "Mill         12,345",
    ]


def test_a_table_without_rows_is_its_head() -> None:
    assert table_text(("a", "bc"), []).splitlines() == ["a  bc", "-  --"]


def test_sizes_are_told_in_the_unit_that_fits() -> None:
    sizes = (0, 999, 1000, 435_400, 1_300_000, 2 * 10**12, 5 * 10**15)
    texts = ["0 B", "999 B", "1.0 kB", "435.4 kB", "1.3 MB", "2.0 TB", "5000.0 TB"]
    assert [size_text(size) for size in sizes] == texts


def test_times_are_told_as_dates() -> None:
    assert time_text(InstantTime("20250131120001456")) == "2025-01-31 12:00:01"
    assert time_text(None) == "-"


def test_a_commit_is_told_with_its_numbers() -> None:
    line = history_text([COMMIT]).splitlines()[2]
    assert " ".join(line.split()) == (
        "20250131120000123 commit completed 2025-01-31 12:00:01 upsert 2 12,000 0 5 0 1.2 MB"
    )


def test_a_pending_commit_has_no_numbers_yet() -> None:
    pending = replace(COMMIT, state=State.INFLIGHT, completed_at=None, operation="", files=0)
    line = history_text([COMMIT, pending]).splitlines()[3]
    assert " ".join(line.split()) == "20250131120000123 commit inflight - - - - - - - -"


def test_an_archived_instant_says_so() -> None:
    assert " archived " in history_text([replace(COMMIT, archived=True)])
