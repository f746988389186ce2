"""Rows that come after a delete which always wins: a log has them or refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import WriteFailed
from pyhudi.rows.groups import write_groups
from pyhudi.rows.log_spec import LoggedSlices, LogSlice
from pyhudi.rows.spec import GROUP, GroupPlan
from pyhudi.rows.task import error_from_text, text_with_facts
from tests.rows.test_log_writer import (
    KEYS,
    Event,
    base_of,
    beside,
    log,
    merged,
    parts,
    table_of,
    write_of,
)
from tests.rows.workers import T1, T2, T3, T4, Stat, insert, rows_of, run, with_columns

ROWS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.text("xyz", max_size=2), st.integers(1, 9)),
    min_size=1, max_size=6, unique_by=lambda row: row[0],
)  # fmt: skip


def add(
    root: Path,
    base: Stat,
    logs: list[Stat],
    layout: int,
    events: list[Event],
    planned: Sequence[Stat] = (),
) -> Stat:
    """Write ``events`` beside ``logs``, as a writer that knows of their deletes."""
    version = 1 if layout > 1 else 9
    write = write_of(root, T4, layout=layout)
    return beside(write, base, logs, table_of(events), version, planned=planned)


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


def compacted(root: Path, layout: int, rows: list[Any]) -> Stat:
    """A base file of T3 with these rows."""
    found = [{"id": key, "name": name, "price": 1.0, "ts": ts} for key, name, ts in rows]
    return insert(write_of(root, T3, layout=layout), rows_of(found), "p")


@pytest.mark.parametrize("layout", [1, 2])
@given(
    first=ROWS,
    new=st.integers(1, 9),
    gone=st.sets(st.sampled_from((*KEYS, "new")), min_size=1),
    second=ROWS,
    again=st.integers(1, 9),
    in_plan=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_pending_compaction_changes_no_row_when_it_ends(
    tmp_path_factory: pytest.TempPathFactory,
    layout: int,
    first: Any,
    new: int,
    gone: set[str],
    second: Any,
    again: int,
    in_plan: bool,
) -> None:
    """The deletes come after the plan, or are in it; no base file has the key 'new'."""
    root = tmp_path_factory.mktemp("t")
    base, write = base_of(root, layout), write_of(root, T4, layout=layout)
    rows = [(*row, False) for row in (*first, ("new", "n", new))]
    logs = [log(write_of(root, T2, layout=layout), base, rows)]
    held = merged(write, root, base, logs)
    always = write_of(root, T2 if in_plan else T3, layout=layout, always_delete=True)
    deletes = [(key, "", 0, True) for key in sorted(gone)]
    logs.append(log(always, base, deletes, 2))
    planned = logs if in_plan else logs[:1]
    then = {key: ts for key, _, ts in ([] if in_plan else held)}
    now = dict.fromkeys(KEYS, 5)
    events = [(*row, False) for row in (*second, ("new", "again", again))]
    late = {
        key
        for key, _, ts, _ in events
        if key in gone and ts < max(then.get(key, 0), now.get(key, 0))
    }
    if late:
        with pytest.raises(WriteFailed, match="the deleted row would come back") as caught:
            add(root, base, logs, layout, events, planned)
        assert caught.value.late
        events = [event for event in events if event[0] not in late]
    if not events:
        return
    logs.append(add(root, base, logs, layout, events, planned))
    left = merged(write, root, base, planned)
    new_base = compacted(root, layout, left)
    after = merged(write, root, new_base, [each for each in logs if each not in planned], T3)
    told = {row[0]: row for row in held if row[0] not in gone}
    for key, name, ts, _ in events:
        if key not in told or ts >= told[key][2]:
            told[key] = (key, name, ts)
    assert merged(write, root, base, logs) == after == sorted(told.values())


@pytest.mark.parametrize("layout", [1, 2])
def test_a_group_of_logs_that_gets_a_base_file_takes_no_row_of_a_deleted_one(
    tmp_path: Path, layout: int
) -> None:
    def added(instant: str, events: list[Event], logs: list[Stat], **more: Any) -> Stat:
        plan = GroupPlan(0, "f-0", "p", None, T2, log_version=len(logs) + 1)
        known = LoggedSlices(order, {0: LogSlice(None, "", paths(logs))}, soon) if logs else None
        work = write_groups(
            write_of(tmp_path, instant, layout=layout, **more), {0: plan}, None, known
        )
        (stat,) = run(work, with_columns(table_of(events), **{GROUP: 0}))
        return stat

    def paths(logs: list[Stat]) -> tuple[str, ...]:
        return tuple(each["path"] for each in logs)

    order, soon = parts(write_of(tmp_path, T4), tmp_path, [])[0], {}
    logs = [added(T2, [("a", "a1", 9, False)], [])]
    logs.append(added(T3, [("a", "", 0, True)], logs, always_delete=True))
    added(T4, [("a", "a2", 3, False)], logs)
    soon[0] = (T3, frozenset(paths(logs[:1])))
    added(T4, [("a", "a2", 9, False), ("b", "b1", 1, False)], logs)
    with pytest.raises(
        WriteFailed, match=r"'a' was deleted in a log of the file group f-0"
    ) as caught:
        added(T4, [("a", "a2", 8, False)], logs)
    assert caught.value.late


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
