"""Tables of Apache Hudi's payload classes for partial updates and for change data: null, or a value
that the source did not have, takes what the row below has; a column marks deletes.

After each write of Apache Hudi pyhudi reads what Hudi reads; so it does by filters, of earlier
times, of some columns, and after a compaction of either side. If both write in turn, the rows are
those of a table that Hudi writes alone. hudi-rs reads the same of null, and takes a value that is
marked as unavailable for any other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from integration.peers.hudi_rs import HudiRs
from integration.test_change_data import HUDI, serve
from integration.test_incremental import DS, READ, options
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

MODEL = "org.apache.hudi.common.model."
NONE = "__debezium_unavailable_value"
Row = tuple[Any, ...]


class Kind:
    """A payload class: the names of its ordering and delete columns, what stands for none, and
    what the delete column has in a delete, if anything."""

    def __init__(
        self, payload: str, lsn: str, op: str, none: str | None, deletes: str | None = None
    ) -> None:
        self.payload, self.lsn, self.none, self.deletes = payload, lsn, none, deletes
        self.names = ("id", "a", "b", "n", lsn, op, "w", "_event_bin_file", "p")


DEFAULTS = Kind("OverwriteNonDefaultsWithLatestAvroPayload", "ts", "op", None)
PARTIAL = Kind("PartialUpdateAvroPayload", "ts", "op", None)
POSTGRES = Kind(
    "debezium.PostgresDebeziumAvroPayload", "_event_lsn", "_change_operation_type", NONE, "d"
)
MYSQL = Kind("debezium.MySqlDebeziumAvroPayload", "_event_pos", "_change_operation_type", None, "d")
DMS = Kind("AWSDmsAvroPayload", "ts", "Op", None, "D")


class Fleet:
    """A table that Apache Hudi or pyhudi writes and all read; ``merges``: it is merge-on-read."""

    def __init__(
        self,
        peers: Callable[[str], SparkPeer],
        hudi_rs: HudiRs,
        path: Path,
        kind: Kind,
        merges: bool = True,
    ) -> None:
        self.hudi, self.pyhudi, self.path, self.kind = peers(HUDI), peers("pyhudi"), path, kind
        # hudi-rs takes a marked value for any other, and one ordering column at most.
        serves = kind is not MYSQL and (kind.none is None or not merges)
        self.hudi_rs = hudi_rs if serves else None
        self.given = options(9, "upsert") | {
            DS + "table.type": "MERGE_ON_READ" if merges else "COPY_ON_WRITE",
            DS + "payload.class": MODEL + kind.payload,
            DS + "precombine.field": kind.lsn,
            "hoodie.compact.inline": "false",
        }
        if kind is MYSQL:
            self.given[DS + "precombine.field"] = "_event_bin_file,_event_pos"
        self.states: dict[str, list[Row]] = {}

    def write(self, *rows: Row, by: SparkPeer | None = None) -> None:
        """Rows of id, a, b, n, the ordering value and the operation; b comes as bytes, too."""
        texts = pa.string()
        kinds = pa.int64(), texts, texts, pa.int64(), pa.int64(), texts, pa.binary()
        columns = zip(*((*row, row[2] and row[2].encode()) for row in rows), strict=True)
        made = [pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
        made += [pa.array([text] * len(rows)) for text in ("f", "x")]
        table = pa.table(made, list(self.kind.names))
        exists = (self.path / ".hoodie").exists()
        mode = "append" if exists else "overwrite"
        (by or self.hudi).write(self.path, table, self.given, mode)
        self.check()

    def check(self) -> list[Row]:
        """All read the same rows, pyhudi by filters as well.

        The commit of a row is to Apache Hudi that of the winner, also if a later one gave a value.
        """
        theirs = self.of(self.hudi.read(self.path).rows)
        if self.hudi_rs is not None:
            assert self.of(self.hudi_rs.read(self.path).rows) == theirs
        found = self.of(self.pyhudi.read(self.path).rows)
        assert without_times(found) == without_times(theirs)
        assert all(own[-1] >= other[-1] for own, other in zip(found, theirs, strict=True))
        every = f"select _hoodie_commit_time, * from pyhudi.`{self.path}`"
        for where, passes in (
            ("b = 'B1' or a is null", lambda row: row[2] == "B1" or row[1] is None),
            ("n > 2", lambda row: row[3] is not None and row[3] > 2),
            ("id in (1, 4)", lambda row: row[0] in (1, 4)),
        ):
            own = self.pyhudi.sql(f"{every} where {where}").rows
            assert self.of(own) == [row for row in found if passes(row)], where
        some = self.pyhudi.sql(f"select n, id from pyhudi.`{self.path}`").rows
        assert sorted(row["id"] for row in some) == sorted(row[0] for row in found)
        assert {row["id"]: row["n"] for row in some} == {row[0]: row[3] for row in found}
        table = open_table(LocalStorage(str(self.path)))
        self.states[table.timeline().commits[-1].time] = found
        return found

    def of(self, rows: Any) -> list[Row]:
        shown = (*self.kind.names, "_hoodie_commit_time")
        return sorted((tuple(row[name] for name in shown) for row in rows), key=str)

    def check_past(self) -> None:
        """pyhudi reads the states of the past, and of each range all rows that it changed."""
        self.states[""] = []
        bounds = [("20000101000000000", "")]
        for commit in open_table(LocalStorage(str(self.path))).timeline().commits:
            bounds.append((commit.completion_time or commit.time, commit.time))
        for at, (end, time) in enumerate(bounds[1:], 1):
            state = self.states[time]
            assert self.of(self.pyhudi.read(self.path, as_of=time).rows) == state, time
            for before in range(at):
                asked = {
                    "hoodie.datasource.query.type": "incremental",
                    READ + "begin.instanttime": bounds[before][0],
                    READ + "end.instanttime": end,
                }
                inside = {each for _, each in bounds[before + 1 : at + 1]}
                found = self.of(self.pyhudi.read(self.path, asked).rows)
                assert found == [row for row in state if row[-1] in inside], (before, at)
                then = without_times(self.states[bounds[before][1]])
                told = without_times(found)
                missed = [row for row in without_times(state) if row not in [*then, *told]]
                assert missed == [], (before, at)


@pytest.mark.parametrize(
    ("kind", "who"),
    [
        (PARTIAL, "pyhudi"),
        (POSTGRES, HUDI),
        pytest.param(DEFAULTS, "pyhudi", marks=pytest.mark.matrix),
    ],
    ids=lambda each: each.payload.split(".")[-1] if isinstance(each, Kind) else each,
)
def test_values_that_stand_for_none_come_from_the_row_below(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path, kind: Kind, who: str
) -> None:
    fleet, none = Fleet(peers, hudi_rs, tmp_path / "table", kind), kind.none
    fleet.write(
        *((i, f"a{i}", f"b{i}", i, 10, "c") for i in range(6)),
        (6, none, "b6", None, 10, "c"),
    )
    fleet.write((1, none, "B1", None, 20, "u"), (2, "A2", none, 22, 20, "u"))
    fleet.write((1, "A1", none, None, 30, "u"), (3, none, none, None, 5, "u"))
    fleet.write((2, none, none, 5, 15, "u"), (4, none, "B4", None, 10, "u"))
    # The row of the base file is newer, and lacks what the late one has.
    fleet.write((6, "A6", "B6", 66, 5, "u"), (7, none, "B7", None, 10, "c"))
    rows = fleet.check()
    if kind is POSTGRES:
        fleet.write((5, none, "B5", 5, 40, "d"), (0, none, "B0", 0, 5, "d"))
        fleet.write((5, none, "BB5", None, 50, "c"))
        rows = fleet.check()
    told = {row[0]: row for row in rows}
    assert told[1][1:4] == ("A1", "B1", 1 if none is None else None)
    assert told[6][1] == "A6"
    fleet.check_past()
    serve(peers, who, fleet.path, "compact")
    assert without_times(fleet.check()) == without_times(rows)
    table = open_table(LocalStorage(str(fleet.path)))
    assert not any(each.logs for each in table.view(table.timeline()).slices())
    fleet.write((1, none, "BB1", 11, 60, "u"))


def cells() -> list[Any]:
    """Each payload class with both table types; `make test` runs two of them."""
    found = [
        (kind, merges)
        for kind in (PARTIAL, DEFAULTS, POSTGRES, MYSQL, DMS)
        for merges in (True, False)
    ]
    sample = ((PARTIAL, True), (POSTGRES, False))
    return [
        pytest.param(*each, marks=() if each in sample else pytest.mark.matrix) for each in found
    ]


@pytest.mark.parametrize(
    ("kind", "merges"),
    cells(),
    ids=lambda each: each.payload.split(".")[-1] if isinstance(each, Kind) else str(each),
)
def test_both_engines_write_what_apache_hudi_writes_alone(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path, kind: Kind, merges: bool
) -> None:
    both = Fleet(peers, hudi_rs, tmp_path / "both", kind, merges)
    alone = Fleet(peers, hudi_rs, tmp_path / "alone", kind, merges)
    none, gone = kind.none, kind.deletes or "u"
    first: list[Row] = [(i, f"a{i}", f"b{i}", i, 10, "c") for i in range(6)]
    batches: list[list[Row]] = [
        [*first, (6, none, "b6", None, 10, "c")],
        [(1, none, "B1", None, 20, "u"), (2, "A2", none, 22, 20, "u"), (0, "A", none, 1, 5, gone)],
        [(1, "A1", none, None, 30, "u"), (3, none, none, None, 5, "u"), (5, none, "x", 1, 9, gone)],
        [(2, none, none, 5, 15, "u"), (4, none, "B4", None, 10, "u"), (5, "a", "b", 2, 50, "c")],
        [(6, "A6", "B6", 66, 5, "u"), (7, none, "B7", None, 10, "c"), (4, none, "x", 1, 9, gone)],
        [(7, "A7", none, 7, 11, "u"), (1, none, none, 8, 31, "u"), (0, "A", "B", 1, 60, "c")],
        [(7, none, none, 7, 12, gone), (3, "A3", "B3", 8, 31, "u")],
    ]
    for at, batch in enumerate(batches):
        both.write(*batch, by=both.hudi if at % 2 else both.pyhudi)
        alone.write(*batch)
        assert values(both) == values(alone), at
    assert merging(both) == merging(alone)
    if merges:
        rows = both.check()
        serve(peers, HUDI, both.path, "compact")
        assert without_times(both.check()) == without_times(rows)
    both.pyhudi.sql(f"update pyhudi.`{both.path}` set n = null, a = 'set' where id < 3")
    both.pyhudi.sql(f"delete from pyhudi.`{both.path}` where id = 3")
    told = {row[0]: row for row in both.check()}
    assert {row[1:4:2] for key, row in told.items() if key < 3} == {("set", None)}
    assert 3 not in told
    both.write((1, none, "B", 9, 70, "u"), (2, none, none, None, 70, gone))
    told = {row[0]: row for row in both.check()}
    assert told[1][1:4] == (
        "set" if none is not None or kind in (PARTIAL, DEFAULTS) else None,
        "B",
        9,
    )


BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}


@pytest.mark.matrix
def test_a_statement_sets_null_in_rows_that_hudi_has_put_into_logs_alone(
    peers: Callable[[str], SparkPeer], hudi_rs: HudiRs, tmp_path: Path
) -> None:
    """A new key of a bucket goes to a log."""
    fleet = Fleet(peers, hudi_rs, tmp_path / "t", DEFAULTS)
    fleet.given |= BUCKETS
    fleet.write((0, "a0", "b0", 0, 10, "c"))
    fleet.write((1, "a1", "b1", 1, 10, "c"))
    assert len(list(fleet.path.rglob(".0*.log.*"))) == 1
    for key, value in BUCKETS.items():
        fleet.pyhudi.sql(f"set {key}={value}")
    fleet.pyhudi.sql(f"update pyhudi.`{fleet.path}` set a = null, b = 'set' where id = 1")
    for key in BUCKETS:
        fleet.pyhudi.sql(f"reset {key}")
    assert [row[1:4] for row in fleet.check()] == [("a0", "b0", 0), (None, "set", 1)]
    fleet.write((0, None, "again", 5, 10, "u"), (1, "new", None, None, 10, "u"))
    assert [row[1:4] for row in fleet.check()] == [("a0", "again", 5), ("new", "set", 1)]


def values(fleet: Fleet) -> list[Row]:
    """The rows without the time of their commit."""
    return without_times(fleet.check())


def without_times(rows: list[Row]) -> list[Row]:
    return [row[:-1] for row in rows]


def merging(fleet: Fleet) -> dict[str, str]:
    """What the properties of a table say of merging."""
    raw = open_table(LocalStorage(str(fleet.path))).config.raw
    words = ("merge", "payload", "partial.update", "ordering")
    return {key: text for key, text in raw.items() if any(word in key for word in words)}
