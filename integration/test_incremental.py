"""Incremental reads: pyhudi and Apache Hudi 1.2.0 give the same rows of each range of commits.

Both write the table in turn. Layout 1 ranges over request times in both, layout 2 over completion
times. Each answer is also compared with the states of the table: the rows of the newer one that the
older one lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from integration.peers import SparkPeer
from integration.sample import versions
from pyhudi.storage.local import LocalStorage
from pyhudi.timeline.table import open_table

DS = "hoodie.datasource.write."
READ = "hoodie.datasource.read."

#: who writes, with which operation, keys and values: (id, v, p)
Write = tuple[str, str, tuple[tuple[int, int, str], ...]]
WRITES: tuple[Write, ...] = (
    ("pyhudi", "bulk_insert", ((1, 1, "x"), (2, 1, "x"), (3, 1, "y"))),
    ("hudi-1.2.0", "upsert", ((2, 2, "x"), (4, 2, "y"))),
    ("pyhudi", "delete", ((3, 9, "y"),)),
    ("hudi-1.2.0", "insert", ((5, 4, "z"),)),
    ("hudi-1.2.0", "cluster", ()),
    ("pyhudi", "upsert", ((1, 6, "x"), (6, 6, "z"))),
    ("pyhudi", "insert_overwrite", ((7, 7, "x"),)),
    ("hudi-1.2.0", "insert_overwrite", ((8, 8, "y"),)),
    ("hudi-1.2.0", "upsert", ((7, 9, "x"),)),
    ("pyhudi", "delete_partition", ()),
    ("pyhudi", "insert_overwrite_table", ((9, 11, "w"), (10, 11, "x"))),
    ("hudi-1.2.0", "delete", ((10, 99, "x"),)),
)


def options(version: int, operation: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "ranges",
        "hoodie.write.table.version": str(version),
        "hoodie.write.auto.upgrade": "false",
        DS + "recordkey.field": "id",
        DS + "partitionpath.field": "p",
        DS + "precombine.field": "v",
        DS + "operation": operation,
        "hoodie.metadata.enable": "false",
        "hoodie.clean.automatic": "false",
    }


def rows(found: tuple[tuple[int, int, str], ...]) -> pa.Table:
    ids, values, partitions = zip(*found, strict=True)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "v": pa.array(values, pa.int64()),
            "p": pa.array(partitions, pa.string()),
        }
    )


def write(peers: Callable[[str], SparkPeer], path: Path, version: int, one: Write) -> None:
    who, operation, found = one
    if operation == "cluster":
        for key, value in options(version, "upsert").items():
            if key.startswith(("hoodie.write.", "hoodie.metadata.")):
                peers(who).sql(f"set {key}={value}")
        peers(who).sql(f"call run_clustering(path => '{path}')")
        return
    given = options(version, operation)
    if operation == "delete_partition":
        given[DS + "partitions.to.delete"] = "z"
        found = ((0, 0, "z"),)
    mode = "append" if (path / ".hoodie").exists() else "overwrite"
    peers(who).write(path, rows(found), given, mode)


def keyed(answer: list[Mapping[str, Any]]) -> dict[int, tuple[int, str, str]]:
    found = {row["id"]: (row["v"], row["p"], row["_hoodie_commit_time"]) for row in answer}
    assert len(found) == len(answer), f"a key comes twice: {answer}"
    return found


@pytest.mark.parametrize("version", versions(9, 6))
def test_each_range_has_the_same_rows_for_both(
    peers: Callable[[str], SparkPeer], tmp_path: Path, version: int
) -> None:
    path = tmp_path / "ranges"
    states: list[dict[int, tuple[int, str, str]]] = [{}]
    for one in WRITES:
        write(peers, path, version, one)
        states.append(keyed(list(peers("pyhudi").read(path).rows)))
    commits = open_table(LocalStorage(str(path))).timeline().commits
    times = [commit.completion_time or commit.time for commit in commits]
    assert len(times) == len(WRITES)
    assert sorted(times) == times
    bounds = ["20000101000000000", *times]
    wrong = []
    for at, begin in enumerate(bounds):
        for end in range(at, len(bounds)):
            if end != at and (end - at) % 3 and end != len(times):
                continue  # a third of all ranges, and all up to now
            inside = {commit.time for commit in commits[at:end]}
            wanted = {key: row for key, row in states[end].items() if row[2] in inside}
            asked = {
                "hoodie.datasource.query.type": "incremental",
                READ + "begin.instanttime": begin,
                READ + "end.instanttime": bounds[end],
            }
            if end == at:
                found = {"pyhudi": keyed(list(peers("pyhudi").read(path, asked).rows))}
            else:
                found = {
                    name: keyed(list(peers(name).read(path, asked).rows))
                    for name in ("pyhudi", "hudi-1.2.0")
                }
            wrong += [
                f"{at} to {end}, {name}: {given} instead of {wanted}"
                for name, given in found.items()
                if given != wanted
            ]
    assert not wrong, "\n".join(wrong)
