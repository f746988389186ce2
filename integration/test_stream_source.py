"""Streams across engines: pyhudi follows Apache Hudi 1.2.0's writes, and Hudi follows pyhudi's.

Both write the table in turn, as in ``test_incremental.py``. A stream of each engine reads after
every write. What it has given must be the table's rows, and each version of a row once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from integration.peers import SparkPeer
from integration.test_incremental import WRITES, keyed, write

CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}


def followed(
    peer: SparkPeer, path: Path, checkpoint: Path, **options: str
) -> list[list[dict[str, Any]]]:
    """The batches that a query of the peer reads until it has what there is."""
    found: list[list[dict[str, Any]]] = peer.call(
        "follow", path=str(path), checkpoint=str(checkpoint), options=options
    )
    return found


@pytest.mark.parametrize(
    "version", [9, *(pytest.param(v, marks=pytest.mark.matrix) for v in (6, 8))]
)
def test_a_stream_of_pyhudi_follows_hudis_writes_and_hudis_follows_pyhudis(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    path = tmp_path / "ranges"
    names = ("pyhudi", "hudi-1.2.0")
    given: dict[str, dict[int, tuple[int, str]]] = {name: {} for name in names}
    versions: dict[str, list[tuple[int, int, str]]] = {name: [] for name in names}
    for number, one in enumerate(WRITES):
        write(peers, path, version, one)
        if number % 3 == 1:
            continue
        for name in names:
            limit = {"maxFilesPerTrigger": "1"} if name == "pyhudi" else {}
            for batch in followed(peers(name), path, tmp_path / name, **limit):
                rows = {row["id"]: (row["v"], row["p"]) for row in batch}
                assert len(rows) == len(batch), f"{name} gives a key twice: {batch}"
                given[name].update(rows)
                versions[name] += [(key, *row) for key, row in rows.items()]
        state = {key: row[:2] for key, row in keyed(list(peers("pyhudi").read(path).rows)).items()}
        for name in names:
            lacks = {k: row for k, row in state.items() if given[name].get(k) != row}
            assert not lacks, f"{name} lacks {lacks} after {one}"
    mine = versions["pyhudi"]
    assert len(set(mine)) == len(mine), f"a version comes twice: {sorted(mine)}"


@pytest.mark.parametrize("version", [9, pytest.param(8, marks=pytest.mark.matrix)])
def test_change_data_of_hudis_writes_adds_up_to_the_table(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    path = tmp_path / "ranges"
    rows: dict[int, dict[str, Any]] = {}
    for one in WRITES:
        write(peers, path, version, one)
        for batch in followed(peers("pyhudi"), path, tmp_path / "c", **CDC):
            for change in sorted(batch, key=lambda c: (c["ts_ms"], c["op"])):
                if change["op"] != "i":
                    assert rows.pop(change["before"]["id"]) == change["before"]
                if change["op"] != "d":
                    rows[change["after"]["id"]] = change["after"]
        state = keyed(list(peers("pyhudi").read(path).rows))
        assert {k: (r["v"], r["p"]) for k, r in rows.items()} == {
            k: row[:2] for k, row in state.items()
        }, one
