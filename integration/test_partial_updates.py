"""Blocks with some columns only, as Apache Hudi's MERGE INTO writes them to merge-on-read tables.

After each statement pyhudi reads what Hudi reads; so it does by filters, of earlier times, as
changes, and after a compaction of either side. hudi-rs reads the blocks as whole rows.

Apache Hudi 1.2.0 has a process of its own here: once its projection of such a row asked for more
memory than there is, which ended the process, and with it all tests after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from integration.conftest import STARTERS
from integration.peers import SparkPeer
from integration.peers.process import PeerError
from integration.test_change_data import HUDI, asked, serve
from integration.test_incremental import DS, READ, options
from pyhudi.format.log_blocks import HeaderKey, InMemory, find_blocks
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

#: with a new process of Apache Hudi each
ATTEMPTS = 3
NAMES = ("id", "a", "b", "ts", "p")
Row = tuple[Any, ...]
#: what a MERGE sets, and its source: (id, a, b, ts)
MERGES: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("a = s.a, ts = s.ts", ((1, "A1", "-", 20), (2, "A2", "-", 5))),
    ("b = s.b, ts = s.ts", ((1, "-", "B1", 30), (2, "-", "B2", 20), (3, "-", "B3", 20))),
    ("a = s.a, ts = s.ts", ((1, "AA1", "-", 25), (3, "AA3", "-", 15), (4, None, "-", 15))),
    ("b = s.b, ts = s.ts", ((1, "-", "BB1", 9), (4, "-", "B4", 40))),
)
#: a condition as SQL and in Python
FILTERS: dict[str, Callable[..., bool]] = {
    "b = 'B3' or a = 'A1'": lambda id, a, b, ts, p: b == "B3" or a == "A1",
    "ts > 15": lambda id, a, b, ts, p: ts > 15,
    "id in (1, 4)": lambda id, a, b, ts, p: id in (1, 4),
    "a is null": lambda id, a, b, ts, p: a is None,
}


class Fleet:
    """A table that Apache Hudi writes and pyhudi reads."""

    def __init__(
        self, hudi: SparkPeer, pyhudi: SparkPeer, path: Path, version: int, ordered: bool
    ) -> None:
        self.hudi, self.pyhudi, self.path = hudi, pyhudi, path
        self.given = options(version, "upsert") | {
            DS + "table.type": "MERGE_ON_READ",
            "hoodie.compact.inline": "false",
        }
        del self.given[DS + "precombine.field"]
        if ordered:
            self.given[DS + "precombine.field"] = "ts"
        else:
            self.given["hoodie.write.record.merge.mode"] = "COMMIT_TIME_ORDERING"
        self.ordered = ordered
        self.name = f"partial_{version}_{ordered}".lower()
        self.states: dict[str, list[Row]] = {}

    def write(self, *rows: Row) -> None:
        kinds = pa.int64(), pa.string(), pa.string(), pa.int64()
        columns = zip(*rows, strict=True)
        made = [pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
        table = pa.table([*made, pa.array(["x"] * len(rows))], list(NAMES))
        exists = (self.path / ".hoodie").exists()
        self.hudi.write(self.path, table, self.given, "append" if exists else "overwrite")
        if not exists:
            self.hudi.sql(f"create table {self.name} using hudi location '{self.path}'")
        self.check()

    def merge(self, sets: str, rows: tuple[Row, ...]) -> None:
        for key, value in self.given.items():
            if key.startswith(("hoodie.write.", "hoodie.metadata.", "hoodie.compact.")):
                self.hudi.sql(f"set {key}={value}")
        source = " union all ".join(
            f"select cast({i} as bigint) id, {_text(a)} a, {_text(b)} b, cast({ts} as bigint) ts,"
            " 'x' p"
            for i, a, b, ts in rows
        )
        self.hudi.sql(
            f"merge into {self.name} t using ({source}) s on t.id = s.id"
            f" when matched then update set {sets}"
        )
        self.check()

    def check(self) -> None:
        """Both read the same rows, all of them and by filters."""
        found = of(self.hudi.read(self.path).rows)
        assert of(self.pyhudi.read(self.path).rows) == found
        for where, passes in FILTERS.items():
            own = self.pyhudi.sql(f"select * from pyhudi.`{self.path}` where {where}").rows
            assert of(own) == [row for row in found if passes(*row)], where
        table = open_table(LocalStorage(str(self.path)))
        self.states[table.timeline().commits[-1].time] = found

    def is_partial(self) -> bool:
        """Whether a log has a block with some columns only."""
        logs = logs_of(self.path)
        blocks = [b for log in logs for b in find_blocks(InMemory(memoryview(log.read_bytes())))]
        return any(block.header.get(HeaderKey.IS_PARTIAL) == "true" for block in blocks)


def logs_of(path: Path) -> list[Path]:
    return [log for log in path.rglob(".*.log.*") if log.suffix != ".crc"]


def _text(value: str | None) -> str:
    return "cast(null as string)" if value is None else f"'{value}'"


def of(rows: Any) -> list[Row]:
    return sorted((tuple(row[name] for name in NAMES) for row in rows), key=str)


@pytest.mark.parametrize(
    ("version", "ordered", "who"),
    [
        (9, True, "pyhudi"),
        (9, False, HUDI),
        pytest.param(8, True, HUDI, marks=pytest.mark.matrix),
        pytest.param(8, False, "pyhudi", marks=pytest.mark.matrix),
    ],
)
def test_rows_with_some_columns_lie_over_those_before_them(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int, ordered: bool, who: str
) -> None:
    for attempt in range(ATTEMPTS):
        hudi = STARTERS[HUDI]()
        fleet = Fleet(hudi, peers("pyhudi"), tmp_path / f"partial{attempt}", version, ordered)
        try:
            tell(fleet, who)
            return
        except PeerError as error:
            if attempt == ATTEMPTS - 1 or not re.search("OutOfMemory|Java heap space", str(error)):
                raise
        finally:
            hudi.close()


def tell(fleet: Fleet, who: str) -> None:
    """The story of a table whose services ``who`` runs."""
    path = fleet.path
    fleet.write(*((i, f"a{i}", f"b{i}", 10) for i in range(6)))
    for sets, rows in MERGES:
        fleet.merge(sets, rows)
    if not fleet.ordered:
        fleet.merge("a = s.a", ((5, "A5", "-", 0),))
    fleet.write((0, "W0", "V0", 55), (1, "W1", "V1", 28))
    fleet.merge("a = s.a, ts = s.ts", ((0, "P0", "-", 60), (3, "P3", "-", 17)))
    assert fleet.is_partial()
    fleet.hudi.sql(f"delete from {fleet.name} where id = 4")
    fleet.check()
    told(fleet)
    logs = logs_of(path)
    fleet.pyhudi.sql(
        f"call pyhudi.system.run_compaction(table => '{path}', op => 'scheduleAndLogCompact',"
        " options => map('hoodie.log.compaction.blocks.threshold', '2'))"
    )
    assert logs_of(path) == logs, "rows with some columns wait for a compaction"
    fleet.check()

    wanted = fleet.states[list(fleet.states)[-1]]
    fleet.pyhudi.sql(f"update pyhudi.`{path}` set b = 'own', ts = 70 where id = 2")
    fleet.check()
    changed = [row for row in fleet.states[list(fleet.states)[-1]] if row not in wanted]
    assert [(row[0], row[2], row[3]) for row in changed] == [(2, "own", 70)]
    before = fleet.states[list(fleet.states)[-1]]
    serve(lambda name: {HUDI: fleet.hudi}.get(name, fleet.pyhudi), who, path, "compact")
    fleet.check()
    assert fleet.states[list(fleet.states)[-1]] == before
    table = open_table(LocalStorage(str(path)))
    assert not any(each.logs for each in table.view(table.timeline()).slices())


def told(fleet: Fleet) -> None:
    """The states of the past, and the changes between them."""
    times = list(fleet.states)
    for time, state in fleet.states.items():
        assert of(fleet.pyhudi.read(fleet.path, as_of=time).rows) == state, time
    for begin, end in pairwise(times):
        order = {READ + "incr.order": "requested"}
        given = asked(begin, end, "cdc_columns") | order
        old = {row[0]: row for row in fleet.states[begin]}
        new = {row[0]: row for row in fleet.states[end]}
        right = [(old.get(key), new.get(key)) for key in sorted({*old, *new})]
        found = [
            tuple(image and tuple(image[n] for n in NAMES) for image in (r["before"], r["after"]))
            for r in fleet.pyhudi.read(fleet.path, given).rows
        ]
        assert sorted(found, key=str) == sorted((p for p in right if p[0] != p[1]), key=str), end
