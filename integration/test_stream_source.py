"""Streams across engines: pyhudi follows Apache Hudi 1.2.0's writes, and Hudi follows pyhudi's.

Both write the table in turn, as in ``test_incremental.py``. A stream of each engine reads after
every write. What it has given must be the table's rows, and each version of a row once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyhudi as package
from integration.peers import SparkPeer
from integration.test_incremental import DS, WRITES, Write, keyed, options, rows, write
from pyhudi.format.instants import Action
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

CDC = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}
HUDI = "hudi-1.2.0"
#: of a merge-on-read table: upserts and deletes go to logs, and each side compacts
LOGGED: tuple[Write, ...] = (
    ("pyhudi", "bulk_insert", ((1, 1, "x"), (2, 1, "x"), (3, 1, "y"), (4, 1, "y"))),
    ("pyhudi", "upsert", ((2, 2, "x"), (5, 2, "y"))),
    (HUDI, "upsert", ((1, 3, "x"), (3, 3, "y"), (6, 3, "y"))),
    ("pyhudi", "compact", ()),
    ("pyhudi", "upsert", ((1, 4, "x"), (7, 4, "z"))),
    (HUDI, "delete", ((3, 9, "y"),)),
    ("pyhudi", "upsert", ((6, 5, "y"), (4, 5, "y"))),
    (HUDI, "compact", ()),
    (HUDI, "upsert", ((5, 7, "y"), (7, 7, "z"))),
    ("pyhudi", "delete", ((4, 9, "y"),)),
    ("pyhudi", "upsert", ((2, 8, "x"), (8, 8, "z"))),
    ("pyhudi", "compact", ()),
    ("pyhudi", "insert_overwrite", ((1, 9, "x"), (9, 9, "x"))),
    ("pyhudi", "upsert", ((4, 11, "y"), (7, 11, "z"))),
)


def logged(version: int, operation: str) -> dict[str, str]:
    """Options of a merge-on-read table whose compactions come when a test says so."""
    return options(version, operation) | {
        DS + "table.type": "MERGE_ON_READ",
        "hoodie.compact.inline": "false",
        "hoodie.parquet.small.file.limit": "0",
    }


def write_logged(peers: Callable[[str], SparkPeer], path: Path, version: int, one: Write) -> None:
    """One write, or a compaction of all groups with logs."""
    who, operation, found = one
    given = logged(version, "upsert" if operation == "compact" else operation)
    if operation != "compact":
        mode = "append" if path.exists() else "overwrite"
        peers(who).write(path, rows(found), given, mode)
        return
    package.compact(str(path), op="schedule", options=given)
    if who == "pyhudi":
        package.compact(str(path), op="run", options=given)
        return
    kept = ",".join(f"{key}={given[key]}" for key in given if ".write.table.v" in key)
    kept += ",hoodie.write.auto.upgrade=false,hoodie.metadata.enable=false"
    peers(who).sql(f"call run_compaction(op => 'run', path => '{path}', options => '{kept}')")


def after(state: dict[int, tuple[int, str]], one: Write) -> dict[int, tuple[int, str]]:
    """The rows of the table after a write, by plain rules."""
    _, operation, found = one
    if operation == "delete":
        return {key: row for key, row in state.items() if key not in {key for key, *_ in found}}
    replaced = {p for _, _, p in found} if operation == "insert_overwrite" else set()
    kept = {key: row for key, row in state.items() if row[1] not in replaced}
    return kept | {key: (v, p) for key, v, p in found}


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


@pytest.mark.parametrize(
    "version", [9, *(pytest.param(v, marks=pytest.mark.matrix) for v in (6, 8))]
)
def test_streams_of_both_follow_a_merge_on_read_table_that_both_write_and_compact(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    path = tmp_path / "logged"
    state: dict[int, tuple[int, str]] = {}
    given: dict[str, dict[int, tuple[int, str]]] = {"pyhudi": {}, HUDI: {}}
    versions: list[tuple[int, int, str]] = []
    wrong = []
    for number, one in enumerate(LOGGED):
        write_logged(peers, path, version, one)
        state = after(state, one)
        if number % 4 == 1:
            continue
        for name, known in given.items():
            limit = {"maxFilesPerTrigger": "1"} if name == "pyhudi" else {}
            for batch in followed(peers(name), path, tmp_path / name, **limit):
                found = {row["id"]: (row["v"], row["p"]) for row in batch}
                wrong += [f"{one}: {name} gives {batch}"] if len(found) != len(batch) else []
                known.update(found)
                versions += [(k, *row) for k, row in found.items()] if name == "pyhudi" else []
            lacks = {key: row for key, row in state.items() if known.get(key) != row}
            wrong += [f"{number} {one}: {name} lacks {lacks} of {known}"] if lacks else []
    assert not wrong, "\n".join(wrong)
    assert len(set(versions)) == len(versions), f"a version comes twice: {sorted(versions)}"
    timeline = open_table(LocalStorage(str(path))).timeline()
    assert [each.action for each in timeline.commits].count(Action.COMMIT) == 3, "compactions"
    for name in given:
        assert {k: row[:2] for k, row in keyed(list(peers(name).read(path).rows)).items()} == state


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
