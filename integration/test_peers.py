"""The peers themselves, checked on tables whose rows are known: a wrong ruler measures nothing."""

from __future__ import annotations

import base64
import datetime
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.peers import Answer, HudiRs, PeerError, SparkPeer, difference, table_facts
from integration.peers.canonical import from_arrow

ROWS = pa.table(
    {
        "id": pa.array([1, 901], pa.int64()),
        "name": ["changed", "new"],
        "price": [0.5, 9.5],
        "ts": pa.array([900, 901], pa.int64()),
        "dt": ["2024-01-01", "2024-01-09"],
    }
)


def unpack(folder: Path, name: str, to: Path) -> Path:
    with zipfile.ZipFile(folder / f"{name}.zip") as packed:
        packed.extractall(to / name)
    return to / name


def expected(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / f"{name}.expected.json").read_text())
    return sorted(rows, key=lambda r: (r["_hoodie_partition_path"], r["_hoodie_record_key"]))


def as_spark_json(value: Any) -> Any:
    """Canonical form to that of the golden rows: nulls left out, decimals as binary floats."""
    if isinstance(value, list):
        return [as_spark_json(v) for v in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"decimal"}:
        return float(value["decimal"])
    if set(value) == {"micros"}:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value["micros"])
        return moment.isoformat(timespec="milliseconds") + "Z"
    if set(value) == {"map"}:
        return dict(value["map"])
    if set(value) in ({"date"}, {"base64"}):
        return next(iter(value.values()))
    return {k: as_spark_json(v) for k, v in value.items() if v is not None}


def golden_form(answer: Answer) -> list[dict[str, Any]]:
    return [as_spark_json(row) for row in answer.rows]


GOLDEN = [
    "h0150_v6-cow_types",
    "h0150_v6-cow_hive_cplx",
    "h0150_v6-keyless",
    "h120_v6-cow_part",
    "h120_v8-cow_meta",
    "h120_v9-cow_bloom",
    "h120_v9-mor_types",
]


@pytest.mark.parametrize("table", GOLDEN)
@pytest.mark.parametrize("peer", ["hudi-1.2.0", "hudi-0.15.0", "hudi-rs"])
def test_a_peer_reads_the_rows_that_apache_hudi_wrote(
    peer: str,
    table: str,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    golden_folder: Path,
    tmp_path: Path,
) -> None:
    if peer == "hudi-0.15.0" and "_v6-" not in table:
        pytest.skip("Hudi 0.15.0 opens tables of version 6 only")
    path = unpack(golden_folder, table, tmp_path)
    reader = hudi_rs if peer == "hudi-rs" else peers(peer)
    assert golden_form(reader.read(path)) == expected(golden_folder, table)


@pytest.mark.parametrize(
    ("writer", "table"),
    [
        ("hudi-0.15.0", "h0150_v6-cow_np"),
        pytest.param("hudi-1.2.0", "h120_v6-cow_np", marks=pytest.mark.matrix),
        pytest.param("hudi-1.2.0", "h120_v8-cow_np", marks=pytest.mark.matrix),
        ("hudi-1.2.0", "h120_v9-cow_part"),
    ],
)
def test_a_hudi_writer_upserts_and_leaves_the_table_version_alone(
    writer: str,
    table: str,
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    golden_folder: Path,
    tmp_path: Path,
) -> None:
    path = unpack(golden_folder, table, tmp_path)
    version = table_facts(path).version
    keys = {r["id"] for r in expected(golden_folder, table)}
    peers(writer).write_into(path, ROWS)
    answer = peers(writer).read(path)
    assert table_facts(path).version == version
    assert {row["id"] for row in answer.rows} == keys | {1, 901}
    assert hudi_rs.read(path).rows == answer.rows


def test_time_travel_reaches_the_state_before_the_last_commit(
    peers: Callable[[str], SparkPeer],
    hudi_rs: HudiRs,
    golden_folder: Path,
    tmp_path: Path,
) -> None:
    path = unpack(golden_folder, "h120_v9-cow_bloom", tmp_path)
    peer = peers("hudi-1.2.0")
    before = peer.read(path)
    last = max(row["_hoodie_commit_time"] for row in before.rows)
    peer.write_into(path, ROWS)
    assert peer.read(path).rows != before.rows
    times = sorted(p.name.split("_")[0] for p in (path / ".hoodie/timeline").glob("*.commit"))
    assert peer.read(path, as_of=times[-2]).rows == before.rows
    assert hudi_rs.read(path, as_of=times[-2]).rows == before.rows
    assert last <= times[-2]


def test_an_error_of_the_peer_arrives_with_its_class(
    peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    with pytest.raises(PeerError) as caught:
        peers("hudi-1.2.0").read(tmp_path / "nothing")
    assert caught.value.kind in ("Py4JJavaError", "AnalysisException")


def test_canonical_forms_of_spark_and_arrow_are_the_same(
    peers: Callable[[str], SparkPeer], tmp_path: Path
) -> None:
    moment = datetime.datetime(2024, 2, 3, 4, 5, 6, 789)
    table = pa.table(
        {
            "f": pa.array([float("nan"), -0.5], pa.float64()),
            "d": pa.array([None, "1.50"]).cast(pa.decimal128(9, 2)),
            "t": pa.array([moment, None], pa.timestamp("us", tz="UTC")),
            "n": pa.array([moment, None], pa.timestamp("us")),
            "b": pa.array([base64.b64decode("AQI="), None], pa.binary()),
            "m": pa.array([[("b", 1), ("a", None)], []], pa.map_(pa.string(), pa.int32())),
            "s": pa.array([{"x": [1, 2]}, None], pa.struct({"x": pa.list_(pa.int64())})),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    seen = peers("hudi-1.2.0").sql(f"select * from parquet.`{tmp_path}/t.parquet`")
    assert seen == from_arrow(table)


def test_no_difference_between_answers_goes_unseen() -> None:
    def answer(*values: int, kind: str = "bigint") -> Answer:
        return Answer((("a", kind),), tuple({"a": value} for value in values))

    assert difference(answer(1, 2), answer(1, 2)) == ""
    assert "1 missing" in difference(answer(1), answer(1, 2))
    assert "1 unexpected" in difference(answer(1, 2), answer(1))
    assert difference(answer(1, 1, 2), answer(1, 2, 2)) != ""
    assert difference(answer(1, 1), answer(1)) != ""
    assert "a: int not bigint" in difference(answer(1, kind="int"), answer(1))
