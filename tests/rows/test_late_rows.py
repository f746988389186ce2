"""Rows that come after a delete which always wins: a log has them or refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import WriteFailed
from pyhudi.rows.task import error_from_text, text_with_facts
from tests.rows.test_log_writer import (
    KEYS,
    Event,
    base_of,
    beside,
    log,
    merged,
    table_of,
    write_of,
)
from tests.rows.workers import T1, T2, T3, T4, Stat, insert, rows_of

ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.text("xyz", max_size=2), st.integers(1, 9)),
    min_size=1, max_size=6, unique_by=lambda row: row[0],
)  # fmt: skip


def add(root: Path, base: Stat, logs: list[Stat], layout: int, events: list[Event]) -> Stat:
    """Write ``events`` beside ``logs``, as a writer that knows of their deletes."""
    version = 1 if layout > 1 else 9
    return beside(write_of(root, T4, layout=layout), base, logs, table_of(events), version)


@pytest.mark.parametrize("layout", [1, 2])
@given(first=ROWS, gone=st.sets(st.sampled_from(KEYS)), second=ROWS)
@settings(deadline=None, max_examples=40)
def test_a_row_after_a_delete_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, layout: int, first: Any, gone: set[str], second: Any
) -> None:
    """The base rows have the ordering value 5."""
    root = tmp_path_factory.mktemp("t")
    base = base_of(root, layout)
    told = {key: (key, f"{key}0", 5) for key in KEYS}
    logs = [log(write_of(root, T2, layout=layout), base, [(*row, False) for row in first])]
    for row in first:
        if row[2] >= told[row[0]][2]:
            told[row[0]] = row
    if gone:
        deletes = [(key, "", 0, True) for key in sorted(gone)]
        always = write_of(root, T3, layout=layout, always_delete=True)
        logs.append(log(always, base, deletes, 1 if layout > 1 else 2))
        for key in gone:
            del told[key]
    late = {row[0] for row in second if row[0] in gone and row[2] < 5}
    events = [(*row, False) for row in second]
    if late:
        with pytest.raises(WriteFailed, match="the deleted row would come back") as caught:
            add(root, base, logs, layout, events)
        assert caught.value.late
        assert any(repr(key) in str(caught.value) for key in late)
        assert caught.value.path == base["path"]
        events = [event for event in events if event[0] not in late]
    for row in events:
        if row[0] not in told or row[2] >= told[row[0]][2]:
            told[row[0]] = row[:3]
    if events:
        logs.append(add(root, base, logs if gone else [], layout, events))
    assert merged(write_of(root, T4, layout=layout), root, base, logs) == sorted(told.values())


def test_a_failure_tells_its_reason_however_long_the_key_is(tmp_path: Path) -> None:
    """The text of a worker has few facts, and by these the driver knows that it may go on."""
    key = "k" * 3_000
    rows = rows_of([{"id": key, "name": "a", "price": 1.0, "ts": 5}])
    base = insert(write_of(tmp_path, T1, layout=2), rows, "p")
    logs = [log(write_of(tmp_path, T2, always_delete=True), base, [(key, "", 0, True)])]
    with pytest.raises(WriteFailed) as caught:
        add(tmp_path, base, logs, 2, [(key, "late", 3, False)])
    told = error_from_text(text_with_facts(caught.value))
    assert isinstance(told, WriteFailed)
    assert told.late


def test_a_late_delete_stays_a_delete(tmp_path: Path) -> None:
    base = base_of(tmp_path, 2)
    write = write_of(tmp_path, T2, always_delete=True)
    logs = [log(write, base, [("a", "", 0, True)])]
    logs.append(add(tmp_path, base, logs, 2, [("a", "", 3, True), ("b", "b1", 7, False)]))
    assert merged(write, tmp_path, base, logs)[0] == ("b", "b1", 7)


def test_a_delete_with_an_ordering_value_makes_no_row_late(tmp_path: Path) -> None:
    """Such a delete stays in the logs, and an older row loses against it."""
    base = base_of(tmp_path, 2)
    logs = [log(write_of(tmp_path, T2), base, [("a", "", 8, True)])]
    logs.append(add(tmp_path, base, logs, 2, [("a", "a1", 3, False)]))
    assert [key for key, *_ in merged(write_of(tmp_path, T2), tmp_path, base, logs)] == list(
        "bcdef"
    )
