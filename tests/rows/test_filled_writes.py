"""Writes to tables of partial updates: a row takes what it lacks from the row that it beats.

The oracle merges row by row, as the rule says (spec/merging.md R6).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import UnsupportedTable, WriteFailed
from pyhudi.rows.spec import (
    COMMIT_TIME,
    DELETE,
    EVENT_TIME,
    HOME,
    REFUSE,
    REWRITE,
    Filled,
    WriteSpec,
)
from tests.rows.test_log_writer import AVRO, beside, merged
from tests.rows.workers import (
    T1,
    T2,
    T3,
    T4,
    Stat,
    content,
    insert,
    rows_of,
    spec,
    upsert,
)

#: key, ordering value, name, price; a delete has neither name nor price
Row = tuple[str, int, str | None, float | None, bool]
KEYS = "abc"
ROW = st.tuples(
    st.sampled_from(KEYS),
    st.integers(1, 4),
    st.sampled_from([None, "?", "x", "y"]),
    st.sampled_from([None, 1.0, 2.0]),
    st.sampled_from([False, False, True]),
)
BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=1, max_size=3)
FILLED = st.sampled_from([Filled(), Filled("?")])


# ---- the oracle


def over(high: Row, low: Row, filled: Filled) -> Row:
    """The row that wins, with the values that it lacks from the one that loses."""
    if high[4] or low[4]:
        return high
    none = [filled.marker, None if filled.marker is None else object()]
    name, price = (
        b if a == unset else a for a, b, unset in zip(high[2:4], low[2:4], none, strict=True)
    )
    return high[0], high[1], name, price, False


def combined(batch: list[Row], ordered: bool, filled: Filled) -> dict[str, Row]:
    """The rows of a batch, one a key, laid over each other in their order."""
    ranked = sorted(batch, key=lambda row: row[1]) if ordered else batch
    found: dict[str, Row] = {}
    for row in ranked:
        found[row[0]] = over(row, found[row[0]], filled) if row[0] in found else row
    return found


def written(told: dict[str, Row], batch: list[Row], ordered: bool, filled: Filled) -> set[str]:
    """Merge a batch into the rows ``told``; the keys that are written."""
    changed = set()
    for key, row in combined(batch, ordered, filled).items():
        old = told.get(key)
        wins = old is None or not ordered or row[1] >= old[1]
        if old is None:
            now = row
        else:
            now = over(row, old, filled) if wins else over(old, row, filled)
        if wins or now != old:
            changed.add(key)
        if now[4]:
            told.pop(key, None)
        else:
            told[key] = now
    return changed


def table_of(batch: list[Row]) -> pa.Table:
    rows = [
        {"id": key, "ts": ts, "name": name, "price": price} for key, ts, name, price, _ in batch
    ]
    return rows_of(rows).append_column(DELETE, pa.array([row[4] for row in batch], pa.bool_()))


def shown(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted((row["id"], row["ts"], row["name"], row["price"]) for row in rows)


def of_model(told: dict[str, Row]) -> list[Any]:
    return sorted(row[:4] for row in told.values())


def write_of(root: Path, instant: str, filled: Filled, ordered: bool, **more: Any) -> WriteSpec:
    mode = EVENT_TIME if ordered else COMMIT_TIME
    return spec(root, instant, filled=filled, merge_mode=mode, avro_schema=AVRO, **more)


# ---- copy-on-write


@pytest.mark.parametrize("routed", [False, True])
@given(batches=BATCHES, ordered=st.booleans(), filled=FILLED)
@settings(deadline=None, max_examples=120)
def test_an_upsert_takes_values_from_the_rows_that_it_beats(
    tmp_path_factory: pytest.TempPathFactory,
    routed: bool,
    batches: list[list[Row]],
    ordered: bool,
    filled: Filled,
) -> None:
    root = tmp_path_factory.mktemp("t")
    told: dict[str, Row] = {key: (key, 2, f"{key}0", 0.5, False) for key in KEYS[:2]}
    stat = insert(write_of(root, T1, filled, ordered), table_of(list(told.values())))
    for instant, batch in zip((T2, T3, T4), batches, strict=False):
        changed = written(told, batch, ordered, filled)
        bound = 1 if routed else 1 << 20
        write = write_of(root, instant, filled, ordered, memory_bytes=bound)
        stat = upsert(write, stat, table_of(batch))
        rows = content(root, stat)
        assert shown(rows) == of_model(told)
        new = {row["id"] for row in rows if row["_hoodie_commit_time"] == instant}
        assert new == changed & set(told)


def test_the_rows_of_a_statement_keep_their_own_values(tmp_path: Path) -> None:
    write = write_of(tmp_path, T1, Filled(), False)
    stat = insert(write, table_of([("a", 1, "x", 1.0, False)]))
    exact = write_of(tmp_path, T2, Filled(), False, exact=True)
    stat = upsert(exact, stat, table_of([("a", 2, None, 2.0, False)]))
    assert shown(content(tmp_path, stat)) == [("a", 2, None, 2.0)]


def test_a_marker_counts_in_bytes_where_a_write_says_so(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("w", pa.binary()), ("n", pa.int64())])
    old = rows_of([{"id": "a", "w": b"w", "n": 1}], schema)
    new = rows_of([{"id": "a", "w": b"?", "n": None}], schema)
    for in_bytes, left in ((True, b"w"), (False, b"?")):
        root = tmp_path / str(in_bytes)
        more = {"filled": Filled("?", in_bytes), "merge_mode": COMMIT_TIME}
        stat = insert(spec(root, T1, schema, **more), old)
        (row,) = content(root, upsert(spec(root, T2, schema, **more), stat, new))
        assert (row["w"], row["n"]) == (left, None)


# ---- logs


def base_of(root: Path) -> Stat:
    return insert(write_of(root, T1, Filled(), True), table_of([("a", 2, "a0", 0.5, False)]), "p")


def log(write: WriteSpec, base: Stat, logs: list[Stat], *batch: Row, copies: str = REFUSE) -> Stat:
    """Add a batch beside the file of ``base`` and its ``logs``."""
    return beside(write, base, logs, table_of(list(batch)), copies=copies)


def read(write: WriteSpec, base: Stat, logs: list[Stat]) -> list[Any]:
    """The names and ordering values that a reader of the slice sees."""
    return merged(write, Path(write.root), base, logs)


def test_a_log_has_rows_as_they_come_and_readers_fill_them(tmp_path: Path) -> None:
    base, write = base_of(tmp_path), write_of(tmp_path, T2, Filled(), True)
    logs = [log(write, base, [], ("a", 3, None, 1.0, False), ("b", 1, "b1", None, False))]
    assert read(write, base, logs) == [("a", "a0", 3), ("b", "b1", 1)]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("always", [True, False])
def test_a_row_does_not_take_values_from_a_deleted_one(
    tmp_path: Path, ordered: bool, always: bool
) -> None:
    base = base_of(tmp_path)
    delete = write_of(tmp_path, T2, Filled(), ordered, always_delete=always)
    logs = [log(delete, base, [], ("a", 3, None, None, True))]
    write = write_of(tmp_path, T3, Filled(), ordered)
    with pytest.raises(WriteFailed, match="would have the value of the deleted row") as caught:
        log(write, base, logs, ("a", 4, None, 1.0, False))
    assert caught.value.late
    logs.append(log(write, base, logs, ("a", 4, "new", 1.0, False), ("b", 1, None, None, False)))
    assert read(write, base, logs) == [("a", "new", 4), ("b", None, 1)]


def test_a_late_delete_is_no_row_that_lacks_values(tmp_path: Path) -> None:
    base, write = base_of(tmp_path), write_of(tmp_path, T3, Filled(), True)
    deleted = write_of(tmp_path, T2, Filled(), True)
    logs = [log(deleted, base, [], ("a", 3, None, None, True))]
    logs.append(log(write, base, logs, ("a", 4, None, None, True)))
    assert read(write, base, logs) == []


def test_a_statement_that_takes_a_value_away_writes_the_file_anew(tmp_path: Path) -> None:
    base, write = base_of(tmp_path), write_of(tmp_path, T2, Filled(), True, exact=True)
    stat = log(write, base, [], ("a", 3, None, 1.0, False), copies=REWRITE)
    assert shown(content(tmp_path, stat)) == [("a", 3, None, 1.0)]
    logs = [log(write, base, [], ("a", 3, "b", 1.0, False), copies=REWRITE)]
    assert read(write, base, logs) == [("a", "b", 3)]
    with pytest.raises(UnsupportedTable, match="would show the old one") as caught:
        log(write, base, logs, ("a", 4, None, 1.0, False))
    assert caught.value.copied


@pytest.mark.parametrize("price", [1.0, None])
def test_a_statement_takes_no_value_from_a_row_of_logs_alone(
    tmp_path: Path, price: float | None
) -> None:
    """In a bucket: the base file lacks the key, so only the statement knows that the row is old."""
    base = base_of(tmp_path)
    logs = [log(write_of(tmp_path, T2, Filled(), True), base, [], ("b", 1, "b1", 1.0, False))]
    write = write_of(tmp_path, T3, Filled(), True, exact=True, keys_known=False)
    rows = table_of([("b", 2, "b2", price, False), ("c", 1, None, None, False)])
    rows = rows.append_column(HOME, pa.array([base["file_id"], None]))
    if price is None:
        with pytest.raises(UnsupportedTable, match="'b' has no value in a column") as caught:
            beside(write, base, logs, rows)
        assert caught.value.copied
    else:
        logs.append(beside(write, base, logs, rows))
        assert read(write, base, logs) == [("a", "a0", 2), ("b", "b2", 2), ("c", None, 1)]
