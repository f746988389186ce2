"""Incremental reads, change data and streams of tables of partial updates (spec/merging.md R6).

A commit has changed a row whose values differ after it, also one that only got a value from a row
that lost against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import pyhudi
from tests.spark.tables import HudiTable, Lake
from tests.spark.test_change_data import FORM
from tests.spark.test_incremental import changed
from tests.spark.test_partial_updates import BUCKETS, LATEST, MOR, PARTIAL, row, table_of
from tests.spark.test_stream_source import CDC, Following

pytestmark = [pytest.mark.spark, pytest.mark.compiled]

Values = tuple[Any, ...]


def values(r: Any) -> Values | None:
    """a, n, the part of s, and the ordering value."""
    return None if r is None else (r["a"], r["n"], r["s"] and r["s"]["x"], r["ts"])


def snapshot(table: HudiTable) -> dict[int, Values | None]:
    return {r["id"]: values(r) for r in table.df().collect()}


def times(table: HudiTable) -> list[str]:
    return [e.instant for e in pyhudi.history(table.path) if e.operation == "upsert"]


def range_of(table: HudiTable, begin: str, **more: str) -> Any:
    options = {**changed(begin), **more}
    return table.spark.read.format("pyhudi").options(**options).load(table.path).collect()


def incremental(table: HudiTable, begin: str) -> dict[int, Values | None]:
    return {r["id"]: values(r) for r in range_of(table, begin)}


def told(rows: Iterable[Any]) -> dict[int, tuple[str, Values | None, Values | None]]:
    found = {}
    for r in rows:
        held = r["after"] or r["before"]
        assert held["id"] not in found
        found[held["id"]] = (r["op"], values(r["before"]), values(r["after"]))
    return found


@pytest.mark.parametrize("kind", [{}, MOR, {**MOR, **BUCKETS}], ids=["cow", "mor", "bucket"])
def test_a_late_row_changes_the_row_that_takes_its_values(
    lake: Lake, kind: dict[str, str], tmp_path: Path
) -> None:
    """Key 0 gets a value, 1 none; 2 wins, and 3 gets a value below a row of a log."""
    table = table_of(lake, **PARTIAL, **kind)
    stream = Following(table, tmp_path / "c", {**CDC, FORM: "cdc_columns"})
    rows = Following(table, tmp_path / "r")
    table.write([row(k, None, 1, 10) for k in range(4)], "upsert")
    table.write([row(3, None, 2, 20)], "upsert")
    for each in (stream, rows):
        each.run()
    table.write(
        [row(0, "late", 2, 5), row(1, None, 2, 5), row(2, None, 3, 10), row(3, "late", 9, 15)],
        "upsert",
    )
    after = {0: ("late", 1, None, 10), 1: (None, 1, None, 10), 2: (None, 3, None, 10),
             3: ("late", 2, None, 20)}  # fmt: skip
    assert snapshot(table) == after
    changed_keys = {0, 2, 3}
    begin = times(table)[-2]
    assert incremental(table, begin) == {key: after[key] for key in changed_keys}
    before = {0: (None, 1, None, 10), 2: (None, 1, None, 10), 3: (None, 2, None, 20)}
    expected = {key: ("u", before[key], after[key]) for key in changed_keys}
    assert told(range_of(table, begin, **{FORM: "cdc_columns"})) == expected
    (batch,) = stream.run()[-1:]
    assert {(r[0], values(r[2]), values(r[3])) for r in batch} == set(expected.values())
    (batch,) = rows.run()[-1:]
    assert {r[0] for r in batch} == changed_keys
    if kind:
        pyhudi.compact(table.path)
        assert snapshot(table) == after
        assert incremental(table, begin) == {key: after[key] for key in changed_keys}
        assert told(range_of(table, begin, **{FORM: "cdc_columns"})) == expected


@pytest.mark.parametrize("mode", [PARTIAL, LATEST], ids=["event time", "commit time"])
def test_each_commit_of_a_random_sequence_tells_what_it_changed(
    lake: Lake, mode: dict[str, str]
) -> None:
    table = table_of(lake, **mode, **MOR)
    draw, before = Random(7), dict[int, Values | None]()
    begin = "earliest"
    for number in range(8):
        keys = draw.sample(range(12), 5) if number else range(8)
        rows = [
            row(k, draw.choice([None, f"a{number}"]), draw.choice([None, number]),
                draw.randint(1, 9), x=draw.choice([None, number]))
            for k in keys
        ]  # fmt: skip
        table.write(rows, "upsert")
        if number == 4:
            pyhudi.compact(table.path)
        after = snapshot(table)
        differ = {k for k in after if before.get(k) != after[k]}
        found = incremental(table, begin)
        assert found == {k: after[k] for k in found}
        # A row may take the place of an equal one.
        assert differ <= found.keys() <= differ | set(keys)
        changes = told(range_of(table, begin, **{FORM: "cdc_columns"}))
        assert changes.keys() == found.keys()
        for key, (op, old, new) in changes.items():
            assert (op, old, new) == ("u" if key in before else "i", before.get(key), after[key])
        before, begin = after, times(table)[-1]
