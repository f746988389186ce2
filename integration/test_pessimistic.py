"""Tables of pessimistic writers beside Apache Hudi: it reads them, keeps their mode, is found out.

Hudi knows no locks of file groups, so what it commits over a locked one cannot be prevented; the
pessimistic write that loses its work to it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from integration.peers import HudiRs, PeerError, SparkPeer
from integration.peers.tables import read_properties

MODE, PROPERTY = "hoodie.write.concurrency.mode", "pyhudi.write.concurrency.mode"
PESSIMISTIC = "PESSIMISTIC_CONCURRENCY_CONTROL"
MADE = {
    "hoodie.table.name": "rides",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "turn",
    MODE: PESSIMISTIC,
}
#: Hudi as it would be set up beside other writers, but for a lock that pyhudi does not use
HUDI_BESIDE = {
    "hoodie__write__concurrency__mode": "optimistic_concurrency_control",
    "hoodie__write__lock__provider": (
        "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    ),
    "hoodie__clean__failed__writes__policy": "LAZY",
    "hoodie__metadata__enable": "false",
}
WAIT_S = 180

Peers = Callable[[str], SparkPeer]


def rides(turn: int, *ids: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": ["Porto"] * len(ids),
            "turn": pa.array([turn] * len(ids), pa.int64()),
        }
    )


def turns(peer: SparkPeer | HudiRs, table: Path) -> dict[int, int]:
    rows = [(row["id"], row["turn"]) for row in peer.read(table).without_meta().rows]
    assert len(dict(rows)) == len(rows), f"a key occurs twice: {rows}"
    return dict(rows)


@pytest.mark.parametrize("version", ["6", pytest.param("9", marks=pytest.mark.matrix)])
def test_apache_hudi_reads_a_pessimistic_table_and_keeps_its_mode(
    version: str, peers: Peers, hudi_rs: HudiRs, tmp_path: Path
) -> None:
    """Hudi's write builds a metadata table, so it rewrites hoodie.properties."""
    table, ours, hudi = tmp_path / "rides", peers("pyhudi"), peers("hudi-1.2.0")
    made = {**MADE, "hoodie.write.table.version": version}
    ours.write(table, rides(1, 1, 2, 3), made, mode="overwrite")
    ours.write(table, rides(2, 2, 4), MADE)
    assert (table / ".hoodie" / ".locks" / "groups").is_dir()

    hudi.write_into(table, rides(3, 3), hoodie__metadata__enable="true")
    written = read_properties(table)
    assert written["hoodie.table.metadata.partitions"] != ""
    assert written[PROPERTY] == PESSIMISTIC
    assert written["hoodie.table.version"] == version

    silent = {key: value for key, value in MADE.items() if key != MODE}
    ours.write(table, rides(4, 4), silent)
    readers = [ours, hudi, hudi_rs, *([peers("hudi-0.15.0")] if version == "6" else [])]
    assert [turns(reader, table) for reader in readers] == [{1: 1, 2: 2, 3: 3, 4: 4}] * len(readers)
    with pytest.raises(PeerError, match=f"CONFIG_ERROR.*{MODE}.*{PROPERTY}"):
        ours.write(table, rides(5, 1), {**silent, MODE: "optimistic_concurrency_control"})


def test_what_apache_hudi_commits_over_a_locked_group_is_named_as_such(
    peers: Peers, tmp_path: Path
) -> None:
    """The table lock is taken by hand, so that our write has to wait with its data written."""
    table, ours, hudi = tmp_path / "rides", peers("pyhudi"), peers("hudi-1.2.0")
    ours.write(table, rides(1, 1, 2), MADE, mode="overwrite")
    lock, before = table / ".hoodie" / "lock", len(list(table.rglob("*.parquet")))
    lock.write_text("{}")
    patient = {**MADE, "hoodie.write.lock.wait_time_ms": str(WAIT_S * 1_000)}
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(ours.write, table, rides(2, 1), patient)
        ends = time.monotonic() + WAIT_S
        while len(list(table.rglob("*.parquet"))) == before and not done.done():
            assert time.monotonic() < ends, "the pessimistic write wrote no data"
            time.sleep(0.1)
        hudi.write_into(table, rides(3, 1), **HUDI_BESIDE)
        lock.unlink()
        with pytest.raises(PeerError, match="WRITE_FAILED.*by Apache Hudi or a program like it"):
            done.result()

    assert turns(ours, table) == turns(hudi, table) == {1: 3, 2: 1}
