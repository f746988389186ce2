"""RENAME, DROP, re-ADD and reorder by pyhudi, read and written on by Apache Hudi in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from integration.peers import HudiRs, SparkPeer

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


def of_each_kind() -> Iterator[object]:
    """Versions and types of tables."""
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ"):
        for version in "986":
            rare = version != "9"
            yield pytest.param(version, kind, marks=[pytest.mark.matrix] if rare else [])


@pytest.mark.parametrize("version", ["9", pytest.param("6", marks=pytest.mark.matrix)])
def test_a_plan_from_before_the_first_change_of_names_keeps_the_rows(
    version: str, peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    logs = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    made = {**OPTIONS, **logs, "hoodie.write.table.version": version}
    ours.write(path, pa.Table.from_pylist(START), made, mode="overwrite")
    name = f"rides_under_plan_{version}"
    ours.sql(f"create table {name} using pyhudi location '{path}'")
    beside = {"hoodie.compact.inline": "false", "hoodie.parquet.small.file.limit": "0"}
    upsert = {"hoodie.datasource.write.operation": "upsert"}
    first = {**START[0], "fare": 9.0, "turn": 2}
    ours.write(path, pa.Table.from_pylist([first]), {**made, **upsert, **beside})
    (planned,) = pyhudi.compact(str(path), op="schedule", options=beside)
    last = {**START[1], "fare": 8.0, "turn": 3}
    ours.write(path, pa.Table.from_pylist([last]), {**made, **upsert, **beside})
    ours.sql(f"alter table {name} rename column fare to price")
    assert {each.fate.value for each in pyhudi.compact(str(path), op="run")} == {"compacted"}

    now = {int(row["id"]): dict(row) for row in (first, last, START[2])}  # type: ignore[call-overload]
    for ride in now.values():
        ride["price"] = ride.pop("fare")
    for reader in (ours, hudi):
        assert rides_of(reader, path) == now, f"read by {reader.name}"
    files = [file.name for file in path.glob("Oslo/*.parquet")]
    assert any(str(planned.compaction) in file for file in files)


@pytest.mark.parametrize(("version", "kind"), list(of_each_kind()))
def test_columns_that_pyhudi_alters_are_the_same_for_hudi(
    version: str, kind: str, peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    readers = [ours, hudi, *([peers("hudi-0.15.0")] if version == "6" else [])]
    logs = {"hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}
    made = {**OPTIONS, **logs, "hoodie.write.table.version": version}
    ours.write(path, pa.Table.from_pylist(START), made, mode="overwrite")
    name = f"rides_with_history_{version}_{kind}"
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
        more["hoodie__compact__inline"] = "false"
        if writer is hudi:
            more["hoodie__schema__on__read__enable"] = "true"
        writer.write_into(path, pa.Table.from_pylist(news), **more)
        now |= {int(row["id"]): dict(row) for row in news}  # type: ignore[call-overload]
        seen(f"the upsert of {writer.name}")

    def log_compaction() -> set[str]:
        few = {"hoodie.log.compaction.blocks.threshold": "2"}
        found = pyhudi.compact(str(path), op="scheduleAndLogCompact", options=few)
        return {each.fate.value for each in found}

    has_own_logs = kind == "MERGE_ON_READ" and version != "6"
    if has_own_logs:
        assert "compacted" in log_compaction()
        seen("a log compaction")
    for ride in now.values():
        ride["cost"] = ride.pop("price")
    after("alter table {t} rename column price to cost")
    if has_own_logs:
        assert log_compaction() == {"left"}, "its logs have the old names"
    if kind == "MERGE_ON_READ":
        after(f"call pyhudi.system.run_compaction(table => '{path}', op => 'scheduleAndRun')")
        assert max(pyhudi.history(str(path)), key=lambda i: i.instant).operation == "compact"
    now[1]["cost"] = 7.5
    after("update {t} set cost = 7.5 where id = 1")
    whole = {"class": "ALL", "sort.columns": "cost"}
    keys = {f"hoodie.clustering.plan.strategy.{key}": value for key, value in whole.items()}
    assert {each.fate.value for each in pyhudi.cluster(str(path), options=keys)} == {"clustered"}
    seen("a clustering")
    for ride in now.values():
        ride["fare"] = ride.pop("cost")
    after("alter table {t} rename column cost to fare")


@pytest.mark.parametrize(("version", "kind"), list(of_each_kind()))
def test_columns_that_a_definition_replaces_are_the_same_for_hudi(
    version: str, kind: str, peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    readers = [ours, hudi, *([peers("hudi-0.15.0")] if version == "6" else [])]
    logs = {"hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}
    made = {**OPTIONS, **logs, "hoodie.write.table.version": version}
    ours.write(path, pa.Table.from_pylist(START), made, mode="overwrite")
    name = f"rides_replaced_{version}_{kind}"
    ours.sql(f"create table {name} using pyhudi location '{path}'")
    ours.sql(f"update {name} set fare = 7, turn = 2 where id = 1")
    (found,) = ours.sql(f"select max(_hoodie_commit_time) as time from {name}").rows
    ours.sql(
        f"create or replace table {name} using pyhudi as select id, cast(fare as int) as note, "
        f"turn, 'first' as fresh, city from {name}"
    )
    now: Rides = {
        int(row["id"]): {k: row[k] for k in ("id", "turn", "city")} | {"note": int(row["fare"])}  # type: ignore[call-overload]
        for row in START
    }
    for ride in now.values():
        ride["fresh"] = "first"
    now[1] |= {"note": 7, "turn": 2}
    for reader in readers:
        assert rides_of(reader, path) == now, f"read by {reader.name}"
    old = {int(row["id"]): dict(row) for row in START}  # type: ignore[call-overload]
    old[1] |= {"fare": 7.0, "turn": 2}
    then = ours.sql(
        f"select id, fare, note, turn, city from {name} timestamp as of '{found['time']}'"
    )
    assert {row["id"]: row for row in then.rows} == old

    for writer, turn in ((hudi, 3), (ours, 4), (hudi, 5)):
        news = [
            {"id": 1, "city": "Oslo", "turn": turn, "note": turn, "fresh": writer.name},
            {"id": 10 + turn, "city": "Lima", "turn": turn, "note": 1, "fresh": "new"},
        ]
        rows = pa.Table.from_pylist(news)
        rows = rows.set_column(3, "note", rows["note"].cast(pa.int32()))
        more = {"hoodie__metadata__enable": "false", "hoodie__write__auto__upgrade": "false"}
        more["hoodie__compact__inline"] = "false"
        if writer is hudi:
            more["hoodie__schema__on__read__enable"] = "true"
        writer.write_into(path, rows, **more)
        now |= {int(row["id"]): dict(row) for row in news}  # type: ignore[call-overload]
        for reader in readers:
            assert rides_of(reader, path) == now, f"{writer.name} wrote, {reader.name} read"


@pytest.mark.parametrize(
    "kind", ["MERGE_ON_READ", pytest.param("COPY_ON_WRITE", marks=pytest.mark.matrix)]
)
def test_a_column_that_hudi_dropped_by_name_comes_back_empty(
    kind: str, peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    logs = {"hoodie.datasource.write.table.type": kind, "hoodie.compact.inline": "false"}
    ours.write(path, pa.Table.from_pylist(START), {**OPTIONS, **logs}, mode="overwrite")
    now: Rides = {int(row["id"]): dict(row) for row in START}  # type: ignore[call-overload]
    for ride in now.values():
        del ride["note"]
    now[1] |= {"fare": 9.0, "turn": 2}
    drops = {"hoodie__datasource__write__schema__allow__auto__evolution__column__drop": "true"}
    off = {"hoodie__metadata__enable": "false", "hoodie__compact__inline": "false"}
    hudi.write_into(path, pa.Table.from_pylist([now[1]]), **drops, **off)
    assert rides_of(ours, path) == rides_of(hudi, path) == now

    with pytest.raises(Exception, match="which is string and was dropped by another writer"):
        ours.write_into(path, pa.Table.from_pylist([now[1] | {"note": 7}]))
    assert rides_of(ours, path) == rides_of(hudi, path) == now
    name = f"rides_without_notes_{kind}"
    ours.sql(f"create table {name} using pyhudi location '{path}'")
    ours.sql(f"alter table {name} add columns (stars int)")
    ours.sql(f"alter table {name} add columns (note bigint)")
    assert rides_of(ours, path) == rides_of(hudi, path) == now
    ours.sql(f"update {name} set note = 7, stars = 5, turn = 3 where id = 2")
    now[2] |= {"note": 7, "stars": 5, "turn": 3}
    assert rides_of(ours, path) == rides_of(hudi, path) == now


def test_readers_that_know_no_ids_lose_renamed_values_and_bring_dropped_ones_back(
    peers: Peers, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    """What docs/other_engines.md and the warning of ALTER TABLE say of them."""
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    ours.write(path, pa.Table.from_pylist(START), OPTIONS, mode="overwrite")
    ours.sql(f"create table rides_by_name using pyhudi location '{path}'")
    for change in ("rename column fare to price", "drop column note", "add columns (note string)"):
        ours.sql(f"alter table rides_by_name {change}")
    (mine,) = [row for row in ours.read(path).without_meta().rows if row["id"] == 1]
    assert (mine["price"], mine["note"]) == (1.0, None)
    for name, answer in (("hudi", hudi.read(path)), ("hudi-rs", hudi_rs.read(path))):
        (row,) = [row for row in answer.without_meta().rows if row["id"] == 1]
        assert (row.get("price"), row.get("note")) == (None, "a"), name


@pytest.mark.parametrize("version", ["9", "6"])
def test_fields_that_a_batch_adds_within_a_column_are_the_same_for_hudi(
    version: str, peers: Peers, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    made = {**OPTIONS, "hoodie.write.table.version": version}
    upsert = {**made, "hoodie.datasource.write.operation": "upsert"}

    def written(writer: SparkPeer, key: int, **trip: object) -> None:
        row = {"id": key, "trip": trip, "stops": [trip], "turn": 1, "city": "Oslo"}
        writer.write(path, pa.Table.from_pylist([row]), upsert, mode="append")

    written(ours, 1, km=1.0)
    written(ours, 2, km=2.0, note="b")
    written(hudi, 3, km=3.0, note="c")
    written(ours, 4, km=4.0, note="d", stars=4)
    written(ours, 1, km=1.5, note="a", stars=1)
    trips = {1: (1.5, "a", 1), 2: (2.0, "b", None), 3: (3.0, "c", None), 4: (4.0, "d", 4)}
    now = {
        key: dict(zip(("km", "note", "stars"), trip, strict=True)) for key, trip in trips.items()
    }
    for reader in (ours, hudi):
        rows = reader.read(path).rows
        assert {row["id"]: row["trip"] for row in rows} == now, reader.name
        assert {row["id"]: row["stops"] for row in rows} == {k: [t] for k, t in now.items()}


@pytest.fixture
def rowwise(peers: Peers) -> Iterator[SparkPeer]:
    """Apache Hudi as it reads fields within columns that have changed: not by vectors."""
    hudi = peers("hudi-1.2.0")
    hudi.sql("set spark.sql.parquet.enableVectorizedReader=false")
    yield hudi
    hudi.sql("reset spark.sql.parquet.enableVectorizedReader")


def test_fields_within_a_column_that_pyhudi_alters_are_the_same_for_hudi(
    peers: Peers, rowwise: SparkPeer, tmp_path: Path
) -> None:
    path = tmp_path / "rides"
    ours, hudi = peers("pyhudi"), rowwise
    name = "rides_with_nested_history"
    ours.sql(
        f"create table {name} (id bigint, trip struct<km: double, note: string>, turn bigint) "
        "using pyhudi tblproperties (primaryKey = 'id', preCombineField = 'turn') "
        f"location '{path}'"
    )
    now: dict[int, dict[str, object]] = {}

    def after(statement: str) -> None:
        ours.sql(statement.format(t=name))
        for reader in (ours, hudi):
            found = {row["id"]: row["trip"] for row in reader.read(path, ON_READ).rows}
            assert found == now, f"{statement}, read by {reader.name}"

    now |= {1: {"km": 1.0, "note": "a"}, 2: {"km": 2.0, "note": "b"}}
    after(
        "insert into {t} values (1, named_struct('km', 1.0D, 'note', 'a'), 1), "
        "(2, named_struct('km', 2.0D, 'note', 'b'), 1)"
    )
    now = {key: {"way": trip.pop("km"), **trip} for key, trip in now.items()}
    after("alter table {t} rename column trip.km to way")
    now = {key: {**trip, "stars": None} for key, trip in now.items()}
    after("alter table {t} add columns (trip.stars int)")
    for trip in now.values():
        del trip["note"]
    after("alter table {t} drop column trip.note")
    now = {key: {**trip, "note": None} for key, trip in now.items()}
    after("alter table {t} add columns (trip.note string)")
    now[1] = {"way": 1.5, "stars": 5, "note": "new"}
    after(
        "update {t} set trip = named_struct('way', 1.5D, 'stars', 5, 'note', 'new'), turn = 2 "
        "where id = 1"
    )


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_time_without_a_zone_is_one_for_hudi_under_a_history(
    kind: str, version: str, peers: Peers, tmp_path: Path
) -> None:
    path, name = tmp_path / "rides", f"rides_at_times_{version}_{kind}"
    ours, hudi = peers("pyhudi"), peers("hudi-1.2.0")
    ours.sql(
        f"create table {name} (id int, begun timestamp_ntz, fare int) using pyhudi tblproperties "
        f"(primaryKey = 'id', type = '{kind}', 'hoodie.write.table.version' = '{version}') "
        f"location '{path}'"
    )
    begun = "timestamp_ntz'2024-01-01 05:00:00'"
    ours.sql(f"insert into {name} values (1, {begun}, 1), (2, {begun}, 2)")
    ours.sql(f"alter table {name} alter column fare first")
    ours.sql(f"update {name} set fare = 8 where id = 1")

    found = hudi.read(path, ON_READ).without_meta()
    assert dict(found.schema)["begun"] == "timestamp_ntz"
    at = {"micros": 1704085200000000}
    told = {row["id"]: (row["begun"], row["fare"]) for row in found.rows}
    assert told == {1: (at, 8), 2: (at, 2)}
