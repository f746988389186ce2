"""RENAME, DROP, re-ADD and reorder by pyhudi, read and written on by Apache Hudi in turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import SparkPeer

OPTIONS = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "turn",
    "hoodie.datasource.write.operation": "bulk_insert",
}
ON_READ = {"hoodie.schema.on.read.enable": "true"}
START = [
    {"id": 1, "fare": 1.0, "note": "a", "turn": 1, "city": "Oslo"},
    {"id": 2, "fare": 2.0, "note": "b", "turn": 1, "city": "Oslo"},
    {"id": 3, "fare": 3.0, "note": "c", "turn": 1, "city": "Lima"},
]

Peers = Callable[[str], SparkPeer]
Rides = dict[int, dict[str, object]]


def rides_of(reader: SparkPeer, table: Path) -> Rides:
    options = ON_READ if reader.format == "hudi" else {}
    rows = reader.read(table, options).without_meta().rows
    found = {row["id"]: {k: v for k, v in row.items() if v is not None} for row in rows}
    assert len(found) == len(rows), f"a key occurs twice: {rows}"
    return found


@pytest.mark.parametrize(
    "version", ["9", *(pytest.param(v, marks=pytest.mark.matrix) for v in "86")]
)
def test_columns_that_pyhudi_alters_are_the_same_for_hudi(
    version: str, peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    readers = [ours, hudi, *([peers("hudi-0.15.0")] if version == "6" else [])]
    made = {**OPTIONS, "hoodie.write.table.version": version}
    ours.write(path, pa.Table.from_pylist(START), made, mode="overwrite")
    name = f"rides_with_history_{version}"
    ours.sql(f"create table {name} using pyhudi location '{path}'")
    now: Rides = {int(row["id"]): dict(row) for row in START}  # type: ignore[call-overload]

    def after(statement: str) -> None:
        ours.sql(statement.format(t=name))
        seen(statement)

    def seen(what: str) -> None:
        for reader in readers:
            assert rides_of(reader, path) == now, f"{what}, read by {reader.name}"

    for ride in now.values():
        ride["price"] = ride.pop("fare")
    after("alter table {t} rename column fare to price")
    for ride in now.values():
        del ride["note"]
    after("alter table {t} drop column note")
    after("alter table {t} add columns (note string)")
    after("alter table {t} alter column price after turn")
    now[1] |= {"note": "new", "price": 1.5, "turn": 2}
    after("update {t} set note = 'new', price = 1.5, turn = 2 where id = 1")

    for writer, turn in ((hudi, 3), (ours, 4), (hudi, 5)):
        news = [
            {"id": 1, "city": "Oslo", "turn": turn, "price": 10.0 * turn, "note": writer.name},
            {"id": 10 + turn, "city": "Lima", "turn": turn, "price": 0.5, "note": "first"},
        ]
        more = {"hoodie__metadata__enable": "false", "hoodie__write__auto__upgrade": "false"}
        if writer is hudi:
            more["hoodie__schema__on__read__enable"] = "true"
        writer.write_into(path, pa.Table.from_pylist(news), **more)
        now |= {int(row["id"]): dict(row) for row in news}  # type: ignore[call-overload]
        seen(f"the upsert of {writer.name}")

    for ride in now.values():
        ride["cost"] = ride.pop("price")
    after("alter table {t} rename column price to cost")
